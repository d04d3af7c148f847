-- Messages of a slice that somebody holds: a unit of work, whether or not its row is there, a browse, a consumer, or a
-- prepared unit. What was their state is the kind of that; one that was got before its time had another state until then.
-- One that was got in no unit has been its getter's, and does not come over.
INSERT INTO held (
    place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state, persistent, queue,
    put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body, kind, member, epoch, unit, sequence
)
SELECT place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count,
       CASE WHEN state = 2 AND owner = 'cancels' THEN 8 ELSE 1 END, persistent, queue, put_by, msg_id, correl_id, group_id,
       order_key, handling, descriptor, body, state, coalesce(member, ''), coalesce(epoch, 0),
       CASE state WHEN 3 THEN '00000000-0000-0000-0000-000000000000'::uuid WHEN 6 THEN consumer ELSE unit END, claim_sequence
    FROM old.message
    WHERE (queue, place, persistent) > ($1::text, $2::bigint, $3::boolean)
    AND (queue, place, persistent) <= ($4::text, $5::bigint, $6::boolean)
    AND (state IN (0, 3, 6, 7) OR (state = 2 AND unit IS NOT NULL))
    ORDER BY queue, place, persistent
