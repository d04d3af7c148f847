-- The part of the schema that was new in version 4: made with the rest, or added to a snapshot of an older version.

-- name: table
-- One row a key of a put, by which a second put of the same is told. `key` is a hash of it.
CREATE TABLE put_key (
    queue     INTEGER NOT NULL,                 -- object.number of its queue
    key       BLOB NOT NULL,
    id        INTEGER NOT NULL,                 -- message.id of the first message with it, which may have gone
    msg_id    BLOB NOT NULL,                    -- the MsgId of that one, where it was given
    digest    BLOB NOT NULL,                    -- of its data
    until     REAL NOT NULL,                    -- forgotten at this second since 1970; 0: when the message has gone
    key_check INTEGER NOT NULL,                 -- of all of it
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;

-- name: index
CREATE INDEX put_key_until ON put_key (until) WHERE until > 0;
