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
