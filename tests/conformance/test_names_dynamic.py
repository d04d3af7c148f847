"""Dynamic queues: made of model queues by opening them, deleted by closing them (semantics 9.5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQCA, MQCO, MQGMO, MQIA, MQOO, MQPMO, MQQDT, MQQT, MQRC, ObjectDescriptor
from tests.conformance.expect import ALL, drained, fails

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

TEMPORARY = ObjectDescriptor(object_name="TEMPORARY", dynamic_q_name="T.*")
PERMANENT = ObjectDescriptor(object_name="PERMANENT", dynamic_q_name="P.*")


@pytest.fixture
async def models(system: System, connection: Connection) -> None:
    """QMODEL(TEMPORARY) and QMODEL(PERMANENT); what they make is shareable and nonpersistent by default."""
    await system.mqsc("DEFINE QMODEL(TEMPORARY) SHARE DEFSOPT(SHARED) DEFPSIST(NO)")
    await system.mqsc("DEFINE QMODEL(PERMANENT) DEFTYPE(PERMDYN) SHARE DEFSOPT(SHARED) DEFPSIST(NO)")


pytestmark = pytest.mark.usefixtures("models")


def names(system: System) -> list[str]:
    """The queues that are no objects of the system's, nor QLOCAL(Q)."""
    return [
        each for each in sorted(system.manager.core.objects.queues) if each != "Q" and not each.startswith("SYSTEM.")
    ]


# Names


async def test_t9_5_each_open_of_a_model_queue_makes_another_queue(system: System, connection: Connection) -> None:
    od = ObjectDescriptor(object_name="TEMPORARY")
    first, second = await connection.open(od, ALL), await connection.open(od, ALL)
    for queue in (first, second):
        assert queue.name.startswith("AMQ.")
        assert len(queue.name) == len("AMQ.") + 16
        assert (queue.resolved_q_name, queue.resolved_q_mgr_name) == (queue.name, "QM1")
        await queue.put(b"A")
        assert (await queue.get()).data == b"A"
    assert sorted((first.name, second.name)) == names(system)
    assert od == ObjectDescriptor(object_name="TEMPORARY")


@pytest.mark.parametrize(
    "name", ["*AMQ", "", "   ", "A*B", "A B", "A" * 33 + "*", "A**", "é"], ids=lambda name: repr(name[:6])
)
async def test_t9_5_a_name_that_cannot_be_one_makes_no_queue(system: System, connection: Connection, name: str) -> None:
    for model in (TEMPORARY, PERMANENT):
        with fails(MQRC.DYNAMIC_Q_NAME_ERROR):
            await connection.open(replace(model, dynamic_q_name=name), ALL)
    assert names(system) == []


@pytest.mark.parametrize(
    ("pattern", "length"), [("*", 16), ("A" * 32 + "*", 48), ("X*   ", 17), ("EXACT", 5)], ids=lambda value: str(value)
)
async def test_t9_5_an_asterisk_is_replaced_by_what_makes_the_name_unique(
    connection: Connection, pattern: str, length: int
) -> None:
    queue = await connection.open(replace(TEMPORARY, dynamic_q_name=pattern), ALL)
    assert len(queue.name) == length
    assert queue.name.startswith(pattern.rstrip(" *"))
    await connection.open(queue.name, ALL)


async def test_t9_5_a_name_that_is_taken_is_refused(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QALIAS(A) TARGET(Q)")
    for name in ("Q", "A", "TEMPORARY"):
        for model in (TEMPORARY, PERMANENT):
            with fails(MQRC.OBJECT_ALREADY_EXISTS):
                await connection.open(replace(model, dynamic_q_name=name), ALL)
    assert names(system) == []


async def test_t9_11_put1_makes_no_queue(system: System, connection: Connection) -> None:
    for od in (TEMPORARY, PERMANENT):
        with fails(MQRC.Q_TYPE_ERROR):
            await connection.put1(od, b"")
    await system.mqsc("DEFINE QREMOTE(HERE) RQMNAME(QM1)")
    with fails(MQRC.Q_TYPE_ERROR):
        await connection.open(replace(TEMPORARY, object_q_mgr_name="HERE"), MQOO.OUTPUT)
    assert names(system) == []


async def test_what_an_open_is_refused_for_makes_no_queue(system: System, connection: Connection) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        await connection.open(TEMPORARY, 0)
    with fails(MQRC.SELECTOR_SYNTAX_ERROR):
        await connection.open(replace(PERMANENT, selection_string="a ="), ALL)
    await system.mqsc("ALTER QMGR MAXHANDS(0)")
    with fails(MQRC.HANDLE_NOT_AVAILABLE):
        await connection.open(PERMANENT, ALL)
    assert names(system) == []


async def test_a_dynamic_queue_has_the_attributes_of_its_model(system: System, connection: Connection) -> None:
    await system.mqsc("ALTER QMODEL(TEMPORARY) DESCR('for replies') MAXDEPTH(2)")
    queue = await connection.open(TEMPORARY, ALL)
    assert await queue.inquire(MQIA.DEFINITION_TYPE, MQIA.Q_TYPE, MQIA.MAX_Q_DEPTH, MQCA.Q_DESC, MQCA.Q_NAME) == {
        MQIA.DEFINITION_TYPE: MQQDT.TEMPORARY_DYNAMIC,
        MQIA.Q_TYPE: MQQT.LOCAL,
        MQIA.MAX_Q_DEPTH: 2,
        MQCA.Q_DESC: "for replies",
        MQCA.Q_NAME: queue.name,
    }
    await queue.set({MQIA.INHIBIT_PUT: 1})
    with fails(MQRC.PUT_INHIBITED):
        await queue.put(b"")
    (reply,) = await system.mqsc(f"DISPLAY QLOCAL({queue.name}) DEFTYPE")
    assert reply.attributes[0]["DEFTYPE"] == "TEMPDYN"


async def test_the_default_model_makes_queues_for_one_getter(connection: Connection, other: Connection) -> None:
    od = ObjectDescriptor(object_name="SYSTEM.DEFAULT.MODEL.QUEUE")
    queue = await connection.open(od, MQOO.INPUT_AS_Q_DEF)
    with fails(MQRC.OBJECT_IN_USE):
        await other.open(queue.name, MQOO.INPUT_SHARED)
    async with other.open(queue.name, MQOO.OUTPUT) as replies:
        await replies.put(b"A")
    assert (await queue.get()).data == b"A"


# Temporary ones


@pytest.mark.parametrize("options", [MQCO.NONE, MQCO.DELETE, MQCO.DELETE_PURGE])
async def test_t9_6_a_temporary_queue_ends_with_the_handle_that_made_it(
    system: System, connection: Connection, other: Connection, options: MQCO
) -> None:
    queue = await connection.open(TEMPORARY, ALL)
    second = await other.open(queue.name, ALL)
    await queue.put(b"A")
    waiting = asyncio.ensure_future(second.get(options=MQGMO.WAIT, wait=100, max_length=0))
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await waiting
    await queue.get()
    waiting = asyncio.ensure_future(second.get(wait=100))
    await system.waiting(queue.name, 1)
    await queue.close(options)
    for call in (waiting, second.get(), second.put(b""), second.inquire(MQIA.Q_TYPE)):
        with fails(MQRC.Q_DELETED):
            await call
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open(queue.name, ALL)
    with fails(MQRC.NAME_IN_USE):
        await connection.open(replace(TEMPORARY, dynamic_q_name=queue.name), ALL)
    await second.close()
    await connection.open(replace(TEMPORARY, dynamic_q_name=queue.name), ALL)


async def test_another_handle_cannot_delete_a_temporary_queue(connection: Connection, other: Connection) -> None:
    queue = await connection.open(TEMPORARY, ALL)
    second = await other.open(queue.name, ALL)
    for options in (MQCO.DELETE, MQCO.DELETE_PURGE):
        with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE):
            await second.close(options)
    with fails(MQRC.OPTIONS_ERROR):
        await second.close(MQCO.DELETE | MQCO.DELETE_PURGE)
    await second.close()
    await queue.put(b"A")
    assert await drained(queue) == [b"A"]


@pytest.mark.parametrize("cut", [False, True])
async def test_a_temporary_queue_ends_with_its_connection(system: System, connection: Connection, *, cut: bool) -> None:
    program = await system.connect("creator")
    queue = await program.open(TEMPORARY, ALL)
    second = await connection.open(queue.name, ALL)
    await second.put(b"A", options=MQPMO.SYNCPOINT)
    await queue.put(b"B", options=MQPMO.SYNCPOINT)
    if cut:
        system.cut(program)
    else:
        await program.disconnect()
    await system.until(lambda: names(system) == [])
    await connection.commit()
    with fails(MQRC.Q_DELETED):
        await second.get()


async def test_uncommitted_messages_go_with_a_temporary_queue(system: System, connection: Connection) -> None:
    queue = await connection.open(TEMPORARY, ALL)
    for data in (b"A", b"B"):
        await queue.put(data)
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.put(b"C", options=MQPMO.SYNCPOINT)
    await queue.close()
    with fails(MQRC.NAME_IN_USE):
        await connection.open(replace(TEMPORARY, dynamic_q_name=queue.name), ALL)
    await connection.backout()
    again = await connection.open(replace(TEMPORARY, dynamic_q_name=queue.name), ALL)
    assert await drained(again) == []


async def test_t9_9_a_temporary_queue_takes_no_persistent_message(system: System, connection: Connection) -> None:
    queue = await connection.open(TEMPORARY, ALL)
    await queue.put(b"A", persistence=0)
    with fails(MQRC.PERSISTENT_NOT_ALLOWED):
        await queue.put(b"B", persistence=1)
    with fails(MQRC.PERSISTENT_NOT_ALLOWED):
        await connection.put1(queue.name, b"B", persistence=1)
    await system.mqsc("ALTER QMODEL(TEMPORARY) DEFPSIST(YES)")
    second = await connection.open(TEMPORARY, ALL)
    with fails(MQRC.PERSISTENT_NOT_ALLOWED):
        await second.put(b"B")
    assert await drained(queue) == [b"A"]


async def test_a_temporary_queue_in_use_is_not_deleted_by_command(connection: Connection, other: Connection) -> None:
    queue = await connection.open(TEMPORARY, ALL)
    (reply,) = await other.mqsc(f"DELETE QLOCAL({queue.name}) PURGE")
    assert reply.code == "AMQ8148E"


async def test_an_alteration_that_comes_too_late_makes_no_queue(system: System, connection: Connection) -> None:
    """The queue ends while the change of its attributes is on its way."""
    program = await system.connect("creator")
    queue = await program.open(TEMPORARY, ALL)
    altering = asyncio.ensure_future(connection.mqsc(f"ALTER QLOCAL({queue.name}) DESCR('x')\nDEFINE QLOCAL(R)"))
    await asyncio.gather(altering, program.disconnect())
    await system.until(lambda: names(system) == ["R"])


# Permanent ones


async def test_t9_7_a_permanent_queue_is_deleted_when_it_is_empty(system: System, connection: Connection) -> None:
    # B18
    queue = await connection.open(PERMANENT, ALL)
    await queue.put(b"A", persistence=1)
    with fails(MQRC.Q_NOT_EMPTY):
        await queue.close(MQCO.DELETE)
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).data == b"A"
    await queue.close(MQCO.DELETE_PURGE)
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open(queue.name, ALL)
    assert names(system) == []


async def test_a_permanent_queue_stays_when_it_is_just_closed(connection: Connection, other: Connection) -> None:
    queue = await connection.open(PERMANENT, ALL)
    await queue.put(b"A", persistence=1)
    await queue.close()
    second = await other.open(queue.name, ALL)
    assert await drained(second) == [b"A"]
    await second.close(MQCO.DELETE)


async def test_unfinished_units_of_work_keep_a_permanent_queue(connection: Connection, other: Connection) -> None:
    queue = await connection.open(PERMANENT, ALL)
    second = await other.open(queue.name, ALL)
    await second.put(b"A", options=MQPMO.SYNCPOINT)
    for options in (MQCO.DELETE, MQCO.DELETE_PURGE):
        with fails(MQRC.Q_NOT_EMPTY):
            await queue.close(options)
    await other.backout()
    await queue.close(MQCO.DELETE)


async def test_t9_10_waiting_gets_end_when_a_permanent_queue_is_deleted(
    system: System, connection: Connection, other: Connection
) -> None:
    queue = await connection.open(PERMANENT, ALL)
    second = await other.open(queue.name, MQOO.OUTPUT)
    waiting = asyncio.ensure_future(queue.get(wait=100))
    await system.waiting(queue.name, 1)
    await second.close(MQCO.DELETE)
    for call in (waiting, queue.put(b"")):
        with fails(MQRC.Q_DELETED):
            await call
    await queue.close(MQCO.DELETE)


async def test_two_programs_may_delete_a_queue_at_once(connection: Connection, other: Connection) -> None:
    queue = await connection.open(PERMANENT, ALL)
    second = await other.open(queue.name, ALL)
    reasons = await asyncio.gather(queue.close(MQCO.DELETE), second.close(MQCO.DELETE))
    assert list(reasons) == [MQRC.NONE, MQRC.NONE]


async def test_t9_8_closing_deletes_nothing_else(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QALIAS(A) TARGET(Q)")
    for name in ("Q", "A"):
        queue = await connection.open(name, ALL)
        with fails(MQRC.OPTION_NOT_VALID_FOR_TYPE):
            await queue.close(MQCO.DELETE)
        await queue.put(b"A")
        assert await drained(queue) == [b"A"]


# Restarts


async def test_a_restart_keeps_permanent_queues_only(system: System, connection: Connection) -> None:
    permanent = await connection.open(PERMANENT, ALL)
    await connection.open(TEMPORARY, ALL)
    await permanent.put(b"A", persistence=1)
    await permanent.put(b"B", persistence=0)
    await system.restart()
    assert names(system) == [permanent.name]
    connection = await system.connect()
    queue = await connection.open(permanent.name, ALL)
    assert (await queue.inquire(MQIA.DEFINITION_TYPE)) == {MQIA.DEFINITION_TYPE: MQQDT.PERMANENT_DYNAMIC}
    assert await drained(queue) == [b"A"]
    assert (await connection.open(PERMANENT, ALL)).name != permanent.name
    await queue.close(MQCO.DELETE)
    await system.restart()
    assert permanent.name not in names(system)


async def test_t10_7_an_orderly_stop_keeps_nonpersistent_messages_of_high_class(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(HIGH) NPMCLASS(HIGH) DEFPSIST(NO)\nALTER QMODEL(TEMPORARY) NPMCLASS(HIGH)")
    high = await connection.open("HIGH", ALL)
    temporary = await connection.open(TEMPORARY, ALL)
    for handle in (high, queue):
        for data, persistence in ((b"A" * 3000, 0), (b"B", 1), (b"C", 0)):
            await handle.put(data, persistence=persistence)
    await temporary.put(b"D")
    await high.put(b"D", options=MQPMO.SYNCPOINT)
    await connection.backout()
    for _ in range(2):
        await system.restart()
        assert (system.depth("HIGH"), system.depth()) == (3, 1)
    connection = await system.connect()
    assert await drained(await connection.open("HIGH", ALL)) == [b"A" * 3000, b"B", b"C"]
    assert await drained(await connection.open("Q", ALL)) == [b"B"]
    await system.restart()
    assert (system.depth("HIGH"), system.depth()) == (0, 0)
