-- A connection takes a tag (queue-sharing 6); false: it is in use, or a unit of work refers to it that is not over.
-- In the group, or among the connections of this member: `groupwide`. Uses that are not exclusive go together where they
-- are of one process of one member.
CREATE OR REPLACE FUNCTION take_tag(
    me text, my_epoch bigint, its_id uuid, its_tag bytea, its_process text, is_exclusive boolean, groupwide boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext(encode(its_tag, 'hex')));
    IF EXISTS (SELECT FROM connection_tag WHERE id = its_id) THEN
        RETURN true;
    END IF;
    IF EXISTS (
        SELECT FROM connection_tag AS used WHERE tag = its_tag AND (groupwide OR member = me)
            AND (is_exclusive OR used.exclusive OR used.process <> its_process OR member <> me OR epoch <> my_epoch)
    ) OR EXISTS (
        SELECT FROM unit_of_work AS unit WHERE tag = its_tag AND state = 'ACTIVE' AND (groupwide OR member = me)
            AND NOT EXISTS (SELECT FROM connection_tag AS used
                            WHERE used.tag = its_tag AND used.member = unit.member AND used.epoch = unit.epoch)
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO connection_tag VALUES (its_id, its_tag, me, my_epoch, its_process, is_exclusive);
    RETURN true;
END $$;

-- The connection has ended: its tag is free, if all its units of work are over. Whether it is.
CREATE OR REPLACE FUNCTION release_tag(me text, my_epoch bigint, its_id uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    DELETE FROM connection_tag AS used WHERE id = its_id AND member = me AND (
        EXISTS (SELECT FROM connection_tag AS other
                WHERE other.tag = used.tag AND other.member = me AND other.epoch = used.epoch AND other.id <> its_id)
        OR NOT EXISTS (SELECT FROM unit_of_work AS unit
                       WHERE unit.tag = used.tag AND unit.member = me AND unit.state = 'ACTIVE')
    );
    RETURN FOUND OR NOT EXISTS (SELECT FROM connection_tag WHERE id = its_id AND member = me);
END $$;
