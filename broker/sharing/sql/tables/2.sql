-- Of which version of the SQL a member is (`join_group`): older ones say nothing.
ALTER TABLE member ADD COLUMN version integer NOT NULL DEFAULT 1;

-- A unit of work does not end, nor does its row go, while messages are in it: nobody would free them, and no recovery of
-- its member would end. It is looked at when the transaction is committed.
CREATE FUNCTION leaves_nothing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    q_name text;
BEGIN
    SELECT queue INTO q_name FROM message WHERE unit = OLD.id AND state IN (0, 2) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'unit of work % would leave messages of % behind', OLD.id, q_name USING ERRCODE = 'EM006';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER leaves_nothing AFTER DELETE OR UPDATE OF state ON unit_of_work
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state = 'ACTIVE') EXECUTE FUNCTION leaves_nothing();

-- What says who may do what, with QSGDISP(SHARED) (security 11). It is not among `object`, since members of version 1
-- would take it for queues. `version` of an object is one of `object_version`; that of all of it rises in each transaction
-- that changes any, and is read in one snapshot with it.
CREATE TABLE security_object (
    space      text NOT NULL,
    name       text NOT NULL,
    attributes jsonb NOT NULL,
    version    bigint NOT NULL,
    PRIMARY KEY (space, name)
);
CREATE TABLE security (one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL DEFAULT 0);
INSERT INTO security DEFAULT VALUES;

-- Whose command it is, null for that of an owner (`send_command_of`).
ALTER TABLE command ADD COLUMN its_user text;
