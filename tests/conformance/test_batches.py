"""Batches of puts and of gets: what so many single calls would do, in few."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import (
    MQGMO,
    MQMO,
    MQOO,
    MQPMO,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
)
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFullError
from broker.testing import FaultStore
from tests.conformance.expect import ALL, browsed, drained, fails, name_of, reason_of
from tests.conformance.grouping import LMIG, MIG
from tests.conformance.system import System
from tests.conformance.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Connection, Message, Queue
    from tests.conformance.crashes import DurableSystem


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def data(messages: list[Message]) -> list[bytes]:
    return [message.data for message in messages]


# Putting


async def test_a_batch_of_any_length_is_put_in_its_order(queue: Queue, other_queue: Queue) -> None:
    results = await queue.put_many(bodies(1000))
    got = await other_queue.get_many(1000)
    while len(got) < 1000:
        got += await other_queue.get_many(1000)
    assert data(got) == bodies(1000)
    assert [result.md.msg_id for result in results] == [message.md.msg_id for message in got]
    assert {result.reason for result in results} == {MQRC.NONE}


async def test_a_batch_of_nothing_is_nothing(queue: Queue) -> None:
    assert await queue.put_many([]) == []


async def test_each_message_may_have_a_descriptor_of_its_own(queue: Queue) -> None:
    await queue.put_many(
        ["text", b"bytes", (bytearray(b"own"), MessageDescriptor(priority=7)), (memoryview(b"none"), None)],
        MessageDescriptor(priority=5),
        persistence=0,
    )
    got = await queue.get_many(9)
    found = [(each.data, each.md.priority, each.md.format, each.md.persistence) for each in got]
    assert found == [(b"own", 7, "", 0), (b"text", 5, "MQSTR", 0), (b"bytes", 5, "", 0), (b"none", 0, "", 0)]


async def test_a_descriptor_may_change_from_message_to_message(queue: Queue) -> None:
    def messages() -> Iterator[tuple[bytes, MessageDescriptor]]:
        md = MessageDescriptor()
        for number in range(5):
            md.correl_id = name_of(f"{number}")
            md.expiry = 1000 + number
            yield b"", md

    results = await queue.put_many(messages())
    got = await queue.get_many(5)
    assert [each.md.correl_id for each in got] == [name_of(f"{number}") for number in range(5)]
    assert [result.md.expiry for result in results] == [1000, 1001, 1002, 1003, 1004]


async def test_a_batch_with_a_descriptor_that_is_refused_spoils_none_with_an_equal_one(queue: Queue) -> None:
    for _ in range(2):
        refused = MessageDescriptor(priority=5.0)  # type: ignore[arg-type]
        with pytest.raises((TypeError, MQError)):
            await queue.put_many(bodies(2), refused)
        results = await queue.put_many(bodies(2), MessageDescriptor(priority=5))
        assert [result.md.priority for result in results] == [5, 5]
    results[0].md.priority = 9
    again = await queue.put_many(bodies(1), MessageDescriptor(priority=5))
    assert again[0].md.priority == 5


async def test_under_syncpoint_a_batch_joins_the_unit_of_work(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await queue.put_many(bodies(200), options=MQPMO.SYNCPOINT)
    assert await reason_of(other_queue.get()) == MQRC.NO_MSG_AVAILABLE
    await connection.backout()
    async with connection.unit_of_work():
        await queue.put_many(bodies(300))
        assert await browsed(other_queue) == []
    assert await browsed(other_queue) == bodies(300)


async def test_the_first_message_that_fails_ends_the_batch_and_those_before_it_stay(
    system: System, queue: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(200)")
    with fails(MQRC.Q_FULL) as caught:
        await queue.put_many(bodies(1000))
    assert caught.value.detail.startswith("messages[200]: Q holds 200 messages")
    assert len(caught.value.results) == 200
    assert await browsed(queue) == bodies(200)


async def test_what_is_under_way_behind_a_message_that_fails_is_not_put(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    messages = bodies(1000)
    messages[5] = b"longer than ten"
    with fails(MQRC.MSG_TOO_BIG_FOR_Q) as caught:
        await queue.put_many(messages)
    assert [result.md.msg_seq_number for result in caught.value.results] == [1] * 5
    assert await drained(queue) == bodies(5)
    await queue.put_many(bodies(3))
    assert await drained(queue) == bodies(3)


async def test_a_batch_that_fails_at_its_first_message_has_put_nothing(system: System, connection: Connection) -> None:
    async with connection.open("Q", MQOO.BROWSE) as queue:
        with fails(MQRC.NOT_OPEN_FOR_OUTPUT) as caught:
            await queue.put_many(bodies(300))
    assert caught.value.detail.startswith("messages[0]: ")
    assert caught.value.results == ()
    assert system.depth() == 0


async def test_two_batches_at_once_each_end_by_themselves(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    wrong = [b"wrong", *[b"wrong"] * 300, b"longer than ten", *[b"wrong"] * 300]
    outcomes = await asyncio.gather(queue.put_many(wrong), queue.put_many(bodies(600)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [MQError, list]
    found = await drained(queue)
    assert [each for each in found if each != b"wrong"] == bodies(600)
    assert found.count(b"wrong") == 301


async def test_a_batch_outside_syncpoint_is_one_unit_a_call(system: System, queue: Queue) -> None:
    before = system.manager.journal.units
    await queue.put_many(bodies(128), persistence=1)
    assert system.manager.journal.units == before + 1


async def test_an_iterable_that_raises_ends_the_batch_with_what_was_sent(queue: Queue) -> None:
    def messages() -> Iterator[bytes]:
        yield from bodies(300)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await queue.put_many(messages())
    assert await browsed(queue) == bodies(256)


async def test_a_batch_for_a_distribution_list_or_without_answers_is_put_one_by_one(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(R)")
    many = await connection.open(ObjectDescriptor(records=(ObjectRecord("Q"), ObjectRecord("R"))), MQOO.OUTPUT)
    results = await many.put_many(bodies(3))
    assert [len(result.records) for result in results] == [2, 2, 2]
    await queue.put_many(bodies(3), MessageDescriptor(persistence=0), MQPMO.ASYNC_RESPONSE)
    assert (await connection.stat()).put_success_count == 3
    assert await drained(queue) == bodies(3) * 2
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)\nALTER QLOCAL(R) PUT(DISABLED)")
    with fails(MQRC.MULTIPLE_REASONS) as caught:
        await many.put_many(bodies(3))
    assert (len(caught.value.results), len(caught.value.records)) == (2, 2)


async def test_groups_are_put_in_logical_order(queue: Queue) -> None:
    md = MessageDescriptor(msg_flags=MIG)
    last = MessageDescriptor(msg_flags=LMIG)
    await queue.put_many([b"1", b"2", (b"3", last)], md, MQPMO.LOGICAL_ORDER)
    got = await queue.get_many(3, options=MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE)
    assert [(each.data, each.md.msg_seq_number) for each in got] == [(b"1", 1), (b"2", 2), (b"3", 3)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_full_store_fails_whole_calls_of_a_batch_and_nothing_comes_after_them(way: str, after: int) -> None:
    store = FaultStore(MemoryStore())
    async with System(lambda: store, way) as system:
        await system.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
        queue = await (await system.connect()).open("Q", ALL)
        store.fail_next(StoreFullError("no room"), after=after)
        with fails(MQRC.STORAGE_MEDIUM_FULL) as caught:
            await queue.put_many(bodies(1000))
        put = len(caught.value.results)
        assert put % 128 == 0
        assert caught.value.detail.startswith(f"messages[{put}]: ")
        assert await drained(queue) == bodies(put)


# Getting


async def test_a_batch_of_gets_has_what_is_there_up_to_its_count(queue: Queue) -> None:
    await queue.put_many(bodies(10))
    assert data(await queue.get_many(4)) == bodies(10)[:4]
    assert data(await queue.get_many(100)) == bodies(10)[4:]
    assert await reason_of(queue.get_many(1)) == MQRC.NO_MSG_AVAILABLE
    with pytest.raises(ValueError, match="count=0"):
        await queue.get_many(0)


async def test_an_answer_ends_at_256_messages_or_a_mebibyte(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(4194304)")
    await queue.put_many([b""] * 300)
    assert [len(await queue.get_many(300)) for _ in range(2)] == [256, 44]
    await queue.put_many([bytes(300_000)] * 5)
    assert [len(await queue.get_many(300)) for _ in range(2)] == [4, 1]
    await queue.put_many([bytes(2_000_000)] * 2)
    assert [len(await queue.get_many(300)) for _ in range(2)] == [1, 1]


async def test_the_wait_is_for_the_first_and_what_comes_with_it_is_in_the_answer(
    system: System, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(queue.get_many(200, wait=float("inf")))
        await system.waiting("Q", 1)
        async with other.unit_of_work():
            await other_queue.put_many(bodies(100))
        assert data(await waiting) == bodies(100)
    assert system.depth() == 0


async def test_a_batch_that_has_waited_is_filled_to_its_count(
    system: System, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    """The last message that it asks for is in the answer, and the one behind that is not."""
    waiting = asyncio.ensure_future(queue.get_many(2, wait=float("inf")))
    await system.waiting("Q", 1)
    async with other.unit_of_work():
        await other_queue.put_many(bodies(3))
    assert data(await waiting) == bodies(2)
    assert await drained(queue) == bodies(3)[2:]


async def test_a_wait_without_a_message_ends_with_its_interval(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(reason_of(queue.get_many(5, wait=1)))
        await system.waiting("Q", 1)
        await system.pass_time(1)
        assert await waiting == MQRC.NO_MSG_AVAILABLE


@pytest.mark.parametrize("options", [MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT])
async def test_a_waiting_batch_that_is_cancelled_takes_nothing(
    system: System, queue: Queue, other_queue: Queue, options: MQGMO
) -> None:
    waiting = asyncio.ensure_future(queue.get_many(5, options=options, wait=float("inf")))
    await system.waiting("Q", 1)
    waiting.cancel()
    await asyncio.wait([waiting])
    await system.waiting("Q", 0)
    await other_queue.put_many(bodies(3))
    assert await drained(other_queue) == bodies(3)


async def test_a_waiting_batch_is_given_a_single_put_or_leaves_it_there(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    for turns in range(10):
        waiting = asyncio.ensure_future(queue.get_many(5, wait=float("inf")))
        await system.waiting("Q", 1)
        putting = asyncio.ensure_future(other_queue.put(b"x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting, putting])
        if waiting.cancelled():
            assert (await other_queue.get(wait=float("inf"))).data == b"x"
        else:
            assert data(waiting.result()) == [b"x"]
        assert system.depth() == 0


async def test_outside_syncpoint_a_batch_is_removed_by_one_unit(system: System, queue: Queue) -> None:
    await queue.put_many(bodies(50), persistence=1)
    before = system.manager.journal.units
    assert data(await queue.get_many(50)) == bodies(50)
    assert system.manager.journal.units == before + 1


async def test_under_syncpoint_a_batch_is_backed_out_with_its_unit(connection: Connection, queue: Queue) -> None:
    await queue.put_many(bodies(20))
    assert len(await queue.get_many(20, options=MQGMO.SYNCPOINT)) == 20
    await connection.backout()
    again = await queue.get_many(20, options=MQGMO.SYNCPOINT)
    assert [(each.data, each.md.backout_count) for each in again] == [(each, 1) for each in bodies(20)]
    await connection.commit()
    assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE


async def test_syncpoint_if_persistent_is_judged_for_each_message(connection: Connection, queue: Queue) -> None:
    volatile = MessageDescriptor(persistence=0)
    await queue.put_many([b"1", (b"2", volatile), b"3", (b"4", volatile)], MessageDescriptor(persistence=1))
    assert len(await queue.get_many(4, options=MQGMO.SYNCPOINT_IF_PERSISTENT)) == 4
    await connection.backout()
    assert await drained(queue) == [b"1", b"3"]


async def test_a_batch_may_browse(queue: Queue) -> None:
    await queue.put_many(bodies(5))
    assert data(await queue.get_many(3, options=MQGMO.BROWSE_NEXT)) == bodies(5)[:3]
    assert data(await queue.get_many(3, options=MQGMO.BROWSE_NEXT)) == bodies(5)[3:]
    assert (await queue.get(options=MQGMO.MSG_UNDER_CURSOR)).data == b"4"
    assert await drained(queue) == bodies(4)


async def test_a_batch_gets_only_what_matches(queue: Queue) -> None:
    mine, others = MessageDescriptor(correl_id=name_of("mine")), MessageDescriptor(correl_id=name_of("other"))
    await queue.put_many([(b"1", mine), (b"2", others), (b"3", mine)])
    options = GetMessageOptions(match_options=MQMO.MATCH_CORREL_ID)
    assert data(await queue.get_many(5, mine, options)) == [b"1", b"3"]
    assert await drained(queue) == [b"2"]


async def test_a_batch_gives_its_messages_in_the_order_of_priority(queue: Queue) -> None:
    await queue.put_many([(b"%d" % priority, MessageDescriptor(priority=priority)) for priority in (1, 5, 3, 5)])
    assert data(await queue.get_many(9)) == [b"5", b"5", b"3", b"1"]


@pytest.mark.parametrize(
    "option",
    [
        MQGMO.BROWSE_FIRST,
        MQGMO.BROWSE_MSG_UNDER_CURSOR,
        MQGMO.MSG_UNDER_CURSOR,
        MQGMO.BROWSE_NEXT | MQGMO.LOCK,
        MQGMO.UNLOCK,
    ],
)
async def test_options_about_one_message_are_not_for_a_batch(queue: Queue, option: MQGMO) -> None:
    assert await reason_of(queue.get_many(2, options=option)) == MQRC.OPTIONS_ERROR


async def test_a_unit_of_work_that_is_full_gives_a_batch_what_still_fits(
    system: System, connection: Connection, queue: Queue
) -> None:
    await queue.put_many(bodies(30))
    await system.mqsc("ALTER QMGR MAXUMSGS(10)")
    assert len(await queue.get_many(30, options=MQGMO.SYNCPOINT)) == 10
    assert await reason_of(queue.get_many(30, options=MQGMO.SYNCPOINT)) == MQRC.SYNCPOINT_LIMIT_REACHED
    await connection.commit()
    assert len(await queue.get_many(30)) == 20


async def test_a_batch_from_a_hardened_queue_is_marked_by_one_submission(durable: DurableSystem) -> None:
    await durable.mqsc("ALTER QLOCAL(Q) HARDENBO")
    connection = await durable.connect()
    queue = await connection.open("Q", ALL)
    await queue.put_many(bodies(20))
    before = durable.manager.journal.units
    assert len(await queue.get_many(20, options=MQGMO.SYNCPOINT)) == 20
    assert durable.manager.journal.units == before + 1
    await durable.crash()
    again = await (await (await durable.connect()).open("Q", ALL)).get_many(20)
    assert [(each.data, each.md.backout_count) for each in again] == [(each, 1) for each in bodies(20)]


async def test_what_a_batch_has_put_survives_a_crash(durable: DurableSystem) -> None:
    queue = await (await durable.connect()).open("Q", ALL)
    await queue.put_many(bodies(300))
    assert len(await queue.get_many(100)) == 100
    await durable.crash()
    again = await (await durable.connect()).open("Q", ALL)
    assert await drained(again) == bodies(300)[100:]
