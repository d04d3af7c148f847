-- A browse with LOCK of messages that a look has found, if all of `first` and `rest` are available: those of `locked` are
-- its handle's. Whether they could be.
CREATE OR REPLACE FUNCTION lock_browsed(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, first bigint, rest bigint[],
    own bigint[], patient boolean, locked bigint[], by_owner text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF NOT secure(me, my_epoch, q_name, at, first, rest, own, patient) THEN
        RETURN false;
    END IF;
    UPDATE message SET state = 3, member = me, epoch = my_epoch, owner = by_owner
        WHERE queue = q_name AND place = ANY (locked);
    RETURN true;
END $$;

-- The same, which locks all of `first` and `rest`: members of version 0.1.0 of EverMQ call it.
CREATE OR REPLACE FUNCTION lock_messages(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, first bigint, rest bigint[],
    own bigint[], patient boolean, by_owner text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF NOT secure(me, my_epoch, q_name, at, first, rest, own, patient) THEN
        RETURN false;
    END IF;
    UPDATE message SET state = 3, member = me, epoch = my_epoch, owner = by_owner
        WHERE queue = q_name AND place = ANY (first || rest);
    RETURN true;
END $$;

-- The browse locks of a handle on these messages end.
CREATE OR REPLACE FUNCTION unlock_messages(me text, my_epoch bigint, q_name text, places bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                       member = NULL, epoch = NULL, owner = NULL
        WHERE queue = q_name AND place = ANY (places) AND state = 3 AND member = me AND epoch = my_epoch;
    PERFORM announce(q_name, 0, 0);
END $$;
