-- Whether a message with these flags starts something of its own: a piece of one that the queue manager has cut does
-- not, but for the first.
CREATE OR REPLACE FUNCTION starts(flags bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT flags >> 32 = 0 $$;

-- Tell all members that messages of a queue have become available: how many by puts, how many there were before, and how
-- many of them start something of their own, if not all.
CREATE OR REPLACE FUNCTION announce(q_name text, arrived bigint, before bigint, starting bigint DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify(current_schema(), format('%s %s %s %s', q_name, arrived, before, coalesce(starting, arrived)))
$$;

-- The lock by which members say that they want to be told of puts onto a queue, one of a group's 256.
CREATE OR REPLACE FUNCTION watch_space() RETURNS integer LANGUAGE sql STABLE AS $$ SELECT hashtext(current_schema() || ' watch') $$;
CREATE OR REPLACE FUNCTION watch_number(q_name text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT hashtext(q_name) & 255 $$;

-- From now on, for as long as this session lasts, this member is told of what is put on a queue. Who looks after that at
-- what is there misses nothing: a put asks when it is committed. It waits for who asks at this moment, and not for ever.
CREATE OR REPLACE FUNCTION watch(q_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1000', true);
    PERFORM pg_advisory_lock_shared(watch_space(), watch_number(q_name));
END $$;

-- Tell those who watch a queue of messages that have been put there, behind the commit of these. All watch one that triggers.
-- Two who ask at the same time take each other for one who watches.
CREATE OR REPLACE FUNCTION announce_to_watchers(q_name text, arrived bigint, before bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(watch_space(), watch_number(q_name))
       OR EXISTS (SELECT FROM object WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name
                  AND attributes ->> 'TRIGGER' = '1') THEN
        PERFORM announce(q_name, arrived, before);
    END IF;
END $$;

-- Tell all members in how many seconds the first of these messages is to be available (`release_messages`).
CREATE OR REPLACE FUNCTION announce_delayed(first double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF first IS NOT NULL THEN
        PERFORM pg_notify(current_schema(), format('!delayed %s', greatest(0, first - now_seconds())));
    END IF;
END $$;

-- `change`: the version that is there now, -version of what is gone, 0 where it may be more than one.
CREATE OR REPLACE FUNCTION announce_objects(change bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify(current_schema(), format('@objects %s', change))
$$;
