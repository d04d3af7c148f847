-- The statements of the SQLite store. Each stands under its name and is read by `broker.storage.scripts`.
-- What stands before /* ... */ is repeated, so that one statement does the work of many (`broker.storage.batch`).

-- name: insert_message
-- The order of the columns is that of MessageRow, so that a row is bound as it is.
INSERT INTO message (id, queue, rank, persistent, descriptor, length, data, backout_count, got)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) /* ... */;

-- name: insert_body
INSERT INTO body (id, data) VALUES (?, ?) /* ... */;

-- name: harden
-- The column `got` is what `MessageRow.hardened` holds.
UPDATE message SET got = 1 WHERE id IN (? /* ... */);

-- name: raise_backout_count
UPDATE message SET backout_count = ?, got = 0 WHERE id IN (? /* ... */);

-- name: remove_message
DELETE FROM message WHERE id IN (? /* ... */);

-- name: drop_object
DELETE FROM object WHERE space = ? AND name = ?;

-- name: store_object
INSERT INTO object (space, name, number, kind, attributes) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (space, name) DO UPDATE SET number = excluded.number, kind = excluded.kind, attributes = excluded.attributes;

-- name: raise_high_water
INSERT INTO meta (name, value) VALUES ('high_water', ?)
ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value);

-- name: load_objects
SELECT space, name, number, kind, attributes FROM object ORDER BY space, name;

-- name: load_high_water
SELECT value FROM meta WHERE name = 'high_water';

-- name: load_messages
-- A page of messages after an id, in the order of MessageRow; a load brings no data.
SELECT id, queue, rank, persistent, descriptor, length, NULL, backout_count, got
FROM message WHERE id > ? ORDER BY id LIMIT ?;

-- name: forget_nonpersistent
DELETE FROM message WHERE persistent = 0 AND id <= ?;

-- name: read_data
SELECT message.id, coalesce(message.data, body.data)
FROM message LEFT JOIN body ON body.id = message.id WHERE message.id IN (? /* ... */);
