-- The new tables go on where the old ones were: numbers are never used again, depths are what is there, and nobody has
-- been alive yet.
DO $$
DECLARE
    kept text;
    last bigint;
    called boolean;
BEGIN
    FOR kept IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() LOOP
        EXECUTE format('SELECT last_value, is_called FROM old.%I', kept) INTO last, called;
        PERFORM setval(kept::regclass, last, called);
    END LOOP;
    DELETE FROM alive;
    INSERT INTO alive DEFAULT VALUES;
END $$;
INSERT INTO share (queue, member, lane, n)
    SELECT name, '', 0, coalesce(free.n, 0) + coalesce(taken.n, 0) FROM queue
        LEFT JOIN (SELECT queue, count(*) AS n FROM message GROUP BY queue) AS free ON free.queue = name
        LEFT JOIN (SELECT queue, count(*) AS n FROM held WHERE kind <> 2 GROUP BY queue) AS taken ON taken.queue = name;
