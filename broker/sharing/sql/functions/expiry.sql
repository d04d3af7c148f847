-- Expired messages of a queue go, the first of them: what a report on them has to say, and the depth then.
CREATE OR REPLACE FUNCTION discard_messages(me text, my_epoch bigint, q_name text, at double precision, wanted integer)
RETURNS TABLE (
    place bigint, persistent boolean, msg_id bytea, descriptor bytea, length integer, body bytea, backout_count integer, handling bytea,
    new_depth bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ps tid[];
    ns tid[];
    gone bigint;
    total bigint;
BEGIN
    PERFORM fence(me, my_epoch);
    SELECT array_agg(f.ctid) FILTER (WHERE f.persistent), array_agg(f.ctid) FILTER (WHERE NOT f.persistent), count(*)
        INTO ps, ns, gone
        FROM (SELECT ctid, persistent FROM message WHERE queue = q_name AND deadline <= at
              ORDER BY deadline LIMIT wanted FOR UPDATE SKIP LOCKED) AS f;
    IF gone = 0 THEN
        RETURN;
    END IF;
    PERFORM count_in(q_name, -gone, NULL);
    total := depth_of(q_name);
    RETURN QUERY
        WITH p AS (DELETE FROM message_persistent WHERE ctid = ANY (ps)
                   RETURNING place, persistent, msg_id, descriptor, length, body, backout_count, handling),
             n AS (DELETE FROM message_nonpersistent WHERE ctid = ANY (ns)
                   RETURNING place, persistent, msg_id, descriptor, length, body, backout_count, handling)
        SELECT *, total FROM p UNION ALL SELECT *, total FROM n;
END $$;
