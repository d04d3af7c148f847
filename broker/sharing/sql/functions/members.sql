-- Membership (queue-sharing rules 10.3.1 to 10.3.3). `lease` is in seconds.

-- A queue manager begins another life: its epoch. Where it cannot, null, and for how many seconds somebody else of its
-- name has a lease, and where. Whoever has the same data may begin at once; but a life that was over (`last_epoch`) does
-- not end the one that followed it. Of which version of the SQL it is, its session says.
CREATE OR REPLACE FUNCTION join_group(
    me text, of_instance uuid, at_address text, lease double precision, last_epoch bigint,
    OUT my_epoch bigint, OUT held_seconds double precision, OUT held_at text
) LANGUAGE plpgsql AS $$
DECLARE
    known member%ROWTYPE;
BEGIN
    INSERT INTO member (name, instance) VALUES (me, of_instance) ON CONFLICT DO NOTHING;
    SELECT * INTO known FROM member WHERE name = me FOR UPDATE;
    held_seconds := extract(epoch FROM known.lease_until - clock_timestamp());
    IF known.state <> 'INACTIVE' AND held_seconds > 0 AND (
        known.instance <> of_instance
        OR (last_epoch > 0 AND known.state = 'ACTIVE' AND known.epoch > last_epoch)
    ) THEN
        held_at := known.address;
        RETURN;
    END IF;
    UPDATE member SET epoch = epoch + 1, state = 'ACTIVE', recoverer = NULL, instance = of_instance,
                      address = at_address, started = clock_timestamp(),
                      version = coalesce(nullif(current_setting('evermq.version', true), ''), '1')::integer,
                      lease_until = clock_timestamp() + make_interval(secs => lease)
        WHERE name = me RETURNING epoch INTO my_epoch;
END $$;

-- Exactly one of those who see that a member's lease has ended takes over: the epoch of the recovery, null for others.
-- The lock on the row waits for all that the member has under way; the caller has ended its sessions.
CREATE OR REPLACE FUNCTION take_over(me text, my_epoch bigint, of_member text, last_epoch bigint, lease double precision)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known member%ROWTYPE;
BEGIN
    PERFORM fence(me, my_epoch);
    SELECT * INTO known FROM member WHERE name = of_member FOR UPDATE;
    IF NOT FOUND OR known.epoch <> last_epoch OR known.state = 'INACTIVE' OR known.lease_until > clock_timestamp() THEN
        RETURN NULL;
    END IF;
    UPDATE member SET epoch = epoch + 1, state = 'RECOVERING', recoverer = me,
                      lease_until = clock_timestamp() + make_interval(secs => lease)
        WHERE name = of_member;
    RETURN known.epoch + 1;
END $$;
