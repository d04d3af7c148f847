-- Messages of a slice that are free for everybody.
INSERT INTO message (
    place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state, persistent, queue,
    put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body
)
SELECT place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state, persistent, queue,
       put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body
    FROM old.message
    WHERE (queue, place, persistent) > ($1::text, $2::bigint, $3::boolean)
    AND (queue, place, persistent) <= ($4::text, $5::bigint, $6::boolean) AND state IN (1, 8)
    ORDER BY queue, place, persistent
