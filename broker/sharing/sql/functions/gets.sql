-- Where a get looks: the messages that come first on a queue, with this identifier if one is given, locked. Others who
-- are at a message just now are passed over, or with `patient` waited for: a rival that goes without a word tells nobody.
-- (`IS TRUE` keeps the index of the queue's order out of the way of that of an identifier.)
CREATE OR REPLACE FUNCTION pick(q_name text, of_msg_id bytea, of_correl_id bytea, wanted integer, patient boolean)
RETURNS TABLE (at_row tid, place bigint, persistent boolean, length integer, deadline double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF of_msg_id IS NOT NULL AND patient THEN
        RETURN QUERY SELECT ctid, place, persistent, length, deadline FROM message WHERE queue = q_name
            AND msg_id = of_msg_id AND (state = 1) IS TRUE ORDER BY place LIMIT wanted FOR UPDATE;
    ELSIF of_msg_id IS NOT NULL THEN
        RETURN QUERY SELECT ctid, place, persistent, length, deadline FROM message WHERE queue = q_name
            AND msg_id = of_msg_id AND (state = 1) IS TRUE ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    ELSIF of_correl_id IS NOT NULL AND patient THEN
        RETURN QUERY SELECT ctid, place, persistent, length, deadline FROM message WHERE queue = q_name
            AND correl_id = of_correl_id AND (state = 1) IS TRUE ORDER BY place LIMIT wanted FOR UPDATE;
    ELSIF of_correl_id IS NOT NULL THEN
        RETURN QUERY SELECT ctid, place, persistent, length, deadline FROM message WHERE queue = q_name
            AND correl_id = of_correl_id AND (state = 1) IS TRUE ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    ELSIF patient THEN
        RETURN QUERY SELECT ctid, place, persistent, length, deadline FROM message WHERE queue = q_name AND state = 1
            ORDER BY place LIMIT wanted FOR UPDATE;
    ELSE
        RETURN QUERY SELECT ctid, place, persistent, length, deadline FROM message WHERE queue = q_name AND state = 1
            ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    END IF;
END $$;

-- MQGETs that ask the same of a queue: `wanted` messages that come first, in their order. Each is held in the unit of its
-- get (`units`: one for each message, null outside syncpoint), or it is gone: then the caller commits when it has the rows
-- in its hands. `begun` are units that begin with that. No message after the one with which `bytes_max` is reached is got.
-- Rows come in no order. One without `persistent` is no message: `place` is -1 where expired messages are in the way and
-- nothing was got, else the depth, if it was to be `counted`.
CREATE OR REPLACE FUNCTION get_messages(
    my_turn bigint, q_name text, q_version bigint, at double precision, of_msg_id bytea, of_correl_id bytea,
    wanted integer, units uuid[], if_persistent boolean[], begun uuid[], tags bytea[], bytes_max bigint, patient boolean,
    counted boolean
) RETURNS TABLE (
    place bigint, persistent boolean, msg_id bytea, descriptor bytea, length integer, body bytea, backout_count integer, handling bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    rows tid[];
    places bigint[];
    lasting boolean[];
    lengths integer[];
    overdue boolean;
    number bigint;
    size bigint;
    ps tid[];
    ns tid[];
    held_ps tid[];
    held_ns tid[];
    used uuid[];
BEGIN
    PERFORM 1 FROM member, object WHERE member.name = me AND epoch = my_epoch AND disposition = 'SHARED'
        AND space = 'QUEUE' AND object.name = q_name AND object.version = q_version FOR KEY SHARE OF member;
    IF NOT FOUND THEN
        PERFORM fence(me, my_epoch);
        PERFORM still_defined(q_name, q_version);
    END IF;
    IF units IS NULL AND of_msg_id IS NULL AND of_correl_id IS NULL THEN  -- no more need be known of each
        SELECT count(*), sum(f.length), bool_or(f.deadline <= at), array_agg(f.ctid) FILTER (WHERE f.persistent),
               array_agg(f.ctid) FILTER (WHERE NOT f.persistent)
            INTO number, size, overdue, ps, ns
            FROM (SELECT ctid, persistent, length, deadline FROM message WHERE queue = q_name AND state = 1
                  ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED) AS f;
    END IF;
    IF number IS NULL OR size >= bytes_max THEN
        SELECT count(*), sum(length), bool_or(deadline <= at), array_agg(at_row), array_agg(place), array_agg(persistent),
               array_agg(length)
            INTO number, size, overdue, rows, places, lasting, lengths
            FROM pick(q_name, of_msg_id, of_correl_id, wanted, false);
    END IF;
    IF number = 0 AND patient THEN
        PERFORM set_config('lock_timeout', '1000', true);
        SELECT count(*), sum(length), bool_or(deadline <= at), array_agg(at_row), array_agg(place), array_agg(persistent),
               array_agg(length)
            INTO number, size, overdue, rows, places, lasting, lengths
            FROM pick(q_name, of_msg_id, of_correl_id, wanted, true);
        PERFORM set_config('lock_timeout', '0', true);
    END IF;
    IF overdue THEN
        RETURN QUERY SELECT -1::bigint, NULL::boolean, ''::bytea, ''::bytea, 0, ''::bytea, 0, NULL::bytea;
        RETURN;
    ELSIF number = 0 THEN
        RETURN;
    END IF;
    IF size >= bytes_max THEN
        size := 0;
        FOR nth IN 1 .. number LOOP
            size := size + lengths[nth];
            IF size >= bytes_max THEN
                number := nth;  -- the others stay locked to the end of the transaction, and are passed over
                rows := rows[:number];
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF units IS NULL AND rows IS NOT NULL THEN
        SELECT array_agg(r) FILTER (WHERE p), array_agg(r) FILTER (WHERE NOT p) INTO ps, ns
            FROM unnest(rows, lasting) AS known (r, p) WHERE r IS NOT NULL;
    ELSIF units IS NOT NULL THEN
        SELECT array_agg(r) FILTER (WHERE p AND u IS NULL), array_agg(r) FILTER (WHERE NOT p AND (u IS NULL OR i)),
               array_agg(r) FILTER (WHERE p AND u IS NOT NULL), array_agg(r) FILTER (WHERE NOT p AND u IS NOT NULL AND NOT i),
               array_agg(DISTINCT u) FILTER (WHERE u IS NOT NULL AND (p OR NOT i))
            INTO ps, ns, held_ps, held_ns, used
            FROM unnest(rows, lasting, units, if_persistent) AS known (r, p, u, i) WHERE r IS NOT NULL;
    END IF;
    IF used IS NOT NULL THEN
        INSERT INTO unit_of_work (id, member, epoch, tag)
            SELECT id, me, my_epoch, tag FROM unnest(begun, tags) AS b (id, tag) WHERE id = ANY (used);
        PERFORM goes_on(id, my_epoch) FROM unnest(used) AS u (id) WHERE NOT id = ANY (begun);
        IF held_ps IS NOT NULL THEN  -- of a get that commits by itself
            PERFORM set_config('synchronous_commit', 'on', true);
        END IF;
        RETURN QUERY
            WITH p AS (DELETE FROM message_persistent WHERE ctid = ANY (held_ps) RETURNING *),
                 n AS (DELETE FROM message_nonpersistent WHERE ctid = ANY (held_ns) RETURNING *)
            INSERT INTO held SELECT gone.*, 2, me, my_epoch, units[array_position(places, gone.place)]
                FROM (SELECT * FROM p UNION ALL SELECT * FROM n) AS gone
                RETURNING place, persistent, msg_id, descriptor, length, body, backout_count, handling;
    END IF;
    IF ps IS NOT NULL THEN
        RETURN QUERY DELETE FROM message_persistent WHERE ctid = ANY (ps)
            RETURNING place, persistent, msg_id, descriptor, length, body, backout_count, handling;
    END IF;
    IF ns IS NOT NULL THEN
        RETURN QUERY DELETE FROM message_nonpersistent WHERE ctid = ANY (ns)
            RETURNING place, persistent, msg_id, descriptor, length, body, backout_count, handling;
    END IF;
    PERFORM count_in(q_name, -number, my_turn);
    IF counted THEN
        RETURN QUERY SELECT depth_of(q_name), NULL::boolean, ''::bytea, ''::bytea, 0, ''::bytea, 0, NULL::bytea;
    END IF;
END $$;

-- Lock messages that a look has found: the first, unless a rival is at it, then all others, which are waited for. The rows
-- of those of `taken` that are free, as `hold` takes them; no row where one is not there any more, or not available, nor
-- locked by a browse of the same handle (`own`).
CREATE OR REPLACE FUNCTION secure(
    q_name text, at double precision, needed bigint[], taken bigint[], own bigint[], patient boolean
) RETURNS TABLE (ps tid[], ns tid[], waiting bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    found_one record;
BEGIN
    PERFORM set_config('lock_timeout', '1000', true);
    FOREACH wanted IN ARRAY needed LOOP
        IF wanted = ANY (own) THEN
            PERFORM 1 FROM held WHERE place BETWEEN wanted AND wanted AND queue = q_name AND kind = 3
                AND member = current_setting('evermq.member') AND epoch = current_setting('evermq.epoch')::bigint
                AND unit = no_unit() AND (deadline IS NULL OR deadline > at) ORDER BY place FOR UPDATE;
            IF FOUND THEN
                CONTINUE;
            END IF;
        END IF;
        found_one := NULL;
        FOR at_state IN 0 .. 1 LOOP  -- an equality with `place` would let the planner take any index
            IF patient OR wanted <> needed[1] THEN
                SELECT ctid, persistent, state INTO found_one FROM message
                    WHERE queue = q_name AND state = 1 + 7 * at_state AND place BETWEEN wanted AND wanted
                    AND (deadline IS NULL OR deadline > at) ORDER BY place FOR UPDATE;
            ELSE
                SELECT ctid, persistent, state INTO found_one FROM message
                    WHERE queue = q_name AND state = 1 + 7 * at_state AND place BETWEEN wanted AND wanted
                    AND (deadline IS NULL OR deadline > at) ORDER BY place FOR UPDATE SKIP LOCKED;
            END IF;
            EXIT WHEN FOUND;
        END LOOP;
        IF found_one.ctid IS NULL THEN
            RETURN;
        ELSIF wanted <> ALL (taken) THEN
            CONTINUE;
        ELSIF found_one.persistent THEN
            ps := ps || found_one.ctid;
        ELSE
            ns := ns || found_one.ctid;
        END IF;
        IF found_one.state = 8 THEN
            waiting := waiting || wanted;
        END IF;
    END LOOP;
    PERFORM set_config('lock_timeout', '0', true);
    RETURN NEXT;
END $$;

-- A destructive get of messages that a look has found, if all that it `needed` are available: those of `taken` are held in
-- this unit of work, or gone, and then the caller commits when it has the rows in its hands. Their bodies and backout
-- counts; no row: somebody else was there before.
CREATE OR REPLACE FUNCTION take_messages(
    my_turn bigint, q_name text, q_version bigint, at double precision, needed bigint[], taken bigint[], own bigint[],
    patient boolean, of_unit uuid, begins boolean, tag bytea
) RETURNS TABLE (place bigint, body bytea, backout_count integer) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    locked record;
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM still_defined(q_name, q_version);
    SELECT * INTO locked FROM secure(q_name, at, needed, taken, own, patient);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF of_unit IS NULL THEN
        DELETE FROM put_key WHERE queue = q_name AND place = ANY (locked.waiting);  -- as if it had never been put
        RETURN QUERY
            WITH p AS (DELETE FROM message_persistent WHERE ctid = ANY (locked.ps) RETURNING place, body, backout_count),
                 n AS (DELETE FROM message_nonpersistent WHERE ctid = ANY (locked.ns) RETURNING place, body, backout_count),
                 h AS (DELETE FROM held WHERE member = me AND epoch = my_epoch AND unit = no_unit() AND place = ANY (taken)
                       RETURNING place, body, backout_count)
            SELECT * FROM p UNION ALL SELECT * FROM n UNION ALL SELECT * FROM h;
    ELSE
        IF begins THEN
            PERFORM join_unit(me, my_epoch, of_unit, tag);
        ELSE
            PERFORM goes_on(of_unit, my_epoch);
        END IF;
        PERFORM hold(2, of_unit, locked.ps, locked.ns);
        UPDATE held SET kind = 2, unit = of_unit
            WHERE member = me AND epoch = my_epoch AND unit = no_unit() AND place = ANY (taken);
        RETURN QUERY SELECT place, body, backout_count FROM held
            WHERE member = me AND epoch = my_epoch AND unit = of_unit AND place = ANY (taken);
    END IF;
    PERFORM count_in(q_name, -cardinality(taken), my_turn);
END $$;

-- A browse with LOCK of messages that a look has found, if all that it `needed` are available: those of `locked` are its
-- handle's. Whether they could be.
CREATE OR REPLACE FUNCTION lock_browsed(
    my_turn bigint, q_name text, q_version bigint, at double precision, needed bigint[], locked bigint[], own bigint[],
    patient boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    found_rows record;
BEGIN
    PERFORM fence(current_setting('evermq.member'), current_setting('evermq.epoch')::bigint);
    PERFORM still_defined(q_name, q_version);
    SELECT * INTO found_rows FROM secure(q_name, at, needed, locked, own, patient);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM hold(3, no_unit(), found_rows.ps, found_rows.ns);
    PERFORM count_in(q_name, 0, my_turn);
    RETURN true;
END $$;

-- The bodies of these messages of a queue, as far as they are there.
CREATE OR REPLACE FUNCTION bodies_of(q_name text, places bigint[]) RETURNS TABLE (place bigint, body bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    wanted bigint;
BEGIN
    FOREACH wanted IN ARRAY places LOOP
        FOR at_state IN 0 .. 1 LOOP
            RETURN QUERY SELECT place, body FROM message
                WHERE queue = q_name AND state = 1 + 7 * at_state AND place BETWEEN wanted AND wanted ORDER BY place;
            EXIT WHEN FOUND;
        END LOOP;
    END LOOP;
END $$;
