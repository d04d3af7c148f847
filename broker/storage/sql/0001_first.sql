-- The first schema. A file of this kind is never edited once released: a change is a new file with the next number.
-- The database's user_version is the number of the last file that was run.
--
-- The tables are not STRICT, because that needs SQLite 3.37 and some systems run Python 3.11 on an older one.

-- What `file` and others show for the database: "EvMQ".
PRAGMA application_id = 0x45764d51;

-- One row a message. `id` is its arrival number, so the rows lie in order of arrival and a new one goes to the end.
CREATE TABLE message (
    id            INTEGER PRIMARY KEY,
    queue         INTEGER NOT NULL,            -- object.number of its queue
    rank          INTEGER NOT NULL,            -- effective priority
    persistent    INTEGER NOT NULL,            -- 0: kept over one orderly stop only
    length        INTEGER NOT NULL,            -- of the data, in bytes
    backout_count INTEGER NOT NULL DEFAULT 0,
    got           INTEGER NOT NULL DEFAULT 0,  -- 1: it was in somebody's hands, and the outcome is not known
    -- Of use when stores are shared and messages are claimed; until then they stay as they are here.
    state         INTEGER NOT NULL DEFAULT 0,  -- 0 available, 1 prepared, 2 claimed
    unit          BLOB,                        -- the unit of work that prepared or claimed it
    consumer      BLOB,                        -- who claimed it
    claim         INTEGER,                     -- the sequence of the claim
    descriptor    BLOB NOT NULL,               -- the packed MQMD with the expiry deadline
    data          BLOB                         -- NULL: the data is in `body`
);

-- The data of larger messages, apart, so that a start that reads every descriptor does not walk it.
CREATE TABLE body (
    id   INTEGER PRIMARY KEY,                  -- message.id
    data BLOB NOT NULL
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
    number     INTEGER NOT NULL UNIQUE,        -- never used again for another object
    kind       TEXT NOT NULL,
    attributes BLOB NOT NULL,
    PRIMARY KEY (space, name)
) WITHOUT ROWID;

-- What the manager itself keeps: `high_water`, the mark its counter of ids must start above.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
