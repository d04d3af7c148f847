-- Messages whose time has come are available: those that this member has put, and those of others who have not done it
-- for a second. Where those stand by queue that start something of their own, and in how many seconds there is something
-- to do again.
CREATE OR REPLACE FUNCTION release_messages(me text, my_epoch bigint) RETURNS TABLE (
    q_name text, places bigint[], again double precision
) LANGUAGE plpgsql AS $$
DECLARE
    ps tid[];
    ns tid[];
    this_second double precision := now_seconds();
    touched record;
    next_due double precision;
    released integer := 0;
BEGIN
    PERFORM fence(me, my_epoch);
    SELECT array_agg(f.ctid) FILTER (WHERE f.persistent), array_agg(f.ctid) FILTER (WHERE NOT f.persistent) INTO ps, ns
        FROM (SELECT ctid, persistent FROM message
              WHERE state = 8 AND not_before <= this_second AND (put_by = me OR not_before <= this_second - 1)
              ORDER BY not_before LIMIT 1000 FOR UPDATE SKIP LOCKED) AS f;
    FOR touched IN
        WITH p AS (UPDATE message_persistent SET state = 1, put_by = me WHERE ctid = ANY (ps) RETURNING queue, place, msg_flags),
             n AS (UPDATE message_nonpersistent SET state = 1, put_by = me WHERE ctid = ANY (ns)
                   RETURNING queue, place, msg_flags)
        SELECT queue, count(*) AS number,
               coalesce(array_agg(place ORDER BY place) FILTER (WHERE starts(msg_flags)), '{}') AS places
            FROM (SELECT * FROM p UNION ALL SELECT * FROM n) AS shown GROUP BY queue
    LOOP
        PERFORM announce(
            touched.queue, touched.number, depth_of(touched.queue) - touched.number, cardinality(touched.places)
        );
        released := released + touched.number;
        q_name := touched.queue;
        places := touched.places;
        RETURN NEXT;
    END LOOP;
    SELECT not_before INTO next_due FROM message WHERE state = 8 ORDER BY not_before LIMIT 1;
    q_name := NULL;
    places := NULL;
    again := CASE WHEN released = 1000 THEN 0 WHEN next_due > this_second THEN next_due - this_second WHEN next_due + 1 > this_second
                  THEN next_due + 1 - this_second WHEN next_due IS NOT NULL THEN 0.01 END;
    RETURN NEXT;
END $$;
