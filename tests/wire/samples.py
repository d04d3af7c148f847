"""One sample of every frame: the arguments of a call and the frame that carries them, a result and its frame."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.interface.answers import (
    Connected,
    Distribution,
    GetAnswer,
    LogPiece,
    Opened,
    PendingQueue,
    PendingStarts,
    Placed,
    PlacedMany,
    StartLease,
)
from broker.interface.batches.columns import NO_MESSAGES, pack
from broker.interface.claims.claims import (
    BrowseSelection,
    ConsumerState,
    Cut,
    Publication,
    QueueRange,
    Registration,
    Staged,
    UnitName,
    Winner,
)
from broker.interface.handlers.delivery_answers import DeliveryAnswer, ServeAnswer, TakeAnswer
from broker.mqi import (
    MQCC,
    MQGMO,
    MQMO,
    MQOO,
    MQPMO,
    MQPMRF,
    MQRC,
    Access,
    AccessStep,
    Cause,
    Explanation,
    Finding,
    GetMessageOptions,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
    PutMessageRecord,
    ResponseRecord,
)
from broker.mqi.access import OwnUser
from broker.mqi.delivery_fields import (
    Became,
    Failure,
    Outcome,
    PutExtras,
    Returned,
    ServiceOptions,
    Settled,
    Settlement,
)
from broker.mqi.external_units import Decision, Doubt, PreparedDelivery
from broker.mqi.replies import CommandReply, ReplyPart
from broker.mqi.security_parameters import CredentialKind, SecurityParameters
from broker.wire import Verb
from broker.wire.claims import packed_units, packed_winners
from broker.wire.delivery_wire import packed_service_options, packed_settlements
from broker.wire.external_wire import packed_decisions, packed_deliveries

ID = bytes(range(24))
TOKEN = bytes(range(16))
MD = MessageDescriptor(
    format="MQSTR", coded_char_set_id=1208, priority=5, persistence=1, correl_id=ID, reply_to_q="REPLIES"
)
OD = ObjectDescriptor(object_name="ORDERS", object_q_mgr_name="QM1", selection_string="colour = 'red'")
PMO = PutMessageOptions(options=MQPMO.SYNCPOINT)
GMO = GetMessageOptions(
    options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=5000, match_options=MQMO.MATCH_CORREL_ID, msg_token=TOKEN
)
PLACED = Placed(b"kept", ID, ID, bytes(24), 1, 0, -1, 5, 1, 0)
DELIVERY = GetAnswer(b"kept", ID, ID, bytes(24), 1, 0, 0, -1, 5, 1, -1, 0, TOKEN, b"hello", 5, 0, b"properties")
UUID = "4c6f7c52-8a6e-4b0e-9a3d-6c1f0f1f2d3e"
LINEAGE = "9f86d081884c7d65"
UNIT = UnitName("IMPORT", 7, 3, TOKEN)
COLUMNS = pack(NO_MESSAGES)
TERMS = ServiceOptions(
    handler="shop:ship", attempts=None, backoff=(1.0, 10.0), doubles=False, dead_letter="ORDERS.DEAD", rate=50.0
)
FAILURE = Failure("ValueError", "no such order", "Traceback ...")
SETTLEMENTS = [
    Settlement(1, Outcome.DONE, ran=0.25),
    Settlement(2, Outcome.FAILED, FAILURE, timed_out=True, ran=30.0),
    Settlement(3, Outcome.LATER, seconds=60.0, counted=True),
    Settlement(4, Outcome.DONE, failed=((3, FAILURE), (5, Failure("KeyError"))), ran=0.5),
]
HISTORY_TERMS = TERMS._replace(history="ORDERS.HISTORY", history_span=604800.0, history_value=2048)
"""The options of a handler whose messages have a history."""

VALUED_SETTLEMENTS = [
    Settlement(5, Outcome.DONE, ran=0.25, value=Returned(b'{"price":40}')),
    Settlement(6, Outcome.FAILED, FAILURE, ran=0.5),
    Settlement(7, Outcome.DONE, failed=((3, FAILURE),), ran=0.5, value=Returned(b"", "Quote", 70_000)),
]
"""Settlements with what handlers have returned."""

UNIT_ID, OTHER_ID, DATABASE = b"u" * 16, b"o" * 16, b"d" * 16
PREPARED = [PreparedDelivery(UNIT_ID, SETTLEMENTS[0]), PreparedDelivery(OTHER_ID, SETTLEMENTS[3])]
DECISIONS = [
    Decision(UNIT_ID, commit=True),
    Decision(OTHER_ID, commit=False, settlement=SETTLEMENTS[1]),
    Decision(b"b" * 16, commit=False),
    Decision(b"g" * 16, commit=None),
]

REFUSED = Access(
    allowed=False,
    user="bob",
    steps=(AccessStep("rights", "PUT on QUEUE ORDERS", "refused: PUT is missing"),),
    grant="SET AUTHREC PROFILE('ORDERS') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)",
)

CALLS: dict[Verb, tuple[str, tuple[Any, ...]]] = {
    Verb.DISCONNECT: ("disconnect", (True,)),
    Verb.OPEN: ("open", (OD, MQOO.INPUT_SHARED | MQOO.OUTPUT)),
    Verb.CLOSE: ("close", (7, 0)),
    Verb.PUT: ("put", (7, MD, PMO, b"hello")),
    Verb.PUT1: ("put1", (OD, None, PMO, b"hello")),
    Verb.GET: ("get", (7, None, GMO, 100)),
    Verb.BEGIN: ("begin", ()),
    Verb.COMMIT: ("commit", ()),
    Verb.BACKOUT: ("backout", ()),
    Verb.INQUIRE: ("inquire", (7, [3, 2016])),
    Verb.SET: ("set", (7, {10: 1, 2008: "text"})),
    Verb.MQSC: ("mqsc", ("DISPLAY QLOCAL(*)",)),
    Verb.STATUS: ("status", ()),
    Verb.TRIGGER_PENDING: ("trigger_pending", ()),
    Verb.TRIGGER_WAIT: ("trigger_wait", (12,)),
    Verb.TRIGGER_TAKE: ("trigger_take", ("ORDERS", 10)),
    Verb.EXPLAIN: ("explain", ("ORDERS", ID, None, None)),
    Verb.GET_MANY: ("get_many", (7, None, GMO, 64)),
    Verb.BACKUP: ("backup", ("/var/backups/qm1",)),
    Verb.CONSUMER: ("consumer", ("ARCHIVE", ["ORDERS", "BILLS.*"])),
    Verb.REGISTER: ("register", (UUID, LINEAGE, 100, None, False)),
    Verb.CLAIM: ("claim", (UUID, 7, 100, 1000, 2**31, None, True)),
    Verb.PIN: ("pin", (UUID, 7, LINEAGE, 100, 300)),
    Verb.READ_CLAIMED: ("read_claimed", (UUID, 7, 100, 300)),
    Verb.ACKNOWLEDGE: ("acknowledge", (UUID, 7, 300)),
    Verb.RELEASE: ("release", (UUID, 7)),
    Verb.QUEUE_RANGES: ("queue_ranges", (["ORDERS", "BILLS.*"],)),
    Verb.BROWSE_RANGE: ("browse_range", ("ORDERS", 2**50, 2**51, BrowseSelection(ID, None, None))),
    Verb.SINK: ("sink", ("IMPORT",)),
    Verb.STAGE: ("stage", (UNIT, "query", 4096, 0, True, COLUMNS)),
    Verb.PUBLISH: ("publish", ("IMPORT", 7, "query", [Winner(UNIT, 5000), Winner(UNIT._replace(partition=4), 0)])),
    Verb.DISCARD: ("discard", ([UNIT, UNIT._replace(partition=4), UNIT._replace(sink="OTHER")],)),
    Verb.BROWSE_CUTS: ("browse_cuts", ("ORDERS", 2**50, 2**51, 1000, 2**31)),
    Verb.RELEASE_WAITING: ("release_delayed", ("ORDERS", ID)),
    Verb.SERVE: ("serve", ("ORDERS", TERMS)),
    Verb.STOP_SERVING: ("stop_serving", (3,)),
    Verb.TAKE: ("take_deliveries", (3, 20)),
    Verb.SETTLE: ("settle_deliveries", (SETTLEMENTS,)),
    Verb.TRIGGER_SWEEP: ("trigger_sweep", ()),
    Verb.SERIALIZE: ("serialize", (4, b"TAG")),
    Verb.AUTHENTICATE: ("authenticate", (CredentialKind.TOKEN.value, b"a.b.c")),
    Verb.EXPLAIN_OPEN: ("explain_open", ("ORDERS", "QM2", 1, "bob", "put,get")),
    Verb.OWN_USER: ("own_user", ()),
    Verb.EXPLAIN_CONNECT: ("explain_connect", ("bob", "192.0.2.7", "APP", "CN=bob", "", False)),
    Verb.FIGURES: ("figures", ("ORDERS.*", "queue", "evermq", 2000)),
    Verb.RECENT_LOG: ("recent_log", (40,)),
    Verb.STEP: ("step", (17, "charge#2", b'"receipt 5"')),
    Verb.PREPARE: ("prepare", (UNIT_ID, DATABASE, "orders")),
    Verb.PREPARE_DELIVERIES: ("prepare_deliveries", (DATABASE, "orders", PREPARED)),
    Verb.DECIDE: ("decide", (DATABASE, DECISIONS)),
    Verb.DOUBTS: ("doubts", (DATABASE, True)),
    Verb.IN_DOUBT: ("in_doubt", (DATABASE, [UNIT_ID, OTHER_ID])),
}
"""The calls of a port but for PUT_MANY, by verb: the method and its arguments, in the order of the frame."""

RESULTS: dict[Verb, Any] = {
    Verb.CONNECT: Connected("QM1"),
    Verb.DISCONNECT: 0,
    Verb.OPEN: Opened(7, "ORDERS", "ORDERS", "QM1", 0, True, True, 1),
    Verb.CLOSE: 2422,
    Verb.PUT: PLACED,
    Verb.PUT1: PLACED._replace(resolved_q_name="ORDERS", resolved_q_mgr_name="QM1"),
    Verb.GET: DELIVERY,
    Verb.BEGIN: 2121,
    Verb.COMMIT: 0,
    Verb.BACKOUT: 0,
    Verb.INQUIRE: {3: 5, 2016: "ORDERS"},
    Verb.SET: 0,
    Verb.MQSC: [
        CommandReply(code="AMQ8409I", text="AMQ8409I: ...", attributes=({"QUEUE": "ORDERS", "TRIGGER": True},)),
        CommandReply(code="AMQ8405I", text="AMQ8405I: ...", ok=False, syntax_error=True),
    ],
    Verb.STATUS: {"name": "QM1", "queues": [{"name": "ORDERS", "depth": 3}], "journal": {"lag": 0.5}},
    Verb.TRIGGER_PENDING: PendingStarts(12, [PendingQueue("ORDERS", "MYPROCESS", "handler", 3)]),
    Verb.TRIGGER_WAIT: 13,
    Verb.TRIGGER_TAKE: [StartLease(1, b"TMC    2"), StartLease(2, b"TMC    2")],
    Verb.EXPLAIN: Explanation(
        q_name="ORDERS",
        findings=(
            Finding(code=Cause.GET_INHIBITED, text="ORDERS has GET(DISABLED)"),
            Finding(code="NEWER", text="from a later version", figures={"since": 1.5, "missing": [[2, None]]}),
        ),
    ),
    Verb.PUT_MANY: PlacedMany([PLACED, PLACED._replace(msg_id=bytes(24))]),
    Verb.GET_MANY: [DELIVERY, DELIVERY._replace(data=b"", length=0)],
    Verb.BACKUP: 0,
    Verb.CONSUMER: ConsumerState(UUID, 7, LINEAGE, 0, 100, 300, 1001, 2**50),
    Verb.REGISTER: Registration(8, LINEAGE, 100),
    Verb.CLAIM: 1000,
    Verb.PIN: [Cut(200, 100, 204_800), Cut(300, 100, 2**33)],
    Verb.READ_CLAIMED: COLUMNS,
    Verb.ACKNOWLEDGE: 0,
    Verb.RELEASE: 200,
    Verb.QUEUE_RANGES: [QueueRange("BILLS.1", 0, 2**50, 2, 4096), QueueRange("ORDERS", 0, 2**50, 0, 0)],
    Verb.BROWSE_RANGE: COLUMNS,
    Verb.SINK: ("query", 6),
    Verb.STAGE: Staged(True),
    Verb.PUBLISH: Publication(5000, False),
    Verb.DISCARD: 3,
    Verb.BROWSE_CUTS: [Cut(2**50 + 7, 7, 0)],
    Verb.RELEASE_WAITING: 5,
    Verb.SERVE: ServeAnswer(3),
    Verb.STOP_SERVING: 0,
    Verb.TAKE: TakeAnswer(
        b"TMC    2",
        [
            DeliveryAnswer(17, 1, 6, 0.5, [DELIVERY]),
            DeliveryAnswer(18, 2, 0, 0.0, [DELIVERY, DELIVERY._replace(deliver_at=1.8e9)]),
        ],
    ),
    Verb.SETTLE: [
        Settled(1, Became.GONE),
        Settled(2, Became.DELAYED, 0, 3, 1.8e9),
        Settled(3, Became.GONE, int(MQRC.STORAGE_MEDIUM_FULL)),
    ],
    Verb.DELIVERY_CONNECT: SimpleNamespace(q_mgr_name="QM1"),
    Verb.TRIGGER_SWEEP: 2,
    Verb.SERIALIZE: 0,
    Verb.AUTHENTICATE: 3600.0,
    Verb.EXPLAIN_OPEN: REFUSED,
    Verb.OWN_USER: OwnUser("bob", True, False, "5f1c", ("MQWebUser", "clerks")),
    Verb.EXPLAIN_CONNECT: Access(allowed=True, user="bob", steps=()),
    Verb.FIGURES: "# TYPE evermq_units_of_work gauge\nevermq_units_of_work 3\n",
    Verb.RECENT_LOG: LogPiece(42, 50, ["level=INFO event=listening", "level=INFO event=ready"]),
    Verb.STEP: 0,
    Verb.PREPARE: 0,
    Verb.PREPARE_DELIVERIES: [0, 2019],
    Verb.DECIDE: [0, 1, 2297, 0],
    Verb.DOUBTS: [Doubt(UNIT_ID, 1.8e9), Doubt(OTHER_ID, 1.8e9 + 0.5)],
    Verb.IN_DOUBT: [UNIT_ID],
}
"""What calls return, by verb."""

ITEMS: dict[Verb, tuple[Any, ...]] = {
    Verb.BROWSE_RANGE: ("ORDERS", 2**50, 2**51, ID, None, None),
    Verb.STAGE: (*UNIT, "query", 4096, 0, True, COLUMNS),
    Verb.PUBLISH: ("IMPORT", 7, "query", packed_winners(CALLS[Verb.PUBLISH][1][3])),
    Verb.DISCARD: packed_units(CALLS[Verb.DISCARD][1][0]),
    Verb.SERVE: ("ORDERS", list(packed_service_options(TERMS))),
    Verb.SETTLE: packed_settlements(SETTLEMENTS),
    Verb.PREPARE_DELIVERIES: packed_deliveries(DATABASE, "orders", PREPARED, [each.settlement for each in PREPARED]),
    Verb.DECIDE: packed_decisions(DATABASE, DECISIONS),
    Verb.IN_DOUBT: (DATABASE, UNIT_ID + OTHER_ID),
}
"""The items of the frames of calls whose arguments do not go as they are, one by one."""

SECURED = "QM1", "orders", "alice", SecurityParameters("APP.SVRCONN", CredentialKind.PASSWORD, b"secret")
"""The arguments of a CONNECT that names a channel and proves its user."""

CHECKED = (True, "DISPLAY QLOCAL(*)")
"""The items of an MQSC whose script is to end at its first failure."""

PUT_TERMS = PutExtras(delay=30.0, key=b"42", window=None)
TERMED_CALLS: dict[Verb, tuple[str, tuple[Any, ...]]] = {
    Verb.PUT: ("put", (7, MD, PMO, b"hello", PUT_TERMS)),
    Verb.PUT1: ("put1", (OD, None, PMO, PUT_TERMS, b"hello")),
    Verb.GET: ("get", (7, None, GMO, 100, True)),
}
"""The calls that can say something beside the options of the MQI: their frames are longer then."""

TERMED_ITEMS: dict[Verb, tuple[Any, ...]] = {
    Verb.PUT: (7, MD, PMO, list(PUT_TERMS), b"hello"),
    Verb.PUT1: (OD, None, PMO, list(PUT_TERMS), b"hello"),
    Verb.GET: (7, None, GMO, 100, True),
}
"""The items of these frames."""

TERMED_RESULTS: dict[Verb, Any] = {
    Verb.PUT: PLACED._replace(deliver_at=1.8e9),
    Verb.PUT1: PLACED._replace(resolved_q_name="ORDERS", resolved_q_mgr_name="QM1", duplicate=True, same_data=False),
    Verb.PUT_MANY: PlacedMany([PLACED._replace(duplicate=True), PLACED]),
    Verb.GET: DELIVERY._replace(deliver_at=1.8e9),
    Verb.GET_MANY: [DELIVERY, DELIVERY._replace(deliver_at=1.8e9)],
}
"""What these return then."""

STEPPED = TakeAnswer(
    b"",
    [
        DeliveryAnswer(17, 1, 6, 0.5, [DELIVERY]),
        DeliveryAnswer(18, 2, 0, 0.0, [DELIVERY], {"charge": b'"receipt 5"', "ship": b"null"}),
    ],
)
"""What a TAKE returns of a message for which steps were finished."""

WARNED = [CommandReply(code="AMQ8006I", text="AMQ8006I: ...", warnings=("EMQ0002W: ...",))]
"""The replies to a script that sets an attribute which does not act."""

STOPPED = PlacedMany([PLACED], MQError(MQRC.Q_FULL, "ORDERS holds 5000 messages, its maximum depth"))
"""What a batch returns of which a message could not be put."""

LIST = ObjectDescriptor(records=(ObjectRecord("ORDERS"), ObjectRecord("BILLS", "QM2")))
LIST_PMO = PutMessageOptions(
    options=MQPMO.SET_ALL_CONTEXT,
    record_fields=MQPMRF.MSG_ID | MQPMRF.FEEDBACK,
    records=(PutMessageRecord(msg_id=ID), PutMessageRecord(feedback=65_536, accounting_token=b"token".ljust(32))),
)
RECORDS = (ResponseRecord(MQCC.OK, MQRC.NONE, ID, ID, bytes(24)), ResponseRecord(MQCC.FAILED, MQRC.Q_FULL))

LIST_CALLS: dict[Verb, tuple[str, tuple[Any, ...]]] = {
    Verb.OPEN: ("open", (LIST, MQOO.OUTPUT)),
    Verb.PUT: ("put", (7, MD, LIST_PMO, b"hello")),
    Verb.PUT1: ("put1", (LIST, MD, LIST_PMO, b"hello")),
}
"""The calls that can be for distribution lists."""

LIST_RESULTS: dict[Verb, Any] = {
    Verb.OPEN: Opened(7, "", "", "", 2136, False, True, 0, Distribution(RECORDS, 1)),
    Verb.PUT: PLACED._replace(reason=2136, distribution=Distribution(RECORDS, 1)),
    Verb.PUT1: PLACED._replace(reason=2136, distribution=Distribution(RECORDS, 0)),
}
"""What these return."""

ERRORS = [
    MQError(MQRC.Q_FULL, "ORDERS holds 5000 messages, its maximum depth"),
    MQError(MQRC.BACKED_OUT, "the store is full", MQCC.WARNING),
    MQError(9999),
    MQError(MQRC.TRUNCATED_MSG_FAILED, "5 bytes", message=DELIVERY),
    MQError(MQRC.MULTIPLE_REASONS, "two reasons", records=RECORDS),
    MQError(MQRC.TRUNCATED_MSG_FAILED, "5 bytes", message=DELIVERY._replace(deliver_at=1.8e9)),
]

PARTS = [
    ReplyPart(CommandReply(code="AMQ8409I", text="AMQ8409I: ...", attributes=({"QUEUE": "B"},)), True),
    ReplyPart(CommandReply(code="AMQ8022I", text="AMQ8022I: ...")),
]
