-- Everything but messages comes from the tables of an older version, `old`, to those of the same name that have just been
-- made, by the columns that both have. What lives for moments only does not: lanes, commands of members, who is alive.
DO $$
DECLARE
    kept text;
    columns text;
BEGIN
    FOREACH kept IN ARRAY ARRAY[
        'member', 'object', 'security_object', 'security', 'structure', 'queue', 'unit_of_work', 'handle', 'connection_tag',
        'put_key', 'consumer', 'sink', 'prepared_unit', 'published_unit'
    ] LOOP
        SELECT string_agg(quote_ident(there.attname), ', ') INTO columns
            FROM pg_attribute AS there JOIN pg_attribute AS made USING (attname)
            WHERE there.attrelid = to_regclass('old.' || kept) AND made.attrelid = kept::regclass
            AND there.attnum > 0 AND NOT there.attisdropped AND NOT made.attisdropped;
        CONTINUE WHEN columns IS NULL;
        EXECUTE format('DELETE FROM %I', kept);
        EXECUTE format('INSERT INTO %1$I (%2$s) SELECT %2$s FROM old.%1$I', kept, columns);
    END LOOP;
END $$;

-- A message that was got outside syncpoint before its time does not come over, and its key is free.
DELETE FROM put_key AS p USING old.message AS m
    WHERE m.state = 2 AND m.unit IS NULL AND m.owner = 'cancels' AND p.queue = m.queue AND p.place = m.place;
