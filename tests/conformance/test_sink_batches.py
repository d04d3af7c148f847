"""Batches of a sink as programs have them: messages appear together, once, or not at all (`docs/rules/claims.md`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.interface.batches.columns import unpack
from broker.interface.claims.claims import Publication, UnitName, Winner
from broker.interface.claims.sinks import new_attempt
from broker.interface.claims.staging import Row, frames
from broker.mqi import MQMF, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import drained, fails, name_of, reason_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System

MIB = 1024 * 1024


async def test_a_batch_appears_as_a_whole(system: System, connection: Connection, queue: Queue) -> None:
    async with connection.sink("IMPORT").batch(7) as batch:
        await batch.put("Q", b"one")
        await batch.put("Q", "two é", MessageDescriptor(correl_id=name_of("correl")), persistence=1)
        await batch.put("Q", b"three", properties={"colour": "red"})
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE
    assert batch.published == Publication(3, already=False)
    one, two, three = [await queue.get() for _ in range(3)]
    assert (one.data, one.md.format) == (b"one", "")
    assert (two.data, two.md.format, two.md.coded_char_set_id) == ("two é".encode(), "MQSTR", 1208)
    assert (two.md.correl_id, two.md.persistence) == (name_of("correl"), 1)
    assert (three.data, dict(three.properties)) == (b"three", {"colour": "red"})
    assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE


async def test_what_an_exception_leaves_is_discarded(system: System, connection: Connection, queue: Queue) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connection.sink("IMPORT").batch(7) as batch:
            for _ in range(5):
                await batch.put("Q", bytes(MIB))
            assert system.depth() > 0
            raise ZeroDivisionError
    assert batch.published is None
    assert system.depth() == 0
    assert await connection.sinks.discard([batch._unit]) == 0


async def test_what_is_refused_while_it_is_written_is_discarded(
    system: System, connection: Connection, queue: Queue
) -> None:
    await connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(3)")
    with fails(MQRC.Q_FULL):
        async with connection.sink("IMPORT").batch(1) as batch:
            for number in range(6):
                await batch.put("Q", bytes(MIB) + bytes([number]))
    assert system.depth() == 0
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        async with connection.sink("IMPORT").batch(1) as batch:
            await batch.put("NONE", b"")


async def test_a_cancelled_batch_is_discarded(system: System, connection: Connection, queue: Queue) -> None:
    staged, leave = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        async with connection.sink("IMPORT").batch(1) as batch:
            for _ in range(5):
                await batch.put("Q", bytes(MIB))
            staged.set()
            await leave.wait()

    writing = asyncio.create_task(write())
    await staged.wait()
    assert system.depth() > 0
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert system.depth() == 0


async def test_a_batch_is_published_once_however_often_it_is_written(connection: Connection, queue: Queue) -> None:
    """K56, K57 as programs see them."""
    sink = connection.sink("IMPORT", "job 5")
    assert await sink.last_batch() is None
    for expected in (Publication(2, already=False), Publication(0, already=True)):
        async with sink.batch(7) as batch:
            await batch.put("Q", b"one")
            await batch.put("Q", b"two")
        assert batch.published == expected
        assert await sink.last_batch() == 7
    assert await drained(queue) == [b"one", b"two"]
    with fails(MQRC.UOW_COMMITTED):
        async with sink.batch(6) as batch:
            await batch.put("Q", b"late")
    with fails(MQRC.NO_DATA_AVAILABLE):
        async with sink.batch(9) as batch:
            await batch.put("Q", b"early")
    with fails(MQRC.SUBSCRIPTION_IN_USE):
        async with connection.sink("IMPORT", "job 6").batch(8) as batch:
            await batch.put("Q", b"of another")
    async with sink.batch(8) as empty:
        pass
    assert empty.published == Publication(0, already=False)
    assert await connection.sinks.ledger("IMPORT") == ("job 5", 8)
    assert await drained(queue) == []


async def test_a_batch_of_many_pieces_keeps_its_order(connection: Connection, queue: Queue) -> None:
    await connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(100000)")
    async with connection.sink("IMPORT").batch(1) as batch:
        for number in range(4200):
            await batch.put("Q", f"{number}".encode())
    assert batch.published == Publication(4200, already=False)
    got = [message.data for _ in range(17) for message in await queue.get_many(256)]
    assert got == [f"{number}".encode() for number in range(4200)]


async def test_a_batch_goes_to_several_queues(system: System, connection: Connection, queue: Queue) -> None:
    await system.mqsc("DEFINE QLOCAL(R)\nDEFINE QALIAS(A) TARGET(Q)")
    async with connection.sink("IMPORT").batch(1) as batch:
        await batch.put("A", b"one")
        await batch.put("R", b"two")
        await batch.put("Q", b"three")
    assert await drained(queue) == [b"one", b"three"]
    assert system.depth("R") == 1


async def test_a_group_is_numbered_within_a_unit(connection: Connection, queue: Queue) -> None:
    """K62, by the calls one by one."""
    flags = [MQMF.MSG_IN_GROUP, MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP]
    pieces = [next(frames([Row("Q", bytes([number]), MessageDescriptor(msg_flags=each))])) for number, each in
              enumerate(flags)]  # fmt: skip
    unit = UnitName("IMPORT", 1, 0, new_attempt())
    sinks, order = connection.sinks, int(MQPMO.LOGICAL_ORDER)
    for number, piece in enumerate(pieces[:2]):
        assert not (await sinks.stage(unit, piece, number, options=order, last=False)).published
    await sinks.stage(unit, unpack(pieces[2]), 2, options=order)
    assert await sinks.publish("IMPORT", 1, [Winner(unit, 3)]) == Publication(3, already=False)
    got = [await queue.get() for _ in range(3)]
    assert [message.md.msg_seq_number for message in got] == [1, 2, 3]
    assert len({message.md.group_id for message in got}) == 1


async def test_a_winner_with_other_than_its_messages_is_refused(connection: Connection, queue: Queue) -> None:
    """K54 as programs see it."""
    unit = UnitName("IMPORT", 1, 0, new_attempt())
    await connection.sinks.stage(unit, next(frames([Row("Q", b"one")])))
    with fails(MQRC.UOW_CANCELED):
        await connection.sinks.publish("IMPORT", 1, [Winner(unit, 2)])
    with pytest.raises(ValueError, match="is no unit of the sink OTHER"):
        await connection.sinks.publish("OTHER", 1, [Winner(unit, 1)])
    assert await connection.sinks.discard([unit]) == 1


async def test_what_is_no_frame_is_refused(connection: Connection, queue: Queue) -> None:
    unit = UnitName("IMPORT", 1, 0, new_attempt())
    for rows in (b"", b"\xc1", next(frames([Row("Q", b"one")]))[:-1]):
        with fails(MQRC.BUFFER_ERROR):
            await connection.sinks.stage(unit, rows)
    assert await connection.sinks.discard([unit]) == 0


async def test_a_prepared_unit_outlives_a_crash(durable: DurableSystem) -> None:
    connection = await durable.connect()
    unit = UnitName("IMPORT", 1, 0, new_attempt())
    piece = next(frames([Row("Q", b"one"), Row("Q", b"two", MessageDescriptor(persistence=0))]))
    await connection.sinks.stage(unit, piece, query="job")
    await durable.crash()
    connection = await durable.connect()
    await connection.sinks.stage(unit, piece, query="job")  # a repetition, as its answer might have been lost
    assert (await connection.sinks.publish("IMPORT", 1, [Winner(unit, 2)], query="job")).messages == 2
    async with connection.open("Q", 2) as queue:
        assert await drained(queue) == [b"one", b"two"]


async def test_a_message_of_the_longest_kind_is_staged_alone(connection: Connection, queue: Queue) -> None:
    await connection.mqsc("ALTER QMGR MAXMSGL(104857600)\nALTER QLOCAL(Q) MAXMSGL(104857600)")
    body = bytes(range(256)) * (100 * MIB // 256)
    async with connection.sink("IMPORT").batch(1) as batch:
        await batch.put("Q", b"before")
        await batch.put("Q", body)
        await batch.put("Q", b"after")
    assert [len(data) for data in await drained(queue)] == [6, 100 * MIB, 5]


async def test_an_error_that_ends_a_batch_is_the_one_that_its_program_hears(
    connection: Connection, queue: Queue
) -> None:
    with pytest.raises(MQError) as caught:
        async with connection.sink("IMPORT").batch(1) as batch:
            await batch.put("Q" * 49, b"")
    assert caught.value.reason == MQRC.OBJECT_NAME_ERROR
    with pytest.raises(TypeError, match="data is bytes-like or str"):
        async with connection.sink("IMPORT").batch(1) as batch:
            await batch.put("Q", 5)  # type: ignore[arg-type]
