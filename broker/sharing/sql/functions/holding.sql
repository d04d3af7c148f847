-- What is in `message` is free; what somebody holds is in `held`. What a statement has locked in `message` it touches there
-- by `ctid`, partition by partition: no statistics can spoil that.

-- The state of a message that comes back, or is to be seen for the first time.
CREATE OR REPLACE FUNCTION state_at(not_before double precision, this_second double precision) RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN not_before > this_second THEN 8 ELSE 1 END::smallint $$;

-- The unit of browse locks.
CREATE OR REPLACE FUNCTION no_unit() RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT '00000000-0000-0000-0000-000000000000'::uuid
$$;

-- Locked messages of this member, by their ctids in both partitions, are held: so many of them.
CREATE OR REPLACE FUNCTION hold(as_kind integer, of_unit uuid, ps tid[], ns tid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    number bigint;
BEGIN
    WITH p AS (DELETE FROM message_persistent WHERE ctid = ANY (ps) RETURNING *),
         n AS (DELETE FROM message_nonpersistent WHERE ctid = ANY (ns) RETURNING *)
    INSERT INTO held SELECT gone.*, as_kind, me, my_epoch, of_unit FROM (SELECT * FROM p UNION ALL SELECT * FROM n) AS gone;
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END $$;

-- The only way back to `message`: backout, give back, the ends of locks and claims, recovery. What was put in these units
-- goes, all else is back at its place, `failed` times more backed out if it was got or claimed. `these`: places, null for
-- all. How many there were.
CREATE OR REPLACE FUNCTION put_back(of_member text, of_epoch bigint, units uuid[], these bigint[], failed integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    this_second double precision := now_seconds();
    touched record;
    total bigint := 0;
BEGIN
    FOR touched IN
        WITH gone AS (
            DELETE FROM held WHERE member = of_member AND epoch = of_epoch AND unit = ANY (units)
                AND (these IS NULL OR (kind <> 0 AND place = ANY (these))) RETURNING *
        ), back AS (
            INSERT INTO message (place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count,
                                 state, persistent, queue, put_by, msg_id, correl_id, group_id, order_key, handling,
                                 descriptor, body)
                SELECT place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length,
                       backout_count + CASE WHEN kind = 3 THEN 0 ELSE failed END, state_at(not_before, this_second), persistent,
                       queue, put_by, msg_id, correl_id, group_id, CASE WHEN not_before > this_second THEN order_key END,
                       handling, descriptor, body
                    FROM gone WHERE kind <> 0
        )
        SELECT queue, count(*) AS number, count(*) FILTER (WHERE kind = 2) - count(*) FILTER (WHERE kind = 0) AS step,
               min(not_before) FILTER (WHERE kind <> 0 AND not_before > this_second) AS due
            FROM gone GROUP BY queue ORDER BY queue
    LOOP
        IF touched.step <> 0 THEN
            PERFORM count_back(touched.queue, touched.step);
        END IF;
        PERFORM announce(touched.queue, 0, 0);
        PERFORM announce_delayed(touched.due);
        total := total + touched.number;
    END LOOP;
    RETURN total;
END $$;

-- Messages of a unit that goes on are given back: nobody took them (`failed` 0), or a handler failed (1). How many.
CREATE OR REPLACE FUNCTION give_back(me text, my_epoch bigint, of_unit uuid, places bigint[], failed integer)
RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM goes_on(of_unit, my_epoch);
    RETURN put_back(me, my_epoch, ARRAY[of_unit], places, failed);
END $$;

-- Nobody takes what gets have been given in these units, in this life: it goes back as if it had not been got, and units
-- end that had `begun` with it and hold nothing else. What another life has been given its recovery gives back. Those are
-- the messages at `places`, or where nobody has heard what was given, all that are in the units but for those `known`.
CREATE OR REPLACE FUNCTION give_back_unclaimed(
    me text, my_epoch bigint, units uuid[], places bigint[], known bigint[], begun uuid[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    IF places IS NULL THEN
        places := ARRAY(SELECT place FROM held WHERE member = me AND epoch = my_epoch AND unit = ANY (units) AND kind = 2
                        AND place <> ALL (known));
    END IF;
    PERFORM put_back(me, my_epoch, units, places, 0);
    UPDATE unit_of_work AS u SET state = 'BACKED_OUT' WHERE id = ANY (begun) AND member = me AND epoch = my_epoch
        AND state = 'ACTIVE' AND NOT EXISTS (SELECT FROM held WHERE member = me AND epoch = my_epoch AND unit = u.id);
    DELETE FROM unit_of_work WHERE id = ANY (begun) AND member = me AND epoch = my_epoch AND state = 'BACKED_OUT';
END $$;

-- A message that was got outside syncpoint, and is gone, comes back to its place, since nobody has taken it.
CREATE OR REPLACE FUNCTION put_again(
    my_turn bigint, q_name text, at_place bigint, is_persistent boolean, its_msg_id bytea, its_correl_id bytea,
    its_group_id bytea, its_seq_number integer, its_offset integer, its_flags bigint, its_deadline double precision,
    its_handling bytea, its_descriptor bytea, its_length integer, its_body bytea, its_backout_count integer
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
BEGIN
    PERFORM fence(me, current_setting('evermq.epoch')::bigint);
    PERFORM 1 FROM queue WHERE name = q_name FOR KEY SHARE;
    IF NOT FOUND THEN  -- it has gone with its queue
        RETURN;
    END IF;
    PERFORM count_in(q_name, 1, my_turn);
    INSERT INTO message (queue, place, persistent, state, msg_id, correl_id, group_id, msg_seq_number, byte_offset,
                         msg_flags, deadline, handling, descriptor, length, body, backout_count, put_by)
        VALUES (q_name, at_place, is_persistent, 1, its_msg_id, its_correl_id, its_group_id, its_seq_number, its_offset,
                its_flags, its_deadline, its_handling, its_descriptor, its_length, its_body, its_backout_count, me);
    PERFORM announce(q_name, 0, 0);
END $$;

-- The browse locks of this member on these messages end.
CREATE OR REPLACE FUNCTION unlock_messages(me text, my_epoch bigint, places bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM put_back(me, my_epoch, ARRAY[no_unit()], places, 0);
END $$;

-- What must hold at any time between transactions: each row is a breach. It reads all there is: for tests, and on demand.
CREATE OR REPLACE VIEW breach AS
    SELECT 'held in no active unit of work' AS what, queue, place, member, epoch, unit, kind FROM held AS h
        WHERE kind IN (0, 2) AND NOT EXISTS (SELECT FROM unit_of_work AS u
            WHERE u.id = h.unit AND u.member = h.member AND u.epoch = h.epoch AND u.state = 'ACTIVE')
    UNION ALL SELECT 'held in no prepared unit', queue, place, member, epoch, unit, kind FROM held AS h
        WHERE kind = 7 AND (member <> '' OR NOT EXISTS (SELECT FROM prepared_unit WHERE id = h.unit))
    UNION ALL SELECT 'claimed by no consumer', queue, place, member, epoch, unit, kind FROM held AS h
        WHERE kind = 6 AND (member <> '' OR sequence IS NULL OR NOT EXISTS (SELECT FROM consumer WHERE uuid = h.unit))
    UNION ALL SELECT 'held by no member', h.queue, place, h.member, h.epoch, unit, kind FROM held AS h
        WHERE kind NOT IN (6, 7) AND NOT EXISTS (SELECT FROM member AS m WHERE m.name = h.member AND m.epoch >= h.epoch)
    UNION ALL SELECT 'free and held', h.queue, place, h.member, h.epoch, unit, kind FROM held AS h JOIN message USING (place)
    UNION ALL SELECT 'in no state', queue, place, put_by, NULL, NULL, state FROM message WHERE state NOT IN (1, 8)
    UNION ALL SELECT 'on no queue', queue, place, member, epoch, unit, state FROM all_messages
        WHERE queue NOT IN (SELECT name FROM queue)
    UNION ALL SELECT format('depth is %s', counted.n), queue, there.n, NULL, NULL, NULL, NULL
        FROM (SELECT queue, sum(n) AS n FROM share GROUP BY queue) AS counted FULL JOIN (
            SELECT queue, count(*) AS n FROM all_messages WHERE state <> 2 GROUP BY queue
        ) AS there USING (queue) WHERE coalesce(counted.n, 0) <> coalesce(there.n, 0);
