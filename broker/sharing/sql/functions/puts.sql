-- MQPUT: messages for these queues, in order; `numbers` says for which of them each is. An array may have one value for
-- all of them. Those that are `joined` are in the unit of work, or where it is `staged` in the prepared unit, the others
-- are there at once, or when their time has come (`not_befores`: seconds since 1970, 0 for at once, less than 0 for so
-- many seconds from now). How many each queue holds then, and the first message's place. Where one would hold too many
-- nothing is put; the detail of the error is its name and how many it holds. With a number it is a transaction by itself;
-- else the caller has entered one.
CREATE OR REPLACE FUNCTION put_messages(
    my_turn bigint, of_unit uuid, of_tag bytea,
    queues text[], versions bigint[], max_depths bigint[], beyond bigint[],
    numbers integer[], joined boolean[], ranks integer[], persistents boolean[], msg_ids bytea[], correl_ids bytea[],
    group_ids bytea[], seq_numbers integer[], offsets integer[], flags bigint[], deadlines double precision[],
    not_befores double precision[], handlings bytea[], descriptors bytea[], lengths integer[], bodies bytea[],
    staged boolean, OUT depths bigint[], OUT first_place bigint
) LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    this_second double precision := now_seconds();
    put record;
    number integer;
    next_due double precision;
BEGIN
    IF my_turn IS NOT NULL THEN
        PERFORM fence(me, my_epoch);
    END IF;
    IF of_unit IS NOT NULL AND NOT staged THEN
        PERFORM join_unit(me, my_epoch, of_unit, of_tag);
    END IF;
    FOR number IN 1 .. cardinality(queues) LOOP
        PERFORM unchanged(queues[number], versions[number]);
    END LOOP;
    IF cardinality(queues) = 1 THEN
        PERFORM reserve(queues[1], cardinality(msg_ids), max_depths[1], beyond[1]);
    ELSE
        PERFORM reserve(queues[each.number], each.count, max_depths[each.number], beyond[each.number]) FROM (
            SELECT known.number, count(*) AS count FROM unnest(numbers) AS known (number) GROUP BY known.number
                ORDER BY queues[known.number]
        ) AS each;
    END IF;
    depths := array_fill(0::bigint, ARRAY[cardinality(queues)]);
    FOR put IN
        WITH given AS MATERIALIZED (
            SELECT queues[row.number] AS queue, ((9 - row.rank)::bigint << 56) | nextval('arrival') AS place, row.*,
                   time.instant
            FROM (
                SELECT coalesce(given.number, numbers[1]) AS number, coalesce(in_unit, joined[1]) AS in_unit,
                       coalesce(rank, ranks[1]) AS rank, coalesce(persistent, persistents[1]) AS persistent,
                       coalesce(seq_number, seq_numbers[1]) AS seq_number,
                       coalesce(byte_offset, offsets[1]) AS byte_offset, coalesce(flag, flags[1]) AS flag,
                       coalesce(instant, not_befores[1]) AS not_before,
                       coalesce(descriptor, descriptors[1]) AS descriptor, coalesce(length, lengths[1]) AS length,
                       msg_id, correl_id, group_id, deadline, handling, body
                FROM unnest(numbers, joined, ranks, persistents, msg_ids, correl_ids, group_ids, seq_numbers, offsets,
                            flags, deadlines, not_befores, handlings, descriptors, lengths, bodies)
                    AS given(number, in_unit, rank, persistent, msg_id, correl_id, group_id, seq_number, byte_offset,
                             flag, deadline, instant, handling, descriptor, length, body)
            ) AS row, LATERAL (
                SELECT CASE WHEN row.not_before < 0 THEN this_second - row.not_before ELSE row.not_before END AS instant
            ) AS time
        ), free AS (
            INSERT INTO message (place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, state,
                                 persistent, queue, put_by, msg_id, correl_id, group_id, handling, descriptor, body)
                SELECT place, flag, deadline, instant, seq_number, byte_offset, length, state_at(instant, this_second),
                       persistent, queue, me, msg_id, correl_id, group_id, handling, descriptor, body
                    FROM given WHERE NOT in_unit
        ), kept AS (
            INSERT INTO held (place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, state,
                              persistent, queue, put_by, msg_id, correl_id, group_id, handling, descriptor, body,
                              kind, member, epoch, unit)
                SELECT place, flag, deadline, instant, seq_number, byte_offset, length, 1,
                       persistent, queue, me, msg_id, correl_id, group_id, handling, descriptor, body,
                       CASE WHEN staged THEN 7 ELSE 0 END, CASE WHEN staged THEN '' ELSE me END,
                       CASE WHEN staged THEN 0 ELSE my_epoch END, of_unit
                    FROM given WHERE in_unit
        )
        SELECT queue, count(*) AS count, count(*) FILTER (WHERE NOT in_unit AND instant <= this_second) AS shown,
               min(place) AS first,
               count(*) FILTER (WHERE NOT in_unit AND instant <= this_second AND starts(flag)) AS starting,
               min(instant) FILTER (WHERE NOT in_unit AND instant > this_second) AS due
            FROM given GROUP BY queue ORDER BY queue
    LOOP
        PERFORM count_put(put.queue, put.count, my_turn);
        number := array_position(queues, put.queue);
        depths[number] := depth_of(put.queue);
        IF put.shown > 0 THEN
            PERFORM announce(put.queue, put.shown, depths[number] - put.count, put.starting);
        END IF;
        next_due := least(next_due, put.due);
        first_place := put.first;
    END LOOP;
    PERFORM announce_delayed(next_due);
END $$;

-- MQPUT outside syncpoint of messages for one queue that differ in their identifiers and their data alone, and have nothing
-- of what most have not: as `put_messages` by itself, in less time. `msg_ids` stand one behind the other. It returns when
-- persistent messages are on the disk. Members are told behind the commit: a notification in it would keep all others of the
-- cluster waiting for the disk.
CREATE OR REPLACE PROCEDURE put_alike(
    my_turn bigint, q_name text, q_version bigint, max_depth bigint, rank integer, lasting boolean,
    msg_ids bytea, descriptors bytea[], bodies bytea[],
    OUT depth bigint
) LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    arrived bigint := cardinality(bodies);
    shelf bigint := (9 - rank)::bigint << 56;
BEGIN
    PERFORM 1 FROM member, object WHERE member.name = me AND epoch = my_epoch AND disposition = 'SHARED'
        AND space = 'QUEUE' AND object.name = q_name AND object.version = q_version FOR KEY SHARE;
    IF NOT FOUND THEN
        PERFORM fence(me, my_epoch);
        PERFORM unchanged(q_name, q_version);
    END IF;
    PERFORM reserve(q_name, arrived, max_depth, 0);
    IF lasting THEN
        PERFORM set_config('synchronous_commit', 'on', true);
        INSERT INTO message_persistent (place, length, state, persistent, queue, put_by, msg_id, descriptor, body)
            SELECT shelf | nextval('arrival'), octet_length(body), 1, true, q_name, me,
                   substr(msg_ids, 24 * number::integer - 23, 24), coalesce(descriptor, descriptors[1]), body
                FROM unnest(descriptors, bodies) WITH ORDINALITY AS given (descriptor, body, number);
    ELSE
        INSERT INTO message_nonpersistent (place, length, state, persistent, queue, put_by, msg_id, descriptor, body)
            SELECT shelf | nextval('arrival'), octet_length(body), 1, false, q_name, me,
                   substr(msg_ids, 24 * number::integer - 23, 24), coalesce(descriptor, descriptors[1]), body
                FROM unnest(descriptors, bodies) WITH ORDINALITY AS given (descriptor, body, number);
    END IF;
    PERFORM count_put(q_name, arrived, my_turn);
    depth := depth_of(q_name);
    COMMIT;
    PERFORM announce_to_watchers(q_name, arrived, depth - arrived);
END $$;
