-- Where the copies differ from what they are copies of: by queue, persistence and state how many there are, with what
-- places, backout counts, bytes, and whose they are. None where all is well.
WITH before AS (
    SELECT queue, persistent, state, count(*) AS messages, sum(place) AS places, sum(backout_count) AS backouts,
           sum(length) AS bytes, sum(octet_length(body)) AS body_bytes,
           sum(hashtextextended(format('%s %s %s %s %s', place, member, epoch,
               CASE state WHEN 3 THEN '00000000-0000-0000-0000-000000000000'::uuid WHEN 6 THEN consumer ELSE unit END,
               claim_sequence), 0)) AS owners
        FROM old.message WHERE state <> 2 OR unit IS NOT NULL GROUP BY queue, persistent, state
), after AS (
    SELECT queue, persistent, state, count(*) AS messages, sum(place) AS places, sum(backout_count) AS backouts,
           sum(length) AS bytes, sum(octet_length(body)) AS body_bytes,
           sum(hashtextextended(format('%s %s %s %s %s', place, member, epoch, unit, sequence), 0)) AS owners
        FROM (
            SELECT queue, persistent, state, place, backout_count, length, body, NULL AS member, NULL::bigint AS epoch,
                   NULL::uuid AS unit, NULL::bigint AS sequence FROM message
            UNION ALL
            SELECT queue, persistent, state, place, backout_count, length, body, nullif(member, ''),
                   nullif(epoch, 0), unit, sequence FROM held
        ) AS copied GROUP BY queue, persistent, state
)
SELECT format('%s messages of %s in state %s instead of %s', coalesce(after.messages, 0), queue, state,
              coalesce(before.messages, 0)) AS difference
    FROM before FULL JOIN after USING (queue, persistent, state) WHERE before IS DISTINCT FROM after
    ORDER BY queue, state LIMIT 5
