-- Messages of a queue, of a page that is locked, are claimed by a consumer under these numbers.
CREATE OR REPLACE FUNCTION claim_messages(of_consumer uuid, q_name text, places bigint[], sequences bigint[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ps tid[];
    ns tid[];
BEGIN
    SELECT array_agg(f.ctid) FILTER (WHERE f.persistent), array_agg(f.ctid) FILTER (WHERE NOT f.persistent) INTO ps, ns
        FROM (SELECT ctid, persistent FROM message WHERE queue = q_name AND state = 1
              AND place BETWEEN (SELECT min(p) FROM unnest(places) AS a (p)) AND (SELECT max(p) FROM unnest(places) AS b (p))
              AND place = ANY (places) ORDER BY place FOR UPDATE) AS f;
    WITH p AS (DELETE FROM message_persistent WHERE ctid = ANY (ps) RETURNING *),
         n AS (DELETE FROM message_nonpersistent WHERE ctid = ANY (ns) RETURNING *)
    INSERT INTO held SELECT gone.*, 6, '', 0, of_consumer, sequences[array_position(places, gone.place)]
        FROM (SELECT * FROM p UNION ALL SELECT * FROM n) AS gone;
END $$;

-- The claims of a consumer up to a sequence end: they are gone, or `back` at their places all that there are, which counts a
-- backout. How many there were.
CREATE OR REPLACE FUNCTION end_claims(of_consumer uuid, up_to bigint, back boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    ended bigint := 0;
BEGIN
    IF back THEN
        RETURN put_back('', 0, ARRAY[of_consumer], NULL, 1);
    END IF;
    FOR touched IN
        WITH gone AS (
            DELETE FROM held WHERE member = '' AND epoch = 0 AND unit = of_consumer AND sequence <= up_to RETURNING queue
        ) SELECT queue, count(*) AS number FROM gone GROUP BY queue ORDER BY queue
    LOOP
        ended := ended + touched.number;
        PERFORM count_in(touched.queue, -touched.number, NULL);
    END LOOP;
    RETURN ended;
END $$;
