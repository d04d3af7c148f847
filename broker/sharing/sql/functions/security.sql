-- Who may do what: what has QSGDISP(SHARED) of users, records, channels and their rules (security 11).

-- The first thing that a transaction does which changes any of it. One such transaction is made after the other.
CREATE OR REPLACE FUNCTION change_security() RETURNS bigint LANGUAGE sql AS $$
    UPDATE security SET version = version + 1 RETURNING version
$$;

-- What a judgement relied on has not changed.
CREATE OR REPLACE FUNCTION still_secured(by_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM security WHERE version = by_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'users or rights of the group have changed' USING ERRCODE = 'EM041';
    END IF;
END $$;

-- MQOPEN of a shared queue by a user who was judged by that version of users and rights.
CREATE OR REPLACE FUNCTION open_judged_handle(
    me text, my_epoch bigint, handle_id uuid, q_name text, q_version bigint, for_input boolean, alone boolean, by_version bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM still_secured(by_version);
    PERFORM open_handle(me, my_epoch, handle_id, q_name, q_version, for_input, alone);
END $$;

CREATE OR REPLACE FUNCTION hold_security(o_space text, o_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce((SELECT version FROM security_object WHERE space = o_space AND name = o_name), 0) <> expected THEN
        RAISE EXCEPTION '% % has been changed by another member', o_space, o_name USING ERRCODE = 'EM044';
    END IF;
END $$;

-- The new version of the object.
CREATE OR REPLACE FUNCTION define_security(o_space text, o_name text, o_attributes jsonb, expected bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := nextval('object_version');
BEGIN
    PERFORM hold_security(o_space, o_name, expected);
    INSERT INTO security_object VALUES (o_space, o_name, o_attributes, new_version)
        ON CONFLICT (space, name) DO UPDATE SET attributes = excluded.attributes, version = excluded.version;
    PERFORM announce_objects(new_version);
    RETURN new_version;
END $$;

CREATE OR REPLACE FUNCTION delete_security(o_space text, o_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_security(o_space, o_name, expected);
    DELETE FROM security_object WHERE space = o_space AND name = o_name;
    PERFORM announce_objects(-expected);
END $$;
