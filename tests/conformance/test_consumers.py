"""Consumers as programs have them: a claim is the reader's own until it is acknowledged (`docs/rules/claims.md`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.interface.batches.column_messages import messages
from broker.interface.batches.columns import BYTES_MAX, MESSAGES_MAX, SHORT_MESSAGES_MAX
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, MQRO, MessageDescriptor
from broker.mqi.layouts.rfh2 import MQRFH2
from tests.conformance.expect import fails, name_of

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from broker.interface.claims.consumer import ClaimedBatch
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System

GROUP = name_of("group")
MIB = 1024 * 1024


async def read(batch: ClaimedBatch) -> list[tuple[int, bytes]]:
    """The sequences and the data of the messages of a batch."""
    return [(message.sequence, message.data) async for message in batch]


async def put_all_kinds(queue: Queue) -> None:
    """Messages that differ in every field that a message has."""
    await queue.put(b"plain")
    await queue.put(b"")
    await queue.put("text é", persistence=1)
    await queue.put(b"urgent", MessageDescriptor(priority=9, correl_id=name_of("correl"), msg_id=name_of("msg")))
    await queue.put(b"over the highest", MessageDescriptor(priority=2**31 + 5))
    await queue.put(b"short of time", MessageDescriptor(expiry=600))
    await queue.put(
        b"described",
        MessageDescriptor(
            report=MQRO.COD | MQRO.PASS_MSG_ID, msg_type=1, feedback=7, encoding=273, coded_char_set_id=819,
            format="MINE", reply_to_q="REPLIES", reply_to_q_mgr="QM2",
        ),
    )  # fmt: skip
    await queue.put(b"with properties", properties={"colour": "red", "count": 3, "other.flag": True})
    await queue.put(b"", properties={"empty": b""})
    header = MQRFH2(("<usr><a>1</a></usr>", "<psc><Command>x</Command></psc>"), "MQSTR").to_bytes()
    await queue.put(header + b"behind a header", MessageDescriptor(format="MQHRF2"))
    for number, flags in enumerate((MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP | 0x0010_0000), 1):
        md = MessageDescriptor(group_id=GROUP, msg_seq_number=number, msg_flags=int(flags))
        await queue.put(b"of a group", md)
    segment = MessageDescriptor(group_id=name_of("other"), msg_flags=MQMF.SEGMENT, original_length=9, offset=5)
    await queue.put(b"segm", segment)


def reported(message: Message) -> tuple[Any, ...]:
    """All that a program can learn of a message, but for its token."""
    return (
        message.md, message.data, message.length, dict(message.properties), message.reason, message.group_status,
        message.segment_status, message.segmentation, message.resolved_q_name,
    )  # fmt: skip


async def test_columns_have_what_get_many_has(connection: Connection, queue: Queue) -> None:
    """K73: field by field, in the order of delivery where they are claimed, of arrival where they are browsed."""
    await put_all_kinds(queue)
    one_by_one = [reported(await queue.get(options=MQGMO.BROWSE_NEXT)) for _ in range(13)]
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim()
        claimed = [message async for message in batch]
    assert [reported(message) for message in claimed] == one_by_one
    assert [message.sequence for message in claimed] == list(range(1, 14))
    assert [message.md.priority for message in claimed[:2]] == [9, 2**31 + 5]


async def test_a_browse_by_number_has_what_get_many_has(connection: Connection, queue: Queue) -> None:
    """K73, of messages that nobody claims."""
    await put_all_kinds(queue)
    ((_, first, last, count, size),) = await connection.claims.queue_ranges(["Q"])
    found = list(messages(await connection.claims.browse("Q", first, last)))
    by_get = [await queue.get() for _ in range(13)]
    assert sorted(map(reported, found), key=repr) == sorted(map(reported, by_get), key=repr)
    assert [message.position for message in found] == sorted(message.position for message in found)
    assert (count, size) == (13, sum(message.length for message in found))


async def test_a_released_message_has_been_backed_out_once(connection: Connection, queue: Queue) -> None:
    await put_all_kinds(queue)
    async with connection.consumer("C", "Q") as consumer:
        claimed = [message async for message in await consumer.claim()]
        assert await consumer.release() == 13
        assert consumer.position == 13
        again = [message async for message in await consumer.claim()]
        assert [message.sequence for message in again] == list(range(14, 27))
        assert [message.md.backout_count for message in again] == [1] * 13
        await consumer.release()
    got = [await queue.get() for _ in range(13)]
    assert [message.md.backout_count for message in got] == [2] * 13
    assert [message.md.msg_id for message in got] == [message.md.msg_id for message in claimed]


async def test_a_program_works_through_its_queues_in_batches(
    system: System, connection: Connection, queue: Queue
) -> None:
    await queue.put_many([f"{number}".encode() for number in range(7)])
    async with connection.consumer("C", "Q") as consumer:
        assert (consumer.position, consumer.name) == (0, "C")
        batch = await consumer.claim(4)
        assert len(batch) == 4
        assert system.depth() == 7
        assert await read(batch) == [(1, b"0"), (2, b"1"), (3, b"2"), (4, b"3")]
        assert await read(batch) == [(1, b"0"), (2, b"1"), (3, b"2"), (4, b"3")]
        await batch.acknowledge()
        assert (consumer.position, system.depth()) == (4, 3)
        batch = await consumer.claim(4)
        assert await read(batch) == [(5, b"4"), (6, b"5"), (7, b"6")]
        await batch.acknowledge()
        await batch.acknowledge()
        batch = await consumer.claim(4)
        assert not batch
        assert await read(batch) == []
        await batch.acknowledge()
    assert system.depth() == 0


async def test_a_claim_holds_no_more_bytes_than_it_is_told(connection: Connection, queue: Queue) -> None:
    await queue.put_many([bytes(100)] * 5)
    async with connection.consumer("C", "Q") as consumer:
        assert len(await consumer.claim(10, size=250)) == 2
        await consumer.release()


async def test_what_was_not_acknowledged_comes_again_with_the_same_sequences(
    system: System, connection: Connection, queue: Queue, other: Connection
) -> None:
    await queue.put_many([b"one", b"two", b"three"])
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim(2)
        before = await read(batch)
        await batch.acknowledge(1)
        assert (consumer.position, len(batch), await read(batch)) == (1, 1, before[1:])
    async with other.consumer("C") as consumer:
        assert consumer.position == 1
        batch = await consumer.claim(10)
        assert await read(batch) == before[1:]
        await batch.acknowledge()
        batch = await consumer.claim(10)
        assert await read(batch) == [(3, b"three")]
        await batch.acknowledge()
    assert system.depth() == 0


async def test_a_restart_leaves_claims_with_their_consumer(system: System, connection: Connection) -> None:
    """K35, K36 as programs see them: also nonpersistent messages."""
    async with connection.open("Q", MQOO.OUTPUT) as queue, connection.consumer("C", "Q") as consumer:
        await queue.put_many([b"one", b"two"], persistence=0)
        await queue.put_many([b"three"], persistence=1)
        assert len(await consumer.claim(2)) == 2
    await system.restart()
    again = await system.connect("again")
    async with again.consumer("C") as consumer:
        batch = await consumer.claim()
        assert await read(batch) == [(1, b"one"), (2, b"two")]
        await batch.acknowledge()
        assert system.depth() == (1 if system.manager.status()["store"] else 0)


async def test_a_crash_leaves_claims_with_their_consumer(durable: DurableSystem) -> None:
    connection = await durable.connect()
    async with connection.open("Q", MQOO.OUTPUT) as queue, connection.consumer("C", "Q") as consumer:
        await queue.put_many([b"one", b"two"], persistence=0)
        batch = await consumer.claim(2)
        await batch.acknowledge(1)
    await durable.crash()
    connection = await durable.connect()
    async with connection.consumer("C") as consumer:
        batch = await consumer.claim()
        assert await read(batch) == [(2, b"two")]
        await batch.acknowledge()


async def test_a_second_reader_takes_over_from_the_first(
    connection: Connection, queue: Queue, other: Connection
) -> None:
    """K23: the first is refused by every call from then on."""
    await queue.put_many([b"one", b"two"])
    async with connection.consumer("C", "Q") as first:
        batch = await first.claim(1)
        async with other.consumer("C", "Q") as second:
            with fails(MQRC.OBJECT_CHANGED):
                await read(batch)
            with fails(MQRC.OBJECT_CHANGED):
                await batch.acknowledge()
            with fails(MQRC.OBJECT_CHANGED):
                await first.release()
            with fails(MQRC.OBJECT_CHANGED):
                await first.claim()
            batch = await second.claim(5)
            assert await read(batch) == [(1, b"one")]
            await batch.acknowledge()


async def test_a_batch_is_acknowledged_before_the_next_is_claimed(connection: Connection, queue: Queue) -> None:
    await queue.put_many([b"one", b"two"])
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim(1)
        with fails(MQRC.OPERATION_NOT_ALLOWED) as refused:
            await consumer.claim(1)
        assert "<Batch 1 to 1 of C> is claimed" in refused.value.detail
        with fails(MQRC.NO_DATA_AVAILABLE):
            await batch.acknowledge(2)
        await batch.acknowledge()
        assert await read(await consumer.claim(1)) == [(2, b"two")]
        await consumer.release()


async def test_a_claim_can_wait_for_messages(connection: Connection, other_queue: Queue) -> None:
    async with connection.consumer("C", "Q") as consumer:
        assert not await consumer.claim(wait=0.02)
        waiting = asyncio.create_task(consumer.claim(wait=60))
        await asyncio.sleep(0)
        await other_queue.put(b"late")
        batch = await waiting
        assert await read(batch) == [(1, b"late")]
        await batch.acknowledge()


async def test_whole_groups_are_claimed_whole(connection: Connection, queue: Queue) -> None:
    """K38, K40 as programs see them."""
    md = MessageDescriptor(group_id=GROUP, msg_seq_number=3, msg_flags=MQMF.LAST_MSG_IN_GROUP)
    await queue.put(b"3", md)
    await queue.put(b"single")
    await queue.put(b"1", MessageDescriptor(group_id=GROUP, msg_seq_number=1, msg_flags=MQMF.MSG_IN_GROUP))
    async with connection.consumer("C", "Q", groups="whole") as consumer:
        batch = await consumer.claim(1)
        assert await read(batch) == [(1, b"single")]
        await batch.acknowledge()
        await queue.put(b"2", MessageDescriptor(group_id=GROUP, msg_seq_number=2, msg_flags=MQMF.MSG_IN_GROUP))
        batch = await consumer.claim(1)
        assert await read(batch) == [(2, b"1"), (3, b"2"), (4, b"3")]
        await batch.acknowledge()


async def test_groups_are_taken_singly_or_whole(connection: Connection) -> None:
    with pytest.raises(ValueError, match="groups='some'"):
        connection.consumer("C", "Q", groups="some")


async def test_a_consumer_of_a_queue_that_is_not_there_is_refused(connection: Connection) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        async with connection.consumer("C", "NONE"):
            pass
    with fails(MQRC.OBJECT_NAME_ERROR):
        async with connection.consumer("", "Q"):
            pass


async def test_a_long_batch_is_read_in_frames(connection: Connection, queue: Queue) -> None:
    """Short messages go by thousands, longer ones by a thousand, and one that is longer than a frame alone."""
    await connection.mqsc(f"ALTER QMGR MAXMSGL({8 * MIB})\nALTER QLOCAL(Q) MAXMSGL({8 * MIB}) MAXDEPTH(100000)")
    sizes = [10] * (SHORT_MESSAGES_MAX + 5) + [2 * 1024] * (MESSAGES_MAX + 5) + [BYTES_MAX + 1, 7, 3 * MIB, 0]
    for start in range(0, len(sizes), 500):
        await queue.put_many([bytes(size) for size in sizes[start : start + 500]])
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim(len(sizes))
        assert [message.length async for message in batch] == sizes
        frames = [columns.messages async for columns in batch.columns()]
        assert sum(frames) == len(sizes)
        assert frames[0] == SHORT_MESSAGES_MAX
        assert frames[-4:] == [1, 1, 1, 1]
        await batch.acknowledge()


async def test_a_loop_that_is_left_early_leaves_the_connection_as_it_was(connection: Connection, queue: Queue) -> None:
    await queue.put_many([bytes(MIB)] * 8)
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim()
        async for message in batch:
            assert message.sequence == 1
            break
        frames = batch.columns()
        assert (await anext(aiter(frames))).first == 1
        assert [sequence for sequence, _ in await read(batch)] == list(range(1, 9))
        await batch.acknowledge()


async def test_a_reader_that_waits_for_a_frame_may_be_cancelled(connection: Connection, queue: Queue) -> None:
    await queue.put_many([bytes(MIB)] * 4)
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim()
        reading = asyncio.create_task(read(batch))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert len(await read(batch)) == 4
        await batch.acknowledge()


async def test_a_message_of_a_hundred_mebibytes_goes_alone(connection: Connection, queue: Queue) -> None:
    """K73."""
    await connection.mqsc("ALTER QMGR MAXMSGL(104857600)\nALTER QLOCAL(Q) MAXMSGL(104857600)")
    body = bytes(range(256)) * (100 * MIB // 256)
    await queue.put_many([b"before", b"after"])
    await queue.put(body, options=MQPMO.NO_SYNCPOINT)
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim()
        found = [message.data async for message in batch]
        assert found[:2] == [b"before", b"after"]
        assert found[2] == body
        await batch.acknowledge()
