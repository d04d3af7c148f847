"""`@process(..., deliver=...)`: the trigger monitor hands messages to handlers together with their starts."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import Connection, Message, QueueManager
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, MessageDescriptor, MQError
from broker.testing import VirtualClock
from tests.triggers.test_loadset import Source, source  # noqa: F401  # a fixture
from tests.triggers.test_triggering_end_to_end import pending, run
from triggers import Attempt, Group, Retry, TriggerMessage, TriggerMonitor, process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def manager(clock: VirtualClock) -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("operator") as operator:
        await run(
            operator,
            "DEFINE QLOCAL(OUT)",
            "DEFINE QLOCAL(DEAD)",
            "DEFINE PROCESS(P)",
            "DEFINE QLOCAL(A) PROCESS(P) TRIGGER TRIGTYPE(EVERY)",
            "DEFINE QLOCAL(B) PROCESS(P) TRIGGER TRIGTYPE(EVERY)",
        )
        yield manager


async def put(manager: QueueManager, q_name: str, *texts: str) -> None:
    async with manager.connect() as connection:
        for text in texts:
            await connection.put1(q_name, text)


async def bodies(manager: QueueManager, q_name: str) -> list[bytes]:
    async with manager.connect() as connection, connection.open(q_name, MQOO.BROWSE) as queue:
        return [message.data async for message in queue.messages(options=MQGMO.BROWSE_NEXT)]


def shop(function: Any) -> Any:
    """A module with this function in it."""
    module = ModuleType("shop")
    module.handler = function  # type: ignore[attr-defined]
    return module


async def test_each_queue_that_names_the_process_is_served_and_what_a_handler_puts_is_in_its_unit(
    manager: QueueManager, clock: VirtualClock
) -> None:
    seen: list[tuple[str, str, int]] = []

    @process("P", deliver="message")
    async def handler(message: Message, connection: Connection, trigger: TriggerMessage, attempt: Attempt) -> None:
        seen.append((trigger.q_name, message.data.decode(), attempt.number))
        await connection.put1("OUT", message.data.upper())
        if message.data == b"bad" and attempt.number == 1:
            raise ValueError("once")

    async with TriggerMonitor(manager, [shop(handler)]) as monitor:
        await put(manager, "A", "one", "bad")
        await put(manager, "B", "two")
        await clock.advance(1)
        assert sorted(seen) == [("A", "bad", 1), ("A", "bad", 2), ("A", "one", 1), ("B", "two", 1)]
        assert monitor.statistics().delivering == {"A": 0, "B": 0}
        await put(manager, "A", "three")
        await clock.advance(0)
        assert len(seen) == 5
    assert sorted(await bodies(manager, "OUT")) == [b"BAD", b"ONE", b"THREE", b"TWO"]
    assert (await bodies(manager, "A"), await bodies(manager, "B"), pending(manager)) == ([], [], {})


async def test_the_options_are_those_of_a_handler(manager: QueueManager, clock: VirtualClock) -> None:
    attempts: list[int] = []

    @process("P", deliver="message", retry=Retry(2, backoff=1), dead_letter="DEAD", concurrency=1)
    async def handler(message: Message, attempt: Attempt) -> None:
        attempts.append(attempt.number)
        raise ValueError("always")

    async with TriggerMonitor(manager, [shop(handler)]):
        await put(manager, "A", "bad")
        await clock.advance(10)
    assert attempts == [1, 2, 3]
    assert len(await bodies(manager, "DEAD")) == 1


async def test_a_handler_of_messages_has_steps(manager: QueueManager, clock: VirtualClock) -> None:
    charged: list[str] = []
    seen: list[tuple[int, int]] = []

    async def charge(order: str) -> int:
        charged.append(order)
        return len(charged)

    @process("P", deliver="message", retry=Retry(2, backoff=1))
    async def handler(message: Message, attempt: Attempt) -> None:
        seen.append((attempt.number, await attempt.step("charge", charge, message.data.decode())))
        if attempt.number < 3:
            raise ValueError("once more")

    async with TriggerMonitor(manager, [shop(handler)]):
        await put(manager, "A", "order")
        await clock.advance(10)
    assert (seen, charged) == ([(1, 1), (2, 1), (3, 1)], ["order"])


async def test_a_batch_is_handed_over_together(manager: QueueManager, clock: VirtualClock) -> None:
    batches: list[list[bytes]] = []

    @process("P", deliver="batch", batch=10)
    async def handler(messages: list[bytes]) -> None:
        batches.append(messages)

    async with TriggerMonitor(manager, [shop(handler)]):
        await put(manager, "A", *"abc")
        await clock.advance(1)
    assert batches == [[b"a", b"b", b"c"]]


async def test_a_group_is_handed_over_when_it_is_whole(manager: QueueManager, clock: VirtualClock) -> None:
    groups: list[list[bytes]] = []

    @process("P", deliver="group")
    async def handler(group: Group[bytes]) -> None:
        groups.append(list(group))

    async with TriggerMonitor(manager, [shop(handler)]), manager.connect() as connection:
        async with connection.open("A", MQOO.OUTPUT) as queue:
            for text, flags in (("1", MQMF.MSG_IN_GROUP), ("2", MQMF.LAST_MSG_IN_GROUP)):
                await queue.put(text, MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)
                await clock.advance(1)
        assert groups == [[b"1", b"2"]]


async def test_when_the_monitor_stops_handlers_end_and_the_rest_stays(
    manager: QueueManager, clock: VirtualClock
) -> None:
    ends: list[bytes] = []

    @process("P", deliver="message", concurrency=1)
    async def handler(message: Message) -> None:
        await clock.sleep(4 if message.data == b"short" else 40)
        ends.append(message.data)

    async def program() -> None:
        async with TriggerMonitor(manager, [shop(handler)]):
            await clock.sleep(1)

    await put(manager, "A", "short", "next")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program)
        await clock.advance(60)
    assert (ends, await bodies(manager, "A"), pending(manager)) == ([b"short"], [b"next"], {"A": 1})
    await put(manager, "B", "long")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program)
        await clock.advance(60)
    assert ends == [b"short"]
    async with manager.connect() as connection, connection.open("B", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get()).md.backout_count == 0  # a stop charges nobody


async def test_a_queue_that_deliveries_cannot_be_taken_from_is_said_and_left(
    manager: QueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @process("P", deliver="message")
    async def handler(message: Message) -> None:
        raise AssertionError

    async with manager.connect() as operator:
        await run(operator, "ALTER QLOCAL(A) TRIGTYPE(FIRST)")
    async with TriggerMonitor(manager, [shop(handler)]):
        await put(manager, "A", "one")
        await clock.advance(1)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 1
    assert "OPTION_NOT_VALID_FOR_TYPE (2045)" in lines[0]


async def test_a_queue_whose_handler_gets_no_connection_is_tried_again_later_and_later_up_to_a_minute(
    manager: QueueManager, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    tries: list[float] = []
    connect = manager.connect

    @process("P", deliver="message")
    async def handler(message: Message) -> None:
        seen.append(clock.monotonic())

    def refuse(appl_name: str = "", user: str = "") -> Any:
        if appl_name == "P":
            tries.append(clock.monotonic())
            if len(tries) < 13:
                raise MQError(MQRC.MAX_CONNS_LIMIT_REACHED, "as many as there may be")
        return connect(appl_name, user)

    monkeypatch.setattr(manager, "connect", refuse)
    async with TriggerMonitor(manager, [shop(handler)]):
        await put(manager, "A", "one")
        await clock.advance(230)
    assert tries == pytest.approx([0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 25.5, 51.1, 102.3, 162.3, 222.3])
    assert seen == [tries[-1]]


async def test_a_queue_that_is_deleted_and_defined_again_is_served_again(
    manager: QueueManager, clock: VirtualClock
) -> None:
    seen: list[bytes] = []

    @process("P", deliver="message")
    async def handler(message: Message) -> None:
        seen.append(message.data)

    async with TriggerMonitor(manager, [shop(handler)]) as monitor, manager.connect() as operator:
        await put(manager, "A", "one")
        await clock.advance(1)
        await run(operator, "DELETE QLOCAL(A)")
        await clock.advance(1)
        assert monitor.statistics().delivering == {}
        await run(operator, "DEFINE QLOCAL(A) PROCESS(P) TRIGGER TRIGTYPE(EVERY)")
        await put(manager, "A", "two")
        await clock.advance(1)
    assert seen == [b"one", b"two"]


VERSION = """\
from broker import Connection, Message
from triggers import process

@process("P", deliver="message")
async def handler(message: Message, connection: Connection) -> None:
    await connection.put1("OUT", {version!r})
"""


async def test_r_3_new_code_takes_over_with_the_next_generation(
    manager: QueueManager,
    clock: VirtualClock,
    source: Source,  # noqa: F811
) -> None:
    source.write("shop_delivered.py", VERSION.format(version="old"))
    async with TriggerMonitor(manager, ["shop_delivered"]) as monitor:
        await put(manager, "A", "one")
        await clock.advance(1)
        source.write("shop_delivered.py", VERSION.format(version="new"))
        await put(manager, "A", "two")
        await clock.advance(5)
        await put(manager, "A", "three")
        await clock.advance(0)
        assert await bodies(manager, "OUT") == [b"old", b"old", b"new"]
        source.write("shop_delivered.py", "")
        await clock.advance(5)
        await put(manager, "A", "four")
        await clock.advance(1)
        assert (monitor.statistics().delivering, monitor.statistics().unserved) == ({}, {"A": "P"})
    assert await bodies(manager, "A") == [b"four"]


async def test_with_the_queue_manager_the_services_end(clock: VirtualClock) -> None:
    @process("P", deliver="message")
    async def handler(message: Message) -> None: ...

    async with QueueManager.open(name="QM1", clock=clock) as manager:
        async with manager.connect() as operator:
            await run(operator, "DEFINE PROCESS(P)", "DEFINE QLOCAL(A) PROCESS(P) TRIGGER TRIGTYPE(EVERY)")
            await operator.put1("A", "one")
        async with TriggerMonitor(manager, [shop(handler)]) as monitor, anyio.create_task_group() as tasks:
            await clock.advance(1)
            tasks.start_soon(manager.quiesce, 5)
            await clock.advance(6)
            await monitor.wait()


def declare(options: dict[str, Any], function: Any) -> None:
    process("P", **options)(function)


async def takes_message(message: Message) -> None: ...
async def takes_list(messages: list[bytes]) -> None: ...
async def takes_group(group: Group[bytes]) -> None: ...
async def takes_trigger(trigger: TriggerMessage) -> None: ...


@pytest.mark.parametrize(
    ("options", "function", "error", "text"),
    [
        ({"deliver": "messages"}, takes_message, ValueError, "one of trigger, message, batch, group"),
        ({"timeout": 3}, takes_message, TypeError, 'timeout: for deliver="message"'),
        ({"deliver": "batch"}, takes_list, ValueError, "needs batch=N"),
        ({"deliver": "message", "history": "7d"}, takes_message, TypeError, "history= is for handlers of an app"),
        (
            {"deliver": "message", "database": "shop.db"},
            takes_message,
            TypeError,
            "database= is for handlers of an app",
        ),
        ({"deliver": "message", "batch": 3}, takes_list, ValueError, 'batch=3 is for deliver="batch"'),
        ({"deliver": "message", "concurrency": 0}, takes_message, ValueError, "concurrency=0"),
        ({"deliver": "message", "concurency": 2}, takes_message, TypeError, "unknown option concurency"),
        ({"deliver": "group"}, takes_message, TypeError, "Group"),
        ({"deliver": "message"}, takes_group, TypeError, "Group"),
        ({"deliver": "message"}, takes_trigger, TypeError, "neither a body nor its Message"),
    ],
)
def test_what_cannot_be_is_said_at_the_decorator(
    options: dict[str, Any], function: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        declare(options, function)
