-- What this member has got outside syncpoint has been handed over, and goes.
CREATE OR REPLACE FUNCTION remove_messages(me text, my_epoch bigint, q_names text[], places bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    WITH gone AS (
        DELETE FROM message AS m USING unnest(q_names, places) AS g (queue, place)
            WHERE m.queue = g.queue AND m.place = g.place AND m.state = 2
            AND m.member = me AND m.unit IS NULL RETURNING m.queue, m.place, m.owner
    ) DELETE FROM put_key AS p USING gone WHERE gone.owner = 'cancels' AND p.queue = gone.queue AND p.place = gone.place;
END $$;

-- Nobody takes what these gets have been given, in this life: it goes back as if it had not been got, and units go that
-- had begun with it and hold nothing else. What another life has been given its recovery gives back. Where the transaction that gave it may be under way still, this waits for its end. How many messages that
-- were.
CREATE OR REPLACE FUNCTION return_tokens(
    me text, my_epoch bigint, tokens uuid[], begun uuid[], on_lane integer, turn bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    total bigint := 0;
BEGIN
    PERFORM fence(me, my_epoch);
    IF on_lane IS NOT NULL THEN
        PERFORM settle_turn(on_lane, turn);
    END IF;
    FOR touched IN
        WITH back AS (
            UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                               unit = NULL, token = NULL, owner = NULL, member = NULL, epoch = NULL
                WHERE member = me AND epoch = my_epoch AND token = ANY (tokens) AND state = 2 RETURNING queue
        ) SELECT queue, count(*) AS count FROM back GROUP BY queue ORDER BY queue
    LOOP
        UPDATE queue SET depth = depth + touched.count WHERE name = touched.queue;
        PERFORM announce(touched.queue, 0, 0);
        total := total + touched.count;
    END LOOP;
    DELETE FROM unit_of_work AS u WHERE id = ANY (begun) AND member = me AND epoch = my_epoch
        AND NOT EXISTS (SELECT FROM message WHERE unit = u.id);
    RETURN total;
END $$;

-- Messages that were got in this unit, or outside any, go back to their places; `failed` is added to their backout
-- counts. Which they were: another place has been given back already, or has been removed.
CREATE OR REPLACE FUNCTION give_back(
    me text, my_epoch bigint, q_name text, given bigint[], of_unit uuid, failed integer
) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    back bigint[];
BEGIN
    PERFORM fence(me, my_epoch);
    WITH shown AS (
        UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                           backout_count = backout_count + failed, unit = NULL, token = NULL, owner = NULL,
                           member = NULL, epoch = NULL
            WHERE queue = q_name AND place = ANY (given) AND state = 2
                AND member = me AND epoch = my_epoch AND unit IS NOT DISTINCT FROM of_unit
            RETURNING place
    ) SELECT array_agg(place) INTO back FROM shown;
    UPDATE queue SET depth = depth + coalesce(cardinality(back), 0) WHERE name = q_name;
    PERFORM announce(q_name, 0, 0);
    RETURN QUERY SELECT unnest(back);
END $$;

-- A message that was got outside syncpoint and removed comes back to its place, since nobody has taken it.
CREATE OR REPLACE FUNCTION put_again(
    me text, my_epoch bigint, q_name text, at_place bigint, is_persistent boolean, its_msg_id bytea, its_correl_id bytea,
    its_group_id bytea, its_seq_number integer, its_offset integer, its_flags bigint, its_deadline double precision,
    its_handling bytea, its_descriptor bytea, its_length integer, its_body bytea, its_backout_count integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    INSERT INTO message (queue, place, persistent, state, msg_id, correl_id, group_id, msg_seq_number, byte_offset,
                         msg_flags, deadline, handling, descriptor, length, body, backout_count, put_by)
        VALUES (q_name, at_place, is_persistent, 1, its_msg_id, its_correl_id, its_group_id, its_seq_number, its_offset,
                its_flags, its_deadline, its_handling, its_descriptor, its_length, its_body, its_backout_count, me);
    UPDATE queue SET depth = depth + 1 WHERE name = q_name;
    PERFORM announce(q_name, 0, 0);
END $$;
