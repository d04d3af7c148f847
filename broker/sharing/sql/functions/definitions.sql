-- Definitions. Who changes one locks its row FOR UPDATE: that waits for calls that rely on it, and those that come later
-- find another version (`unchanged`). Who opens or closes a queue does not keep others from putting.

-- What a call relies on of a definition has not changed.
CREATE OR REPLACE FUNCTION unchanged(q_name text, q_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object
        WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name AND version = q_version FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the definition of % has changed', q_name USING ERRCODE = 'EM041';
    END IF;
END $$;

-- What a get relies on of a definition has not changed.
CREATE OR REPLACE FUNCTION still_defined(q_name text, q_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name AND version = q_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the definition of % has changed', q_name USING ERRCODE = 'EM041';
    END IF;
END $$;

-- MQOPEN of a shared queue: nobody may have it open for input exclusively, and who wants that is alone.
CREATE OR REPLACE FUNCTION open_handle(
    me text, my_epoch bigint, handle_id uuid, q_name text, q_version bigint, for_input boolean, alone boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    other record;
BEGIN
    PERFORM 1 FROM object
        WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name AND version = q_version FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the definition of % has changed', q_name USING ERRCODE = 'EM041';
    END IF;
    IF for_input THEN
        SELECT member, exclusive INTO other FROM handle
            WHERE queue = q_name AND input AND (alone OR exclusive) ORDER BY exclusive DESC LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '% is open for %input already, at %',
                q_name, CASE WHEN other.exclusive THEN 'exclusive ' ELSE '' END, other.member USING ERRCODE = 'EM042';
        END IF;
    END IF;
    INSERT INTO handle (id, queue, member, epoch, input, exclusive)
        VALUES (handle_id, q_name, me, my_epoch, for_input, alone);
END $$;

-- The version of a definition that is to be changed, 0 where there is none, if it is still the expected one.
CREATE OR REPLACE FUNCTION hold_object(o_disposition text, o_space text, o_name text, expected bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
BEGIN
    SELECT version INTO stored FROM object
        WHERE disposition = o_disposition AND space = o_space AND name = o_name FOR UPDATE;
    IF coalesce(stored, 0) <> expected THEN
        RAISE EXCEPTION 'the definition of % has been changed by another member', o_name USING ERRCODE = 'EM044';
    END IF;
    RETURN expected;
END $$;

-- Whether a queue is in use: `inputs_max` is how many handles for input there may be, -1 for any; `empty`: no messages.
CREATE OR REPLACE FUNCTION check_unused(q_name text, closed boolean, inputs_max integer, empty boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    open_at text;
BEGIN
    SELECT string_agg(DISTINCT member, ', ') INTO open_at FROM handle WHERE queue = q_name;
    IF closed AND open_at IS NOT NULL THEN
        RAISE EXCEPTION '% is open at %', q_name, open_at USING ERRCODE = 'EM042';
    END IF;
    IF inputs_max >= 0 AND (SELECT count(*) FROM handle WHERE queue = q_name AND input) > inputs_max THEN
        RAISE EXCEPTION '% is open for input more than once, at %', q_name, open_at USING ERRCODE = 'EM042';
    END IF;
    IF empty AND EXISTS (SELECT 1 FROM all_messages WHERE queue = q_name) THEN
        RAISE EXCEPTION '% holds messages', q_name USING ERRCODE = 'EM055';
    END IF;
END $$;

-- DEFINE and ALTER of what has QSGDISP(SHARED) or QSGDISP(GROUP). The new version.
CREATE OR REPLACE FUNCTION define_object(
    o_disposition text, o_space text, o_name text, o_kind text, o_attributes jsonb, expected bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := nextval('object_version');
BEGIN
    PERFORM hold_object(o_disposition, o_space, o_name, expected);
    IF o_disposition = 'SHARED' THEN
        PERFORM 1 FROM structure WHERE name = o_attributes ->> 'CFSTRUCT' FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no structure %', o_attributes ->> 'CFSTRUCT' USING ERRCODE = 'EM349';
        END IF;
    END IF;
    IF expected = 0 THEN
        INSERT INTO object (disposition, space, name, kind, attributes, version)
            VALUES (o_disposition, o_space, o_name, o_kind, o_attributes, new_version) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION '% has been defined by another member', o_name USING ERRCODE = 'EM044';
        END IF;
        IF o_disposition = 'SHARED' THEN
            INSERT INTO queue (name) VALUES (o_name);
        END IF;
    ELSE
        UPDATE object SET kind = o_kind, attributes = o_attributes, version = new_version
            WHERE disposition = o_disposition AND space = o_space AND name = o_name;
        IF o_disposition = 'SHARED' THEN  -- what room there is gets dealt out anew, by another MAXDEPTH perhaps
            PERFORM 1 FROM queue WHERE name = o_name FOR NO KEY UPDATE;
            UPDATE share SET allowance = n WHERE queue = o_name;
        END IF;
    END IF;
    PERFORM announce_objects(new_version);
    RETURN new_version;
END $$;

CREATE OR REPLACE FUNCTION delete_object(o_disposition text, o_space text, o_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_object(o_disposition, o_space, o_name, expected);
    DELETE FROM object WHERE disposition = o_disposition AND space = o_space AND name = o_name;
    PERFORM announce_objects(-expected);
END $$;

-- No consumer has claimed messages of the queue; `closing`: this is an MQCLOSE.
CREATE OR REPLACE FUNCTION check_unclaimed(q_name text, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most record;
BEGIN
    SELECT name, count(*) AS number, sum(count(*)) OVER () - count(*) AS others INTO most
        FROM held JOIN consumer ON consumer.uuid = held.unit WHERE queue = q_name AND kind = 6
        GROUP BY name ORDER BY count(*) DESC, name DESC LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% claimed by consumer %; RESOLVE CONSUMER(%) ends that',
            CASE most.number WHEN 1 THEN '1 message is' ELSE format('%s messages are', most.number) END,
            most.name || CASE most.others WHEN 0 THEN '' ELSE format(' and %s by others', most.others) END, most.name
            USING ERRCODE = CASE WHEN closing THEN 'EM055' ELSE 'EM042' END;
    END IF;
END $$;

-- No prepared unit has messages of the queue; `closing`: this is an MQCLOSE.
CREATE OR REPLACE FUNCTION check_unprepared(q_name text, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most record;
BEGIN
    SELECT sink, batch, count(*) AS number, min(since) AS since, sum(count(*)) OVER () - count(*) AS others INTO most
        FROM held JOIN prepared_unit ON prepared_unit.id = held.unit WHERE queue = q_name AND kind = 7
        GROUP BY sink, batch ORDER BY min(since) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% prepared for batch % of sink %, since % s%; DISPLAY THREAD(*) TYPE(INDOUBT) lists their units, and RESOLVE INDOUBT discards one',
            CASE most.number WHEN 1 THEN '1 message is' ELSE format('%s messages are', most.number) END, most.batch,
            most.sink, round(greatest(0, now_seconds() - most.since)),
            CASE most.others WHEN 0 THEN '' ELSE format(' and %s for others', most.others) END
            USING ERRCODE = CASE WHEN closing THEN 'EM055' ELSE 'EM042' END;
    END IF;
END $$;

-- Nobody holds messages of a shared queue: no unit of work, no consumer, no prepared unit, no browse.
CREATE OR REPLACE FUNCTION check_unheld(q_name text, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM check_unprepared(q_name, closing);
    IF EXISTS (SELECT 1 FROM held WHERE queue = q_name AND kind IN (0, 2)) THEN
        RAISE EXCEPTION 'units of work on % are unfinished', q_name USING ERRCODE = 'EM042';
    END IF;
    PERFORM check_unclaimed(q_name, closing);
END $$;

-- Up to `wanted` messages that are free on these queues go, of one persistence or of both (null). How many. A queue with very
-- many is emptied by many such transactions: whoever asks for it again goes on where another has stopped.
CREATE OR REPLACE FUNCTION clear_slice(names text[], of_persistence boolean, wanted integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    q_name text;
    ps tid[];
    ns tid[];
    cleared bigint;
    total bigint := 0;
BEGIN
    FOREACH q_name IN ARRAY ARRAY(SELECT name FROM unnest(names) AS n (name) ORDER BY name) LOOP
        SELECT array_agg(f.ctid) FILTER (WHERE f.persistent), array_agg(f.ctid) FILTER (WHERE NOT f.persistent), count(*)
            INTO ps, ns, cleared
            FROM (SELECT ctid, persistent FROM message
                  WHERE queue = q_name AND (of_persistence IS NULL OR persistent = of_persistence)
                  LIMIT wanted - total FOR UPDATE) AS f;
        IF cleared > 0 THEN
            DELETE FROM message_persistent WHERE ctid = ANY (ps);
            DELETE FROM message_nonpersistent WHERE ctid = ANY (ns);
            PERFORM count_in(q_name, -cleared, NULL);
            total := total + cleared;
        END IF;
        EXIT WHEN total = wanted;
    END LOOP;
    RETURN total;
END $$;

-- Before the first of those transactions: whether the queue may be cleared.
CREATE OR REPLACE FUNCTION check_clearing(q_name text, expected bigint, closed boolean, closing boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_object('SHARED', 'QUEUE', q_name, expected);
    PERFORM check_unused(q_name, closed, -1, false);
    PERFORM check_unheld(q_name, closing);
END $$;

-- The rest of the messages of a shared queue goes, which nobody holds; unless `purge` there is none.
CREATE OR REPLACE FUNCTION empty_queue(q_name text, purge boolean, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM message WHERE queue = q_name ORDER BY place FOR UPDATE;
    PERFORM check_unheld(q_name, closing);
    IF NOT purge AND EXISTS (SELECT 1 FROM all_messages WHERE queue = q_name) THEN
        RAISE EXCEPTION '% holds messages', q_name USING ERRCODE = 'EM055';
    END IF;
    DELETE FROM message WHERE queue = q_name;
    DELETE FROM held WHERE queue = q_name;
    DELETE FROM put_key WHERE queue = q_name;
    PERFORM count_depths(ARRAY[q_name]);
END $$;

-- DELETE QLOCAL of a shared queue, and MQCLOSE with MQCO_DELETE, which lets others have it open still.
CREATE OR REPLACE FUNCTION delete_queue(q_name text, expected bigint, purge boolean, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM delete_object('SHARED', 'QUEUE', q_name, expected);
    PERFORM check_unused(q_name, NOT closing, -1, false);
    PERFORM empty_queue(q_name, purge, closing);
    DELETE FROM handle WHERE queue = q_name;
    DELETE FROM share WHERE queue = q_name;
    DELETE FROM queue WHERE name = q_name;
END $$;

-- CLEAR QLOCAL of a shared queue.
CREATE OR REPLACE FUNCTION clear_queue(q_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_object('SHARED', 'QUEUE', q_name, expected);
    PERFORM check_unused(q_name, true, -1, false);
    PERFORM empty_queue(q_name, true, false);
END $$;
