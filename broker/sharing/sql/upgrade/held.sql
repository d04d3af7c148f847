-- Messages of a slice that somebody holds: a unit of work, whether or not its row is there, a browse, a consumer, or a
-- prepared unit. One that was got in no unit has been its getter's, and does not come over.
INSERT INTO held (
    place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state, persistent, queue,
    put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body, epoch, unit, member, sequence, cancels
)
SELECT place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state, persistent, queue,
       put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body, coalesce(epoch, 0),
       CASE state WHEN 3 THEN '00000000-0000-0000-0000-000000000000'::uuid WHEN 6 THEN consumer ELSE unit END,
       coalesce(member, ''), claim_sequence,
       state = 2 AND owner IS NOT DISTINCT FROM 'cancels'
    FROM old.message
    WHERE (queue, place, persistent) > ($1::text, $2::bigint, $3::boolean)
    AND (queue, place, persistent) <= ($4::text, $5::bigint, $6::boolean)
    AND (state IN (0, 3, 6, 7) OR (state = 2 AND unit IS NOT NULL))
    ORDER BY queue, place, persistent
