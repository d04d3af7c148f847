-- The next messages behind this one in the order of the old primary key, up to `wanted` ($4) and, but for the first, so
-- many bytes ($5): the last of them, and how many they are.
SELECT queue, place, persistent, number FROM (
    SELECT queue, place, persistent, row_number() OVER w AS number, sum(length) OVER w - length AS before FROM (
        SELECT queue, place, persistent, length FROM old.message
            WHERE (queue, place, persistent) > ($1::text, $2::bigint, $3::boolean)
            ORDER BY queue, place, persistent LIMIT $4
    ) AS following WINDOW w AS (ORDER BY queue, place, persistent)
) AS summed WHERE before < $5 ORDER BY number DESC LIMIT 1
