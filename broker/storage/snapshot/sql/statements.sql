-- The statements of the snapshot. Each stands under its name and is read by `broker.storage.snapshot.scripts`.
-- What stands before /* ... */ is repeated, so that one statement does the work of many
-- (`broker.storage.snapshot.statements`).

-- name: insert_message
-- The order of the first columns is that of MessageRow. The column `got` is what `MessageRow.hardened` holds.
INSERT INTO message (id, queue, rank, persistent, descriptor, length, data, backout_count, got,
    head_check, counters_check, data_check)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* ... */;

-- name: insert_body
INSERT INTO body (id, data, data_check) VALUES (?, ?, ?) /* ... */;

-- name: sum_messages
SELECT count(*), coalesce(sum(head_check + counters_check), 0) FROM message WHERE id IN (? /* ... */);

-- name: read_counters
SELECT id, backout_count, got, counters_check FROM message WHERE id IN (? /* ... */);

-- name: write_counters
UPDATE message SET backout_count = ?, got = ?, counters_check = ? WHERE id = ?;

-- name: remove_message
DELETE FROM message WHERE id IN (? /* ... */);

-- name: read_object_check
SELECT object_check FROM object WHERE space = ? AND name = ?;

-- name: drop_object
DELETE FROM object WHERE space = ? AND name = ?;

-- name: store_object
INSERT INTO object (space, name, number, kind, attributes, object_check) VALUES (?, ?, ?, ?, ?, ?);

-- name: load_objects
SELECT space, name, number, kind, attributes, object_check FROM object ORDER BY space, name;

-- name: load_state
SELECT value FROM state WHERE id = 1;

-- name: store_state
INSERT INTO state (id, value) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET value = excluded.value;

-- name: load_messages
-- A page of messages after an id, in the order of MessageRow and their checks; a load brings no data.
SELECT id, queue, rank, persistent, descriptor, length, NULL, backout_count, got, head_check, counters_check
FROM message WHERE id > ? ORDER BY id LIMIT ?;

-- name: read_data
SELECT message.id, coalesce(message.data, body.data), coalesce(message.data_check, body.data_check)
FROM message LEFT JOIN body ON body.id = message.id WHERE message.id IN (? /* ... */);
