-- The statements of the snapshot. Each stands under its name and is read by `broker.storage.snapshot.scripts`.
-- What stands before /* ... */ is repeated, so that one statement does the work of many
-- (`broker.storage.snapshot.statements`).

-- name: insert_message
-- The order of the first columns is that of MessageRow. The column `got` is what `MessageRow.hardened` holds.
INSERT INTO message (id, queue, rank, persistent, descriptor, length, data, backout_count, got,
    holder, sequence, place, handling, head_check, counters_check, data_check)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) /* ... */;

-- name: insert_untouched
-- Of messages whose changeable columns are as they begin: nearly all.
INSERT INTO message (id, queue, rank, persistent, descriptor, length, data, backout_count, got,
    head_check, counters_check, data_check)
VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?) /* ... */;

-- name: insert_body
INSERT INTO body (id, data, data_check) VALUES (?, ?, ?) /* ... */;

-- name: sum_messages
SELECT count(*), coalesce(sum(head_check + counters_check), 0) FROM message WHERE id IN (? /* ... */);

-- name: read_counters
-- In the order of MessageRow.
SELECT id, backout_count, got, holder, sequence, place, handling, counters_check FROM message WHERE id IN (? /* ... */);

-- name: write_counters
-- Of messages that are there: so many changes in one statement are an insert that meets them. What else it says of a
-- message is not written.
INSERT INTO message (id, backout_count, got, holder, sequence, place, handling, counters_check,
    queue, rank, persistent, length, head_check, descriptor)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, x'') /* ... */
ON CONFLICT (id) DO UPDATE SET backout_count = excluded.backout_count, got = excluded.got, holder = excluded.holder,
    sequence = excluded.sequence, place = excluded.place, handling = excluded.handling,
    counters_check = excluded.counters_check;

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

-- name: sum_keys
SELECT count(*), coalesce(sum(key_check), 0) FROM put_key;

-- name: load_keys
-- A page of keys after one, in the order of KeyRow, and their checks.
SELECT queue, key, id, msg_id, digest, until, key_check FROM put_key
WHERE (queue, key) > (?, ?) ORDER BY queue, key LIMIT ?;

-- name: old_keys
-- Keys whose time is over, the oldest first.
SELECT queue, key FROM put_key WHERE until > 0 AND until <= ? ORDER BY until LIMIT ?;

-- name: sum_some_keys
SELECT count(*), coalesce(sum(key_check), 0) FROM put_key WHERE (queue, key) IN (VALUES (?, ?) /* ... */);

-- name: drop_keys
DELETE FROM put_key WHERE (queue, key) IN (VALUES (?, ?) /* ... */);

-- name: store_keys
INSERT INTO put_key (queue, key, id, msg_id, digest, until, key_check) VALUES (?, ?, ?, ?, ?, ?, ?) /* ... */;

-- name: sum_steps
SELECT count(*), coalesce(sum(step_check), 0) FROM step;

-- name: any_step
SELECT EXISTS (SELECT 1 FROM step);

-- name: load_steps
-- A page of steps after one, in the order of StepRow, and their checks.
SELECT id, place, name, value, step_check FROM step WHERE (id, place) > (?, ?) ORDER BY id, place LIMIT ?;

-- name: sum_some_steps
SELECT count(*), coalesce(sum(step_check), 0) FROM step WHERE id IN (? /* ... */);

-- name: drop_steps
DELETE FROM step WHERE id IN (? /* ... */);

-- name: store_steps
INSERT INTO step (id, place, name, value, step_check) VALUES (?, ?, ?, ?, ?) /* ... */;

-- name: load_state
SELECT value FROM state WHERE id = 1;

-- name: store_state
INSERT INTO state (id, value) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET value = excluded.value;

-- name: load_messages
-- A page of messages after an id, in the order of MessageRow and their checks; a load brings no data.
SELECT id, queue, rank, persistent, descriptor, length, NULL, backout_count, got, holder, sequence, place,
    handling, head_check, counters_check
FROM message WHERE id > ? ORDER BY id LIMIT ?;

-- name: load_messages_of_version_3
-- The same from a snapshot of version 3, which had no column for what handlers leave.
SELECT id, queue, rank, persistent, descriptor, length, NULL, backout_count, got, holder, sequence, place, x'',
    head_check, counters_check
FROM message WHERE id > ? ORDER BY id LIMIT ?;

-- name: load_messages_of_version_2
-- From one of version 2, which had none for these.
SELECT id, queue, rank, persistent, descriptor, length, NULL, backout_count, got, 0, 0, 0, x'',
    head_check, counters_check
FROM message WHERE id > ? ORDER BY id LIMIT ?;

-- name: read_data
SELECT message.id, coalesce(message.data, body.data), coalesce(message.data_check, body.data_check)
FROM message LEFT JOIN body ON body.id = message.id WHERE message.id IN (? /* ... */);
