-- The claims of a consumer up to a sequence end: they are gone, or `back` at their places, which counts a backout. How
-- many there were.
CREATE OR REPLACE FUNCTION end_claims(of_consumer uuid, up_to bigint, back boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    ended bigint := 0;
BEGIN
    IF back THEN
        FOR touched IN
            WITH shown AS (
                UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                                   backout_count = backout_count + 1, consumer = NULL, claim_sequence = NULL
                    WHERE consumer = of_consumer AND claim_sequence <= up_to RETURNING queue
            ) SELECT queue, count(*) AS number FROM shown GROUP BY queue ORDER BY queue
        LOOP
            ended := ended + touched.number;
            PERFORM announce(touched.queue, 0, 0);
        END LOOP;
        RETURN ended;
    END IF;
    FOR touched IN
        WITH gone AS (
            DELETE FROM message WHERE consumer = of_consumer AND claim_sequence <= up_to RETURNING queue
        ) SELECT queue, count(*) AS number FROM gone GROUP BY queue ORDER BY queue
    LOOP
        ended := ended + touched.number;
        UPDATE queue SET depth = depth - touched.number WHERE name = touched.queue;
    END LOOP;
    RETURN ended;
END $$;
