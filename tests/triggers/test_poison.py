"""Messages that a handler cannot handle go to the backout queue of their queue."""

from __future__ import annotations

import gc
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MessageDescriptor
from broker.testing import VirtualClock
from tests.triggers.fake import handlers
from tests.triggers.test_triggering_end_to_end import pending, run
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Message, Queue


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def manager(clock: VirtualClock) -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("operator") as operator:
        await run(
            operator,
            "DEFINE QLOCAL(BAD)",
            "DEFINE PROCESS(P)",
            "DEFINE QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE(EVERY) BOTHRESH(2) BOQNAME(BAD)",
        )
        yield manager


async def bodies(manager: QueueManager, q_name: str) -> list[bytes]:
    return [message.data for message in await messages(manager, q_name)]


async def messages(manager: QueueManager, q_name: str) -> list[Message]:
    async with manager.connect() as connection, connection.open(q_name, MQOO.BROWSE) as queue:
        return [message async for message in queue.messages(options=MQGMO.BROWSE_NEXT)]


async def put(manager: QueueManager, *texts: str) -> None:
    async with manager.connect("putter") as connection:
        for text in texts:
            await connection.put1("Q", text)


class Failing:
    """A handler that gets a message of Q under syncpoint in one of the ways there are, and fails for bad ones."""

    def __init__(self, way: str = "get") -> None:
        self.way = way
        self.given: list[bytes] = []
        self.starts = 0

    def handlers(self) -> list[Any]:
        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            self.starts += 1
            async with AsyncExitStack() as stack:
                queue = await stack.enter_async_context(connection.open(trigger.q_name, MQOO.INPUT_SHARED))
                (message,) = await self.got(connection, queue, stack)
                self.given.append(message.data)
                if message.data.startswith(b"bad"):
                    raise ValueError("bad message")

        return [handlers(P=handler)]

    async def got(self, connection: Connection, queue: Queue, stack: AsyncExitStack) -> list[Message]:
        if self.way == "get":
            return [await queue.get(options=MQGMO.SYNCPOINT)]
        if self.way == "get_many":
            return await queue.get_many(1, options=MQGMO.SYNCPOINT)
        await stack.enter_async_context(connection.unit_of_work())
        return [await anext(aiter(queue))]


@pytest.mark.parametrize("way", ["get", "get_many", "loop"])
async def test_three_poison_messages_are_started_twice_each_and_then_moved(
    manager: QueueManager, clock: VirtualClock, way: str
) -> None:  # BOTHRESH as JMS has it
    failing = Failing(way)
    async with TriggerMonitor(manager, failing.handlers(), stop_timeout=0) as monitor:
        await put(manager, "bad 1", "bad 2", "bad 3")
        await clock.advance(600)
        assert sorted(failing.given) == [b"bad 1"] * 2 + [b"bad 2"] * 2 + [b"bad 3"] * 2
        assert (failing.starts, monitor.statistics().failed) == (6, 6)
        assert monitor.statistics().held_back == {}
        (figures,) = [queue for queue in manager.status()["queues"] if queue["name"] == "Q"]
        assert figures["trigger_running"] == 0  # no lease is left
    assert sorted(await bodies(manager, "BAD")) == [b"bad 1", b"bad 2", b"bad 3"]
    assert (await bodies(manager, "Q"), pending(manager)) == ([], {})


async def test_a_good_message_among_them_is_handled_once(manager: QueueManager, clock: VirtualClock) -> None:
    failing = Failing()
    async with TriggerMonitor(manager, failing.handlers(), max_handlers=1, stop_timeout=0):
        await put(manager, "bad", "good")
        await clock.advance(600)
    assert sorted(failing.given) == [b"bad", b"bad", b"good"]
    assert (await bodies(manager, "BAD"), await bodies(manager, "Q")) == ([b"bad"], [])


async def test_a_message_is_moved_as_it_is(manager: QueueManager, clock: VirtualClock) -> None:
    async with manager.connect("the putter") as connection:
        md = MessageDescriptor(correl_id=b"c" * 24, priority=7, reply_to_q="BACK")
        put = await connection.put1("Q", "bad", md, properties={"size": 42})
    async with TriggerMonitor(manager, Failing().handlers()):
        await clock.advance(5)
    (moved,) = await messages(manager, "BAD")
    assert moved.properties == {"size": 42}
    for field in (
        "msg_id",
        "correl_id",
        "priority",
        "reply_to_q",
        "persistence",
        "put_appl_name",
        "put_time",
        "format",
    ):
        assert getattr(moved.md, field) == getattr(put.md, field), field


async def test_one_that_others_have_backed_out_to_the_threshold_is_never_given_to_a_handler(
    manager: QueueManager, clock: VirtualClock
) -> None:
    await put(manager, "bad", "good")
    async with manager.connect() as connection, connection.open("Q", MQOO.INPUT_SHARED) as queue:
        for _ in range(2):
            await queue.get(options=MQGMO.SYNCPOINT)
            await connection.backout()
    failing = Failing()
    async with TriggerMonitor(manager, failing.handlers(), max_handlers=1, stop_timeout=0):
        await clock.advance(0.05)
        assert failing.given == [b"good"]
        assert await bodies(manager, "BAD") == [b"bad"]
    assert await bodies(manager, "Q") == []


async def test_what_a_handler_committed_itself_is_not_looked_for(manager: QueueManager, clock: VirtualClock) -> None:
    kept: list[list[Message]] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
            await connection.commit()
        kept.append(list(connection.guard._got))  # type: ignore[union-attr]
        raise ValueError("after the work")

    async with TriggerMonitor(manager, [handlers(P=handler)]) as monitor:
        await put(manager, "one")
        await clock.advance(0.05)
        assert monitor.statistics().held_back == {"Q": 1}
    assert kept == [[]]
    assert (await bodies(manager, "BAD"), await bodies(manager, "Q")) == ([], [])


@pytest.mark.parametrize("attributes", ["BOTHRESH(0)", "BOQNAME(' ')"])
async def test_without_a_threshold_or_a_queue_it_is_tried_for_ever_ever_later(
    manager: QueueManager, clock: VirtualClock, attributes: str
) -> None:
    async with manager.connect() as operator:
        await run(operator, f"ALTER QLOCAL(Q) {attributes}")
    failing = Failing()
    async with TriggerMonitor(manager, failing.handlers(), stop_timeout=0):
        await put(manager, "bad")
        await clock.advance(1)
        assert failing.starts == 4  # 0, 0.1, 0.3, 0.7 s
        await clock.advance(600)
        assert failing.starts < 25
    assert await bodies(manager, "Q") == [b"bad"]


async def test_a_message_that_cannot_be_moved_stays_and_is_given_again(
    manager: QueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with manager.connect() as operator:
        await run(operator, "ALTER QLOCAL(BAD) PUT(DISABLED)")
        failing = Failing()
        async with TriggerMonitor(manager, failing.handlers(), stop_timeout=0):
            await put(manager, "bad")
            await clock.advance(0.5)
            assert failing.starts == 3
            assert "cannot be moved" in caplog.text
            assert "PUT_INHIBITED" in caplog.text
            await run(operator, "ALTER QLOCAL(BAD) PUT(ENABLED)")
            await clock.advance(1)
    assert (await bodies(manager, "BAD"), await bodies(manager, "Q")) == ([b"bad"], [])


async def test_a_first_queue_goes_on_behind_its_poison_message(manager: QueueManager, clock: VirtualClock) -> None:
    handled: list[bytes] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            async for message in queue.messages(options=MQGMO.SYNCPOINT):
                if message.data == b"bad":
                    raise ValueError("bad message")
                handled.append(message.data)
                await connection.commit()

    async with manager.connect() as operator:
        await run(operator, "ALTER QLOCAL(Q) TRIGTYPE(FIRST)")
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await put(manager, "1", "bad", "2")
        await clock.advance(10)
    assert handled == [b"1", b"2"]
    assert (await bodies(manager, "BAD"), await bodies(manager, "Q")) == ([b"bad"], [])


async def test_a_handler_leaves_nothing_for_the_garbage_collector(manager: QueueManager, clock: VirtualClock) -> None:
    """The daemon hardly ever looks for garbage among old objects: what lives in a circle would stay."""
    handled: list[bytes] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue, connection.unit_of_work():
            handled.append((await queue.get()).data)

    async with TriggerMonitor(manager, handlers=[handlers(P=handler)]):
        await put(manager, "first")
        await clock.advance(5)
        gc.collect()
        gc.disable()
        try:
            await put(manager, *map(str, range(50)))
            await clock.advance(5)
            assert (len(handled), gc.collect() < 50) == (51, True)
        finally:
            gc.enable()
