"""Every attribute of which the table says that it acts does: two values of it lead to two outcomes."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker import MQError, QueueManager
from broker.commands.table.attributes import TABLE
from broker.commands.table.row import Acts, Origin
from broker.interface.port import answer
from broker.mqi import MQGMO, MQOO, MQPMO, MQRO, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection, Queue

ALL = MQOO.INPUT_AS_Q_DEF | MQOO.OUTPUT | MQOO.BROWSE
EVENTS = "QDPHIEV(ENABLED) QDPLOEV(ENABLED) QSVCIEV(HIGH) QSVCINT(1000)"
TRIGGERED = "TRIGGER TRIGTYPE(EVERY) PROCESS(P)"


class Bench:
    """A queue manager with the queues and processes that the trials need; `name` is the queue that a trial is about."""

    def __init__(self, manager: QueueManager, connection: Connection, clock: VirtualClock, name: str) -> None:
        self.manager = manager
        self.connection = connection
        self.clock = clock
        self.name = name
        self.created: Queue | None = None  # the handle that made it, where it is a dynamic queue

    async def reason(self, call: Awaitable[object]) -> int:
        try:
            await call
        except MQError as error:
            return int(error.reason)
        return 0

    async def queue(self, options: int = MQOO.INPUT_SHARED | MQOO.OUTPUT) -> Queue:
        return await self.connection.open(self.name, options)

    def depth(self, name: str) -> int:
        return self.manager.core.objects.queues[name].depth

    async def drain(self, name: str) -> list[bytes]:
        async with self.connection.open(name, MQOO.INPUT_SHARED) as queue:
            return [(await queue.get()).data for _ in range(self.depth(name))]


async def descriptor(bench: Bench) -> object:
    md = (await bench.connection.put1(bench.name, b"A")).md
    return md.priority, md.persistence, md.coded_char_set_id


async def answers_later(bench: Bench) -> object:
    opened = await answer(bench.connection.port.open(ObjectDescriptor(object_name=bench.name), MQOO.OUTPUT))
    return opened.answers_puts_later


async def opened_twice(bench: Bench) -> object:
    await bench.queue(MQOO.INPUT_AS_Q_DEF)
    return await bench.reason(bench.queue(MQOO.INPUT_AS_Q_DEF))


async def put_and_got(bench: Bench) -> object:
    queue = await bench.queue()
    return await bench.reason(queue.put(b"A")), await bench.reason(queue.get())


async def put_two(bench: Bench) -> object:
    return [await bench.reason(bench.connection.put1(bench.name, b"AB")) for _ in range(2)]


async def hardened(bench: Bench) -> object:
    queue = await bench.queue()
    await queue.put(b"A", persistence=1)
    before = bench.manager.journal.transactions
    await queue.get(options=MQGMO.SYNCPOINT)
    return bench.manager.journal.transactions - before


async def order(bench: Bench) -> object:
    queue = await bench.queue()
    for priority in (1, 9):
        await queue.put(b"%d" % priority, MessageDescriptor(priority=priority))
    return (await queue.get()).data


async def kept_nonpersistent(bench: Bench) -> object:
    await bench.connection.put1(bench.name, b"A", persistence=0)
    return len(bench.manager.core.nonpersistent_rows().inserts)


async def properties(bench: Bench) -> object:
    queue = await bench.queue()
    await queue.put(b"A", properties={"colour": "red"})
    return (await queue.get()).properties


async def read_ahead(bench: Bench) -> object:
    """Return the number of messages left on the queues when a loop in a unit of work has been given half of them."""
    queue = await bench.queue()
    await queue.put_many([b"A"] * 8)
    async with bench.connection.unit_of_work():
        given = 0
        async for _ in queue:
            given += 1
            if given == 4:
                return [each.depth for _, each in sorted(bench.manager.core.objects.queues.items()) if each.depth]
    return None


async def events(bench: Bench) -> object:
    queue = await bench.queue()
    for _ in range(3):
        await queue.put(b"A")
    await bench.clock.advance(10)
    await queue.put(b"A")
    await bench.reason(queue.put(b"A"))
    for _ in range(4):
        await queue.get()
    return await bench.drain("SYSTEM.ADMIN.PERFM.EVENT")


async def shared(bench: Bench) -> object:
    await bench.queue()
    return await bench.reason(bench.queue())


async def survives(bench: Bench) -> object:
    """Return True if a dynamic queue outlives the handle that created it."""
    assert bench.created is not None
    await bench.created.close()
    return bench.name in bench.manager.core.objects.queues


async def started(bench: Bench) -> object:
    """Return what a monitor is handed after a message of priority 3, and after another one ten seconds later."""
    found = []
    for _ in range(2):
        await bench.connection.put1(bench.name, b"A", MessageDescriptor(priority=3))
        pending = await answer(bench.connection.port.trigger_pending())
        for queue in pending.queues:
            leases = await answer(bench.connection.port.trigger_take(queue.q_name, 1))
            found.append([lease.trigger for lease in leases])
        await bench.clock.advance(10)
    return found


async def landed(bench: Bench) -> object:
    """Return where a message put under the name comes, and what is there then."""
    reason = await bench.reason(bench.connection.put1(bench.name, b"A", MessageDescriptor(msg_id=b"M" * 24)))
    names = "Q", "R", "X", "Y"
    return reason, {name: [data[:104] for data in await bench.drain(name)] for name in names}


async def dead_letters(bench: Bench) -> object:
    md = MessageDescriptor(report=MQRO.COA, reply_to_q="NOSUCH")
    await bench.connection.put1("Q", b"A", md)
    return bench.depth("R")


async def sent_away(bench: Bench) -> object:
    od = ObjectDescriptor(object_name="T", object_q_mgr_name="QM2")
    return await bench.reason(bench.connection.put1(od, b"A"))


async def inhibited(bench: Bench) -> object:
    await bench.connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    await bench.reason(bench.connection.put1("Q", b"A"))
    return bench.depth("SYSTEM.ADMIN.QMGR.EVENT")


async def marked(bench: Bench) -> object:
    await bench.connection.put1("Q", b"A")
    unmarked = GetMessageOptions(options=MQGMO.BROWSE_FIRST | MQGMO.MARK_BROWSE_CO_OP | MQGMO.UNMARKED_BROWSE_MSG)
    handles = [await bench.connection.open("Q", MQOO.BROWSE | MQOO.CO_OP) for _ in range(2)]
    await handles[0].get(options=unmarked)
    await bench.clock.advance(10)
    return await bench.reason(handles[1].get(options=unmarked))


async def handles(bench: Bench) -> object:
    return [await bench.reason(bench.queue()) for _ in range(2)]


async def length(bench: Bench) -> object:
    return await bench.reason(bench.connection.put1("Q", bytes(40000)))


async def property_length(bench: Bench) -> object:
    return await bench.reason(bench.connection.put1("Q", b"A", properties={"colour": "red"}))


async def in_a_unit(bench: Bench) -> object:
    queue = await bench.queue()
    return [await bench.reason(queue.put(b"A", options=MQPMO.SYNCPOINT)) for _ in range(2)]


async def trigger_message(bench: Bench) -> object:
    await bench.connection.mqsc("ALTER QLOCAL(Q) INITQ(R)")
    async with bench.connection.open("R", MQOO.INPUT_SHARED) as queue:
        await bench.connection.put1("Q", b"A")
        return (await queue.get()).data


class Case(NamedTuple):
    """Two ways to set an attribute, what else is set with it, and what shows the difference."""

    first: str
    second: str
    trial: Callable[[Bench], Awaitable[object]]
    besides: str = ""


OF_A_QUEUE = {
    "DEFPRTY": Case("DEFPRTY(0)", "DEFPRTY(5)", descriptor),
    "DEFPSIST": Case("DEFPSIST(NO)", "DEFPSIST(YES)", descriptor),
    "DEFPRESP": Case("DEFPRESP(SYNC)", "DEFPRESP(ASYNC)", answers_later),
    "DEFREADA": Case("DEFREADA(YES)", "DEFREADA(DISABLED)", read_ahead),
    "DEFSOPT": Case("DEFSOPT(SHARED)", "DEFSOPT(EXCL)", opened_twice),
    "GET": Case("GET(ENABLED)", "GET(DISABLED)", put_and_got),
    "HARDENBO": Case("HARDENBO", "NOHARDENBO", hardened),
    "INITQ": Case("INITQ(' ')", "INITQ(R)", started, TRIGGERED),
    "MAXDEPTH": Case("MAXDEPTH(1)", "MAXDEPTH(2)", put_two),
    "MAXMSGL": Case("MAXMSGL(1)", "MAXMSGL(2)", put_two),
    "MSGDLVSQ": Case("MSGDLVSQ(PRIORITY)", "MSGDLVSQ(FIFO)", order),
    "TRIGGER": Case("TRIGGER", "NOTRIGGER", started, "TRIGTYPE(EVERY) PROCESS(P)"),
    "NPMCLASS": Case("NPMCLASS(NORMAL)", "NPMCLASS(HIGH)", kept_nonpersistent),
    "PROCESS": Case("PROCESS(P)", "PROCESS(NOSUCH)", started, "TRIGGER TRIGTYPE(EVERY)"),
    "PUT": Case("PUT(ENABLED)", "PUT(DISABLED)", put_and_got),
    "PROPCTL": Case("PROPCTL(ALL)", "PROPCTL(FORCE)", properties),
    "QDEPTHHI": Case("QDEPTHHI(50)", "QDEPTHHI(75)", events, f"MAXDEPTH(4) {EVENTS}"),
    "QDEPTHLO": Case("QDEPTHLO(50)", "QDEPTHLO(25)", events, f"MAXDEPTH(4) {EVENTS}"),
    "QDPHIEV": Case("QDPHIEV(ENABLED)", "QDPHIEV(DISABLED)", events, "MAXDEPTH(4)"),
    "QDPLOEV": Case("QDPLOEV(ENABLED)", "QDPLOEV(DISABLED)", events, "MAXDEPTH(4)"),
    "QDPMAXEV": Case("QDPMAXEV(ENABLED)", "QDPMAXEV(DISABLED)", events, "MAXDEPTH(4)"),
    "QSVCIEV": Case("QSVCIEV(HIGH)", "QSVCIEV(NONE)", events, "MAXDEPTH(4) QSVCINT(1000)"),
    "QSVCINT": Case("QSVCINT(1000)", "QSVCINT(100000)", events, "MAXDEPTH(4) QSVCIEV(HIGH)"),
    "SHARE": Case("SHARE", "NOSHARE", shared),
    "TRIGDATA": Case("TRIGDATA(A)", "TRIGDATA(B)", started, TRIGGERED),
    "TRIGDPTH": Case("TRIGDPTH(1)", "TRIGDPTH(3)", started, "TRIGGER TRIGTYPE(DEPTH) PROCESS(P)"),
    "TRIGMPRI": Case("TRIGMPRI(3)", "TRIGMPRI(4)", started, TRIGGERED),
    "TRIGTYPE": Case("TRIGTYPE(EVERY)", "TRIGTYPE(NONE)", started, "TRIGGER PROCESS(P)"),
    "USAGE": Case("USAGE(NORMAL)", "USAGE(XMITQ)", put_two),
}  # fmt: skip
OF_INDIRECT = {keyword: OF_A_QUEUE[keyword] for keyword in ("DEFPRTY", "DEFPSIST", "DEFPRESP")}
CASES: dict[str, dict[str, Case]] = {
    "QLOCAL": OF_A_QUEUE,
    "QMODEL": {**OF_A_QUEUE, "DEFTYPE": Case("DEFTYPE(PERMDYN)", "DEFTYPE(TEMPDYN)", survives)},
    "QALIAS": {
        **{keyword: case._replace(besides="TARGET(Q)") for keyword, case in OF_INDIRECT.items()},
        "GET": Case("GET(ENABLED)", "GET(DISABLED)", put_and_got, "TARGET(Q)"),
        "DEFREADA": Case("DEFREADA(YES)", "DEFREADA(DISABLED)", read_ahead, "TARGET(Q)"),
        "PROPCTL": Case("PROPCTL(ALL)", "PROPCTL(FORCE)", properties, "TARGET(Q)"),
        "PUT": Case("PUT(ENABLED)", "PUT(DISABLED)", put_and_got, "TARGET(Q)"),
        "TARGET": Case("TARGET(Q)", "TARGET(R)", landed),
    },
    "QREMOTE": {
        **{keyword: case._replace(besides="RQMNAME(QM2) RNAME(T) XMITQ(X)") for keyword, case in OF_INDIRECT.items()},
        "PUT": Case("PUT(ENABLED)", "PUT(DISABLED)", landed, "RQMNAME(QM2) RNAME(T) XMITQ(X)"),
        "RQMNAME": Case("RQMNAME(QM2)", "RQMNAME(QM3)", landed, "RNAME(T) XMITQ(X)"),
        "RNAME": Case("RNAME(T)", "RNAME(U)", landed, "RQMNAME(QM2) XMITQ(X)"),
        "XMITQ": Case("XMITQ(X)", "XMITQ(Y)", landed, "RQMNAME(QM2) RNAME(T)"),
    },
    "PROCESS": {
        "APPLTYPE": Case("APPLTYPE(DEF)", "APPLTYPE(UNIX)", trigger_message),
        **{
            keyword: Case(f"{keyword}(A)", f"{keyword}(B)", started)
            for keyword in ("APPLICID", "ENVRDATA", "USERDATA")
        },
    },
    "QMGR": {
        "CCSID": Case("CCSID(1208)", "CCSID(819)", descriptor),
        "DEADQ": Case("DEADQ(R)", "DEADQ(' ')", dead_letters),
        "DEFXMITQ": Case("DEFXMITQ(X)", "DEFXMITQ(' ')", sent_away),
        "INHIBTEV": Case("INHIBTEV(ENABLED)", "INHIBTEV(DISABLED)", inhibited),
        "MARKINT": Case("MARKINT(5000)", "MARKINT(NOLIMIT)", marked),
        "MAXHANDS": Case("MAXHANDS(1)", "MAXHANDS(2)", handles),
        "MAXMSGL": Case("MAXMSGL(32768)", "MAXMSGL(50000)", length),
        "MAXPROPL": Case("MAXPROPL(1)", "MAXPROPL(NOLIMIT)", property_length),
        "MAXUMSGS": Case("MAXUMSGS(1)", "MAXUMSGS(2)", in_a_unit),
        "PERFMEV": Case("PERFMEV(ENABLED)", "PERFMEV(DISABLED)", events),
        "TRIGINT": Case("TRIGINT(9000)", "TRIGINT(11000)", started),
    },
}  # fmt: skip
IN_A_GROUP = {
    ("QLOCAL", "CFSTRUCT"), ("QMODEL", "CFSTRUCT"), ("CFSTRUCT", "CFCONLOS"), ("CFSTRUCT", "RECOVER"),
    ("QMGR", "CFCONLOS"), ("QMGR", "GROUPUR"), ("QMGR", "IGQ"), ("QMGR", "SQQMNAME"),
}  # fmt: skip
"""Those that make a difference only to members of a queue-sharing group: `tests/sharing/` tells of it."""
OF_SECURITY = ("USER", "AUTHINFO", "CHANNEL", "CLNTCONN", "CHLAUTH")
JUDGED = ("AUTHOREV", "CHLEV", "CHLAUTH", "CONNAUTH", "IGQAUT", "IGQUSER", "SSLEV")
"""Kinds, and attributes of the queue manager, that make a difference to who is let in and what they may do: the tests
of `core/security` and of the server tell of it.
"""
ACTING = [
    (kind, row.keyword)
    for kind, rows in TABLE.items()
    for row in rows.values()
    if row.origin is Origin.GIVEN and row.acts is Acts.YES and (kind, row.keyword) not in IN_A_GROUP
    if kind not in OF_SECURITY and (kind, row.keyword) not in {("QMGR", word) for word in JUDGED}
]


def definitions(kind: str, keyword: str, attributes: str) -> tuple[str, str]:
    """The script that sets the attribute, and the name of the queue to try it on."""
    match kind:
        case "QLOCAL":
            return f"ALTER QLOCAL(Q) {attributes}", "Q"
        case "QMODEL":
            shared = "" if keyword in ("SHARE", "DEFSOPT") else "SHARE DEFSOPT(SHARED)"
            shared = "SHARE" if keyword == "DEFSOPT" else shared
            permanent = "" if keyword == "DEFTYPE" else "DEFTYPE(PERMDYN)"
            return f"DEFINE QMODEL(M) {permanent} {shared} {attributes}", "DYNAMIC"
        case "PROCESS":
            return f"ALTER PROCESS(P) {attributes}\nALTER QLOCAL(Q) {TRIGGERED}", "Q"
        case "QMGR" if keyword == "TRIGINT":
            return f"ALTER QMGR {attributes}\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) PROCESS(P)", "Q"
        case "QMGR":
            return f"ALTER QMGR {attributes}\nALTER QLOCAL(Q) MAXDEPTH(4) {EVENTS}", "Q"
        case _:
            return f"DEFINE {kind}(NAME) {attributes}", "NAME"


async def outcome(kind: str, keyword: str, attributes: str, trial: Callable[[Bench], Awaitable[object]]) -> object:
    clock = VirtualClock()
    script, name = definitions(kind, keyword, attributes)
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(QueueManager.open(name="QM1", defaults="mq", clock=clock))
        connection = await stack.enter_async_context(manager.connect("trial"))
        setting = "DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)\nDEFINE PROCESS(P)\nALTER QMGR PERFMEV(ENABLED)\n"
        setting += "DEFINE QLOCAL(X) USAGE(XMITQ)\nDEFINE QLOCAL(Y) USAGE(XMITQ)\n"
        async with manager.connect() as administrator:
            replies = await administrator.mqsc(setting + script)
        assert [reply.text for reply in replies if not reply.ok] == []
        bench = Bench(manager, connection, clock, name)
        if name == "DYNAMIC":
            bench.created = await connection.open(ObjectDescriptor(object_name="M", dynamic_q_name=name), MQOO.OUTPUT)
        return await trial(bench)


@pytest.mark.parametrize(("kind", "keyword"), ACTING, ids=[f"{kind}-{keyword}" for kind, keyword in ACTING])
async def test_an_attribute_that_acts_makes_a_difference(kind: str, keyword: str) -> None:
    case = CASES[kind][keyword]
    first = await outcome(kind, keyword, f"{case.besides} {case.first}", case.trial)
    again = await outcome(kind, keyword, f"{case.besides} {case.first}", case.trial)
    second = await outcome(kind, keyword, f"{case.besides} {case.second}", case.trial)
    assert first == again != second


def test_no_trial_is_for_an_attribute_that_does_not_act() -> None:
    assert {(kind, keyword) for kind, cases in CASES.items() for keyword in cases} == set(ACTING)
