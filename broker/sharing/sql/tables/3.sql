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
    started     timestamptz NOT NULL DEFAULT clock_timestamp(),
    version     integer NOT NULL DEFAULT 1   -- of the SQL that it is of (`join_group`)
) WITH (fillfactor = 50);

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

-- One row a shared queue. Who deals out anew what room is left on it locks that first (`reserve`).
CREATE TABLE queue (name text PRIMARY KEY);

-- Messages. What is in `message` is free for everybody; what anybody holds has been moved to `held`, with whose it is.
--
-- Those that anybody may get: state 1, available, or 8, delayed until `not_before`. In the order of `place`: four bits
-- of 9 - effective priority, then 56 of `arrival`, drawn at the put. No other message of the group has the same.
CREATE SEQUENCE arrival CACHE 1;
CREATE TABLE message (
    place          bigint NOT NULL,
    msg_flags      bigint NOT NULL DEFAULT 0,  -- 32 bits without a sign; and bit 32 where it starts nothing (`starts`)
    deadline       double precision,         -- seconds since 1970
    not_before     double precision NOT NULL DEFAULT 0,
    msg_seq_number integer NOT NULL DEFAULT 1,
    byte_offset    integer NOT NULL DEFAULT 0,
    length         integer NOT NULL,
    backout_count  integer NOT NULL DEFAULT 0,
    state          smallint NOT NULL,
    persistent     boolean NOT NULL,
    queue          text NOT NULL,
    put_by         text NOT NULL,            -- at which member it counts: who has put it, or made it available since
    msg_id         bytea NOT NULL,
    correl_id      bytea,
    group_id       bytea,
    order_key      bytea,
    handling       bytea,
    descriptor     bytea NOT NULL,           -- as the store of a queue manager keeps it (`MessageRow.descriptor`)
    body           bytea NOT NULL
) PARTITION BY LIST (persistent);
CREATE TABLE message_persistent PARTITION OF message FOR VALUES IN (true);
CREATE UNLOGGED TABLE message_nonpersistent PARTITION OF message FOR VALUES IN (false);

-- Messages that somebody holds: the same columns in the same order, as they were in `message`, then whose each is. Kind 0,
-- put in a unit of work, 2, got in one, 3, locked by a browse, are a member's, in one life of it: its recovery ends them. 6,
-- claimed, and 7, in a prepared unit of a sink, are no member's: '' and 0. `unit` is the unit of work, the consumer or
-- the prepared unit, of a browse lock zeros.
CREATE TABLE held (
    LIKE message INCLUDING DEFAULTS,
    kind     smallint NOT NULL,
    member   text NOT NULL,
    epoch    bigint NOT NULL,
    unit     uuid NOT NULL,
    sequence bigint                          -- of a claim, from 1
) PARTITION BY LIST (persistent);
CREATE TABLE held_persistent PARTITION OF held FOR VALUES IN (true);
CREATE UNLOGGED TABLE held_nonpersistent PARTITION OF held FOR VALUES IN (false);

-- All messages, with the state that the core knows: of those that are free, and those that somebody holds.
CREATE VIEW all_messages AS
    SELECT message.*, NULL::text AS member, NULL::bigint AS epoch, NULL::uuid AS unit,
           NULL::bigint AS sequence FROM message
    UNION ALL
    SELECT place, msg_flags, deadline, not_before, msg_seq_number, byte_offset, length, backout_count, kind, persistent, queue,
           put_by, msg_id, correl_id, group_id, order_key, handling, descriptor, body, member, epoch, unit, sequence
        FROM held;

-- A lane's share of the depth of a queue: `n` has a sign, the sum of all is the depth. `n` may rise to `allowance` without
-- a look at the others, and all allowances come to MAXDEPTH at most. In the same row the number of the lane's last
-- transaction on this queue: by this it learns what has become of one whose session was lost at its COMMIT. The queue ''
-- is for transactions that count nothing.
CREATE TABLE share (
    queue     text NOT NULL,
    member    text NOT NULL,
    lane      integer NOT NULL,
    n         bigint NOT NULL DEFAULT 0,
    allowance bigint NOT NULL DEFAULT 0,
    turn      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, member, lane)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0);

-- Indexes: partition by partition, since what was locked is touched there, by its `ctid`. One index has the order of a queue.
DO $$
DECLARE
    part text;
BEGIN
    FOREACH part IN ARRAY ARRAY['persistent', 'nonpersistent'] LOOP
        EXECUTE format('CREATE UNIQUE INDEX %1$s_in_order ON message_%1$s (queue, state, place)', part);
        EXECUTE format('CREATE INDEX %1$s_by_msg_id ON message_%1$s (queue, msg_id, place)', part);
        EXECUTE format('CREATE INDEX %1$s_by_correl_id ON message_%1$s (queue, correl_id, place) WHERE correl_id IS NOT NULL', part);
        EXECUTE format('CREATE INDEX %1$s_by_group_id ON message_%1$s (queue, group_id, msg_seq_number, byte_offset, place) WHERE group_id IS NOT NULL', part);
        EXECUTE format('CREATE INDEX %1$s_by_order_key ON message_%1$s (queue, order_key) WHERE order_key IS NOT NULL', part);
        EXECUTE format('CREATE INDEX %1$s_by_deadline ON message_%1$s (queue, deadline) WHERE deadline IS NOT NULL', part);
        EXECUTE format('CREATE INDEX %1$s_waiting ON message_%1$s (not_before) WHERE state = 8', part);
        EXECUTE format('CREATE UNIQUE INDEX held_%1$s_by_place ON held_%1$s (place)', part);
        EXECUTE format('CREATE UNIQUE INDEX held_%1$s_by_holder ON held_%1$s (member, epoch, unit, sequence)', part);
        EXECUTE format('CREATE INDEX held_%1$s_by_order_key ON held_%1$s (queue, order_key) WHERE order_key IS NOT NULL', part);
        EXECUTE format('ALTER TABLE message_%1$s SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)', part);
        EXECUTE format('ALTER TABLE held_%1$s SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)', part);
    END LOOP;
END $$;

-- Units of work that touch shared queues. The row's state is the decision (docs/sharing.md).
CREATE TABLE unit_of_work (
    id      uuid PRIMARY KEY,
    member  text NOT NULL,
    epoch   bigint NOT NULL,
    state   text NOT NULL DEFAULT 'ACTIVE' CHECK (state IN ('ACTIVE', 'COMMITTED', 'BACKED_OUT')),
    tag     bytea,
    started timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX unit_by_member ON unit_of_work (member, epoch);
CREATE INDEX unit_by_tag ON unit_of_work (tag) WHERE tag IS NOT NULL;

-- A unit of work does not end, nor does its row go, while messages are in it: nobody would free them. It is looked at when
-- the transaction is committed.
CREATE FUNCTION leaves_nothing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    q_name text;
BEGIN
    SELECT queue INTO q_name FROM held WHERE member = OLD.member AND epoch = OLD.epoch AND unit = OLD.id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'unit of work % would leave messages of % behind', OLD.id, q_name USING ERRCODE = 'EM006';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER leaves_nothing AFTER DELETE OR UPDATE OF state ON unit_of_work
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state = 'ACTIVE') EXECUTE FUNCTION leaves_nothing();

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
    its_user text,                        -- whose command it is, null for that of an owner (`send_command_of`)
    PRIMARY KEY (id, member)
);

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
