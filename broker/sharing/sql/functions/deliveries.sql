-- Deliveries of a queue are taken by one member at a time, which this begins: whether it is open for exclusive input, and
-- the keys that are busy: of messages under handlers, or that wait for their next attempt (handlers rule 6.2).
CREATE OR REPLACE FUNCTION begin_taking(q_name text, q_version bigint, OUT exclusive boolean, OUT busy bytea[]) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM still_defined(q_name, q_version);
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || ' deliveries'), hashtext(q_name));
    exclusive := EXISTS (SELECT 1 FROM handle WHERE queue = q_name AND handle.exclusive);
    SELECT coalesce(array_agg(order_key), '{}') INTO busy FROM (
        SELECT order_key FROM message WHERE queue = q_name AND order_key IS NOT NULL AND (state = 8) IS TRUE
        UNION SELECT order_key FROM held WHERE queue = q_name AND order_key IS NOT NULL AND kind = 2
    ) AS keys;
END $$;

-- These messages are taken, each in the unit of work of its delivery, which begins. Their bodies. Where somebody who gets
-- without deliveries was at one before, it is all to be done again.
CREATE OR REPLACE FUNCTION take_deliveries(q_name text, places bigint[], units uuid[], order_keys bytea[], tags bytea[])
RETURNS TABLE (place bigint, body bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    ps tid[];
    ns tid[];
    taken integer;
BEGIN
    SELECT array_agg(f.ctid) FILTER (WHERE f.persistent), array_agg(f.ctid) FILTER (WHERE NOT f.persistent), count(*)
        INTO ps, ns, taken
        FROM (SELECT m.ctid, m.persistent FROM message AS m WHERE queue = q_name AND state = 1
              AND m.place BETWEEN (SELECT min(p) FROM unnest(places) AS a (p)) AND (SELECT max(p) FROM unnest(places) AS b (p))
              AND m.place = ANY (places) ORDER BY m.place FOR UPDATE) AS f;
    IF taken < cardinality(places) THEN
        RAISE EXCEPTION 'a message of % has been got meanwhile', q_name USING ERRCODE = '40001';
    END IF;
    INSERT INTO unit_of_work (id, member, epoch, tag)
        SELECT DISTINCT id, me, my_epoch, tag FROM unnest(units, tags) AS b (id, tag);
    PERFORM count_in(q_name, -taken, NULL);
    RETURN QUERY
        WITH p AS (DELETE FROM message_persistent WHERE ctid = ANY (ps) RETURNING *),
             n AS (DELETE FROM message_nonpersistent WHERE ctid = ANY (ns) RETURNING *)
        INSERT INTO held (place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state,
                          persistent, queue, put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body,
                          kind, member, epoch, unit)
            SELECT g.place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, state,
                   persistent, queue, put_by, msg_id, correl_id, group_id, order_keys[array_position(places, g.place)],
                   handling, descriptor, body, 2, me, my_epoch, units[array_position(places, g.place)]
                FROM (SELECT * FROM p UNION ALL SELECT * FROM n) AS g
            RETURNING place, body;
END $$;

-- Messages of a delivery become part of another unit of work.
CREATE OR REPLACE FUNCTION pass_on(me text, my_epoch bigint, of_unit uuid, q_name text, passed bigint[], other uuid, its_tag bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM goes_on(of_unit, my_epoch);
    PERFORM join_unit(me, my_epoch, other, its_tag);
    UPDATE held SET unit = other
        WHERE member = me AND epoch = my_epoch AND unit = of_unit AND queue = q_name AND place = ANY (passed) AND kind = 2;
END $$;

-- A delivery ends without having removed its messages, all that its unit of work has done: they are back at their places,
-- at once or in so many seconds (`waits`), with these counts and records. Whether the unit was not over before.
CREATE OR REPLACE FUNCTION return_deliveries(
    me text, my_epoch bigint, of_unit uuid, q_name text, places bigint[], waits double precision[],
    backout_counts integer[], handlings bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    this_second double precision := now_seconds();
BEGIN
    PERFORM fence(me, my_epoch);
    UPDATE unit_of_work SET state = 'BACKED_OUT' WHERE id = of_unit AND member = me AND epoch = my_epoch AND state = 'ACTIVE';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE held AS h
        SET not_before = CASE WHEN g.wait > 0 THEN this_second + g.wait ELSE 0 END,
            backout_count = g.backout_count, handling = g.handling
        FROM unnest(places, waits, backout_counts, handlings) AS g (place, wait, backout_count, handling)
        WHERE h.member = me AND h.epoch = my_epoch AND h.unit = of_unit AND h.queue = q_name AND h.place = g.place;
    PERFORM put_back(me, my_epoch, ARRAY[of_unit], NULL, 0);
    RETURN true;
END $$;
