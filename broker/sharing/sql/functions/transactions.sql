-- The time, in seconds since 1970: the database's clock, and in tests what a session adds to it.
CREATE OR REPLACE FUNCTION now_seconds() RETURNS double precision LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN extract(epoch FROM clock_timestamp())::double precision
         + coalesce(nullif(current_setting('evermq.offset', true), ''), '0')::double precision;
END $$;

-- The first thing that every writing transaction does: this life of this member may still write.
CREATE OR REPLACE FUNCTION fence(me text, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM member WHERE name = me AND epoch = my_epoch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % of % is over', my_epoch, me USING ERRCODE = 'EM003';
    END IF;
END $$;

-- Return when all is on the disk that was committed before, by whichever session: transactions for calls do not wait for
-- it themselves. The commit of this one writes to the log, and waits.
CREATE OR REPLACE PROCEDURE flush() LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM pg_logical_emit_message(true, 'evermq', '');
END $$;

-- The fence of a transaction that is more than one statement, which has a number on its lane (`count_in`).
CREATE OR REPLACE FUNCTION enter(my_turn bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(current_setting('evermq.member'), current_setting('evermq.epoch')::bigint);
    PERFORM count_in('', 0, my_turn);
END $$;

-- Whether the last transaction of a lane was committed, which has counted on this queue. If it was not, it never will
-- be: this waits for it to end, and takes a number behind it.
CREATE OR REPLACE FUNCTION settle_turn(on_lane integer, q_name text, my_turn bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    last bigint;
BEGIN
    PERFORM 1 FROM share WHERE queue = q_name AND member = me AND lane = on_lane AND turn = my_turn;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM fence(me, current_setting('evermq.epoch')::bigint);
    INSERT INTO share AS known (queue, member, lane, turn) VALUES (q_name, me, on_lane, my_turn + 1)
        ON CONFLICT (queue, member, lane) DO UPDATE
            SET turn = CASE WHEN known.turn < my_turn THEN my_turn + 1 ELSE known.turn END
        RETURNING turn INTO last;
    RETURN last = my_turn;
END $$;

-- The first thing that a session does: after a crash of the database nonpersistent messages are gone, which the depths
-- do not know. Whether that was so.
CREATE OR REPLACE FUNCTION rise(OUT risen boolean, OUT crashes bigint) LANGUAGE plpgsql AS $$
BEGIN
    risen := false;
    SELECT alive.crashes INTO crashes FROM alive;
    IF FOUND THEN
        RETURN;
    END IF;
    LOCK TABLE alive IN EXCLUSIVE MODE;
    SELECT alive.crashes INTO crashes FROM alive;
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('synchronous_commit', 'on', true);  -- no other crash has this number, however soon it comes
    PERFORM count_depths((SELECT coalesce(array_agg(name), '{}') FROM queue));
    INSERT INTO alive DEFAULT VALUES RETURNING alive.crashes INTO crashes;
    risen := true;
END $$;
