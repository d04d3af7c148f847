-- Expired messages of a queue go, the first of them: what a report on them has to say.
CREATE OR REPLACE FUNCTION discard_messages(me text, my_epoch bigint, q_name text, at double precision, wanted integer)
RETURNS TABLE (
    place bigint, persistent boolean, descriptor bytea, length integer, body bytea, backout_count integer, handling bytea,
    new_depth bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    places bigint[];
    total bigint;
BEGIN
    PERFORM fence(me, my_epoch);
    SELECT array_agg(place) INTO places FROM (
        SELECT place FROM message WHERE queue = q_name AND deadline <= at AND state IN (1, 8)
            ORDER BY deadline LIMIT wanted FOR UPDATE SKIP LOCKED
    ) AS expired;
    IF places IS NULL THEN
        RETURN;
    END IF;
    SELECT depth - cardinality(places) INTO total FROM queue WHERE name = q_name;
    RETURN QUERY DELETE FROM message WHERE queue = q_name AND place = ANY (places)
        RETURNING place, persistent, descriptor, length, body, backout_count, handling, total;
    UPDATE queue SET depth = depth - cardinality(places) WHERE name = q_name;
END $$;
