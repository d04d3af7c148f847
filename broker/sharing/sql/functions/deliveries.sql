-- Deliveries of a queue are taken by one member at a time, which this begins: whether it is open for exclusive input, and
-- the keys that are busy: of messages under handlers, or that wait for their next attempt (handlers rule 6.2).
CREATE OR REPLACE FUNCTION begin_taking(q_name text, q_version bigint, OUT exclusive boolean, OUT busy bytea[]) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM still_defined(q_name, q_version);
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || ' deliveries'), hashtext(q_name));
    exclusive := EXISTS (SELECT 1 FROM handle WHERE queue = q_name AND handle.exclusive);
    SELECT coalesce(array_agg(DISTINCT order_key), '{}') INTO busy FROM message
        WHERE queue = q_name AND order_key IS NOT NULL AND state IN (2, 8);
END $$;

-- These messages are taken, each in the unit of work of its delivery, which begins. Their bodies. Where somebody who gets
-- without deliveries was at one before, it is all to be done again.
CREATE OR REPLACE FUNCTION take_deliveries(q_name text, places bigint[], units uuid[], order_keys bytea[], tags bytea[])
RETURNS TABLE (place bigint, body bytea, new_depth bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    taken integer;
    total bigint;
BEGIN
    UPDATE message AS m SET state = 2, unit = g.unit, token = NULL, order_key = g.order_key, member = me, epoch = my_epoch
        FROM unnest(places, units, order_keys) AS g (place, unit, order_key)
        WHERE m.queue = q_name AND m.place = g.place AND m.state = 1;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < cardinality(places) THEN
        RAISE EXCEPTION 'a message of % has been got meanwhile', q_name USING ERRCODE = '40001';
    END IF;
    INSERT INTO unit_of_work (id, member, epoch, tag)
        SELECT DISTINCT id, me, my_epoch, tag FROM unnest(units, tags) AS b (id, tag);
    UPDATE queue SET depth = depth - taken WHERE name = q_name RETURNING depth INTO total;
    RETURN QUERY SELECT place, body, total FROM message WHERE queue = q_name AND place = ANY (places);
END $$;

-- Messages of a delivery become part of another unit of work.
CREATE OR REPLACE FUNCTION pass_on(me text, my_epoch bigint, of_unit uuid, q_name text, passed bigint[], other uuid, its_tag bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM goes_on(of_unit, my_epoch);
    PERFORM begin_unit(me, my_epoch, other, its_tag);
    UPDATE message SET unit = other WHERE unit = of_unit AND queue = q_name AND place = ANY (passed) AND state = 2;
END $$;

-- Units of work of deliveries that have put nothing are committed: which of them were still active.
CREATE OR REPLACE FUNCTION commit_deliveries(on_lane integer, my_turn bigint, units uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    decided uuid[];
BEGIN
    PERFORM enter(on_lane, my_turn);
    WITH active AS (
        UPDATE unit_of_work SET state = 'COMMITTED' WHERE id = ANY (units) AND state = 'ACTIVE'
            AND member = current_setting('evermq.member') AND epoch = current_setting('evermq.epoch')::bigint
            RETURNING id
    ) SELECT coalesce(array_agg(id), '{}') INTO decided FROM active;
    DELETE FROM message WHERE unit = ANY (decided) AND state = 2;
    RETURN decided;
END $$;

-- A delivery ends without having removed its messages, all that its unit of work has done: they are back at their places,
-- at once or in so many seconds (`waits`), with these counts and records. The depth then; null where the unit was over.
CREATE OR REPLACE FUNCTION return_deliveries(
    on_lane integer, my_turn bigint, of_unit uuid, q_name text, places bigint[], waits double precision[],
    backout_counts integer[], handlings bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    this_second double precision := now_seconds();
    back integer;
    total bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    UPDATE unit_of_work SET state = 'BACKED_OUT'
        WHERE id = of_unit AND member = current_setting('evermq.member') AND epoch = my_epoch AND state = 'ACTIVE';
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE message AS m
        SET state = CASE WHEN g.wait > 0 THEN 8 ELSE 1 END,
            not_before = CASE WHEN g.wait > 0 THEN this_second + g.wait ELSE 0 END,
            order_key = CASE WHEN g.wait > 0 THEN order_key END,
            backout_count = g.backout_count, handling = g.handling, unit = NULL, member = NULL, epoch = NULL
        FROM unnest(places, waits, backout_counts, handlings) AS g (place, wait, backout_count, handling)
        WHERE m.unit = of_unit AND m.queue = q_name AND m.place = g.place AND m.state = 2;
    GET DIAGNOSTICS back = ROW_COUNT;
    UPDATE queue SET depth = depth + back WHERE name = q_name RETURNING depth INTO total;
    PERFORM announce(q_name, 0, 0);
    PERFORM announce_delayed(this_second + first) FROM (SELECT min(wait) AS first FROM unnest(waits) AS w (wait) WHERE wait > 0) AS f
        WHERE first IS NOT NULL;
    RETURN total;
END $$;
