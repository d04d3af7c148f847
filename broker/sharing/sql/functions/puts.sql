-- MQPUT: messages for these queues, in order; `numbers` says for which of them each is. An array may have one value for
-- all of them. Those that are `joined` are in the unit of work, or where it is `staged` in the prepared unit, the others
-- are there at once, or when their time has come (`not_befores`: seconds since 1970, 0 for at once, less than 0 for so
-- many seconds from now). How many each queue holds then, and the first message's place. Where one would hold too many
-- nothing is put; the detail of the error is its name and how many it holds. With a lane it is a transaction by itself;
-- else the caller has entered one.
CREATE OR REPLACE FUNCTION put_messages(
    on_lane integer, my_turn bigint, of_unit uuid, of_tag bytea,
    queues text[], versions bigint[], max_depths bigint[],
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
    new_depth bigint;
    next_due double precision;
BEGIN
    IF on_lane IS NOT NULL THEN
        PERFORM enter(on_lane, my_turn);
    END IF;
    IF of_unit IS NOT NULL AND NOT staged THEN
        PERFORM join_unit(me, my_epoch, of_unit, of_tag);
    END IF;
    FOR number IN 1 .. cardinality(queues) LOOP
        PERFORM unchanged(queues[number], versions[number]);
    END LOOP;
    depths := array_fill(0::bigint, ARRAY[cardinality(queues)]);
    FOR put IN
        WITH written AS (
            INSERT INTO message (queue, place, persistent, state, unit, member, epoch, msg_id, correl_id, group_id,
                                 msg_seq_number, byte_offset, msg_flags, deadline, not_before, handling, descriptor,
                                 length, body, put_by)
            SELECT queues[row.number], ((9 - row.rank)::bigint << 56) | nextval('arrival'), row.persistent,
                   CASE WHEN staged THEN 7 WHEN row.in_unit THEN 0 WHEN time.instant > this_second THEN 8 ELSE 1 END,
                   CASE WHEN row.in_unit THEN of_unit END, CASE WHEN row.in_unit AND NOT staged THEN me END,
                   CASE WHEN row.in_unit AND NOT staged THEN my_epoch END, row.msg_id, row.correl_id, row.group_id, row.seq_number,
                   row.byte_offset, row.flag, row.deadline, time.instant, row.handling, row.descriptor, row.length,
                   row.body, me
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
            RETURNING queue, place, state, not_before, msg_flags
        )
        SELECT queue, count(*) AS count, count(*) FILTER (WHERE state = 1) AS shown, min(place) AS first,
               count(*) FILTER (WHERE state = 1 AND starts(msg_flags)) AS starting,
               min(not_before) FILTER (WHERE state = 8) AS due
            FROM written GROUP BY queue ORDER BY queue
    LOOP
        number := array_position(queues, put.queue);
        UPDATE queue SET depth = depth + put.count WHERE name = put.queue RETURNING depth INTO new_depth;
        IF new_depth > max_depths[number] THEN
            RAISE EXCEPTION '% would hold % messages, its MAXDEPTH is %', put.queue, new_depth, max_depths[number]
                USING ERRCODE = 'EM053',
                      DETAIL = format('%s %s', put.queue, new_depth - put.count);
        END IF;
        IF put.shown > 0 THEN
            PERFORM announce(put.queue, put.shown, new_depth - put.count, put.starting);
        END IF;
        next_due := least(next_due, put.due);
        depths[number] := new_depth;
        first_place := put.first;
    END LOOP;
    PERFORM announce_delayed(next_due);
END $$;
