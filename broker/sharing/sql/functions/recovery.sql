-- The fence of all that a recovery writes: the recoverer may still write, and nobody has taken the recovery over, the
-- owner itself included, who recovers what earlier lives have left, or at its end this one. The recovery goes on. Where
-- somebody has, only the recovery is over, not the life of the recoverer (`fence`).
CREATE OR REPLACE FUNCTION fence_recovery(me text, my_epoch bigint, of_member text, claimed bigint, lease double precision)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    IF me = of_member THEN
        RETURN;
    END IF;
    UPDATE member SET lease_until = clock_timestamp() + make_interval(secs => lease)
        WHERE name = of_member AND epoch = claimed AND recoverer = me AND state = 'RECOVERING';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'recovery % of % is over', claimed, of_member USING ERRCODE = 'EM007';
    END IF;
END $$;

-- What lives before `claimed` have left, up to `wanted` units of work that were in flight: they are backed out. Then what
-- is held beside units: browse locks are free, and `stray` is what is in no active unit of work, which cannot be: it is free
-- too, so that each recovery comes to its end. A server that is still committing a unit has decided when its row is locked.
CREATE OR REPLACE FUNCTION recover(
    me text, my_epoch bigint, of_member text, claimed bigint, lease double precision, wanted integer,
    OUT units bigint, OUT locks bigint, OUT stray bigint
) LANGUAGE plpgsql AS $$
DECLARE
    old record;
BEGIN
    PERFORM fence_recovery(me, my_epoch, of_member, claimed, lease);
    units := 0;
    locks := 0;
    stray := 0;
    FOR old IN
        SELECT id, epoch FROM unit_of_work WHERE member = of_member AND epoch < claimed AND state = 'ACTIVE'
            ORDER BY id LIMIT wanted FOR UPDATE
    LOOP
        PERFORM back_out_units(of_member, old.epoch, ARRAY[old.id]);
        units := units + 1;
    END LOOP;
    IF units > 0 THEN
        RETURN;
    END IF;
    FOR old IN
        SELECT epoch, unit, min(kind) = 3 AS locked FROM held WHERE member = of_member AND epoch < claimed
            GROUP BY epoch, unit ORDER BY epoch, unit LIMIT wanted
    LOOP
        DELETE FROM put_key WHERE unit = old.unit;
        IF old.locked THEN
            locks := locks + put_back(of_member, old.epoch, ARRAY[old.unit], NULL, 0);
        ELSE
            stray := stray + put_back(of_member, old.epoch, ARRAY[old.unit], NULL, 1);
        END IF;
    END LOOP;
END $$;

-- The end of a recovery: handles go, and then connection tags, all of whose units of work are over. The member is
-- INACTIVE, unless its next life has begun. False: there is something left to be done before.
CREATE OR REPLACE FUNCTION end_recovery(me text, my_epoch bigint, of_member text, claimed bigint, lease double precision)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence_recovery(me, my_epoch, of_member, claimed, lease);
    IF EXISTS (SELECT FROM unit_of_work WHERE member = of_member AND epoch < claimed AND state = 'ACTIVE')
        OR EXISTS (SELECT FROM held WHERE member = of_member AND epoch < claimed)
    THEN
        RETURN false;
    END IF;
    DELETE FROM handle WHERE member = of_member AND epoch < claimed;
    DELETE FROM connection_tag WHERE member = of_member AND epoch < claimed;
    UPDATE member SET state = 'INACTIVE', recoverer = NULL
        WHERE name = of_member AND (me <> of_member OR claimed > my_epoch);
    RETURN true;
END $$;
