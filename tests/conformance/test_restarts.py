"""What an orderly end and a new start keep (semantics 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mqi import MQGMO, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, browsed, drained, fails, name_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def again(system: System) -> Queue:
    """Restart, and open QLOCAL(Q) anew."""
    await system.restart()
    connection = await system.connect("again")
    return await connection.open("Q", ALL)


async def test_t10_7_persistent_messages_are_kept(system: System, queue: Queue) -> None:
    for data, persistence in ((b"A", 1), (b"B", 0), (b"C", 1)):
        await queue.put(data, persistence=persistence)
    assert await drained(await again(system)) == [b"A", b"C"]


async def test_a_message_is_the_same_after_a_restart(system: System, queue: Queue) -> None:
    md = MessageDescriptor(
        msg_id=name_of("m"), correl_id=name_of("c"), priority=4, format="FORMAT", reply_to_q="R", expiry=6000
    )
    await queue.put(b"A" * 5000, md, persistence=1)
    before = await queue.get(options=MQGMO.BROWSE_FIRST)
    after = await (await again(system)).get(options=MQGMO.BROWSE_FIRST)
    assert (after.data, after.length, after.md, after.token) == (before.data, before.length, before.md, before.token)


async def test_order_and_backout_counts_are_kept(system: System, connection: Connection, queue: Queue) -> None:
    for data, priority in ((b"A", 1), (b"B", 9), (b"C", 1)):
        await queue.put(data, MessageDescriptor(priority=priority), persistence=1)
    for _ in range(2):
        await queue.get(options=MQGMO.SYNCPOINT)
        await queue.get(options=MQGMO.SYNCPOINT)
        await connection.backout()
    handle = await again(system)
    found = [await handle.get() for _ in range(3)]
    assert [(each.data, each.md.backout_count) for each in found] == [(b"B", 2), (b"A", 2), (b"C", 0)]


async def test_a_message_got_is_gone(system: System, connection: Connection, queue: Queue) -> None:
    for data in (b"A", b"B", b"C"):
        await queue.put(data, persistence=1)
    await queue.get()
    await queue.get(options=MQGMO.SYNCPOINT)
    await connection.commit()
    assert await drained(await again(system)) == [b"C"]


async def test_a_unit_of_work_is_committed_by_the_disconnection(system: System, queue: Queue) -> None:
    await queue.put(b"A", options=MQPMO.SYNCPOINT, persistence=1)
    assert await drained(await again(system)) == [b"A"]


async def test_expiry_goes_on_while_the_queue_manager_is_down(system: System, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=100), persistence=1)
    await queue.put(b"B", MessageDescriptor(expiry=10), persistence=1)
    await system.restart()
    await system.clock.advance(4)
    connection = await system.connect()
    async with connection.open("Q", ALL) as handle:
        message = await handle.get()
        assert (message.data, message.md.expiry) == (b"A", 60)
        with fails(MQRC.NO_MSG_AVAILABLE):
            await handle.get()


async def test_definitions_are_kept(system: System, connection: Connection) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(7) DESCR('it''s kept')\nDEFINE PROCESS(P) USERDATA('x')")
    await system.mqsc("ALTER QMGR TRIGINT(5)\nDEFINE QLOCAL(GONE)\nDELETE QLOCAL(GONE)")
    texts = ["DISPLAY QLOCAL(Q) ALL", "DISPLAY PROCESS(P) ALL", "DISPLAY QMGR ALL", "DISPLAY QLOCAL(*)"]
    await connection.disconnect()
    before = [await system.mqsc(text) for text in texts]
    await system.restart()
    assert [await system.mqsc(text) for text in texts] == before


async def test_a_queue_of_a_name_used_before_is_another_queue(system: System, connection: Connection) -> None:
    await connection.put1("Q", b"A", persistence=1)
    await system.mqsc("DELETE QLOCAL(Q) PURGE\nDEFINE QLOCAL(Q)")
    assert await drained(await again(system)) == []


async def test_identifiers_are_never_given_twice(system: System, queue: Queue) -> None:
    ids = {(await queue.put(b"", persistence=1)).md.msg_id for _ in range(10)}
    handle = await again(system)
    assert len(ids | {(await handle.put(b"", persistence=1)).md.msg_id for _ in range(10)}) == 20


async def test_bodies_are_read_when_they_are_wanted(system: System, queue: Queue) -> None:
    bodies = [bytes([number]) * 3000 for number in range(100)]
    for data in bodies:
        await queue.put(data, persistence=1)
    handle = await again(system)
    assert system.manager.bodies.bytes == 0
    assert await drained(handle) == bodies


async def test_trigger_counts_are_rebuilt(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    for persistence in (1, 0, 1):
        await connection.put1("Q", b"", persistence=persistence)
    await system.restart()
    connection = await system.connect()
    async with connection.trigger_starts() as starts:
        assert [(each.q_name, each.starts) for each in await starts.pending()] == [("Q", 2)]


async def test_t10_7_an_orderly_end_keeps_nonpersistent_messages_of_the_high_class(system: System) -> None:
    await system.mqsc("DEFINE QLOCAL(Q) NPMCLASS(HIGH)\nDEFINE QLOCAL(R) NPMCLASS(NORMAL)")
    connection = await system.connect("scenario")
    for name in ("Q", "R"):
        for data, persistence in ((b"A", 0), (b"B", 1), (b"C", 0)):
            await connection.put1(name, data, MessageDescriptor(priority=1, persistence=persistence))
    await connection.put1("Q", b"D", MessageDescriptor(persistence=0), MQPMO.SYNCPOINT)
    system.cut(connection)
    for _ in range(2):
        handle = await again(system)
        assert await browsed(handle) == [b"A", b"B", b"C"]
    rest = await (await system.connect("rest")).open("R", ALL)
    assert await drained(rest) == [b"B"]


async def test_t10_2_an_uncommitted_get_is_undone_and_counted_by_the_end_of_its_connection(
    system: System, connection: Connection, queue: Queue
) -> None:
    for data in (b"A", b"B"):
        await queue.put(data, persistence=1)
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.put(b"C", options=MQPMO.SYNCPOINT, persistence=1)
    system.cut(connection)
    handle = await again(system)
    found = [await handle.get() for _ in range(2)]
    assert [(each.data, each.md.backout_count) for each in found] == [(b"A", 1), (b"B", 0)]
    assert await drained(handle) == []
