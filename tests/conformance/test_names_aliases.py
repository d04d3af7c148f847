"""Alias queues: where they lead, what they say about messages, and what their changes do (semantics 9, 12.2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQIA, MQOO, MQQT, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


@pytest.fixture
async def alias(system: System, queue: Queue, connection: Connection) -> Queue:
    """QALIAS(A) over QLOCAL(Q), open for everything on `connection`."""
    await system.mqsc("DEFINE QALIAS(A) TARGET(Q)")
    return await connection.open("A", ALL)


async def test_an_alias_leads_to_its_base_queue(system: System, queue: Queue, alias: Queue) -> None:
    assert (alias.name, alias.resolved_q_name, alias.resolved_q_mgr_name) == ("A", "Q", system.q_owner)
    await alias.put(b"A")
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).data == b"A"
    assert (await alias.get()).data == b"A"
    counts = await queue.inquire(MQIA.OPEN_INPUT_COUNT, MQIA.OPEN_OUTPUT_COUNT)
    assert counts == {MQIA.OPEN_INPUT_COUNT: 2, MQIA.OPEN_OUTPUT_COUNT: 2}


async def test_t9_4_an_alias_must_lead_to_a_queue_that_is_there(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QALIAS(A) TARGET(NOSUCH)\nDEFINE QALIAS(AA) TARGET(A)\nDEFINE QALIAS(M) TARGET(MOD)")
    await system.mqsc("DEFINE QMODEL(MOD)")
    for name, reason in (
        ("A", MQRC.UNKNOWN_ALIAS_BASE_Q),
        ("AA", MQRC.ALIAS_BASE_Q_TYPE_ERROR),
        ("M", MQRC.ALIAS_BASE_Q_TYPE_ERROR),
        ("NOSUCH", MQRC.UNKNOWN_OBJECT_NAME),
    ):
        with fails(reason):
            await connection.open(name, MQOO.OUTPUT)
        with fails(reason):
            await connection.put1(name, b"")


async def test_t9_11_inquiring_an_alias_tells_of_the_alias(system: System, alias: Queue, queue: Queue) -> None:
    await system.mqsc("ALTER QALIAS(A) DEFPRTY(7)\nALTER QLOCAL(Q) DEFPRTY(2)")
    assert await alias.inquire(MQIA.Q_TYPE, MQIA.DEF_PRIORITY) == {MQIA.Q_TYPE: MQQT.ALIAS, MQIA.DEF_PRIORITY: 7}
    with fails(MQRC.SELECTOR_NOT_FOR_TYPE):
        await alias.inquire(MQIA.CURRENT_Q_DEPTH)


async def test_t12_7_an_alias_gives_priority_and_persistence(
    system: System, connection: Connection, queue: Queue, alias: Queue
) -> None:
    await system.mqsc("ALTER QALIAS(A) DEFPRTY(7) DEFPSIST(YES)\nALTER QLOCAL(Q) DEFPRTY(2) DEFPSIST(NO)")
    placed = [(await alias.put(b"")).md, (await connection.put1("A", b"")).md, (await queue.put(b"")).md]
    assert [(md.priority, md.persistence) for md in placed] == [(7, 1), (7, 1), (2, 0)]
    assert [(await queue.get()).md.priority for _ in placed] == [7, 7, 2]


async def test_t13_3_puts_inhibited_on_the_alias_alone(
    system: System, connection: Connection, queue: Queue, alias: Queue
) -> None:
    await system.mqsc("ALTER QALIAS(A) PUT(DISABLED)")
    with fails(MQRC.PUT_INHIBITED):
        await alias.put(b"A")
    with fails(MQRC.PUT_INHIBITED):
        await connection.put1("A", b"A")
    await queue.put(b"B")
    assert await drained(alias) == [b"B"]


async def test_gets_inhibited_on_the_alias_end_the_waits_on_it(
    system: System, queue: Queue, alias: Queue, other_queue: Queue
) -> None:
    waiting = asyncio.ensure_future(alias.get(wait=100))
    elsewhere = asyncio.ensure_future(other_queue.get(wait=100))
    await system.waiting("Q", 2)
    await alias.set({MQIA.INHIBIT_GET: 1})
    with fails(MQRC.GET_INHIBITED):
        await waiting
    for options in (MQGMO.NONE, MQGMO.BROWSE_FIRST):
        with fails(MQRC.GET_INHIBITED):
            await alias.get(options=options)
    await queue.put(b"A")
    assert (await elsewhere).data == b"A"


async def test_inhibition_of_the_base_queue_holds_for_the_alias(
    system: System, connection: Connection, alias: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) PUT(DISABLED) GET(DISABLED)")
    with fails(MQRC.PUT_INHIBITED):
        await alias.put(b"")
    with fails(MQRC.GET_INHIBITED):
        await alias.get()


async def test_a_put_through_an_alias_triggers_the_base_queue(
    system: System, connection: Connection, alias: Queue
) -> None:
    await alias.close()
    await system.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    await connection.put1("A", b"")
    async with connection.trigger_starts() as starts:
        assert [(each.q_name, each.starts) for each in await starts.pending()] == [("Q", 1)]


async def test_an_alias_that_leads_elsewhere_cannot_be_used_any_more(
    system: System, connection: Connection, beside: Connection, queue: Queue, alias: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(R)")
    waiting = asyncio.ensure_future(alias.get(MessageDescriptor(correl_id=b"c" * 24), wait=100))
    await system.waiting("Q", 1)
    (refused,) = await beside.mqsc("ALTER QALIAS(A) TARGET(R)")
    assert refused.code == "AMQ8148E"
    await system.mqsc("ALTER QALIAS(A) TARGET(R) FORCE")
    with fails(MQRC.OBJECT_CHANGED):
        await waiting
    for call in (alias.put(b""), alias.get(), alias.inquire(MQIA.Q_TYPE), alias.set({MQIA.INHIBIT_PUT: 1})):
        with fails(MQRC.OBJECT_CHANGED):
            await call
    await queue.put(b"A")
    await alias.close()
    async with connection.open("A", ALL) as again:
        assert again.resolved_q_name == "R"
    assert await drained(queue) == [b"A"]


async def test_what_is_open_through_an_alias_is_in_use(system: System, beside: Connection, alias: Queue) -> None:
    replies = await beside.mqsc("DELETE QALIAS(A)\nDELETE QLOCAL(Q)\nDEFINE QALIAS(A) TARGET(R) REPLACE")
    assert [reply.code for reply in replies] == ["AMQ8148E"] * 3
    assert (await beside.mqsc("ALTER QALIAS(A) DESCR('x')\nALTER QALIAS(A) TARGET(Q)"))[1].ok
    await alias.put(b"A")
    await alias.close()
    await system.mqsc("DELETE QALIAS(A)")


async def test_an_alias_outlasts_a_change_of_what_it_does_not_lead_by(
    system: System, connection: Connection, queue: Queue, alias: Queue
) -> None:
    await system.mqsc("ALTER QALIAS(A) DEFPRTY(5) FORCE\nALTER QLOCAL(Q) MAXDEPTH(10)")
    await alias.put(b"A")
    await system.mqsc("ALTER QLOCAL(Q) USAGE(XMITQ) FORCE")
    for handle in (queue, alias):
        with fails(MQRC.OBJECT_CHANGED):
            await handle.get()
        await handle.close()
