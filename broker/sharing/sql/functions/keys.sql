-- Who has put with this key before: nobody (no row), or which message, with what data, and until when it waits if it
-- does. `busy`: another unit of work that has not ended. Whoever asks is alone with the key until it commits.
CREATE OR REPLACE FUNCTION find_key(q_name text, its_key bytea, of_unit uuid) RETURNS TABLE (
    busy boolean, its_msg_id bytea, its_digest bytea, its_not_before double precision
) LANGUAGE plpgsql AS $$
DECLARE
    this_second double precision := now_seconds();
    known record;
    held record;
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
    SELECT state, unit, owner, not_before INTO held FROM message WHERE queue = q_name AND place = known.place;
    IF known.unit IS NULL THEN
        IF coalesce(known.until <= this_second, held IS NULL)
                OR (held.state = 2 AND held.unit IS NULL AND held.owner = 'cancels') THEN
            DELETE FROM put_key WHERE queue = q_name AND key = its_key AND unit IS NULL;
            RETURN;
        ELSIF held.state = 2 AND held.unit = of_unit THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT false, known.msg_id, known.digest, coalesce(held.not_before, 0);
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
            FROM message WHERE queue = q_name AND place = its_place;
    DELETE FROM put_key WHERE ctid IN (
        SELECT ctid FROM put_key WHERE until < now_seconds() ORDER BY until LIMIT 8 FOR UPDATE SKIP LOCKED
    );
END $$;

-- Forget the keys that were kept for as long as their messages were there.
CREATE OR REPLACE FUNCTION tidy_keys() RETURNS void LANGUAGE sql AS $$
    DELETE FROM put_key AS p WHERE until IS NULL AND unit IS NULL
        AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.queue = p.queue AND m.place = p.place)
$$;
