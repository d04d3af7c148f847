-- Structures. What relies on one learns of a change by the versions of its queues.
CREATE OR REPLACE FUNCTION hold_structure(s_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
BEGIN
    SELECT version INTO stored FROM structure WHERE name = s_name FOR UPDATE;
    IF coalesce(stored, 0) <> expected THEN
        RAISE EXCEPTION 'the structure % has been changed by another member', s_name USING ERRCODE = 'EM044';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION touch_queues(s_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name ORDER BY name FOR UPDATE;
    UPDATE object SET version = nextval('object_version')
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    PERFORM announce_objects(0);
END $$;

CREATE OR REPLACE FUNCTION define_structure(s_name text, s_attributes jsonb, expected bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := nextval('object_version');
BEGIN
    PERFORM hold_structure(s_name, expected);
    IF expected = 0 THEN
        INSERT INTO structure (name, attributes, version) VALUES (s_name, s_attributes, new_version) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the structure % has been defined by another member', s_name USING ERRCODE = 'EM044';
        END IF;
    ELSE
        UPDATE structure SET attributes = s_attributes, version = new_version WHERE name = s_name;
    END IF;
    PERFORM touch_queues(s_name);
    RETURN new_version;
END $$;

CREATE OR REPLACE FUNCTION delete_structure(s_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    using_it text;
BEGIN
    PERFORM hold_structure(s_name, expected);
    SELECT min(name) INTO using_it FROM object WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    IF FOUND AND using_it IS NOT NULL THEN
        RAISE EXCEPTION 'queues are in the structure %, such as %', s_name, using_it USING ERRCODE = 'EM042';
    END IF;
    DELETE FROM structure WHERE name = s_name;
    PERFORM announce_objects(0);
END $$;

-- Depths are what is there: after messages have gone by themselves. The counted ones are all but those that a unit of
-- work has got (state 2).
CREATE OR REPLACE FUNCTION count_depths(names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM queue WHERE name = ANY (names) ORDER BY name FOR UPDATE;
    UPDATE queue SET depth = (SELECT count(*) FROM message WHERE message.queue = queue.name AND state <> 2)
        WHERE name = ANY (names);
END $$;

-- RESET CFSTRUCT ACTION(FAIL): nonpersistent messages are gone, the others wait for RECOVER.
CREATE OR REPLACE FUNCTION fail_structure(s_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text[];
BEGIN
    UPDATE structure SET status = 'FAILED', version = nextval('object_version') WHERE name = s_name;
    PERFORM touch_queues(s_name);
    SELECT coalesce(array_agg(name), '{}') INTO names FROM object
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    DELETE FROM message WHERE queue = ANY (names) AND NOT persistent;
    PERFORM count_depths(names);
END $$;

-- RECOVER CFSTRUCT: what is logged is there again; with `purge` it goes too.
CREATE OR REPLACE FUNCTION recover_structure(s_name text, purge boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text[];
BEGIN
    UPDATE structure SET status = 'ACTIVE', version = nextval('object_version') WHERE name = s_name;
    PERFORM touch_queues(s_name);
    SELECT coalesce(array_agg(name), '{}') INTO names FROM object
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    IF purge THEN
        DELETE FROM message WHERE queue = ANY (names);
        DELETE FROM put_key WHERE queue = ANY (names);
        PERFORM count_depths(names);
    END IF;
END $$;
