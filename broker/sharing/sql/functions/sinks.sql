-- PUBLISH: the messages of these units are available, at new places, unit by unit in the order in which they were staged
-- (claims 3.5). Where they stand, by queue.
CREATE OR REPLACE FUNCTION publish_units(units uuid[]) RETURNS TABLE (q_name text, places bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    FOR touched IN
        WITH staged AS (
            DELETE FROM held WHERE member = '' AND epoch = 0 AND unit = ANY (units) RETURNING *
        ), shown AS (
            INSERT INTO message (place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count,
                                 state, persistent, queue, put_by, msg_id, correl_id, group_id, order_key, handling,
                                 descriptor, body)
                SELECT (place >> 56 << 56) | nextval('arrival'), msg_flags, deadline, not_before, msg_seq_number, byte_offset,
                       length, backout_count, 1, persistent, queue, current_setting('evermq.member'), msg_id, correl_id,
                       group_id, order_key, handling, descriptor, body
                    FROM (SELECT staged.* FROM staged JOIN unnest(units) WITH ORDINALITY AS winner (id, number) ON unit = id
                          ORDER BY winner.number, place & ((1::bigint << 56) - 1)) AS ordered
                RETURNING queue, place
        ) SELECT queue, array_agg(place) AS places FROM shown GROUP BY queue
    LOOP
        PERFORM announce(touched.queue, cardinality(touched.places), depth_of(touched.queue) - cardinality(touched.places));
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
        WITH gone AS (DELETE FROM held WHERE member = '' AND epoch = 0 AND unit = ANY (units) RETURNING queue)
        SELECT queue, count(*) AS number FROM gone GROUP BY queue ORDER BY queue
    LOOP
        PERFORM count_in(touched.queue, -touched.number, NULL);
        total := total + touched.number;
    END LOOP;
    DELETE FROM prepared_unit WHERE id = ANY (units);
    RETURN total;
END $$;
