"""`async for message in queue` in a unit of work: what is read ahead, and how it goes back."""

from __future__ import annotations

import asyncio
import gc
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, MessageDescriptor, PutMessageOptions
from tests.conformance.expect import ALL, drained, inside_unit, name_of, reason_of
from tests.conformance.grouping import LO, MIG, SYNC, place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker import Connection, Queue
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def held(system: System) -> int:
    """Return the number of messages of Q that are got and in no program's hands for good."""
    return system.held()


async def first(queue: Queue, count: int) -> list[bytes]:
    """Return what the first steps of a loop give; the loop is then left."""
    found = []
    async for message in queue:
        found.append(message.data)
        if len(found) == count:
            break
    return found


async def left_on(queue: Queue) -> list[tuple[bytes, int]]:
    """Return the messages on the queue, with backout counts."""
    found: list[tuple[bytes, int]] = []
    while True:
        try:
            message = await queue.get()
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found
        found.append((message.data, message.md.backout_count))


async def test_a_loop_reads_more_ahead_the_longer_it_goes_on(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(300))
    holds = []
    async with connection.unit_of_work():
        async for message in queue:
            holds.append(held(system))
            if len(holds) == 300:
                break
            assert message.data == b"%d" % (len(holds) - 1)
    assert sorted(set(holds)) == [1, 3, 7, 15, 31, 63, 127, 191, 255, 300]


async def test_a_commit_removes_what_the_loop_was_given_and_nothing_else(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(20))
    async with connection.unit_of_work():
        assert await first(queue, 5) == bodies(5)
    await system.until(lambda: system.depth() == 15)
    assert await left_on(other_queue) == [(each, 0) for each in bodies(20)[5:]]


async def test_a_backout_raises_the_backout_count_only_of_what_the_loop_was_given(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(20))
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            async for message in queue:
                if message.data == b"9":
                    raise ZeroDivisionError
    await system.until(lambda: held(system) == 0)
    assert await left_on(other_queue) == [(b"%d" % n, int(n <= 9)) for n in range(20)]


async def test_leaving_the_loop_gives_the_rest_to_others_at_once(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(20))
    async with connection.unit_of_work():
        assert await first(queue, 2) == bodies(2)
        await system.until(lambda: held(system) == 2)
        assert await drained(other_queue) == bodies(20)[2:]


async def test_a_loop_left_goes_on_with_the_next_message(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(20))
    async with connection.unit_of_work():
        assert await first(queue, 5) == bodies(20)[:5]
        assert await first(queue, 5) == bodies(20)[5:10]


async def test_a_commit_in_the_loop_gives_back_what_was_read_ahead_and_the_loop_gets_it_again(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(30))
    found = []
    async with connection.unit_of_work():
        async for message in queue:
            found.append((message.data, message.md.backout_count))
            if len(found) == 30:
                break
            if len(found) % 10 == 0:
                await connection.commit()
                assert system.depth() == 30 - len(found)
    assert found == [(each, 0) for each in bodies(30)]


async def test_another_get_with_the_handle_is_given_the_next_message(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(12))
    found = []
    async with connection.unit_of_work():
        async for message in queue:
            found.append(message.data)
            if message.data == b"4":
                found.append((await queue.get()).data)
                found += [each.data for each in await queue.get_many(2)]
            if len(found) == 12:
                break
    assert found == bodies(12)


async def test_two_loops_over_one_queue_give_each_message_once(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(40))
    async with connection.unit_of_work():
        one, two = aiter(queue), aiter(await connection.open("Q", ALL))
        found = [(await anext(each)).data for _ in range(15) for each in (one, two)]
        assert sorted(found, key=int) == sorted(set(found), key=int)
    del one, two
    assert sorted([*found, *await drained(other_queue)], key=int) == bodies(40)


asking = pytest.mark.parametrize(
    ("defreada", "option"),
    [("NO", 0), ("YES", 0), ("NO", MQOO.READ_AHEAD), ("YES", MQOO.READ_AHEAD), ("NO", MQOO.NO_READ_AHEAD)],
)


@asking
@pytest.mark.parametrize("way", ["own handles", "one handle", "an alias"])
async def test_two_loops_over_one_queue_in_turn_give_all_that_is_there(
    system: System, connection: Connection, other_queue: Queue, defreada: str, option: int, way: str
) -> None:
    """Whatever was asked for, no loop starves for what the other holds."""
    await system.mqsc(f"ALTER QLOCAL(Q) DEFREADA({defreada})\nDEFINE QALIAS(A) TARGET(Q) DEFREADA({defreada})")
    await other_queue.put_many(bodies(40))
    first_handle = await connection.open("Q", ALL | option)
    second = (
        first_handle if way == "one handle" else await connection.open("A" if way == "an alias" else "Q", ALL | option)
    )
    async with connection.unit_of_work() as unit:
        one, two = aiter(first_handle), aiter(second)
        found = [(await anext(one)).data for _ in range(10)]  # by now more is read ahead, if it may be
        found += [(await anext(each)).data for _ in range(15) for each in (two, one)]
        assert (found, held(system)) == (bodies(40), 40)
        assert unit.gets == 40
    del one, two


async def test_a_loop_that_waits_to_read_ahead_gives_way_to_another(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(3))
    second = await connection.open("Q", ALL)
    async with connection.unit_of_work():
        one, two = aiter(queue), aiter(second)
        assert [(await anext(one)).data for _ in range(3)] == bodies(3)
        waiting = [asyncio.ensure_future(anext(each)) for each in (one, two)]  # the first would get four at once
        await system.waiting("Q", 2)
        await other_queue.put_many(bodies(5)[3:])
        assert sorted([(await each).data for each in waiting]) == bodies(5)[3:]
        del one, two


async def test_a_loop_reads_ahead_again_when_the_other_is_left(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(40))
    second = await connection.open("Q", ALL)
    async with connection.unit_of_work():
        one, two = aiter(queue), aiter(second)
        for each in (one, two, one):
            await anext(each)
        assert held(system) == 3
        del two
        holds = []
        for _ in range(5):
            await anext(one)
            holds.append(held(system))
        assert holds == [5, 5, 9, 9, 9]
        del one


async def test_a_loop_of_a_handle_that_is_closed_is_in_nobodys_way(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(10))
    second = await connection.open("Q", ALL)
    async with connection.unit_of_work():
        one, two = aiter(queue), aiter(second)
        await anext(two)
        await second.close()
        for _ in range(2):
            await anext(one)
        assert held(system) == 4
        assert await anext(two, None) is None
        del one, two


@pytest.mark.parametrize(
    ("defreada", "option", "reads_ahead"),
    [
        ("NO", 0, False),
        ("YES", 0, True),
        ("NO", MQOO.READ_AHEAD, True),
        ("YES", MQOO.NO_READ_AHEAD, False),
        ("DISABLED", MQOO.READ_AHEAD, False),
    ],
)
async def test_beside_a_loop_over_another_queue_only_who_asks_reads_ahead(
    system: System, connection: Connection, other_queue: Queue, defreada: str, option: int, reads_ahead: bool
) -> None:
    await system.mqsc(f"ALTER QLOCAL(Q) DEFREADA({defreada})\nDEFINE QLOCAL(R)")
    await other_queue.put_many(bodies(10))
    elsewhere = await connection.open("R", ALL)
    await elsewhere.put_many(bodies(3))
    queue = await connection.open("Q", ALL | option)
    async with connection.unit_of_work():
        beside, loop = aiter(elsewhere), aiter(queue)
        await anext(beside)
        for _ in range(4):
            await anext(loop)
        assert held(system) == (7 if reads_ahead else 4)
        await anext(beside)
        assert system.held("R") == 2
        del beside, loop


async def test_what_was_read_ahead_unasked_goes_back_when_a_loop_over_another_queue_begins(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(R)")
    await other_queue.put_many(bodies(10))
    elsewhere = await connection.open("R", ALL)
    await elsewhere.put(b"")
    async with connection.unit_of_work():
        loop, beside = aiter(queue), aiter(elsewhere)
        for _ in range(4):
            await anext(loop)
        assert held(system) == 7
        await anext(beside)
        assert held(system) == 4
        del loop, beside


@pytest.mark.parametrize("name", ["Q", "A"])
async def test_defreada_disabled_reads_nothing_ahead(
    system: System, connection: Connection, other_queue: Queue, name: str
) -> None:
    """The first definition on the way from the name to the queue decides."""
    disabled = "ALTER QLOCAL(Q) DEFREADA(DISABLED)" if name == "Q" else "ALTER QALIAS(A) DEFREADA(DISABLED)"
    await system.mqsc(f"DEFINE QALIAS(A) TARGET(Q)\n{disabled}")
    await other_queue.put_many(bodies(6))
    queue = await connection.open(name, MQOO.INPUT_SHARED | MQOO.READ_AHEAD)
    async with connection.unit_of_work():
        holds = []
        async for _ in queue:
            holds.append(held(system))
            if len(holds) == 6:
                break
    assert holds == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("by", ["get", "get_many", "browse", "messages"])
async def test_a_get_with_another_handle_is_given_what_a_loop_has_read_ahead(
    connection: Connection, queue: Queue, other_queue: Queue, by: str
) -> None:
    await other_queue.put_many(bodies(12))
    second = await connection.open("Q", ALL)
    async with connection.unit_of_work():
        loop = aiter(queue)
        for _ in range(4):
            await anext(loop)
        match by:
            case "get":
                found = await second.get()
            case "get_many":
                (found,) = await second.get_many(1)
            case "browse":
                found = await second.get(options=MQGMO.BROWSE_FIRST)
            case _:
                found = await anext(second.messages())
        assert found.data == b"4"
        del loop


async def test_a_loop_outside_the_unit_does_not_starve_for_what_one_inside_has_read_ahead(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(40))
    second = await connection.open("Q", ALL)
    outside = aiter(second)
    turns: asyncio.Queue[None] = asyncio.Queue()
    found: list[bytes] = []

    async def loop_outside() -> None:
        for _ in range(20):
            await turns.get()
            found.append((await anext(outside)).data)
            turns.task_done()

    task = asyncio.create_task(loop_outside())
    async with connection.unit_of_work():
        loop = aiter(queue)
        for _ in range(20):
            found.append((await anext(loop)).data)
            turns.put_nowait(None)
            await turns.join()
        del loop
    await task
    assert found == bodies(40)


@pytest.mark.parametrize("end", ["close", "disconnect", "commit", "backout"])
async def test_what_a_loop_in_mid_course_has_read_ahead_is_in_nothing_that_ends(
    system: System, connection: Connection, queue: Queue, other_queue: Queue, end: str
) -> None:
    await other_queue.put_many(bodies(20))
    with inside_unit(connection):
        loop = aiter(queue)
        for _ in range(4):
            await anext(loop)
        if end == "close":
            await queue.close()
            await connection.commit()
        else:
            await getattr(connection, end)()
        await system.until(lambda: held(system) == 0)
        backed_out = [(each, 1) for each in bodies(4)] if end == "backout" else []
        assert await left_on(other_queue) == backed_out + [(each, 0) for each in bodies(20)[4:]]
    del loop


async def test_a_commit_while_the_loop_waits_for_more_takes_nothing_with_it(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    """The commit withdraws the call that reads ahead, wherever that is by then."""
    for turns in range(12):
        await other_queue.put_many(bodies(3))
        async with connection.unit_of_work():
            loop = aiter(queue)
            found = [(await anext(loop)).data for _ in range(3)]
            waiting = asyncio.ensure_future(anext(loop))
            await system.waiting("Q", 1)
            putting = asyncio.ensure_future(other_queue.put_many(bodies(7)[3:]))
            for _ in range(turns):
                await asyncio.sleep(0)
            await connection.commit()
            await putting
            found.append((await waiting).data)
            assert found == bodies(4)
            del loop
        await system.until(lambda: held(system) == 0)
        assert await left_on(other_queue) == [(b"4", 0), (b"5", 0), (b"6", 0)]


async def test_outside_a_unit_of_work_each_message_is_removed_when_it_is_given(system: System, queue: Queue) -> None:
    await queue.put_many(bodies(5))
    depths = [system.depth() async for _ in until(queue, 5)]
    assert depths == [4, 3, 2, 1, 0]


async def until(queue: Queue, count: int) -> AsyncIterator[None]:
    async for _ in queue:
        yield
        count -= 1
        if not count:
            return


async def test_a_unit_of_work_for_each_message_reads_nothing_ahead(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(5))
    async for message in queue:  # the get is outside the unit of work of the body
        await system.rest()
        async with connection.unit_of_work():
            assert held(system) == 0
            await queue.put(b"again " + message.data)
        if message.data == b"4":
            break
    assert await drained(queue) == [b"again " + each for each in bodies(5)]


@pytest.mark.parametrize("option", [MQOO.NO_READ_AHEAD, MQOO.SAVE_ALL_CONTEXT])
async def test_a_handle_may_be_opened_so_that_nothing_is_read_ahead(
    system: System, connection: Connection, queue: Queue, option: MQOO
) -> None:
    await queue.put_many(bodies(6))
    singly = await connection.open("Q", MQOO.INPUT_SHARED | option)
    holds = []
    async with connection.unit_of_work():
        async for _ in singly:
            holds.append(held(system))
            if len(holds) == 6:
                break
    assert holds == [1, 2, 3, 4, 5, 6]


async def test_the_context_passed_on_is_that_of_the_message_given_last(
    system: System, connection: Connection, other_queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(R)")
    setter = await connection.open("Q", MQOO.OUTPUT | MQOO.SET_IDENTITY_CONTEXT)
    for name in bodies(6):
        await setter.put(b"", MessageDescriptor(user_identifier=name.decode()), MQPMO.SET_IDENTITY_CONTEXT)
    source = await connection.open("Q", MQOO.INPUT_SHARED | MQOO.SAVE_ALL_CONTEXT)
    target = await connection.open("R", ALL | MQOO.PASS_ALL_CONTEXT)
    passing = PutMessageOptions(options=MQPMO.PASS_ALL_CONTEXT, context=source)
    async with connection.unit_of_work():
        async for message in source:
            await target.put(b"", None, passing)
            if message.md.user_identifier == "5":
                break
    users = [message.md.user_identifier for message in await target.get_many(9)]
    assert users == [name.decode() for name in bodies(6)]


async def test_a_loop_left_inside_a_group_leaves_the_handle_there(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    for number in range(1, 9):
        flags = MQMF.LAST_MSG_IN_GROUP if number == 8 else MIG
        await place(other_queue, b"%d" % number, flags, name_of("G"), number)
    async with connection.unit_of_work():
        assert await first(queue, 5) == [b"1", b"2", b"3", b"4", b"5"]
        assert (await queue.get(options=LO | SYNC)).data == b"6"


async def test_a_loop_ends_when_the_handle_is_closed(system: System, connection: Connection, queue: Queue) -> None:
    async with connection.unit_of_work():
        looping = asyncio.ensure_future(anext(aiter(queue), None))
        await system.waiting("Q", 1)
        await queue.close()
        assert await looping is None


@pytest.mark.parametrize("reason", [MQRC.GET_INHIBITED, MQRC.Q_MGR_QUIESCING])
@pytest.mark.parametrize("in_unit", [False, True])
async def test_a_loop_raises_what_ends_its_wait(
    system: System, connection: Connection, queue: Queue, reason: MQRC, in_unit: bool
) -> None:
    with inside_unit(connection) if in_unit else nullcontext():
        looping = asyncio.ensure_future(reason_of(anext(aiter(queue))))
        await system.waiting("Q", 1)
        if reason == MQRC.GET_INHIBITED:
            await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        else:
            system.manager.core.quiesce()
            system.manager.context.perform()
        assert await looping == reason


async def leave_by_break(queue: Queue) -> None:
    await first(queue, 3)


async def leave_by_error(queue: Queue) -> None:
    async for message in queue:
        if message.data == b"2":
            raise ZeroDivisionError


async def leave_by_cancellation(queue: Queue) -> None:
    async for message in queue:
        if message.data == b"2":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)


@pytest.mark.parametrize("leave", [leave_by_break, leave_by_error, leave_by_cancellation])
async def test_however_a_loop_is_left_a_later_commit_covers_what_it_was_given(
    system: System, connection: Connection, queue: Queue, other_queue: Queue, leave: Callable[[Queue], object]
) -> None:
    await other_queue.put_many(bodies(10))
    with inside_unit(connection):
        task = asyncio.ensure_future(leave(queue))  # type: ignore[call-overload]  # a coroutine function
        await asyncio.wait([task])
        assert task.cancelled() == (leave is leave_by_cancellation)
        assert task.cancelled() or isinstance(task.exception(), ZeroDivisionError | None)
    await connection.commit()
    assert await left_on(other_queue) == [(each, 0) for each in bodies(10)[3:]]


async def test_a_loop_that_nobody_goes_on_with_is_left_when_it_is_collected(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(10))
    with inside_unit(connection):
        loop = aiter(queue)
        assert [(await anext(loop)).data for _ in range(2)] == bodies(2)
        cycle = [loop]
        cycle.append(cycle)  # type: ignore[arg-type]  # so that only the collector finds it
        del loop, cycle
        await asyncio.to_thread(gc.collect)
        await system.until(lambda: held(system) == 2)
    await connection.backout()


async def test_a_cut_line_leaves_every_message_on_the_queue(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(10))
    with inside_unit(connection):
        loop = aiter(queue)
        for _ in range(3):
            await anext(loop)
        system.cut(connection)
        await system.until(lambda: held(system) == 0)
        assert await drained(other_queue) == bodies(10)
        assert await reason_of(anext(loop)) == MQRC.CONNECTION_BROKEN


async def test_what_goes_back_to_a_hardened_queue_has_not_been_in_anybodys_hands(durable: DurableSystem) -> None:
    await durable.mqsc("ALTER QLOCAL(Q) HARDENBO")
    connection = await durable.connect()
    queue = await connection.open("Q", ALL)
    await queue.put_many(bodies(10))
    async with connection.unit_of_work():
        assert await first(queue, 3) == bodies(3)
        await durable.until(lambda: held(durable) == 3)
    await durable.crash()
    again = await (await durable.connect()).open("Q", ALL)
    assert await left_on(again) == [(each, 0) for each in bodies(10)[3:]]


async def test_browsers_see_what_was_given_back_in_its_place(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put_many(bodies(6))
    async with connection.unit_of_work():
        await first(queue, 2)
        await system.until(lambda: held(system) == 2)
        browsed = await other_queue.get_many(9, options=MQGMO.BROWSE_NEXT)
        assert [message.data for message in browsed] == bodies(6)[2:]
