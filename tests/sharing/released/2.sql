-- The tables of a queue-sharing group: what a coupling facility and the shared repository hold (docs/sharing.md).
-- They stand in a schema of their own, named after the group; every session has it as its search_path.

CREATE TABLE properties (name text PRIMARY KEY, value text NOT NULL);

-- Unlogged: empty after a crash of the database, as the nonpersistent messages are. Whoever finds it so sets depths right.
-- `crashes` is another number after each.
CREATE SEQUENCE crash CACHE 1;
CREATE UNLOGGED TABLE alive (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    crashes bigint NOT NULL DEFAULT nextval('crash')
);

-- Queue managers of the group. `epoch` rises with each start and each takeover: it is in every statement that writes.
-- ACTIVE until it leaves, or until a peer has taken over after `lease_until`: then RECOVERING by `recoverer`, whose lease
-- on the recovery that is from then on. INACTIVE: nothing is left of it but rows that it asks for at its next start.
CREATE TABLE member (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL DEFAULT 0,
    state       text NOT NULL DEFAULT 'INACTIVE' CHECK (state IN ('INACTIVE', 'ACTIVE', 'RECOVERING')),
    lease_until timestamptz NOT NULL DEFAULT clock_timestamp(),
    recoverer   text,
    instance    uuid NOT NULL,           -- of the member's data: no two queue managers have the same
    address     text NOT NULL DEFAULT '',
    started     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Definitions with QSGDISP(GROUP) and QSGDISP(SHARED). `version` rises with each change, and is never used again.
CREATE SEQUENCE object_version CACHE 1;
CREATE TABLE object (
    space       text NOT NULL,
    name        text NOT NULL,
    disposition text NOT NULL CHECK (disposition IN ('GROUP', 'SHARED')),
    kind        text NOT NULL,
    attributes  jsonb NOT NULL,
    version     bigint NOT NULL,
    PRIMARY KEY (disposition, space, name)
);

CREATE TABLE structure (
    name       text PRIMARY KEY,
    status     text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'FAILED', 'RECOVERING')),
    attributes jsonb NOT NULL DEFAULT '{}',
    version    bigint NOT NULL DEFAULT 0,
    backed_up  double precision              -- by BACKUP CFSTRUCT, in seconds since 1970
);
INSERT INTO structure (name, attributes, version) VALUES
    ('APPL', '{"RECOVER": 1, "DESCR": "shared queues that name no structure"}', nextval('object_version')),
    ('CSQSYSAPPL', '{"RECOVER": 1, "DESCR": "system queues of the group"}', nextval('object_version'));

-- One row a shared queue: its depth is the last thing that a transaction changes.
CREATE TABLE queue (
    name      text PRIMARY KEY,
    depth     bigint NOT NULL DEFAULT 0
);

-- Messages, in the order of `place`: four bits of 9 - effective priority, then 56 of `arrival`, drawn at the put.
CREATE SEQUENCE arrival CACHE 1;
CREATE TABLE message (
    queue          text NOT NULL,
    place          bigint NOT NULL,
    persistent     boolean NOT NULL,
    state          smallint NOT NULL,
    unit           uuid,                 -- of whose unit of work a PUT_PENDING or GET_PENDING message is
    member         text,                 -- who has got, locked or put it
    epoch          bigint,               -- ... in which life
    owner          text,                 -- of a browse lock: the handle, in the member's own words
    token          uuid,                 -- of a get outside syncpoint that is not handed over yet
    msg_id         bytea NOT NULL,
    correl_id      bytea,
    group_id       bytea,
    msg_seq_number integer NOT NULL DEFAULT 1,
    byte_offset    integer NOT NULL DEFAULT 0,
    msg_flags      bigint NOT NULL DEFAULT 0,   -- 32 bits without a sign; and bit 32 where it starts nothing (`starts`)
    deadline       double precision,     -- seconds since 1970
    not_before     double precision NOT NULL DEFAULT 0,
    handling       bytea,
    order_key      bytea,
    descriptor     bytea NOT NULL,       -- as the store of a queue manager keeps it (`MessageRow.descriptor`)
    length         integer NOT NULL,
    body           bytea NOT NULL,
    backout_count  integer NOT NULL DEFAULT 0,
    put_by         text NOT NULL,        -- at which member it counts: who has put it, or made it available since
    consumer       uuid,
    claim_sequence bigint,
    PRIMARY KEY (queue, place, persistent)
) PARTITION BY LIST (persistent);
CREATE TABLE message_persistent PARTITION OF message FOR VALUES IN (true);
CREATE UNLOGGED TABLE message_nonpersistent PARTITION OF message FOR VALUES IN (false);
CREATE INDEX message_available ON message (queue, place) WHERE state = 1;
CREATE INDEX message_by_msg_id ON message (queue, msg_id, place) WHERE state = 1;
CREATE INDEX message_by_correl_id ON message (queue, correl_id, place) WHERE state = 1 AND correl_id IS NOT NULL;
CREATE INDEX message_by_group_id ON message (queue, group_id, msg_seq_number, byte_offset, place) WHERE group_id IS NOT NULL;
CREATE INDEX message_by_order_key ON message (queue, order_key) WHERE order_key IS NOT NULL;
CREATE INDEX message_by_unit ON message (unit) WHERE unit IS NOT NULL;
CREATE INDEX message_by_member ON message (member, epoch) WHERE member IS NOT NULL;
CREATE INDEX message_waiting ON message (not_before) WHERE state = 8;
CREATE INDEX message_by_deadline ON message (queue, deadline) WHERE deadline IS NOT NULL;

-- Units of work that touch shared queues. The row's state is the decision (docs/sharing.md).
CREATE TABLE unit_of_work (
    id      uuid PRIMARY KEY,
    member  text NOT NULL,
    epoch   bigint NOT NULL,
    state   text NOT NULL DEFAULT 'ACTIVE' CHECK (state IN ('ACTIVE', 'COMMITTED', 'BACKED_OUT')),
    tag     bytea,
    started timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX unit_by_member ON unit_of_work (member, epoch);
CREATE INDEX unit_by_tag ON unit_of_work (tag) WHERE tag IS NOT NULL;

-- The last transaction of each lane of a member, in one life of it: by this it learns what has become of one whose
-- session was lost at its COMMIT.
CREATE TABLE lane (
    member text NOT NULL,
    epoch  bigint NOT NULL,
    number integer NOT NULL,
    turn   bigint NOT NULL,
    PRIMARY KEY (member, epoch, number)
) WITH (fillfactor = 50);

-- Handles that are open on shared queues, but for those of MQPUT1 and of distribution lists. One for input with
-- `exclusive` is the only one for input.
CREATE TABLE handle (
    id         uuid PRIMARY KEY,
    queue      text NOT NULL,
    member     text NOT NULL,
    epoch      bigint NOT NULL,
    input      boolean NOT NULL,
    exclusive  boolean NOT NULL
);
CREATE INDEX handle_by_queue ON handle (queue);

-- Uses of connection tags, one a connection (`take_tag`).
CREATE TABLE connection_tag (
    id        uuid PRIMARY KEY,
    tag       bytea NOT NULL,
    member    text NOT NULL,
    epoch     bigint NOT NULL,
    process   text NOT NULL,             -- whose connections may share it
    exclusive boolean NOT NULL           -- nobody may
);
CREATE INDEX connection_tag_by_tag ON connection_tag (tag);

-- Keys of puts (handlers 4), hashed. `until` in seconds since 1970; null: as long as the message is on the queue. A unit
-- of work that puts with a key has a row of its own until it ends, beside that of who holds the key.
CREATE TABLE put_key (
    queue   text NOT NULL,
    key     bytea NOT NULL,
    unit    uuid,
    place   bigint NOT NULL,
    msg_id  bytea NOT NULL,
    digest  bytea NOT NULL,
    until   double precision
);
CREATE UNIQUE INDEX put_key_held ON put_key (queue, key) WHERE unit IS NULL;
CREATE UNIQUE INDEX put_key_pending ON put_key (queue, key) WHERE unit IS NOT NULL;
CREATE INDEX put_key_by_unit ON put_key (unit) WHERE unit IS NOT NULL;
CREATE INDEX put_key_by_until ON put_key (until) WHERE until IS NOT NULL;
CREATE INDEX put_key_by_place ON put_key (queue, place);

-- Consumers of shared queues (claims 2): they belong to no member. Their messages are CLAIMED, numbered from 1.
CREATE TABLE consumer (
    uuid         uuid PRIMARY KEY,
    name         text NOT NULL UNIQUE,
    q_names      text[] NOT NULL,
    generation   bigint NOT NULL DEFAULT 0,
    lineage      text NOT NULL DEFAULT '',
    base         bigint NOT NULL DEFAULT 0,
    acknowledged bigint NOT NULL DEFAULT 0,
    pinned       bigint NOT NULL DEFAULT 0,
    next         bigint NOT NULL DEFAULT 1,
    since        double precision NOT NULL DEFAULT 0,
    turn         text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX message_by_claim ON message (consumer, claim_sequence, persistent) WHERE consumer IS NOT NULL;

-- Sinks that publish to shared queues (claims 3.3), and their prepared units: they belong to no member. A sink that has
-- no ledger, a `query` of null, is there as long as it has units. What the core knows of a unit is packed in `attributes`;
-- its messages have its id, and the order of their numbers is theirs.
CREATE TABLE sink (
    name     text PRIMARY KEY,
    query    text,
    batch    bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    bytes    bigint NOT NULL DEFAULT 0,
    decided  double precision NOT NULL DEFAULT 0
);
CREATE INDEX sink_keyed ON sink (decided) WHERE query = '';
CREATE TABLE prepared_unit (
    id         uuid PRIMARY KEY,
    sink       text NOT NULL REFERENCES sink,
    batch      bigint NOT NULL,
    partition  bigint NOT NULL,
    attempt    bytea NOT NULL,
    since      double precision NOT NULL,
    touched    double precision NOT NULL,
    attributes bytea NOT NULL,
    messages   bigint NOT NULL DEFAULT 0,
    bytes      bigint NOT NULL DEFAULT 0,
    confirmed  boolean NOT NULL DEFAULT false,  -- some of its messages ask for a confirmation of arrival
    UNIQUE (sink, batch, partition, attempt)
);

-- Units that sinks without a ledger have published lately.
CREATE TABLE published_unit (name text PRIMARY KEY, published double precision NOT NULL);

-- Commands that one member gives to another (CMDSCOPE), and the replies.
CREATE TABLE command (
    id       uuid NOT NULL,
    member   text NOT NULL,               -- who is to run it
    epoch    bigint NOT NULL,             -- ... in which life
    sender   text NOT NULL,
    command  text NOT NULL,
    begun    boolean NOT NULL DEFAULT false,
    replies  jsonb,
    sent     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id, member)
);
-- Of which version of the SQL a member is (`join_group`): older ones say nothing.
ALTER TABLE member ADD COLUMN version integer NOT NULL DEFAULT 1;

-- A unit of work does not end, nor does its row go, while messages are in it: nobody would free them, and no recovery of
-- its member would end. It is looked at when the transaction is committed.
CREATE FUNCTION leaves_nothing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    q_name text;
BEGIN
    SELECT queue INTO q_name FROM message WHERE unit = OLD.id AND state IN (0, 2) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'unit of work % would leave messages of % behind', OLD.id, q_name USING ERRCODE = 'EM006';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER leaves_nothing AFTER DELETE OR UPDATE OF state ON unit_of_work
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state = 'ACTIVE') EXECUTE FUNCTION leaves_nothing();

-- What says who may do what, with QSGDISP(SHARED) (security 11). It is not among `object`, since members of version 1
-- would take it for queues. `version` of an object is one of `object_version`; that of all of it rises in each transaction
-- that changes any, and is read in one snapshot with it.
CREATE TABLE security_object (
    space      text NOT NULL,
    name       text NOT NULL,
    attributes jsonb NOT NULL,
    version    bigint NOT NULL,
    PRIMARY KEY (space, name)
);
CREATE TABLE security (one boolean PRIMARY KEY DEFAULT true CHECK (one), version bigint NOT NULL DEFAULT 0);
INSERT INTO security DEFAULT VALUES;

-- Whose command it is, null for that of an owner (`send_command_of`).
ALTER TABLE command ADD COLUMN its_user text;
-- The time, in seconds since 1970: the database's clock, and in tests what a session adds to it.
CREATE OR REPLACE FUNCTION now_seconds() RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT extract(epoch FROM clock_timestamp())::double precision
         + coalesce(nullif(current_setting('evermq.offset', true), ''), '0')::double precision
$$;

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

-- The fence of a transaction for calls, which has a number on its lane. Numbers are even and rise. One that has been
-- given up by `settle_turn` is too late, however long it was on its way.
CREATE OR REPLACE FUNCTION enter(on_lane integer, my_turn bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
BEGIN
    PERFORM fence(me, my_epoch);
    UPDATE lane SET turn = my_turn WHERE member = me AND epoch = my_epoch AND number = on_lane AND turn < my_turn;
    IF NOT FOUND THEN
        INSERT INTO lane (member, epoch, number, turn) VALUES (me, my_epoch, on_lane, my_turn) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'transaction % of lane % comes too late', my_turn, on_lane USING ERRCODE = '40001';
        END IF;
    END IF;
END $$;

-- Whether the last transaction of a lane was committed. If it was not, it never will be: this waits for it to end, and
-- takes a number behind it.
CREATE OR REPLACE FUNCTION settle_turn(on_lane integer, my_turn bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    last bigint;
BEGIN
    PERFORM 1 FROM lane WHERE member = me AND epoch = my_epoch AND number = on_lane AND turn = my_turn;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM fence(me, my_epoch);  -- in a life that is over nobody knows: the lanes have gone with it
    INSERT INTO lane AS known (member, epoch, number, turn) VALUES (me, my_epoch, on_lane, my_turn + 1)
        ON CONFLICT (member, epoch, number) DO UPDATE
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

-- Whether a message with these flags starts something of its own: a piece of one that the queue manager has cut does
-- not, but for the first.
CREATE OR REPLACE FUNCTION starts(flags bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT flags >> 32 = 0 $$;

-- Tell all members that messages of a queue have become available: how many by puts, how many there were before, and how
-- many of them start something of their own, if not all.
CREATE OR REPLACE FUNCTION announce(q_name text, arrived bigint, before bigint, starting bigint DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify(current_schema(), format('%s %s %s %s', q_name, arrived, before, coalesce(starting, arrived)))
$$;

-- Tell all members in how many seconds the first of these messages is to be available (`release_messages`).
CREATE OR REPLACE FUNCTION announce_delayed(first double precision) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify(current_schema(), format('!delayed %s', greatest(0, first - now_seconds()))) WHERE first IS NOT NULL
$$;

-- `change`: the version that is there now, -version of what is gone, 0 where it may be more than one.
CREATE OR REPLACE FUNCTION announce_objects(change bigint) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify(current_schema(), format('@objects %s', change))
$$;

-- Membership (queue-sharing rules 10.3.1 to 10.3.3). `lease` is in seconds.

-- A queue manager begins another life: its epoch. Where it cannot, null, and for how many seconds somebody else of its
-- name has a lease, and where. Whoever has the same data may begin at once; but a life that was over (`last_epoch`) does
-- not end the one that followed it. Of which version of the SQL it is, its session says.
CREATE OR REPLACE FUNCTION join_group(
    me text, of_instance uuid, at_address text, lease double precision, last_epoch bigint,
    OUT my_epoch bigint, OUT held_seconds double precision, OUT held_at text
) LANGUAGE plpgsql AS $$
DECLARE
    known member%ROWTYPE;
BEGIN
    INSERT INTO member (name, instance) VALUES (me, of_instance) ON CONFLICT DO NOTHING;
    SELECT * INTO known FROM member WHERE name = me FOR UPDATE;
    held_seconds := extract(epoch FROM known.lease_until - clock_timestamp());
    IF known.state <> 'INACTIVE' AND held_seconds > 0 AND (
        known.instance <> of_instance
        OR (last_epoch > 0 AND known.state = 'ACTIVE' AND known.epoch > last_epoch)
    ) THEN
        held_at := known.address;
        RETURN;
    END IF;
    UPDATE member SET epoch = epoch + 1, state = 'ACTIVE', recoverer = NULL, instance = of_instance,
                      address = at_address, started = clock_timestamp(),
                      version = coalesce(nullif(current_setting('evermq.version', true), ''), '1')::integer,
                      lease_until = clock_timestamp() + make_interval(secs => lease)
        WHERE name = me RETURNING epoch INTO my_epoch;
END $$;

-- Exactly one of those who see that a member's lease has ended takes over: the epoch of the recovery, null for others.
-- The lock on the row waits for all that the member has under way; the caller has ended its sessions.
CREATE OR REPLACE FUNCTION take_over(me text, my_epoch bigint, of_member text, last_epoch bigint, lease double precision)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    known member%ROWTYPE;
BEGIN
    PERFORM fence(me, my_epoch);
    SELECT * INTO known FROM member WHERE name = of_member FOR UPDATE;
    IF NOT FOUND OR known.epoch <> last_epoch OR known.state = 'INACTIVE' OR known.lease_until > clock_timestamp() THEN
        RETURN NULL;
    END IF;
    UPDATE member SET epoch = epoch + 1, state = 'RECOVERING', recoverer = me,
                      lease_until = clock_timestamp() + make_interval(secs => lease)
        WHERE name = of_member;
    RETURN known.epoch + 1;
END $$;

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

-- A connection takes a tag (queue-sharing 6); false: it is in use, or a unit of work refers to it that is not over.
-- In the group, or among the connections of this member: `groupwide`. Uses that are not exclusive go together where they
-- are of one process of one member.
CREATE OR REPLACE FUNCTION take_tag(
    me text, my_epoch bigint, its_id uuid, its_tag bytea, its_process text, is_exclusive boolean, groupwide boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM pg_advisory_xact_lock(hashtext(current_schema()), hashtext(encode(its_tag, 'hex')));
    IF EXISTS (SELECT FROM connection_tag WHERE id = its_id) THEN
        RETURN true;
    END IF;
    IF EXISTS (
        SELECT FROM connection_tag AS used WHERE tag = its_tag AND (groupwide OR member = me)
            AND (is_exclusive OR used.exclusive OR used.process <> its_process OR member <> me OR epoch <> my_epoch)
    ) OR EXISTS (
        SELECT FROM unit_of_work AS unit WHERE tag = its_tag AND state = 'ACTIVE' AND (groupwide OR member = me)
            AND NOT EXISTS (SELECT FROM connection_tag AS used
                            WHERE used.tag = its_tag AND used.member = unit.member AND used.epoch = unit.epoch)
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO connection_tag VALUES (its_id, its_tag, me, my_epoch, its_process, is_exclusive);
    RETURN true;
END $$;

-- The connection has ended: its tag is free, if all its units of work are over. Whether it is.
CREATE OR REPLACE FUNCTION release_tag(me text, my_epoch bigint, its_id uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    DELETE FROM connection_tag AS used WHERE id = its_id AND member = me AND (
        EXISTS (SELECT FROM connection_tag AS other
                WHERE other.tag = used.tag AND other.member = me AND other.epoch = used.epoch AND other.id <> its_id)
        OR NOT EXISTS (SELECT FROM unit_of_work AS unit
                       WHERE unit.tag = used.tag AND unit.member = me AND unit.state = 'ACTIVE')
    );
    RETURN FOUND OR NOT EXISTS (SELECT FROM connection_tag WHERE id = its_id AND member = me);
END $$;

-- Definitions. Who changes one locks its row FOR UPDATE: that waits for calls that rely on it, and those that come later
-- find another version (`unchanged`). Who opens or closes a queue does not keep others from putting.

-- What a call relies on of a definition has not changed.
CREATE OR REPLACE FUNCTION unchanged(q_name text, q_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object
        WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name AND version = q_version FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the definition of % has changed', q_name USING ERRCODE = 'EM041';
    END IF;
END $$;

-- What a get relies on of a definition has not changed.
CREATE OR REPLACE FUNCTION still_defined(q_name text, q_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name AND version = q_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the definition of % has changed', q_name USING ERRCODE = 'EM041';
    END IF;
END $$;

-- MQOPEN of a shared queue: nobody may have it open for input exclusively, and who wants that is alone.
CREATE OR REPLACE FUNCTION open_handle(
    me text, my_epoch bigint, handle_id uuid, q_name text, q_version bigint, for_input boolean, alone boolean
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    other record;
BEGIN
    PERFORM 1 FROM object
        WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = q_name AND version = q_version FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the definition of % has changed', q_name USING ERRCODE = 'EM041';
    END IF;
    IF for_input THEN
        SELECT member, exclusive INTO other FROM handle
            WHERE queue = q_name AND input AND (alone OR exclusive) ORDER BY exclusive DESC LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION '% is open for %input already, at %',
                q_name, CASE WHEN other.exclusive THEN 'exclusive ' ELSE '' END, other.member USING ERRCODE = 'EM042';
        END IF;
    END IF;
    INSERT INTO handle (id, queue, member, epoch, input, exclusive)
        VALUES (handle_id, q_name, me, my_epoch, for_input, alone);
END $$;

-- The version of a definition that is to be changed, 0 where there is none, if it is still the expected one.
CREATE OR REPLACE FUNCTION hold_object(o_disposition text, o_space text, o_name text, expected bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
BEGIN
    SELECT version INTO stored FROM object
        WHERE disposition = o_disposition AND space = o_space AND name = o_name FOR UPDATE;
    IF coalesce(stored, 0) <> expected THEN
        RAISE EXCEPTION 'the definition of % has been changed by another member', o_name USING ERRCODE = 'EM044';
    END IF;
    RETURN expected;
END $$;

-- Whether a queue is in use: `inputs_max` is how many handles for input there may be, -1 for any; `empty`: no messages.
CREATE OR REPLACE FUNCTION check_unused(q_name text, closed boolean, inputs_max integer, empty boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    open_at text;
BEGIN
    SELECT string_agg(DISTINCT member, ', ') INTO open_at FROM handle WHERE queue = q_name;
    IF closed AND open_at IS NOT NULL THEN
        RAISE EXCEPTION '% is open at %', q_name, open_at USING ERRCODE = 'EM042';
    END IF;
    IF inputs_max >= 0 AND (SELECT count(*) FROM handle WHERE queue = q_name AND input) > inputs_max THEN
        RAISE EXCEPTION '% is open for input more than once, at %', q_name, open_at USING ERRCODE = 'EM042';
    END IF;
    IF empty AND EXISTS (SELECT 1 FROM message WHERE queue = q_name AND (state <> 2 OR unit IS NOT NULL)) THEN
        RAISE EXCEPTION '% holds messages', q_name USING ERRCODE = 'EM055';
    END IF;
END $$;

-- DEFINE and ALTER of what has QSGDISP(SHARED) or QSGDISP(GROUP). The new version.
CREATE OR REPLACE FUNCTION define_object(
    o_disposition text, o_space text, o_name text, o_kind text, o_attributes jsonb, expected bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := nextval('object_version');
BEGIN
    PERFORM hold_object(o_disposition, o_space, o_name, expected);
    IF o_disposition = 'SHARED' THEN
        PERFORM 1 FROM structure WHERE name = o_attributes ->> 'CFSTRUCT' FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no structure %', o_attributes ->> 'CFSTRUCT' USING ERRCODE = 'EM349';
        END IF;
    END IF;
    IF expected = 0 THEN
        INSERT INTO object (disposition, space, name, kind, attributes, version)
            VALUES (o_disposition, o_space, o_name, o_kind, o_attributes, new_version) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION '% has been defined by another member', o_name USING ERRCODE = 'EM044';
        END IF;
        IF o_disposition = 'SHARED' THEN
            INSERT INTO queue (name) VALUES (o_name);
        END IF;
    ELSE
        UPDATE object SET kind = o_kind, attributes = o_attributes, version = new_version
            WHERE disposition = o_disposition AND space = o_space AND name = o_name;
    END IF;
    PERFORM announce_objects(new_version);
    RETURN new_version;
END $$;

CREATE OR REPLACE FUNCTION delete_object(o_disposition text, o_space text, o_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_object(o_disposition, o_space, o_name, expected);
    DELETE FROM object WHERE disposition = o_disposition AND space = o_space AND name = o_name;
    PERFORM announce_objects(-expected);
END $$;

-- No consumer has claimed messages of the queue; `closing`: this is an MQCLOSE.
CREATE OR REPLACE FUNCTION check_unclaimed(q_name text, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    SELECT name, count(*) AS number, sum(count(*)) OVER () - count(*) AS others INTO held
        FROM message JOIN consumer ON consumer.uuid = message.consumer WHERE queue = q_name
        GROUP BY name ORDER BY count(*) DESC, name DESC LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% claimed by consumer %; RESOLVE CONSUMER(%) ends that',
            CASE held.number WHEN 1 THEN '1 message is' ELSE format('%s messages are', held.number) END,
            held.name || CASE held.others WHEN 0 THEN '' ELSE format(' and %s by others', held.others) END, held.name
            USING ERRCODE = CASE WHEN closing THEN 'EM055' ELSE 'EM042' END;
    END IF;
END $$;

-- No prepared unit has messages of the queue; `closing`: this is an MQCLOSE.
CREATE OR REPLACE FUNCTION check_unprepared(q_name text, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    SELECT sink, batch, count(*) AS number, min(since) AS since, sum(count(*)) OVER () - count(*) AS others INTO held
        FROM message JOIN prepared_unit ON prepared_unit.id = message.unit WHERE queue = q_name
        GROUP BY sink, batch ORDER BY min(since) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% prepared for batch % of sink %, since % s%; DISPLAY THREAD(*) TYPE(INDOUBT) lists their units, and RESOLVE INDOUBT discards one',
            CASE held.number WHEN 1 THEN '1 message is' ELSE format('%s messages are', held.number) END, held.batch,
            held.sink, round(greatest(0, now_seconds() - held.since)),
            CASE held.others WHEN 0 THEN '' ELSE format(' and %s for others', held.others) END
            USING ERRCODE = CASE WHEN closing THEN 'EM055' ELSE 'EM042' END;
    END IF;
END $$;

-- The messages of a shared queue go. Units of work may hold none of them, no prepared unit, and no consumer; unless `purge` there is none,
-- but for those that were got outside syncpoint and are about to be removed.
CREATE OR REPLACE FUNCTION empty_queue(q_name text, purge boolean, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM message WHERE queue = q_name ORDER BY place FOR UPDATE;
    PERFORM check_unprepared(q_name, closing);
    IF EXISTS (SELECT 1 FROM message WHERE queue = q_name AND unit IS NOT NULL) THEN
        RAISE EXCEPTION 'units of work on % are unfinished', q_name USING ERRCODE = 'EM042';
    END IF;
    PERFORM check_unclaimed(q_name, closing);
    IF NOT purge AND EXISTS (SELECT 1 FROM message WHERE queue = q_name AND state <> 2) THEN
        RAISE EXCEPTION '% holds messages', q_name USING ERRCODE = 'EM055';
    END IF;
    DELETE FROM message WHERE queue = q_name;
    DELETE FROM put_key WHERE queue = q_name;
    UPDATE queue SET depth = 0 WHERE name = q_name;
END $$;

-- DELETE QLOCAL of a shared queue, and MQCLOSE with MQCO_DELETE, which lets others have it open still.
CREATE OR REPLACE FUNCTION delete_queue(q_name text, expected bigint, purge boolean, closing boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM delete_object('SHARED', 'QUEUE', q_name, expected);
    PERFORM check_unused(q_name, NOT closing, -1, false);
    PERFORM empty_queue(q_name, purge, closing);
    DELETE FROM handle WHERE queue = q_name;
    DELETE FROM queue WHERE name = q_name;
END $$;

-- CLEAR QLOCAL of a shared queue.
CREATE OR REPLACE FUNCTION clear_queue(q_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_object('SHARED', 'QUEUE', q_name, expected);
    PERFORM check_unused(q_name, true, -1, false);
    PERFORM empty_queue(q_name, true, false);
END $$;

-- Who may do what: what has QSGDISP(SHARED) of users, records, channels and their rules (security 11).

-- The first thing that a transaction does which changes any of it. One such transaction is made after the other.
CREATE OR REPLACE FUNCTION change_security() RETURNS bigint LANGUAGE sql AS $$
    UPDATE security SET version = version + 1 RETURNING version
$$;

-- What a judgement relied on has not changed.
CREATE OR REPLACE FUNCTION still_secured(by_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM security WHERE version = by_version;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'users or rights of the group have changed' USING ERRCODE = 'EM041';
    END IF;
END $$;

-- MQOPEN of a shared queue by a user who was judged by that version of users and rights.
CREATE OR REPLACE FUNCTION open_judged_handle(
    me text, my_epoch bigint, handle_id uuid, q_name text, q_version bigint, for_input boolean, alone boolean, by_version bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM still_secured(by_version);
    PERFORM open_handle(me, my_epoch, handle_id, q_name, q_version, for_input, alone);
END $$;

CREATE OR REPLACE FUNCTION hold_security(o_space text, o_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce((SELECT version FROM security_object WHERE space = o_space AND name = o_name), 0) <> expected THEN
        RAISE EXCEPTION '% % has been changed by another member', o_space, o_name USING ERRCODE = 'EM044';
    END IF;
END $$;

-- The new version of the object.
CREATE OR REPLACE FUNCTION define_security(o_space text, o_name text, o_attributes jsonb, expected bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := nextval('object_version');
BEGIN
    PERFORM hold_security(o_space, o_name, expected);
    INSERT INTO security_object VALUES (o_space, o_name, o_attributes, new_version)
        ON CONFLICT (space, name) DO UPDATE SET attributes = excluded.attributes, version = excluded.version;
    PERFORM announce_objects(new_version);
    RETURN new_version;
END $$;

CREATE OR REPLACE FUNCTION delete_security(o_space text, o_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM hold_security(o_space, o_name, expected);
    DELETE FROM security_object WHERE space = o_space AND name = o_name;
    PERFORM announce_objects(-expected);
END $$;

-- Structures. What relies on one learns of a change by the versions of its queues.
CREATE OR REPLACE FUNCTION hold_structure(s_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stored bigint;
BEGIN
    SELECT version INTO stored FROM structure WHERE name = s_name FOR UPDATE;
    IF coalesce(stored, 0) <> expected THEN
        RAISE EXCEPTION 'the structure % has been changed by another member', s_name USING ERRCODE = 'EM044';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION touch_queues(s_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM object
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name ORDER BY name FOR UPDATE;
    UPDATE object SET version = nextval('object_version')
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    PERFORM announce_objects(0);
END $$;

CREATE OR REPLACE FUNCTION define_structure(s_name text, s_attributes jsonb, expected bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_version bigint := nextval('object_version');
BEGIN
    PERFORM hold_structure(s_name, expected);
    IF expected = 0 THEN
        INSERT INTO structure (name, attributes, version) VALUES (s_name, s_attributes, new_version) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the structure % has been defined by another member', s_name USING ERRCODE = 'EM044';
        END IF;
    ELSE
        UPDATE structure SET attributes = s_attributes, version = new_version WHERE name = s_name;
    END IF;
    PERFORM touch_queues(s_name);
    RETURN new_version;
END $$;

CREATE OR REPLACE FUNCTION delete_structure(s_name text, expected bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    using_it text;
BEGIN
    PERFORM hold_structure(s_name, expected);
    SELECT min(name) INTO using_it FROM object WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    IF FOUND AND using_it IS NOT NULL THEN
        RAISE EXCEPTION 'queues are in the structure %, such as %', s_name, using_it USING ERRCODE = 'EM042';
    END IF;
    DELETE FROM structure WHERE name = s_name;
    PERFORM announce_objects(0);
END $$;

-- Depths are what is there: after messages have gone by themselves. The counted ones are all but those that a unit of
-- work has got (state 2).
CREATE OR REPLACE FUNCTION count_depths(names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM queue WHERE name = ANY (names) ORDER BY name FOR UPDATE;
    UPDATE queue SET depth = (SELECT count(*) FROM message WHERE message.queue = queue.name AND state <> 2)
        WHERE name = ANY (names);
END $$;

-- RESET CFSTRUCT ACTION(FAIL): nonpersistent messages are gone, the others wait for RECOVER.
CREATE OR REPLACE FUNCTION fail_structure(s_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text[];
BEGIN
    UPDATE structure SET status = 'FAILED', version = nextval('object_version') WHERE name = s_name;
    PERFORM touch_queues(s_name);
    SELECT coalesce(array_agg(name), '{}') INTO names FROM object
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    DELETE FROM message WHERE queue = ANY (names) AND NOT persistent;
    PERFORM count_depths(names);
END $$;

-- RECOVER CFSTRUCT: what is logged is there again; with `purge` it goes too.
CREATE OR REPLACE FUNCTION recover_structure(s_name text, purge boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    names text[];
BEGIN
    UPDATE structure SET status = 'ACTIVE', version = nextval('object_version') WHERE name = s_name;
    PERFORM touch_queues(s_name);
    SELECT coalesce(array_agg(name), '{}') INTO names FROM object
        WHERE disposition = 'SHARED' AND attributes ->> 'CFSTRUCT' = s_name;
    IF purge THEN
        DELETE FROM message WHERE queue = ANY (names);
        DELETE FROM put_key WHERE queue = ANY (names);
        PERFORM count_depths(names);
    END IF;
END $$;

-- What is done in a unit of work is done while it is active, in the life of the member in which it began.
CREATE OR REPLACE FUNCTION goes_on(of_unit uuid, my_epoch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM unit_of_work WHERE id = of_unit AND epoch = my_epoch AND state = 'ACTIVE' FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the unit of work % is over', of_unit USING ERRCODE = 'EM005';
    END IF;
END $$;

-- A call on shared queues joins a unit of work, which it begins if there is none yet.
CREATE OR REPLACE FUNCTION join_unit(me text, my_epoch bigint, of_unit uuid, of_tag bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unit_of_work (id, member, epoch, tag) VALUES (of_unit, me, my_epoch, of_tag) ON CONFLICT (id) DO NOTHING;
    IF NOT FOUND THEN
        PERFORM goes_on(of_unit, my_epoch);
    END IF;
END $$;

-- The first shared call of a unit of work, or the same made again. One that was ended meanwhile does not begin.
CREATE OR REPLACE FUNCTION begin_unit(me text, my_epoch bigint, of_unit uuid, of_tag bytea) RETURNS void LANGUAGE sql AS $$
    SELECT join_unit(me, my_epoch, of_unit, of_tag)
$$;

-- The unit is committed, with all its effects, in the life of the member in which it began. Whether it was still active.
CREATE OR REPLACE FUNCTION commit_unit(of_unit uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    UPDATE unit_of_work SET state = 'COMMITTED' WHERE id = of_unit AND state = 'ACTIVE'
        AND member = current_setting('evermq.member') AND epoch = current_setting('evermq.epoch')::bigint;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    WITH gone AS (
        DELETE FROM message WHERE unit = of_unit AND state = 2 RETURNING queue, place, owner
    ) DELETE FROM put_key AS p USING gone WHERE gone.owner = 'cancels' AND p.queue = gone.queue AND p.place = gone.place;
    DELETE FROM put_key AS p USING put_key AS mine
        WHERE mine.unit = of_unit AND p.queue = mine.queue AND p.key = mine.key AND p.unit IS NULL;
    UPDATE put_key SET unit = NULL WHERE unit = of_unit;
    FOR touched IN
        WITH shown AS (
            UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                               unit = NULL, member = NULL, epoch = NULL
                WHERE unit = of_unit AND state = 0 RETURNING queue, state, not_before, msg_flags
        ) SELECT shown.queue, count(*) FILTER (WHERE state = 1) AS arrived, max(queue.depth) AS depth,
                 count(*) FILTER (WHERE state = 1 AND starts(msg_flags)) AS starting,
                 min(not_before) FILTER (WHERE state = 8) AS due
            FROM shown JOIN queue ON queue.name = shown.queue GROUP BY shown.queue
    LOOP
        PERFORM announce(touched.queue, touched.arrived, touched.depth - touched.arrived, touched.starting);
        PERFORM announce_delayed(touched.due);
    END LOOP;
    RETURN true;
END $$;

-- The same, as a transaction by itself.
CREATE OR REPLACE FUNCTION commit_unit(on_lane integer, my_turn bigint, of_unit uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM enter(on_lane, my_turn);
    RETURN commit_unit(of_unit);
END $$;

-- What has become of a unit, once whoever is still at it has ended: 'COMMITTED' or 'BACKED_OUT'. One that nobody has
-- decided is backed out. Null: there is no such unit, unless its member has `never` tried to commit it: then it cannot
-- begin any more either.
CREATE OR REPLACE FUNCTION outcome_of_unit(me text, my_epoch bigint, of_unit uuid, never boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    decision text;
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM set_config('lock_timeout', '2000', true);
    IF never THEN
        INSERT INTO unit_of_work (id, member, epoch, state)
            VALUES (of_unit, me, my_epoch, 'BACKED_OUT')
            ON CONFLICT (id) DO NOTHING;
    END IF;
    SELECT state INTO decision FROM unit_of_work
        WHERE id = of_unit AND epoch <= my_epoch FOR UPDATE;
    IF decision = 'ACTIVE' THEN
        PERFORM back_out_unit(of_unit);
        decision := 'BACKED_OUT';
    END IF;
    PERFORM set_config('lock_timeout', '0', true);
    RETURN decision;
END $$;

-- Nobody needs the rows of these units any more.
CREATE OR REPLACE FUNCTION forget_units(me text, my_epoch bigint, units uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    DELETE FROM unit_of_work WHERE id = ANY (units) AND epoch <= my_epoch AND state <> 'ACTIVE';
END $$;

-- The unit is backed out, with all its effects. Whether it was still active.
CREATE OR REPLACE FUNCTION back_out_unit(of_unit uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    UPDATE unit_of_work SET state = 'BACKED_OUT' WHERE id = of_unit AND state = 'ACTIVE';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM put_key WHERE unit = of_unit;
    FOR touched IN
        WITH gone AS (
            DELETE FROM message WHERE unit = of_unit AND state = 0 RETURNING queue
        ), back AS (
            UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                               backout_count = backout_count + 1, unit = NULL, token = NULL, owner = NULL,
                           member = NULL, epoch = NULL
                WHERE unit = of_unit AND state = 2 RETURNING queue, CASE WHEN state = 8 THEN not_before END AS due
        )
        SELECT queue, sum(step) AS step, min(due) AS due FROM (
            SELECT queue, -1 AS step, NULL AS due FROM gone UNION ALL SELECT queue, 1, due FROM back
        ) AS steps GROUP BY queue ORDER BY queue
    LOOP
        UPDATE queue SET depth = depth + touched.step WHERE name = touched.queue;
        PERFORM announce(touched.queue, 0, 0);
        PERFORM announce_delayed(touched.due);
    END LOOP;
    RETURN true;
END $$;

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

-- Who has put with this key before: nobody (no row), or which message, with what data, and until when it waits if it
-- does. `busy`: another unit of work that has not ended. Whoever asks is alone with the key until it commits.
CREATE OR REPLACE FUNCTION find_key(q_name text, its_key bytea, of_unit uuid) RETURNS TABLE (
    busy boolean, its_msg_id bytea, its_digest bytea, its_not_before double precision
) LANGUAGE plpgsql AS $$
DECLARE
    this_second double precision := now_seconds();
    known record;
    held record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || ' ' || q_name), hashtext(encode(its_key, 'hex')));
    SELECT * INTO known FROM put_key WHERE queue = q_name AND key = its_key ORDER BY unit NULLS LAST LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF known.unit IS NOT NULL AND known.unit IS DISTINCT FROM of_unit THEN
        RETURN QUERY SELECT true, NULL::bytea, NULL::bytea, NULL::double precision;
        RETURN;
    END IF;
    SELECT state, unit, owner, not_before INTO held FROM message WHERE queue = q_name AND place = known.place;
    IF known.unit IS NULL THEN
        IF coalesce(known.until <= this_second, held IS NULL)
                OR (held.state = 2 AND held.unit IS NULL AND held.owner = 'cancels') THEN
            DELETE FROM put_key WHERE queue = q_name AND key = its_key AND unit IS NULL;
            RETURN;
        ELSIF held.state = 2 AND held.unit = of_unit THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT false, known.msg_id, known.digest, coalesce(held.not_before, 0);
END $$;

-- A message that has just been put holds the key, from the commit of its unit on where it is in one. For so many seconds
-- from its instant; null: for as long as it is there. Some keys whose time is over are forgotten.
CREATE OR REPLACE FUNCTION keep_key(
    q_name text, its_key bytea, of_unit uuid, its_place bigint, its_msg_id bytea, its_digest bytea, seconds double precision
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO put_key (queue, key, unit, place, msg_id, digest, until)
        SELECT q_name, its_key, of_unit, its_place, its_msg_id, its_digest,
               greatest(now_seconds(), max(not_before)) + seconds
            FROM message WHERE queue = q_name AND place = its_place;
    DELETE FROM put_key WHERE ctid IN (
        SELECT ctid FROM put_key WHERE until < now_seconds() ORDER BY until LIMIT 8 FOR UPDATE SKIP LOCKED
    );
END $$;

-- Forget the keys that were kept for as long as their messages were there.
CREATE OR REPLACE FUNCTION tidy_keys() RETURNS void LANGUAGE sql AS $$
    DELETE FROM put_key AS p WHERE until IS NULL AND unit IS NULL
        AND NOT EXISTS (SELECT 1 FROM message AS m WHERE m.queue = p.queue AND m.place = p.place)
$$;

-- Messages whose time has come are available: those that this member has put, and those of others who have not done it
-- for a second. Where those stand by queue that start something of their own, and in how many seconds there is something
-- to do again.
CREATE OR REPLACE FUNCTION release_messages(on_lane integer, my_turn bigint) RETURNS TABLE (
    q_name text, places bigint[], again double precision
) LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    this_second double precision := now_seconds();
    touched record;
    next_due double precision;
    released integer := 0;
BEGIN
    PERFORM enter(on_lane, my_turn);
    FOR touched IN
        WITH due AS (
            SELECT queue, place, persistent FROM message
                WHERE state = 8 AND not_before <= this_second AND (put_by = me OR not_before <= this_second - 1)
                ORDER BY not_before LIMIT 1000 FOR UPDATE SKIP LOCKED
        ), shown AS (
            UPDATE message AS m SET state = 1, put_by = me FROM due
                WHERE m.queue = due.queue AND m.place = due.place AND m.persistent = due.persistent
                RETURNING m.queue, m.place, m.msg_flags
        ) SELECT shown.queue, count(*) AS number, max(depth) AS depth,
                 coalesce(array_agg(place ORDER BY place) FILTER (WHERE starts(msg_flags)), '{}') AS places
            FROM shown JOIN queue ON queue.name = shown.queue GROUP BY shown.queue
    LOOP
        PERFORM announce(
            touched.queue, touched.number, touched.depth - touched.number, cardinality(touched.places)
        );
        released := released + touched.number;
        q_name := touched.queue;
        places := touched.places;
        RETURN NEXT;
    END LOOP;
    SELECT not_before INTO next_due FROM message WHERE state = 8 ORDER BY not_before LIMIT 1;
    q_name := NULL;
    places := NULL;
    again := CASE WHEN released = 1000 THEN 0 WHEN next_due > this_second THEN next_due - this_second WHEN next_due + 1 > this_second
                  THEN next_due + 1 - this_second WHEN next_due IS NOT NULL THEN 0.01 END;
    RETURN NEXT;
END $$;

-- Where a get looks: the messages that come first on a queue, with this identifier if one is given, locked. Others who
-- are at a message just now are passed over, or with `patient` waited for: a rival that goes without a word tells nobody.
CREATE OR REPLACE FUNCTION pick(q_name text, of_msg_id bytea, of_correl_id bytea, wanted integer, patient boolean)
RETURNS TABLE (place bigint, length integer, deadline double precision) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF of_msg_id IS NOT NULL AND patient THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND msg_id = of_msg_id ORDER BY place LIMIT wanted FOR UPDATE;
    ELSIF of_msg_id IS NOT NULL THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND msg_id = of_msg_id ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    ELSIF of_correl_id IS NOT NULL AND patient THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND correl_id = of_correl_id ORDER BY place LIMIT wanted FOR UPDATE;
    ELSIF of_correl_id IS NOT NULL THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            AND correl_id = of_correl_id ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    ELSIF patient THEN
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            ORDER BY place LIMIT wanted FOR UPDATE;
    ELSE
        RETURN QUERY SELECT place, length, deadline FROM message WHERE queue = q_name AND state = 1
            ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED;
    END IF;
END $$;

-- MQGETs that ask the same of a queue, one for each of `tokens`: the first messages, got by the first of them. Each is
-- in the unit of work of its get, or in none: then only its token holds it. `begun` are units that begin with that, and
-- `removed` are places whose messages have been handed over. No message after the one with which `bytes_max` is reached
-- is got. A row says by its `number` for which get it is; 0: `place` is the depth; -1: there are expired messages in the
-- way, and nothing has been got.
CREATE OR REPLACE FUNCTION get_messages(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, of_msg_id bytea, of_correl_id bytea,
    units uuid[], if_persistent boolean[], tokens uuid[], begun uuid[], tags bytea[], removed bigint[], bytes_max bigint,
    patient boolean
) RETURNS TABLE (
    number bigint, place bigint, persistent boolean, descriptor bytea, length integer, body bytea,
    backout_count integer, handling bytea
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    places bigint[];
    overdue boolean;
    total bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF cardinality(removed) > 0 THEN
        WITH gone AS (
            DELETE FROM message WHERE queue = q_name AND place = ANY (removed) AND state = 2 AND member = me AND unit IS NULL
                RETURNING place, owner
        ) DELETE FROM put_key AS p USING gone
            WHERE gone.owner = 'cancels' AND p.queue = q_name AND p.place = gone.place;
    END IF;
    SELECT array_agg(place ORDER BY place) FILTER (WHERE before < bytes_max), bool_or(deadline <= at)
        INTO places, overdue
        FROM (SELECT place, deadline, sum(length) OVER (ORDER BY place) - length AS before
              FROM pick(q_name, of_msg_id, of_correl_id, cardinality(tokens), false)) AS picked;
    IF places IS NULL AND patient THEN
        PERFORM set_config('lock_timeout', '1000', true);
        SELECT array_agg(place ORDER BY place) FILTER (WHERE before < bytes_max), bool_or(deadline <= at)
            INTO places, overdue
            FROM (SELECT place, deadline, sum(length) OVER (ORDER BY place) - length AS before
                  FROM pick(q_name, of_msg_id, of_correl_id, cardinality(tokens), true)) AS picked;
        PERFORM set_config('lock_timeout', '0', true);
    END IF;
    IF overdue THEN
        RETURN QUERY SELECT -1::bigint, 0::bigint, false, ''::bytea, 0, ''::bytea, 0, NULL::bytea;
    ELSIF places IS NOT NULL THEN
        RETURN QUERY
            UPDATE message AS m
                SET state = 2, token = tokens[g.number], member = me, epoch = my_epoch,
                    unit = CASE WHEN m.persistent OR NOT if_persistent[g.number] THEN units[g.number] END
                FROM unnest(places) WITH ORDINALITY AS g (place, number)
                WHERE m.queue = q_name AND m.place = g.place
                RETURNING g.number, m.place, m.persistent, m.descriptor, m.length, m.body, m.backout_count, m.handling;
        IF cardinality(begun) > 0 THEN
            INSERT INTO unit_of_work (id, member, epoch, tag)
                SELECT id, me, my_epoch, tag FROM unnest(begun, tags) AS b (id, tag)
                WHERE EXISTS (SELECT 1 FROM message WHERE unit = b.id) ON CONFLICT (id) DO NOTHING;
        END IF;
        PERFORM goes_on(id, my_epoch)
            FROM (SELECT DISTINCT unit AS id FROM message WHERE queue = q_name AND place = ANY (places)) AS got
            WHERE id IS NOT NULL;
        UPDATE queue SET depth = depth - cardinality(places) WHERE name = q_name RETURNING depth INTO total;
        RETURN QUERY SELECT 0::bigint, total, false, ''::bytea, 0, ''::bytea, 0, NULL::bytea;
    END IF;
END $$;

-- Lock messages that a look has found: the first, then with it all others, which are waited for. Whether all are still
-- available, or locked by a browse of the same handle (`own`).
CREATE OR REPLACE FUNCTION secure(
    me text, my_epoch bigint, q_name text, at double precision, first bigint, rest bigint[], own bigint[], patient boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    there bigint;
BEGIN
    PERFORM set_config('lock_timeout', '1000', true);
    IF patient THEN
        PERFORM 1 FROM message WHERE queue = q_name AND place = first FOR UPDATE;
    ELSE
        PERFORM 1 FROM message WHERE queue = q_name AND place = first FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    PERFORM 1 FROM message WHERE queue = q_name AND place = ANY (rest)
        ORDER BY msg_seq_number, byte_offset, place FOR UPDATE;
    PERFORM set_config('lock_timeout', '0', true);
    SELECT count(*) INTO there FROM message
        WHERE queue = q_name AND place = ANY (first || rest) AND (deadline IS NULL OR deadline > at)
        AND (state IN (1, 8) OR (state = 3 AND member = me AND epoch = my_epoch AND place = ANY (own)));
    RETURN there = cardinality(first || rest);
END $$;

-- A destructive get of messages that a look has found, if all of `first` and `rest` are available: those of `taken` are
-- in this unit of work, or held by this token. Their bodies and backout counts; no row: somebody else was there before.
CREATE OR REPLACE FUNCTION take_messages(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, first bigint, rest bigint[],
    own bigint[], patient boolean, taken bigint[], of_unit uuid, begins boolean, tag bytea, of_token uuid
) RETURNS TABLE (place bigint, body bytea, backout_count integer, new_depth bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    total bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF NOT secure(me, my_epoch, q_name, at, first, rest, own, patient) THEN
        RETURN;
    END IF;
    IF begins THEN
        PERFORM begin_unit(me, my_epoch, of_unit, tag);
    ELSIF of_unit IS NOT NULL THEN
        PERFORM goes_on(of_unit, my_epoch);
    END IF;
    UPDATE message SET state = 2, unit = of_unit, token = of_token, member = me, epoch = my_epoch,
                       owner = CASE WHEN state = 8 THEN 'cancels' END  -- as if it had never been put: its key is free
        WHERE queue = q_name AND place = ANY (taken);
    UPDATE queue SET depth = depth - cardinality(taken) WHERE name = q_name RETURNING depth INTO total;
    RETURN QUERY SELECT place, body, backout_count, total FROM message WHERE queue = q_name AND place = ANY (taken);
END $$;

-- A browse with LOCK of messages that a look has found, if all of `first` and `rest` are available: those of `locked` are
-- its handle's. Whether they could be.
CREATE OR REPLACE FUNCTION lock_browsed(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, first bigint, rest bigint[],
    own bigint[], patient boolean, locked bigint[], by_owner text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF NOT secure(me, my_epoch, q_name, at, first, rest, own, patient) THEN
        RETURN false;
    END IF;
    UPDATE message SET state = 3, member = me, epoch = my_epoch, owner = by_owner
        WHERE queue = q_name AND place = ANY (locked);
    RETURN true;
END $$;

-- The same, which locks all of `first` and `rest`: members of version 0.1.0 of EverMQ call it.
CREATE OR REPLACE FUNCTION lock_messages(
    on_lane integer, my_turn bigint, q_name text, q_version bigint, at double precision, first bigint, rest bigint[],
    own bigint[], patient boolean, by_owner text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    PERFORM still_defined(q_name, q_version);
    IF NOT secure(me, my_epoch, q_name, at, first, rest, own, patient) THEN
        RETURN false;
    END IF;
    UPDATE message SET state = 3, member = me, epoch = my_epoch, owner = by_owner
        WHERE queue = q_name AND place = ANY (first || rest);
    RETURN true;
END $$;

-- The browse locks of a handle on these messages end.
CREATE OR REPLACE FUNCTION unlock_messages(me text, my_epoch bigint, q_name text, places bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                       member = NULL, epoch = NULL, owner = NULL
        WHERE queue = q_name AND place = ANY (places) AND state = 3 AND member = me AND epoch = my_epoch;
    PERFORM announce(q_name, 0, 0);
END $$;

-- What this member has got outside syncpoint has been handed over, and goes.
CREATE OR REPLACE FUNCTION remove_messages(me text, my_epoch bigint, q_names text[], places bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    WITH gone AS (
        DELETE FROM message AS m USING unnest(q_names, places) AS g (queue, place)
            WHERE m.queue = g.queue AND m.place = g.place AND m.state = 2
            AND m.member = me AND m.unit IS NULL RETURNING m.queue, m.place, m.owner
    ) DELETE FROM put_key AS p USING gone WHERE gone.owner = 'cancels' AND p.queue = gone.queue AND p.place = gone.place;
END $$;

-- Nobody takes what these gets have been given, in this life: it goes back as if it had not been got, and units go that
-- had begun with it and hold nothing else. What another life has been given its recovery gives back. Where the transaction that gave it may be under way still, this waits for its end. How many messages that
-- were.
CREATE OR REPLACE FUNCTION return_tokens(
    me text, my_epoch bigint, tokens uuid[], begun uuid[], on_lane integer, turn bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    total bigint := 0;
BEGIN
    PERFORM fence(me, my_epoch);
    IF on_lane IS NOT NULL THEN
        PERFORM settle_turn(on_lane, turn);
    END IF;
    FOR touched IN
        WITH back AS (
            UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                               unit = NULL, token = NULL, owner = NULL, member = NULL, epoch = NULL
                WHERE member = me AND epoch = my_epoch AND token = ANY (tokens) AND state = 2 RETURNING queue
        ) SELECT queue, count(*) AS count FROM back GROUP BY queue ORDER BY queue
    LOOP
        UPDATE queue SET depth = depth + touched.count WHERE name = touched.queue;
        PERFORM announce(touched.queue, 0, 0);
        total := total + touched.count;
    END LOOP;
    DELETE FROM unit_of_work AS u WHERE id = ANY (begun) AND member = me AND epoch = my_epoch
        AND NOT EXISTS (SELECT FROM message WHERE unit = u.id);
    RETURN total;
END $$;

-- Messages that were got in this unit, or outside any, go back to their places; `failed` is added to their backout
-- counts. Which they were: another place has been given back already, or has been removed.
CREATE OR REPLACE FUNCTION give_back(
    me text, my_epoch bigint, q_name text, given bigint[], of_unit uuid, failed integer
) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    back bigint[];
BEGIN
    PERFORM fence(me, my_epoch);
    WITH shown AS (
        UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                           backout_count = backout_count + failed, unit = NULL, token = NULL, owner = NULL,
                           member = NULL, epoch = NULL
            WHERE queue = q_name AND place = ANY (given) AND state = 2
                AND member = me AND epoch = my_epoch AND unit IS NOT DISTINCT FROM of_unit
            RETURNING place
    ) SELECT array_agg(place) INTO back FROM shown;
    UPDATE queue SET depth = depth + coalesce(cardinality(back), 0) WHERE name = q_name;
    PERFORM announce(q_name, 0, 0);
    RETURN QUERY SELECT unnest(back);
END $$;

-- A message that was got outside syncpoint and removed comes back to its place, since nobody has taken it.
CREATE OR REPLACE FUNCTION put_again(
    me text, my_epoch bigint, q_name text, at_place bigint, is_persistent boolean, its_msg_id bytea, its_correl_id bytea,
    its_group_id bytea, its_seq_number integer, its_offset integer, its_flags bigint, its_deadline double precision,
    its_handling bytea, its_descriptor bytea, its_length integer, its_body bytea, its_backout_count integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    INSERT INTO message (queue, place, persistent, state, msg_id, correl_id, group_id, msg_seq_number, byte_offset,
                         msg_flags, deadline, handling, descriptor, length, body, backout_count, put_by)
        VALUES (q_name, at_place, is_persistent, 1, its_msg_id, its_correl_id, its_group_id, its_seq_number, its_offset,
                its_flags, its_deadline, its_handling, its_descriptor, its_length, its_body, its_backout_count, me);
    UPDATE queue SET depth = depth + 1 WHERE name = q_name;
    PERFORM announce(q_name, 0, 0);
END $$;

-- Deliveries of a queue are taken by one member at a time, which this begins: whether it is open for exclusive input, and
-- the keys that are busy: of messages under handlers, or that wait for their next attempt (handlers rule 6.2).
CREATE OR REPLACE FUNCTION begin_taking(q_name text, q_version bigint, OUT exclusive boolean, OUT busy bytea[]) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM still_defined(q_name, q_version);
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || ' deliveries'), hashtext(q_name));
    exclusive := EXISTS (SELECT 1 FROM handle WHERE queue = q_name AND handle.exclusive);
    SELECT coalesce(array_agg(DISTINCT order_key), '{}') INTO busy FROM message
        WHERE queue = q_name AND order_key IS NOT NULL AND state IN (2, 8);
END $$;

-- These messages are taken, each in the unit of work of its delivery, which begins. Their bodies. Where somebody who gets
-- without deliveries was at one before, it is all to be done again.
CREATE OR REPLACE FUNCTION take_deliveries(q_name text, places bigint[], units uuid[], order_keys bytea[], tags bytea[])
RETURNS TABLE (place bigint, body bytea, new_depth bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me text := current_setting('evermq.member');
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    taken integer;
    total bigint;
BEGIN
    UPDATE message AS m SET state = 2, unit = g.unit, token = NULL, order_key = g.order_key, member = me, epoch = my_epoch
        FROM unnest(places, units, order_keys) AS g (place, unit, order_key)
        WHERE m.queue = q_name AND m.place = g.place AND m.state = 1;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken < cardinality(places) THEN
        RAISE EXCEPTION 'a message of % has been got meanwhile', q_name USING ERRCODE = '40001';
    END IF;
    INSERT INTO unit_of_work (id, member, epoch, tag)
        SELECT DISTINCT id, me, my_epoch, tag FROM unnest(units, tags) AS b (id, tag);
    UPDATE queue SET depth = depth - taken WHERE name = q_name RETURNING depth INTO total;
    RETURN QUERY SELECT place, body, total FROM message WHERE queue = q_name AND place = ANY (places);
END $$;

-- Messages of a delivery become part of another unit of work.
CREATE OR REPLACE FUNCTION pass_on(me text, my_epoch bigint, of_unit uuid, q_name text, passed bigint[], other uuid, its_tag bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fence(me, my_epoch);
    PERFORM goes_on(of_unit, my_epoch);
    PERFORM begin_unit(me, my_epoch, other, its_tag);
    UPDATE message SET unit = other WHERE unit = of_unit AND queue = q_name AND place = ANY (passed) AND state = 2;
END $$;

-- Units of work of deliveries that have put nothing are committed: which of them were still active.
CREATE OR REPLACE FUNCTION commit_deliveries(on_lane integer, my_turn bigint, units uuid[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    decided uuid[];
BEGIN
    PERFORM enter(on_lane, my_turn);
    WITH active AS (
        UPDATE unit_of_work SET state = 'COMMITTED' WHERE id = ANY (units) AND state = 'ACTIVE'
            AND member = current_setting('evermq.member') AND epoch = current_setting('evermq.epoch')::bigint
            RETURNING id
    ) SELECT coalesce(array_agg(id), '{}') INTO decided FROM active;
    DELETE FROM message WHERE unit = ANY (decided) AND state = 2;
    RETURN decided;
END $$;

-- A delivery ends without having removed its messages, all that its unit of work has done: they are back at their places,
-- at once or in so many seconds (`waits`), with these counts and records. The depth then; null where the unit was over.
CREATE OR REPLACE FUNCTION return_deliveries(
    on_lane integer, my_turn bigint, of_unit uuid, q_name text, places bigint[], waits double precision[],
    backout_counts integer[], handlings bytea[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    my_epoch bigint := current_setting('evermq.epoch')::bigint;
    this_second double precision := now_seconds();
    back integer;
    total bigint;
BEGIN
    PERFORM enter(on_lane, my_turn);
    UPDATE unit_of_work SET state = 'BACKED_OUT'
        WHERE id = of_unit AND member = current_setting('evermq.member') AND epoch = my_epoch AND state = 'ACTIVE';
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE message AS m
        SET state = CASE WHEN g.wait > 0 THEN 8 ELSE 1 END,
            not_before = CASE WHEN g.wait > 0 THEN this_second + g.wait ELSE 0 END,
            order_key = CASE WHEN g.wait > 0 THEN order_key END,
            backout_count = g.backout_count, handling = g.handling, unit = NULL, member = NULL, epoch = NULL
        FROM unnest(places, waits, backout_counts, handlings) AS g (place, wait, backout_count, handling)
        WHERE m.unit = of_unit AND m.queue = q_name AND m.place = g.place AND m.state = 2;
    GET DIAGNOSTICS back = ROW_COUNT;
    UPDATE queue SET depth = depth + back WHERE name = q_name RETURNING depth INTO total;
    PERFORM announce(q_name, 0, 0);
    PERFORM announce_delayed(this_second + first) FROM (SELECT min(wait) AS first FROM unnest(waits) AS w (wait) WHERE wait > 0) AS f
        WHERE first IS NOT NULL;
    RETURN total;
END $$;

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

-- The claims of a consumer up to a sequence end: they are gone, or `back` at their places, which counts a backout. How
-- many there were.
CREATE OR REPLACE FUNCTION end_claims(of_consumer uuid, up_to bigint, back boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched record;
    ended bigint := 0;
BEGIN
    IF back THEN
        FOR touched IN
            WITH shown AS (
                UPDATE message SET state = CASE WHEN not_before > now_seconds() THEN 8 ELSE 1 END,
                                   backout_count = backout_count + 1, consumer = NULL, claim_sequence = NULL
                    WHERE consumer = of_consumer AND claim_sequence <= up_to RETURNING queue
            ) SELECT queue, count(*) AS number FROM shown GROUP BY queue ORDER BY queue
        LOOP
            ended := ended + touched.number;
            PERFORM announce(touched.queue, 0, 0);
        END LOOP;
        RETURN ended;
    END IF;
    FOR touched IN
        WITH gone AS (
            DELETE FROM message WHERE consumer = of_consumer AND claim_sequence <= up_to RETURNING queue
        ) SELECT queue, count(*) AS number FROM gone GROUP BY queue ORDER BY queue
    LOOP
        ended := ended + touched.number;
        UPDATE queue SET depth = depth - touched.number WHERE name = touched.queue;
    END LOOP;
    RETURN ended;
END $$;

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

-- What a member must know of a queue to judge its trigger conditions (triggers 4): up to `enough` available messages
-- that come before `boundary`, those handles for input that other members have open, and whether any is exclusive.
CREATE OR REPLACE FUNCTION trigger_census(
    me text, q_name text, boundary bigint, enough bigint, OUT qualifying bigint, OUT elsewhere bigint, OUT exclusive boolean
) LANGUAGE sql STABLE AS $$
    SELECT (SELECT count(*) FROM (SELECT 1 FROM message WHERE queue = q_name AND state = 1 AND place < boundary
                                  LIMIT enough) AS counted),
           (SELECT count(*) FROM handle WHERE queue = q_name AND input AND member <> me),
           EXISTS (SELECT 1 FROM handle WHERE queue = q_name AND handle.exclusive)
$$;

-- Messages that members have put which are gone count at this one from now on (queue-sharing rule 10.3.10): up to
-- `wanted` of those that are available behind `after` and before `boundary`. How many, and where the last of them stands.
CREATE OR REPLACE FUNCTION adopt_messages(
    q_name text, after bigint, boundary bigint, wanted integer, OUT adopted bigint, OUT last bigint
) LANGUAGE sql AS $$
    WITH orphan AS (
        SELECT queue, place, persistent FROM message
            WHERE queue = q_name AND state = 1 AND place > after AND place < boundary
            AND put_by NOT IN (SELECT name FROM member WHERE state = 'ACTIVE')
            ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED
    ), counted AS (
        UPDATE message AS m SET put_by = current_setting('evermq.member') FROM orphan
            WHERE m.queue = orphan.queue AND m.place = orphan.place AND m.persistent = orphan.persistent
            RETURNING m.place
    ) SELECT count(*), max(place) FROM counted
$$;

-- A command for one member that runs, or with an asterisk for all. How many there are.
CREATE OR REPLACE FUNCTION send_command(command_id uuid, sender text, scope text, command_text text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    asked bigint;
BEGIN
    INSERT INTO command (id, member, epoch, sender, command)
        SELECT command_id, name, epoch, sender, command_text FROM member
            WHERE state = 'ACTIVE' AND (scope = '*' OR name = scope);
    GET DIAGNOSTICS asked = ROW_COUNT;
    PERFORM pg_notify(current_schema(), '@commands');
    RETURN asked;
END $$;

-- As `send_command`, for a user who is judged by each member. One of version 1 knows no users.
CREATE OR REPLACE FUNCTION send_command_of(
    of_user text, command_id uuid, sender text, scope text, command_text text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    asked bigint;
    older text;
BEGIN
    asked := send_command(command_id, sender, scope, command_text);
    SELECT string_agg(known.name, ', ' ORDER BY known.name) INTO older
        FROM command JOIN member AS known ON known.name = command.member WHERE command.id = command_id AND known.version < 2;
    IF older IS NOT NULL THEN
        RAISE EXCEPTION '% is of an older release, which judges nobody', older USING ERRCODE = 'EM012';
    END IF;
    UPDATE command SET its_user = of_user WHERE id = command_id;
    RETURN asked;
END $$;

CREATE OR REPLACE FUNCTION answer_command(command_id uuid, asked text, its_replies jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE command SET replies = its_replies WHERE id = command_id AND member = asked;
    PERFORM pg_notify(current_schema(), '@commands');
END $$;
