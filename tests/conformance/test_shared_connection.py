"""One connection shared by tasks: `unit_of_work()` is that of the task that entered it and of those started inside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import pytest

from broker import MQError
from broker.groups import GroupPutter
from broker.interface.units import entered
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
from tests.conformance.expect import browsed, drained, fails, inside_unit, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Connection, Queue
    from tests.conformance.system import System

    Act: TypeAlias = Callable[[Connection, Queue], Awaitable[object]]

VOLATILE = MessageDescriptor(persistence=0)
LIST = ObjectDescriptor(records=(ObjectRecord("Q"), ObjectRecord("NO.SUCH.QUEUE")))


async def put(connection: Connection, queue: Queue) -> None:
    await queue.put(b"X")


async def put1(connection: Connection, queue: Queue) -> None:
    await connection.put1("Q", b"X")


async def put_many(connection: Connection, queue: Queue) -> None:
    await queue.put_many([b"X"])


async def put_later(connection: Connection, queue: Queue) -> None:
    await queue.put(b"X", VOLATILE, MQPMO.ASYNC_RESPONSE)
    await connection.stat()


async def put1_later(connection: Connection, queue: Queue) -> None:
    await connection.put1("Q", b"X", VOLATILE, MQPMO.ASYNC_RESPONSE)
    await connection.stat()


async def put_many_later(connection: Connection, queue: Queue) -> None:
    await queue.put_many([b"X"], VOLATILE, MQPMO.ASYNC_RESPONSE)
    await connection.stat()


async def put_to_a_list(connection: Connection, queue: Queue) -> None:
    async with connection.open(LIST, MQOO.OUTPUT) as destinations:
        await destinations.put(b"X")


async def put1_to_a_list(connection: Connection, queue: Queue) -> None:
    await connection.put1(LIST, b"X")


async def get(connection: Connection, queue: Queue) -> None:
    await queue.get()


async def get_waiting(connection: Connection, queue: Queue) -> None:
    await queue.get(wait=5)


async def get_many(connection: Connection, queue: Queue) -> None:
    await queue.get_many(1)


async def loop(connection: Connection, queue: Queue) -> None:
    async for _ in queue:
        break


async def messages(connection: Connection, queue: Queue) -> None:
    async for _ in queue.messages():
        break


PUTS = [put, put1, put_many, put_later, put1_later, put_many_later, put_to_a_list, put1_to_a_list]
GETS = [get, get_waiting, get_many, loop, messages]


class Outside:
    """Another task, which makes calls on the same connection and is inside no unit of work."""

    def __init__(self) -> None:
        self._acts: asyncio.Queue[tuple[Awaitable[object], asyncio.Future[object]]] = asyncio.Queue()

    async def __call__(self, act: Awaitable[object]) -> object:
        """Let the other task do this; what comes of it."""
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._acts.put_nowait((act, done))
        return await done

    async def run(self) -> None:
        while True:
            act, done = await self._acts.get()
            try:
                done.set_result(await act)
            except MQError as error:
                done.set_exception(error)


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    outside = Outside()
    task = asyncio.ensure_future(outside.run())
    yield outside
    task.cancel()


@pytest.mark.parametrize("act", PUTS)
async def test_a_put_of_another_task_is_not_in_the_unit_of_work(
    connection: Connection, queue: Queue, other_queue: Queue, outside: Outside, act: Act
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            await queue.put(b"of the unit")
            await outside(act(connection, queue))
            assert await browsed(other_queue) == [b"X"]
            raise ZeroDivisionError
    assert await drained(other_queue) == [b"X"]


@pytest.mark.parametrize("act", PUTS)
async def test_a_put_of_a_task_started_inside_is(
    connection: Connection, queue: Queue, other_queue: Queue, act: Act
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work() as unit:
            await asyncio.gather(act(connection, queue), act(connection, queue))
            assert await browsed(other_queue) == []
            raise ZeroDivisionError
    assert await drained(other_queue) == []
    assert (unit.puts, unit.gets) == (2, 0)


@pytest.mark.parametrize("act", GETS)
async def test_a_get_of_another_task_is_not_in_the_unit_of_work(
    connection: Connection, queue: Queue, other_queue: Queue, outside: Outside, act: Act
) -> None:
    await other_queue.put_many([b"A", b"B", b"C"])
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work() as unit:
            assert (await queue.get()).data == b"A"
            await outside(act(connection, queue))
            raise ZeroDivisionError
    assert await drained(other_queue) == [b"A", b"C"]
    assert (unit.puts, unit.gets) == (0, 1)


@pytest.mark.parametrize("act", GETS)
async def test_a_get_of_a_task_started_inside_is(
    connection: Connection, queue: Queue, other_queue: Queue, act: Act
) -> None:
    await other_queue.put_many([b"A", b"B", b"C"])
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work() as unit:
            await asyncio.create_task(act(connection, queue))  # type: ignore[arg-type]  # a coroutine
            raise ZeroDivisionError
    assert await drained(other_queue) == [b"A", b"B", b"C"]
    assert (unit.puts, unit.gets) == (0, 1)


async def test_another_task_that_says_syncpoint_takes_part(
    connection: Connection, queue: Queue, other_queue: Queue, outside: Outside
) -> None:
    await other_queue.put_many([b"A", b"B"])
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work() as unit:
            await outside(queue.put(b"X", options=MQPMO.SYNCPOINT))
            await outside(queue.get(options=MQGMO.SYNCPOINT))
            raise ZeroDivisionError
    assert await drained(other_queue) == [b"A", b"B"]
    assert (unit.puts, unit.gets) == (1, 1)


async def test_a_call_inside_that_says_no_syncpoint_does_not(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many([b"A", b"B"])
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work() as unit:
            await queue.put(b"X", options=MQPMO.NO_SYNCPOINT)
            await queue.get(options=MQGMO.NO_SYNCPOINT)
            raise ZeroDivisionError
    assert await drained(other_queue) == [b"B", b"X"]
    assert (unit.puts, unit.gets) == (0, 0)


async def test_a_task_that_outlives_the_unit_it_was_started_in_is_outside_the_next_one(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    go_on = asyncio.Event()

    inside: list[bool] = []

    async def later() -> None:
        inside.append(connection.in_unit_of_work)
        await go_on.wait()
        inside.append(connection.in_unit_of_work)
        await queue.put(b"later")

    async with connection.unit_of_work():
        task = asyncio.create_task(later())
        await asyncio.sleep(0)
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            go_on.set()
            await task
            raise ZeroDivisionError
    assert inside == [True, False]
    assert await drained(other_queue) == [b"later"]


async def test_a_task_is_inside_the_units_of_several_connections(
    connection: Connection, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work() as outer:
            async with other.unit_of_work() as inner:
                await queue.put(b"A")
                await other_queue.put(b"B")
            assert connection.in_unit_of_work
            assert not other.in_unit_of_work
            raise ZeroDivisionError
    assert await drained(queue) == [b"B"]
    assert (outer.puts, inner.puts) == (1, 1)


async def test_another_tasks_unit_of_work_is_refused_at_once_and_told_what_to_do(
    connection: Connection, queue: Queue, outside: Outside
) -> None:
    async with connection.unit_of_work():
        with fails(MQRC.UOW_IN_PROGRESS) as refused:
            await outside(connection.unit_of_work().__aenter__())
        assert "another task's unit of work is open on this connection" in str(refused.value)
        assert "connection.connect()" in str(refused.value)
        await queue.put(b"A")
    async with connection.unit_of_work():
        assert (await queue.get()).data == b"A"


async def test_a_unit_of_work_inside_itself_is_refused(connection: Connection, queue: Queue) -> None:
    async with connection.unit_of_work():
        for attempt in (
            connection.unit_of_work().__aenter__(),
            asyncio.create_task(connection.unit_of_work().__aenter__()),
        ):
            with fails(MQRC.UOW_IN_PROGRESS) as refused:
                await attempt
            assert "is inside a unit_of_work() of this connection already" in str(refused.value)
        assert connection.in_unit_of_work


async def test_a_unit_that_could_not_begin_leaves_nobody_inside(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", options=MQPMO.SYNCPOINT)
    with fails(MQRC.UOW_IN_PROGRESS):
        await connection.unit_of_work().__aenter__()
    assert not connection.in_unit_of_work
    await connection.commit()
    async with connection.unit_of_work():
        assert (await queue.get()).data == b"A"


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_what_was_undone_is_noted_on_the_exception(
    connection: Connection, queue: Queue, error: type[BaseException]
) -> None:
    await queue.put_many([b"A", b"B", b"C"])
    with pytest.raises(error) as caught:
        async with connection.unit_of_work() as unit:
            await queue.put_many([b"D", b"E"])
            await queue.get()
            assert repr(unit) == "<UnitOfWork of 2 puts and 1 get>"
            raise error
    assert caught.value.__notes__ == ["unit of work on QM1 backed out: 2 puts and 1 get undone"]


async def test_an_exception_that_undoes_nothing_has_no_note(connection: Connection, queue: Queue) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with connection.unit_of_work():
            await queue.put(b"A", options=MQPMO.NO_SYNCPOINT)
            raise ZeroDivisionError
    assert not hasattr(caught.value, "__notes__")


async def test_a_commit_that_backs_out_says_what_was_undone(
    system: System, connection: Connection, queue: Queue
) -> None:
    """A failed asynchronous put leaves a unit that can only be backed out (semantics 14.2)."""
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    with fails(MQRC.BACKED_OUT) as caught:
        async with connection.unit_of_work() as unit:
            await queue.put(b"A", options=MQPMO.ASYNC_RESPONSE)
            await queue.put(b"B", options=MQPMO.ASYNC_RESPONSE)
    assert caught.value.__notes__ == ["unit of work on QM1 backed out: 1 put and 0 gets undone"]
    assert (unit.puts, unit.gets) == (1, 0)


@pytest.mark.parametrize("end", ["commit", "backout"])
async def test_what_is_in_a_unit_begins_anew_when_it_is_ended_inside_its_block(
    connection: Connection, queue: Queue, end: str
) -> None:
    async with connection.unit_of_work() as unit:
        await queue.put_many([b"A", b"B"])
        assert (unit.puts, unit.gets) == (2, 0)
        await getattr(connection, end)()
        assert (unit.puts, unit.gets) == (0, 0)
        await queue.put(b"C")
    assert (unit.puts, unit.gets) == (1, 0)


async def test_only_what_is_under_syncpoint_counts(connection: Connection, queue: Queue) -> None:
    """SYNCPOINT_IF_PERSISTENT, a batch that fails in the middle, a browse, a message that is too long."""
    await queue.put_many([b"A", b"B"], persistence=0)
    await queue.put_many([b"C", b"D"], persistence=1)
    if_persistent = GetMessageOptions(options=MQGMO.SYNCPOINT_IF_PERSISTENT, match_options=MQMO.NONE)
    async with connection.unit_of_work() as unit:
        assert [(await queue.get(None, if_persistent)).data for _ in range(3)] == [b"A", b"B", b"C"]
        assert (unit.puts, unit.gets) == (0, 1)
        await queue.get(options=MQGMO.BROWSE_FIRST)
        with fails(MQRC.TRUNCATED_MSG_FAILED):
            await queue.get(max_length=0)
        assert (unit.puts, unit.gets) == (0, 1)
        with fails(MQRC.MSG_TYPE_ERROR):
            await queue.put_many([b"E", b"F", (b"G", MessageDescriptor(msg_type=99))])
        assert (unit.puts, unit.gets) == (2, 1)
        await connection.put1(LIST, b"H")
        assert (unit.puts, unit.gets) == (3, 1)


async def test_a_get_that_still_waits_when_its_unit_ends_strands_no_message(
    system: System, connection: Connection, queue: Queue, other_queue: Queue, outside: Outside
) -> None:
    """Its message would be in a unit of work that nobody ends."""
    async with connection.unit_of_work():
        waiting = [
            asyncio.create_task(reason_of(queue.get(wait=60))),
            asyncio.create_task(reason_of(queue.get_many(3, wait=60))),
        ]
        await system.waiting("Q", 2)
    assert await asyncio.gather(*waiting) == [MQRC.NO_MSG_AVAILABLE] * 2
    await other_queue.put(b"A")
    async with connection.unit_of_work():
        assert (await queue.get()).data == b"A"


async def test_a_get_of_another_task_waits_on_when_a_unit_ends(
    system: System, connection: Connection, queue: Queue, other_queue: Queue, outside: Outside
) -> None:
    async with connection.unit_of_work():
        waiting = asyncio.ensure_future(outside(queue.get(wait=60)))
        await system.waiting("Q", 1)
    await other_queue.put(b"A")
    message = await waiting
    assert message.data == b"A"  # type: ignore[attr-defined]  # a Message
    async with connection.unit_of_work():
        assert await drained(other_queue) == []


async def test_a_task_cancelled_while_its_unit_ends_is_cancelled(
    system: System, connection: Connection, queue: Queue
) -> None:
    with inside_unit(connection):
        cancelled = asyncio.create_task(queue.get(wait=60))
        await system.waiting("Q", 1)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert cancelled.cancelled()


async def test_a_loop_that_outlives_its_unit_goes_on_outside(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    found: list[bytes] = []

    async def loop() -> None:
        async for message in queue:
            found.append(message.data)  # noqa: PERF401  # looked at meanwhile

    async with connection.unit_of_work() as unit:
        looping = asyncio.create_task(loop())
        await system.waiting("Q", 1)
    await other_queue.put_many([b"A", b"B"])
    await system.until(lambda: len(found) == 2)
    async with connection.unit_of_work():
        assert unit.gets == 0
    await queue.close()
    await looping
    assert await drained(other_queue) == []


async def test_a_batch_that_outlives_its_unit_leaves_nothing_uncommitted(
    system: System, connection: Connection, queue: Queue
) -> None:
    """A batch is sent in calls of 128 messages, two of them under way at a time."""
    async with connection.unit_of_work() as unit:
        putting = asyncio.create_task(queue.put_many(map(b"%d".__mod__, range(1000))))
        await system.until(lambda: system.depth() > 0)
    await putting
    at_once = system.way == "embedded" and not system.manager.core.objects.queues["Q"].shared
    assert (0 < unit.puts < 1000) != at_once  # then a call under syncpoint is over when it is made
    assert system.manager.core.objects.queues["Q"].uncommitted == 0
    async with connection.unit_of_work():
        assert await drained(queue) == [b"%d" % number for number in range(1000)]


async def test_a_resumable_group_has_the_units_of_its_connection_to_itself(
    system: System, connection: Connection, queue: Queue, other_queue: Queue, outside: Outside
) -> None:
    await system.mqsc("DEFINE QLOCAL(ST)")
    async with GroupPutter(connection, "Q", "ST", messages_per_unit=10) as putter:
        for _ in range(2):  # with nothing in the unit, and with a message of the group
            with fails(MQRC.UOW_IN_PROGRESS) as refused:
                await outside(connection.unit_of_work().__aenter__())
            assert "a resumable group is open on this connection" in str(refused.value)
            assert "connection.connect()" in str(refused.value)
            await putter.put(b"of the group")
        await outside(queue.put(b"X"))
        assert await browsed(other_queue) == [b"X"]
        await putter.backout()
        await putter.put(b"alone", last=True)
    assert await drained(other_queue) == [b"X", b"alone"]
    async with connection.unit_of_work():
        await queue.put(b"again")


async def test_a_resumable_group_is_refused_while_a_unit_is_open(
    system: System, connection: Connection, outside: Outside
) -> None:
    await system.mqsc("DEFINE QLOCAL(ST)")
    async with connection.unit_of_work():
        putter = GroupPutter(connection, "Q", "ST", messages_per_unit=10)
        for attempt in (outside(putter.__aenter__()), putter.__aenter__()):
            with fails(MQRC.UOW_IN_PROGRESS):
                await attempt
    async with GroupPutter(connection, "Q", "ST", messages_per_unit=10) as putter:
        await putter.put(b"A", last=True)


async def test_a_unit_that_has_ended_is_remembered_by_no_task(connection: Connection, other: Connection) -> None:
    """A task that lives long enters many."""
    async with other.unit_of_work() as open_one:
        async with connection.unit_of_work() as unit:
            assert entered.get() == (open_one, unit)
        assert entered.get() == (open_one,)
    assert entered.get() == ()
