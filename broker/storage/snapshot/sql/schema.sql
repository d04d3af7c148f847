-- The schema of a snapshot. The database's user_version is the version of this file; versions below 2 were of stores
-- without a log, whose one database was called evermq.db. Version 2 lacked the last four columns of messages, version 3 the
-- last, and both the table in keys.sql; version 4 the one in steps.sql, too.
--
-- The tables are not STRICT, because that needs SQLite 3.37 and some systems run Python 3.11 on an older one.

-- What `file` and others show for the database: "EvMQ".
PRAGMA application_id = 0x45764d51;
PRAGMA user_version = 5;

-- One row a message. `id` is its arrival number, so the rows lie in order of arrival and a new one goes to the end.
CREATE TABLE message (
    id             INTEGER PRIMARY KEY,
    queue          INTEGER NOT NULL,            -- object.number of its queue
    rank           INTEGER NOT NULL,            -- effective priority
    persistent     INTEGER NOT NULL,            -- 0: kept over one orderly stop only
    length         INTEGER NOT NULL,            -- of the data, in bytes
    backout_count  INTEGER NOT NULL,
    got            INTEGER NOT NULL,            -- not 0: it was in somebody's hands, and the outcome is not known
    head_check     INTEGER NOT NULL,            -- of id, queue, rank, persistent, length, descriptor
    counters_check INTEGER NOT NULL,            -- of id, backout_count, got; of the last four, if they are not 0
    descriptor     BLOB NOT NULL,               -- the packed MQMD with the expiry deadline
    data           BLOB,                        -- NULL: the data is in `body`
    data_check     INTEGER,                     -- of id and data
    holder         INTEGER NOT NULL DEFAULT 0,  -- object.number of the consumer or prepared unit that holds it
    sequence       INTEGER NOT NULL DEFAULT 0,  -- its number there
    place          INTEGER NOT NULL DEFAULT 0,  -- in order of arrival, where that is not its id
    handling       BLOB NOT NULL DEFAULT x''    -- what handlers, or a delay, have left with it; mostly empty
);

-- The data of larger messages, apart, so that a start that reads every descriptor does not walk it.
CREATE TABLE body (
    id         INTEGER PRIMARY KEY,             -- message.id
    data       BLOB NOT NULL,
    data_check INTEGER NOT NULL
);

-- However a message goes, its body goes in the same transaction.
CREATE TRIGGER message_body AFTER DELETE ON message WHEN OLD.data IS NULL
BEGIN
    DELETE FROM body WHERE id = OLD.id;
END;

-- One row a definition. Queues of every kind share the space QUEUE.
CREATE TABLE object (
    space      TEXT NOT NULL,
    name       TEXT NOT NULL,
    number     INTEGER NOT NULL UNIQUE,         -- never used again for another object
    kind       TEXT NOT NULL,
    attributes BLOB NOT NULL,
    object_check INTEGER NOT NULL,              -- of all of it
    PRIMARY KEY (space, name)
) WITHOUT ROWID;

-- One row: up to which record of the log this is the state, and the tally of what is here, in one value under one
-- check. Kept apart, a half written page could pair a new number with old rows.
CREATE TABLE state (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value BLOB NOT NULL
);
