-- What is done in a unit of work is done while it is active, in the life of the member in which it began.
CREATE OR REPLACE FUNCTION goes_on(of_unit uuid, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM unit_of_work WHERE id = of_unit AND member = current_setting('evermq.member') AND epoch = my_epoch
        AND state = 'ACTIVE' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the unit of work % is over', of_unit USING ERRCODE = 'EM005';
    END IF;
END $$;

-- A call on shared queues joins a unit of work, which it begins if there is none yet. One that was ended does not begin.
CREATE OR REPLACE FUNCTION join_unit(me text, my_epoch bigint, of_unit uuid, of_tag bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unit_of_work (id, member, epoch, tag) VALUES (of_unit, me, my_epoch, of_tag) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM goes_on(of_unit, my_epoch);
    END IF;
END $$;

-- These units are committed, with all their effects, in the life of the member in which they began. `decided` are those
-- that are: the same when it is asked again. As a transaction `by_itself` its commit has `waited` for the disk, unless
-- somebody is told of messages.
CREATE OR REPLACE FUNCTION commit_units(
    me text, my_epoch bigint, units uuid[], by_itself boolean DEFAULT false, OUT decided uuid[], OUT waited boolean
) LANGUAGE plpgsql AS $$
DECLARE
    this_second double precision := now_seconds();
    touched record;
BEGIN
    waited := by_itself;
    PERFORM fence(me, my_epoch);
    WITH active AS (
        UPDATE unit_of_work SET state = 'COMMITTED' WHERE id = ANY (units) AND member = me AND epoch = my_epoch
            AND state = 'ACTIVE' RETURNING id
    ) SELECT array_agg(id) INTO decided FROM active;
    IF decided IS NOT NULL THEN
        FOR touched IN
            WITH done AS (
                DELETE FROM held WHERE member = me AND epoch = my_epoch AND unit = ANY (decided) RETURNING *
            ), unkept AS (  -- it was got before its time, as if it had never been put: its key is free
                DELETE FROM put_key AS p USING done
                    WHERE done.kind = 2 AND done.state = 8 AND p.queue = done.queue AND p.place = done.place
            ), shown AS (
                INSERT INTO message (place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length,
                                     backout_count, state, persistent, queue, put_by, msg_id, correl_id, group_id, order_key,
                                     handling, descriptor, body)
                    SELECT place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count,
                           state_at(not_before, this_second), persistent, queue, put_by, msg_id, correl_id, group_id,
                           order_key, handling, descriptor, body
                        FROM done WHERE kind = 0
                    RETURNING queue, state, not_before, msg_flags
            ) SELECT queue, count(*) FILTER (WHERE state = 1) AS arrived,
                     count(*) FILTER (WHERE state = 1 AND starts(msg_flags)) AS starting,
                     min(not_before) FILTER (WHERE state = 8) AS due
                FROM shown GROUP BY queue
        LOOP
            waited := false;
            PERFORM announce(touched.queue, touched.arrived, depth_of(touched.queue) - touched.arrived, touched.starting);
            PERFORM announce_delayed(touched.due);
        END LOOP;
        PERFORM 1 FROM put_key WHERE unit = ANY (decided) LIMIT 1;
        IF FOUND THEN
            DELETE FROM put_key AS p USING put_key AS mine
                WHERE mine.unit = ANY (decided) AND p.queue = mine.queue AND p.key = mine.key AND p.unit IS NULL;
            UPDATE put_key SET unit = NULL WHERE unit = ANY (decided);
        END IF;
    END IF;
    IF coalesce(cardinality(decided), 0) < cardinality(units) THEN
        decided := ARRAY(SELECT id FROM unit_of_work WHERE id = ANY (units) AND member = me AND state = 'COMMITTED');
        waited := false;  -- what has committed them may be on its way to the disk
    END IF;
    IF waited THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- What has become of a unit, once whoever is still at it has ended: 'COMMITTED' or 'BACKED_OUT'. One that nobody has
-- decided is backed out. Null: there is no such unit, unless its member has `never` tried to commit it: then it cannot
-- begin any more either.
CREATE OR REPLACE FUNCTION outcome_of_unit(me text, my_epoch bigint, of_unit uuid, never boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    decision text;
    of_member text;
    of_epoch bigint;
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM set_config('lock_timeout', '2000', true);
    IF never THEN
        INSERT INTO unit_of_work (id, member, epoch, state)
            VALUES (of_unit, me, my_epoch, 'BACKED_OUT')
            ON CONFLICT (id) DO NOTHING;
    END IF;
    SELECT state, member, epoch INTO decision, of_member, of_epoch FROM unit_of_work
        WHERE id = of_unit AND member = me AND epoch <= my_epoch FOR UPDATE;
    IF decision = 'ACTIVE' THEN
        PERFORM back_out_units(of_member, of_epoch, ARRAY[of_unit]);
        decision := 'BACKED_OUT';
    END IF;
    PERFORM set_config('lock_timeout', '0', true);
    RETURN decision;
END $$;

-- Nobody needs the rows of these units any more.
CREATE OR REPLACE FUNCTION forget_units(me text, my_epoch bigint, units uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    DELETE FROM unit_of_work WHERE id = ANY (units) AND member = me AND epoch <= my_epoch AND state <> 'ACTIVE';
END $$;

-- Units of one life of a member that are active are backed out, with all their effects. How many they were.
CREATE OR REPLACE FUNCTION back_out_units(of_member text, of_epoch bigint, units uuid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    decided uuid[];
BEGIN
    WITH active AS (
        UPDATE unit_of_work SET state = 'BACKED_OUT' WHERE id = ANY (units) AND member = of_member AND epoch = of_epoch
            AND state = 'ACTIVE' RETURNING id
    ) SELECT array_agg(id) INTO decided FROM active;
    IF decided IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM put_key WHERE unit = ANY (decided);
    PERFORM put_back(of_member, of_epoch, decided, NULL, 1);
    RETURN cardinality(decided);
END $$;
