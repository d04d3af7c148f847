-- Where a get looks: the messages that come first on a queue, with this identifier if one is given, locked. Others who
-- are at a message just now are passed over, or with `patient` waited for: a rival that goes without a word tells nobody.
CREATE OR REPLACE FUNCTION pick(q_name text, of_msg_id bytea, of_correl_id bytea, wanted integer, patient boolean)
RETURNS TABLE (place bigint, length integer, deadline double precision) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF of_msg_id IS NOT NULL AND patient THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND msg_id = of_msg_id ORDER BY place LIMIT wanted FOR UPDATE;
    ELSIF of_msg_id IS NOT NULL THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND msg_id = of_msg_id ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    ELSIF of_correl_id IS NOT NULL AND patient THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND correl_id = of_correl_id ORDER BY place LIMIT wanted FOR UPDATE;
    ELSIF of_correl_id IS NOT NULL THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND correl_id = of_correl_id ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    ELSIF patient THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            ORDER BY place LIMIT wanted FOR UPDATE;
    ELSE
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    END IF;
END $$;

-- MQGETs that ask the same of a queue, one for each of `tokens`: the first messages, got by the first of them. Each is
-- in the unit of work of its get, or in none: then only its token holds it. `begun` are units that begin with that, and
-- `removed` are places whose messages have been handed over. No message after the one with which `bytes_max` is reached
-- is got. A row says by its `number` for which get it is; 0: `place` is the depth; -1: there are expired messages in the
-- way, and nothing has been got.
CREATE OR REPLACE FUNCTION get_messages(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, of_msg_id bytea, of_correl_id bytea,
    units uuid[], if_persistent boolean[], tokens uuid[], begun uuid[], tags bytea[], removed bigint[], bytes_max bigint,
    patient boolean
) RETURNS TABLE (
    number bigint, place bigint, persistent boolean, descriptor bytea, length integer, body bytea,
    backout_count integer, handling bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    places bigint[];
    overdue boolean;
    total bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF cardinality(removed) > 0 THEN
        WITH gone AS (
            DELETE FROM message WHERE queue = q_name AND place = ANY (removed) AND state = 2 AND member = me AND unit IS NULL
                RETURNING place, owner
        ) DELETE FROM put_key AS p USING gone
            WHERE gone.owner = 'cancels' AND p.queue = q_name AND p.place = gone.place;
    END IF;
    SELECT array_agg(place ORDER BY place) FILTER (WHERE before < bytes_max), bool_or(deadline <= at)
        INTO places, overdue
        FROM (SELECT place, deadline, sum(length) OVER (ORDER BY place) - length AS before
              FROM pick(q_name, of_msg_id, of_correl_id, cardinality(tokens), false)) AS picked;
    IF places IS NULL AND patient THEN
        PERFORM set_config('lock_timeout', '1000', true);
        SELECT array_agg(place ORDER BY place) FILTER (WHERE before < bytes_max), bool_or(deadline <= at)
            INTO places, overdue
            FROM (SELECT place, deadline, sum(length) OVER (ORDER BY place) - length AS before
                  FROM pick(q_name, of_msg_id, of_correl_id, cardinality(tokens), true)) AS picked;
        PERFORM set_config('lock_timeout', '0', true);
    END IF;
    IF overdue THEN
        RETURN QUERY SELECT -1::bigint, 0::bigint, false, ''::bytea, 0, ''::bytea, 0, NULL::bytea;
    ELSIF places IS NOT NULL THEN
        RETURN QUERY
            UPDATE message AS m
                SET state = 2, token = tokens[g.number], member = me, epoch = my_epoch,
                    unit = CASE WHEN m.persistent OR NOT if_persistent[g.number] THEN units[g.number] END
                FROM unnest(places) WITH ORDINALITY AS g (place, number)
                WHERE m.queue = q_name AND m.place = g.place
                RETURNING g.number, m.place, m.persistent, m.descriptor, m.length, m.body, m.backout_count, m.handling;
        IF cardinality(begun) > 0 THEN
            INSERT INTO unit_of_work (id, member, epoch, tag)
                SELECT id, me, my_epoch, tag FROM unnest(begun, tags) AS b (id, tag)
                WHERE EXISTS (SELECT 1 FROM message WHERE unit = b.id) ON CONFLICT (id) DO NOTHING;
        END IF;
        PERFORM goes_on(id, my_epoch)
            FROM (SELECT DISTINCT unit AS id FROM message WHERE queue = q_name AND place = ANY (places)) AS got
            WHERE id IS NOT NULL;
        UPDATE queue SET depth = depth - cardinality(places) WHERE name = q_name RETURNING depth INTO total;
        RETURN QUERY SELECT 0::bigint, total, false, ''::bytea, 0, ''::bytea, 0, NULL::bytea;
    END IF;
END $$;

-- Lock messages that a look has found: the first, then with it all others, which are waited for. Whether all are still
-- available, or locked by a browse of the same handle (`own`).
CREATE OR REPLACE FUNCTION secure(
    me text, my_epoch bigint, q_name text, at double precision, first bigint, rest bigint[], own bigint[], patient boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    there bigint;
BEGIN
    PERFORM set_config('lock_timeout', '1000', true);
    IF patient THEN
        PERFORM 1 FROM message WHERE queue = q_name AND place = first FOR UPDATE;
    ELSE
        PERFORM 1 FROM message WHERE queue = q_name AND place = first FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    PERFORM 1 FROM message WHERE queue = q_name AND place = ANY (rest)
        ORDER BY msg_seq_number, byte_offset, place FOR UPDATE;
    PERFORM set_config('lock_timeout', '0', true);
    SELECT count(*) INTO there FROM message
        WHERE queue = q_name AND place = ANY (first || rest) AND (deadline IS NULL OR deadline > at)
        AND (state IN (1, 8) OR (state = 3 AND member = me AND epoch = my_epoch AND place = ANY (own)));
    RETURN there = cardinality(first || rest);
END $$;

-- A destructive get of messages that a look has found, if all of `first` and `rest` are available: those of `taken` are
-- in this unit of work, or held by this token. Their bodies and backout counts; no row: somebody else was there before.
CREATE OR REPLACE FUNCTION take_messages(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, first bigint, rest bigint[],
    own bigint[], patient boolean, taken bigint[], of_unit uuid, begins boolean, tag bytea, of_token uuid
) RETURNS TABLE (place bigint, body bytea, backout_count integer, new_depth bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    total bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF NOT secure(me, my_epoch, q_name, at, first, rest, own, patient) THEN
        RETURN;
    END IF;
    IF begins THEN
        PERFORM begin_unit(me, my_epoch, of_unit, tag);
    ELSIF of_unit IS NOT NULL THEN
        PERFORM goes_on(of_unit, my_epoch);
    END IF;
    UPDATE message SET state = 2, unit = of_unit, token = of_token, member = me, epoch = my_epoch,
                       owner = CASE WHEN state = 8 THEN 'cancels' END  -- as if it had never been put: its key is free
        WHERE queue = q_name AND place = ANY (taken);
    UPDATE queue SET depth = depth - cardinality(taken) WHERE name = q_name RETURNING depth INTO total;
    RETURN QUERY SELECT place, body, backout_count, total FROM message WHERE queue = q_name AND place = ANY (taken);
END $$;
