-- The fence of all that a recovery writes: the recoverer may still write, and nobody has taken the recovery over, the
-- owner itself included, who recovers what earlier lives have left, or at its end this one. The recovery goes on. Where
-- somebody has, only the recovery is over, not the life of the recoverer (`fence`).
CREATE OR REPLACE FUNCTION fence_recovery(me text, my_epoch bigint, of_member text, claimed bigint, lease double precision)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    IF me = of_member THEN
        RETURN;
    END IF;
    UPDATE member SET lease_until = clock_timestamp() + make_interval(secs => lease)
        WHERE name = of_member AND epoch = claimed AND recoverer = me AND state = 'RECOVERING';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'recovery % of % is over', claimed, of_member USING ERRCODE = 'EM007';
    END IF;
END $$;

-- Phase 1 of a recovery, up to `wanted`: what has been decided takes effect. Units of work took theirs with their
-- decision; what is left are messages that were got outside syncpoint, which are their getters'. How many there were.
CREATE OR REPLACE FUNCTION recover_decided(
    me text, my_epoch bigint, of_member text, claimed bigint, lease double precision, wanted integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ended bigint;
BEGIN
    PERFORM fence_recovery(me, my_epoch, of_member, claimed, lease);
    DELETE FROM message AS m USING (
        SELECT queue, place, persistent FROM message
            WHERE member = of_member AND epoch < claimed AND state = 2 AND unit IS NULL LIMIT wanted
    ) AS got WHERE m.queue = got.queue AND m.place = got.place AND m.persistent = got.persistent;
    GET DIAGNOSTICS ended = ROW_COUNT;
    RETURN ended;
END $$;

-- Phase 2: up to `wanted` units of work that were in flight are backed out. Each row is locked first: a server that is
-- still committing one has decided when that is done. Then messages of units that are over, or have no row. How many
-- there were.
CREATE OR REPLACE FUNCTION recover_units(
    me text, my_epoch bigint, of_member text, claimed bigint, lease double precision, wanted integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    ended bigint := 0;
    of_unit uuid;
BEGIN
    PERFORM fence_recovery(me, my_epoch, of_member, claimed, lease);
    FOR of_unit IN
        SELECT id FROM unit_of_work WHERE member = of_member AND epoch < claimed AND state = 'ACTIVE'
            ORDER BY id LIMIT wanted FOR UPDATE
    LOOP
        PERFORM back_out_unit(of_unit);
        ended := ended + 1;
    END LOOP;
    IF ended < wanted THEN
        ended := ended + free_stranded(of_member, claimed, (wanted - ended)::integer);
    END IF;
    RETURN ended;
END $$;

-- Up to `wanted` messages of a member's earlier lives go back that were got in units of work which do not go on, and
-- those go that were put in such: no end of a unit comes to them any more. The first version of these functions has left
-- some. How many there were.
CREATE OR REPLACE FUNCTION free_stranded(of_member text, claimed bigint, wanted integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    freed bigint := 0;
BEGIN
    FOR touched IN
        WITH stranded AS (
            SELECT queue, place, persistent, unit FROM message AS m
                WHERE member = of_member AND epoch < claimed AND state IN (0, 2) AND unit IS NOT NULL
                AND NOT EXISTS (SELECT FROM unit_of_work AS u WHERE u.id = m.unit AND u.state = 'ACTIVE')
                ORDER BY queue, place LIMIT wanted FOR UPDATE
        ), unkept AS (
            DELETE FROM put_key WHERE unit IN (SELECT unit FROM stranded)
        ), gone AS (
            DELETE FROM message AS m USING stranded AS s
                WHERE m.queue = s.queue AND m.place = s.place AND m.persistent = s.persistent AND m.state = 0
                RETURNING m.queue
        ), back AS (
            UPDATE message AS m SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                                    backout_count = backout_count + 1, unit = NULL, token = NULL, owner = NULL,
                                    member = NULL, epoch = NULL
                FROM stranded AS s
                WHERE m.queue = s.queue AND m.place = s.place AND m.persistent = s.persistent AND m.state = 2
                RETURNING m.queue, CASE WHEN m.state = 8 THEN m.not_before END AS due
        )
        SELECT queue, sum(step) AS step, count(*) AS number, min(due) AS due FROM (
            SELECT queue, -1 AS step, NULL AS due FROM gone UNION ALL SELECT queue, 1, due FROM back
        ) AS steps GROUP BY queue ORDER BY queue
    LOOP
        UPDATE queue SET depth = depth + touched.step WHERE name = touched.queue;
        PERFORM announce(touched.queue, 0, 0);
        PERFORM announce_delayed(touched.due);
        freed := freed + touched.number;
    END LOOP;
    RETURN freed;
END $$;

-- What keeps a recovery from its end, in words, the first few: messages that are still in the member's hands, and units of
-- work. Null: nothing.
CREATE OR REPLACE FUNCTION held_after_recovery(of_member text, claimed bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT string_agg(told, '; ') FROM (
        (SELECT format('%s message%s of %s in state %s', count(*), CASE WHEN count(*) > 1 THEN 's' END, queue, m.state)
                || CASE WHEN unit IS NULL THEN ''
                   ELSE format(' of unit of work %s, which is %s', unit, coalesce(max(u.state), 'not there')) END
            FROM message AS m LEFT JOIN unit_of_work AS u ON u.id = m.unit
            WHERE m.member = of_member AND m.epoch < claimed GROUP BY queue, m.state, unit LIMIT 5)
        UNION ALL
        (SELECT format('unit of work %s, which is ACTIVE', id) FROM unit_of_work
            WHERE member = of_member AND epoch < claimed AND state = 'ACTIVE' LIMIT 5)
    ) AS held (told)
$$;

-- Phase 2, then: up to `wanted` messages that were locked by browses are free. How many there were.
CREATE OR REPLACE FUNCTION recover_locks(
    me text, my_epoch bigint, of_member text, claimed bigint, lease double precision, wanted integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    q_names text[];
BEGIN
    PERFORM fence_recovery(me, my_epoch, of_member, claimed, lease);
    WITH freed AS (
        UPDATE message AS m SET state = CASE WHEN m.not_before > now_seconds() THEN 8 ELSE 1 END,
                                member = NULL, epoch = NULL, owner = NULL
            FROM (SELECT queue, place, persistent FROM message
                  WHERE member = of_member AND epoch < claimed AND state = 3 LIMIT wanted) AS locked
            WHERE m.queue = locked.queue AND m.place = locked.place AND m.persistent = locked.persistent
            RETURNING m.queue
    ) SELECT array_agg(queue) INTO q_names FROM freed;
    PERFORM announce(name, 0, 0) FROM (SELECT DISTINCT unnest(q_names) AS name) AS named;
    RETURN coalesce(cardinality(q_names), 0);
END $$;

-- The end of a recovery: handles go, and then connection tags, all of whose units of work are over. The member is
-- INACTIVE, unless its next life has begun. False: there is something left to be done before.
CREATE OR REPLACE FUNCTION end_recovery(me text, my_epoch bigint, of_member text, claimed bigint, lease double precision)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence_recovery(me, my_epoch, of_member, claimed, lease);
    IF EXISTS (SELECT FROM unit_of_work WHERE member = of_member AND epoch < claimed AND state = 'ACTIVE')
        OR EXISTS (SELECT FROM message WHERE member = of_member AND epoch < claimed)
    THEN
        RETURN false;
    END IF;
    DELETE FROM handle WHERE member = of_member AND epoch < claimed;
    DELETE FROM lane WHERE member = of_member AND epoch < claimed;
    DELETE FROM connection_tag WHERE member = of_member AND epoch < claimed;
    UPDATE member SET state = 'INACTIVE', recoverer = NULL
        WHERE name = of_member AND (me <> of_member OR claimed > my_epoch);
    RETURN true;
END $$;
