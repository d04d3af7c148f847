-- The message at a place, wherever it is: whether it is there, when it may be got, and the unit of work that has got it.
CREATE OR REPLACE FUNCTION find_message(
    q_name text, at_place bigint, OUT there boolean, OUT not_before double precision, OUT got_by uuid
) LANGUAGE plpgsql AS $$
BEGIN
    there := false;
    FOR each IN 0 .. 1 LOOP
        SELECT m.not_before, true INTO not_before, there FROM message AS m
            WHERE m.queue = q_name AND m.state = 1 + 7 * each AND m.place BETWEEN at_place AND at_place ORDER BY m.place;
        EXIT WHEN there;
    END LOOP;
    IF there IS NULL THEN
        SELECT h.not_before, CASE WHEN h.kind = 2 THEN h.unit END INTO not_before, got_by FROM held AS h
            WHERE h.place BETWEEN at_place AND at_place ORDER BY h.place;
        there := FOUND;
    END IF;
END $$;

-- Who has put with this key before: nobody (no row), or which message, with what data, and until when it waits if it
-- does. `busy`: another unit of work that has not ended. Whoever asks is alone with the key until it commits.
CREATE OR REPLACE FUNCTION find_key(q_name text, its_key bytea, of_unit uuid) RETURNS TABLE (
    busy boolean, its_msg_id bytea, its_digest bytea, its_not_before double precision
) LANGUAGE plpgsql AS $$
DECLARE
    this_second double precision := now_seconds();
    known record;
    message_there record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || ' ' || q_name), hashtext(encode(its_key, 'hex')));
    SELECT * INTO known FROM put_key WHERE queue = q_name AND key = its_key ORDER BY unit NULLS LAST LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF known.unit IS NOT NULL AND known.unit IS DISTINCT FROM of_unit THEN
        RETURN QUERY SELECT true, NULL::bytea, NULL::bytea, NULL::double precision;
        RETURN;
    END IF;
    SELECT * INTO message_there FROM find_message(q_name, known.place);
    IF known.unit IS NULL THEN
        IF coalesce(known.until <= this_second, NOT message_there.there) THEN
            DELETE FROM put_key WHERE queue = q_name AND key = its_key AND unit IS NULL;
            RETURN;
        ELSIF message_there.got_by = of_unit THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT false, known.msg_id, known.digest, coalesce(message_there.not_before, 0);
END $$;

-- A message that has just been put holds the key, from the commit of its unit on where it is in one. For so many seconds
-- from its instant; null: for as long as it is there. Some keys whose time is over are forgotten.
CREATE OR REPLACE FUNCTION keep_key(
    q_name text, its_key bytea, of_unit uuid, its_place bigint, its_msg_id bytea, its_digest bytea, seconds double precision
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO put_key (queue, key, unit, place, msg_id, digest, until)
        SELECT q_name, its_key, of_unit, its_place, its_msg_id, its_digest,
               greatest(now_seconds(), max(not_before)) + seconds
            FROM find_message(q_name, its_place);
    DELETE FROM put_key WHERE ctid IN (
        SELECT ctid FROM put_key WHERE until < now_seconds() ORDER BY until LIMIT 8 FOR UPDATE SKIP LOCKED
    );
END $$;

-- Forget the keys that were kept for as long as their messages were there.
CREATE OR REPLACE FUNCTION tidy_keys() RETURNS void LANGUAGE sql AS $$
    DELETE FROM put_key AS p WHERE until IS NULL AND unit IS NULL
        AND NOT (SELECT there FROM find_message(p.queue, p.place))
$$;
