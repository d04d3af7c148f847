-- What is done in a unit of work is done while it is active, in the life of the member in which it began.
CREATE OR REPLACE FUNCTION goes_on(of_unit uuid, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM unit_of_work WHERE id = of_unit AND epoch = my_epoch AND state = 'ACTIVE' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the unit of work % is over', of_unit USING ERRCODE = 'EM005';
    END IF;
END $$;

-- A call on shared queues joins a unit of work, which it begins if there is none yet.
CREATE OR REPLACE FUNCTION join_unit(me text, my_epoch bigint, of_unit uuid, of_tag bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unit_of_work (id, member, epoch, tag) VALUES (of_unit, me, my_epoch, of_tag) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM goes_on(of_unit, my_epoch);
    END IF;
END $$;

-- The first shared call of a unit of work, or the same made again. One that was ended meanwhile does not begin.
CREATE OR REPLACE FUNCTION begin_unit(me text, my_epoch bigint, of_unit uuid, of_tag bytea) RETURNS void LANGUAGE sql AS $$
    SELECT join_unit(me, my_epoch, of_unit, of_tag)
$$;

-- The unit is committed, with all its effects, in the life of the member in which it began. Whether it was still active.
CREATE OR REPLACE FUNCTION commit_unit(of_unit uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    UPDATE unit_of_work SET state = 'COMMITTED' WHERE id = of_unit AND state = 'ACTIVE'
        AND member = current_setting('evermq.member') AND epoch = current_setting('evermq.epoch')::bigint;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    WITH gone AS (
        DELETE FROM message WHERE unit = of_unit AND state = 2 RETURNING queue, place, owner
    ) DELETE FROM put_key AS p USING gone WHERE gone.owner = 'cancels' AND p.queue = gone.queue AND p.place = gone.place;
    DELETE FROM put_key AS p USING put_key AS mine
        WHERE mine.unit = of_unit AND p.queue = mine.queue AND p.key = mine.key AND p.unit IS NULL;
    UPDATE put_key SET unit = NULL WHERE unit = of_unit;
    FOR touched IN
        WITH shown AS (
            UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                               unit = NULL, member = NULL, epoch = NULL
                WHERE unit = of_unit AND state = 0 RETURNING queue, state, not_before, msg_flags
        ) SELECT shown.queue, count(*) FILTER (WHERE state = 1) AS arrived, max(queue.depth) AS depth,
                 count(*) FILTER (WHERE state = 1 AND starts(msg_flags)) AS starting,
                 min(not_before) FILTER (WHERE state = 8) AS due
            FROM shown JOIN queue ON queue.name = shown.queue GROUP BY shown.queue
    LOOP
        PERFORM announce(touched.queue, touched.arrived, touched.depth - touched.arrived, touched.starting);
        PERFORM announce_delayed(touched.due);
    END LOOP;
    RETURN true;
END $$;

-- The same, as a transaction by itself.
CREATE OR REPLACE FUNCTION commit_unit(on_lane integer, my_turn bigint, of_unit uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM enter(on_lane, my_turn);
    RETURN commit_unit(of_unit);
END $$;

-- What has become of a unit, once whoever is still at it has ended: 'COMMITTED' or 'BACKED_OUT'. One that nobody has
-- decided is backed out. Null: there is no such unit, unless its member has `never` tried to commit it: then it cannot
-- begin any more either.
CREATE OR REPLACE FUNCTION outcome_of_unit(me text, my_epoch bigint, of_unit uuid, never boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    decision text;
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM set_config('lock_timeout', '2000', true);
    IF never THEN
        INSERT INTO unit_of_work (id, member, epoch, state)
            VALUES (of_unit, me, my_epoch, 'BACKED_OUT')
            ON CONFLICT (id) DO NOTHING;
    END IF;
    SELECT state INTO decision FROM unit_of_work
        WHERE id = of_unit AND epoch <= my_epoch FOR UPDATE;
    IF decision = 'ACTIVE' THEN
        PERFORM back_out_unit(of_unit);
        decision := 'BACKED_OUT';
    END IF;
    PERFORM set_config('lock_timeout', '0', true);
    RETURN decision;
END $$;

-- Nobody needs the rows of these units any more.
CREATE OR REPLACE FUNCTION forget_units(me text, my_epoch bigint, units uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    DELETE FROM unit_of_work WHERE id = ANY (units) AND epoch <= my_epoch AND state <> 'ACTIVE';
END $$;

-- The unit is backed out, with all its effects. Whether it was still active.
CREATE OR REPLACE FUNCTION back_out_unit(of_unit uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    UPDATE unit_of_work SET state = 'BACKED_OUT' WHERE id = of_unit AND state = 'ACTIVE';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM put_key WHERE unit = of_unit;
    FOR touched IN
        WITH gone AS (
            DELETE FROM message WHERE unit = of_unit AND state = 0 RETURNING queue
        ), back AS (
            UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                               backout_count = backout_count + 1, unit = NULL, token = NULL, owner = NULL,
                           member = NULL, epoch = NULL
                WHERE unit = of_unit AND state = 2 RETURNING queue, CASE WHEN state = 8 THEN not_before END AS due
        )
        SELECT queue, sum(step) AS step, min(due) AS due FROM (
            SELECT queue, -1 AS step, NULL AS due FROM gone UNION ALL SELECT queue, 1, due FROM back
        ) AS steps GROUP BY queue ORDER BY queue
    LOOP
        UPDATE queue SET depth = depth + touched.step WHERE name = touched.queue;
        PERFORM announce(touched.queue, 0, 0);
        PERFORM announce_delayed(touched.due);
    END LOOP;
    RETURN true;
END $$;
