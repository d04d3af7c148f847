-- Whether a message with these flags starts something of its own: a piece of one that the queue manager has cut does
-- not, but for the first.
CREATE OR REPLACE FUNCTION starts(flags bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT flags >> 32 = 0 $$;

-- Tell all members that messages of a queue have become available: how many by puts, how many there were before, and how
-- many of them start something of their own, if not all.
CREATE OR REPLACE FUNCTION announce(q_name text, arrived bigint, before bigint, starting bigint DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify(current_schema(), format('%s %s %s %s', q_name, arrived, before, coalesce(starting, arrived)))
$$;

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
