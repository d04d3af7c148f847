-- The part of the schema that is new in version 5: made with the rest, or added to a snapshot of an older version.

-- name: step
-- One row a step that a handler has finished. The check stands before the value, so that a sum of all reads no value.
CREATE TABLE step (
    id         INTEGER NOT NULL,                -- message.id
    place      INTEGER NOT NULL,                -- its number among the steps of the message
    name       TEXT NOT NULL,
    step_check INTEGER NOT NULL,                -- of all of it
    value      BLOB NOT NULL,
    PRIMARY KEY (id, place)
) WITHOUT ROWID;
