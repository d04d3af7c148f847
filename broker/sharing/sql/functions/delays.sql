-- Messages whose time has come are available: those that this member has put, and those of others who have not done it
-- for a second. Where those stand by queue that start something of their own, and in how many seconds there is something
-- to do again.
CREATE OR REPLACE FUNCTION release_messages(on_lane integer, my_turn bigint) RETURNS TABLE (
    q_name text, places bigint[], again double precision
) LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    this_second double precision := now_seconds();
    touched record;
    next_due double precision;
    released integer := 0;
BEGIN
    PERFORM enter(on_lane, my_turn);
    FOR touched IN
        WITH due AS (
            SELECT queue, place, persistent FROM message
                WHERE state = 8 AND not_before <= this_second AND (put_by = me OR not_before <= this_second - 1)
                ORDER BY not_before LIMIT 1000 FOR UPDATE SKIP LOCKED
        ), shown AS (
            UPDATE message AS m SET state = 1, put_by = me FROM due
                WHERE m.queue = due.queue AND m.place = due.place AND m.persistent = due.persistent
                RETURNING m.queue, m.place, m.msg_flags
        ) SELECT shown.queue, count(*) AS number, max(depth) AS depth,
                 coalesce(array_agg(place ORDER BY place) FILTER (WHERE starts(msg_flags)), '{}') AS places
            FROM shown JOIN queue ON queue.name = shown.queue GROUP BY shown.queue
    LOOP
        PERFORM announce(
            touched.queue, touched.number, touched.depth - touched.number, cardinality(touched.places)
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
