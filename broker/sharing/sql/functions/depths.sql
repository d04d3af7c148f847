-- How many messages a queue has: each lane of each member counts in a row of its own, so that nobody waits for another.
-- (What looks into a table is written in PL/pgSQL: a session plans it once. One in SQL would be planned at each call.)

-- The lane that a session is of; 0 for who has none.
CREATE OR REPLACE FUNCTION my_lane() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('evermq.lane', true), ''), '0')::integer
$$;

CREATE OR REPLACE FUNCTION depth_of(q_name text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(sum(n), 0)::bigint FROM share WHERE queue = q_name);
END $$;

-- So many more messages are on a queue, or fewer. With a number it is that of the transaction on its lane; numbers rise, and
-- one that has been given up by `settle_turn` is too late, however long it was on its way.
CREATE OR REPLACE FUNCTION count_in(q_name text, more bigint, my_turn bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    on_lane integer := my_lane();
BEGIN
    UPDATE share SET n = n + more, turn = coalesce(my_turn, turn)
        WHERE queue = q_name AND member = me AND lane = on_lane AND (my_turn IS NULL OR turn < my_turn);
    IF NOT FOUND THEN
        INSERT INTO share (queue, member, lane, n, turn) VALUES (q_name, me, on_lane, more, coalesce(my_turn, 0))
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'transaction % of lane % comes too late', my_turn, on_lane USING ERRCODE = '40001';
        END IF;
    END IF;
END $$;

-- Stop all counting of a queue, and deal out anew what room there is on it beside so many more messages of this lane. How
-- many it holds. It is asked for first of all: whoever does that behind its own count deadlocks.
CREATE OR REPLACE FUNCTION deal(q_name text, more bigint, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    on_lane integer := my_lane();
    total bigint;
    lanes bigint;
BEGIN
    PERFORM 1 FROM queue WHERE name = q_name FOR NO KEY UPDATE;
    INSERT INTO share (queue, member, lane) VALUES (q_name, me, on_lane) ON CONFLICT DO NOTHING;
    PERFORM 1 FROM share WHERE queue = q_name ORDER BY member, lane FOR UPDATE;
    SELECT sum(n), count(*) INTO total, lanes FROM share WHERE queue = q_name;
    UPDATE share SET allowance = n + greatest(0, most - total - more) / lanes
                               + CASE WHEN member = me AND lane = on_lane THEN more ELSE 0 END
        WHERE queue = q_name;
    RETURN total;
END $$;

-- Whether this lane is allowed so many more messages on a queue.
CREATE OR REPLACE FUNCTION allowed(q_name text, more bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM share WHERE queue = q_name AND member = current_setting('evermq.member')
                   AND lane = my_lane() AND n + more <= allowance);
END $$;

-- Room for so many more messages on a queue that may hold `most`, and so many `beyond`, before anything is put.
CREATE OR REPLACE FUNCTION reserve(q_name text, more bigint, most bigint, beyond bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    total bigint;
BEGIN
    IF NOT allowed(q_name, more) THEN
        total := deal(q_name, more, most);
        IF total + more > most + beyond THEN
            RAISE EXCEPTION '% would hold % messages, its MAXDEPTH is %', q_name, total + more, most
                USING ERRCODE = 'EM053', DETAIL = format('%s %s', q_name, total);
        END IF;
    END IF;
END $$;

-- Count messages that come back, for which there need be no room. Others have that much less then.
CREATE OR REPLACE FUNCTION count_back(q_name text, more bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF more > 0 AND NOT allowed(q_name, more) THEN
        PERFORM deal(q_name, more, (attributes ->> 'MAXDEPTH')::bigint) FROM object
            WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name;
    END IF;
    PERFORM count_in(q_name, more, NULL);
END $$;

-- Count messages that have been put, for which there was room at the beginning of the transaction. Where another has dealt
-- that out meanwhile, it is made again.
CREATE OR REPLACE FUNCTION count_put(q_name text, more bigint, my_turn bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE share SET n = n + more, turn = coalesce(my_turn, turn)
        WHERE queue = q_name AND member = current_setting('evermq.member') AND lane = my_lane()
        AND (my_turn IS NULL OR turn < my_turn) AND n + more <= allowance;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the room on % is another''s, or the transaction comes too late', q_name USING ERRCODE = '40001';
    END IF;
END $$;

-- Depths are what is there: after messages have gone by themselves. Counted are all but those that a unit of work has got.
CREATE OR REPLACE FUNCTION count_depths(names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM queue WHERE name = ANY (names) ORDER BY name FOR NO KEY UPDATE;
    PERFORM 1 FROM share WHERE queue = ANY (names) ORDER BY queue, member, lane FOR UPDATE;
    UPDATE share SET n = 0, allowance = 0 WHERE queue = ANY (names);
    INSERT INTO share AS s (queue, member, lane, n)
        SELECT queue, '', 0, count(*) FROM (
            SELECT queue FROM message WHERE queue = ANY (names)
            UNION ALL SELECT queue FROM held WHERE queue = ANY (names) AND kind <> 2
        ) AS there GROUP BY queue
        ON CONFLICT (queue, member, lane) DO UPDATE SET n = excluded.n;
END $$;
