-- Where the copies differ from what they are copies of: by queue, persistence and state how many there are, and of all
-- together the place, the backout count, the lengths, and whose each is. None where all is well.
WITH before AS (
    SELECT queue, persistent, state, count(*) AS messages, sum(hashtextextended(format('%s %s %s %s %s %s %s %s %s',
               place, backout_count, length, octet_length(body), put_by, member, epoch,
               CASE state WHEN 3 THEN '00000000-0000-0000-0000-000000000000'::uuid WHEN 6 THEN consumer ELSE unit END,
               claim_sequence), 0)) AS all_of_them
        FROM old.message WHERE state <> 2 OR unit IS NOT NULL GROUP BY queue, persistent, state
), after AS (
    SELECT queue, persistent, state, count(*) AS messages, sum(hashtextextended(format('%s %s %s %s %s %s %s %s %s',
               place, backout_count, length, octet_length(body), put_by, nullif(member, ''), nullif(epoch, 0), unit,
               sequence), 0)) AS all_of_them
        FROM all_messages GROUP BY queue, persistent, state
)
SELECT format('%s messages of %s in state %s instead of %s', coalesce(after.messages, 0), queue, state,
              coalesce(before.messages, 0)) AS difference
    FROM before FULL JOIN after USING (queue, persistent, state) WHERE before IS DISTINCT FROM after
    ORDER BY queue, state LIMIT 5
