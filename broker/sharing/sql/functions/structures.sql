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

-- The queues in a structure.
CREATE OR REPLACE FUNCTION queues_in(s_name text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(name), '{}') FROM object WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name
$$;

-- The structure has this status now, which all members learn.
CREATE OR REPLACE FUNCTION set_status(s_name text, its_status text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE structure SET status = its_status, version = nextval('object_version') WHERE name = s_name;
    PERFORM touch_queues(s_name);
END $$;

-- A slice of what goes with a structure that has failed: its nonpersistent messages, with `purge` all. How many that were.
CREATE OR REPLACE FUNCTION clear_structure(s_name text, purge boolean, wanted integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    names text[] := queues_in(s_name);
    cleared bigint := clear_slice(names, CASE WHEN NOT purge THEN false END, wanted);
BEGIN
    IF cleared = 0 THEN
        DELETE FROM held WHERE queue = ANY (names) AND (purge OR NOT persistent);
        IF purge THEN
            DELETE FROM put_key WHERE queue = ANY (names);
        END IF;
        PERFORM count_depths(names);
    END IF;
    RETURN cleared;
END $$;
