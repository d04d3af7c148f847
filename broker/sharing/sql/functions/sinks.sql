-- PUBLISH: the messages of these units are available, at new places, unit by unit in the order in which they were staged
-- (claims 3.5). Where they stand, by queue.
CREATE OR REPLACE FUNCTION publish_units(units uuid[]) RETURNS TABLE (q_name text, places bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    FOR touched IN
        WITH placed AS (
            SELECT queue, place, persistent, nextval('arrival') AS arrival FROM (
                SELECT m.queue, m.place, m.persistent
                    FROM unnest(units) WITH ORDINALITY AS winner (id, number) JOIN message AS m ON m.unit = winner.id
                    ORDER BY winner.number, m.place & ((1::bigint << 56) - 1)
            ) AS ordered
        ), shown AS (
            UPDATE message AS m SET state = 1, unit = NULL, place = (m.place >> 56 << 56) | placed.arrival,
                                    put_by = current_setting('evermq.member') FROM placed
                WHERE m.queue = placed.queue AND m.place = placed.place AND m.persistent = placed.persistent
                RETURNING m.queue, m.place
        ) SELECT shown.queue, array_agg(shown.place) AS places, max(queue.depth) AS depth
            FROM shown JOIN queue ON queue.name = shown.queue GROUP BY shown.queue
    LOOP
        PERFORM announce(touched.queue, cardinality(touched.places), touched.depth - cardinality(touched.places));
        q_name := touched.queue;
        places := touched.places;
        RETURN NEXT;
    END LOOP;
    DELETE FROM prepared_unit WHERE id = ANY (units);
END $$;

-- These units, and their messages, are gone. How many messages those were.
CREATE OR REPLACE FUNCTION discard_units(units uuid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    total bigint := 0;
BEGIN
    FOR touched IN
        WITH gone AS (DELETE FROM message WHERE unit = ANY (units) RETURNING queue)
        SELECT queue, count(*) AS number FROM gone GROUP BY queue ORDER BY queue
    LOOP
        UPDATE queue SET depth = depth - touched.number WHERE name = touched.queue;
        total := total + touched.number;
    END LOOP;
    DELETE FROM prepared_unit WHERE id = ANY (units);
    RETURN total;
END $$;
