"""Jobs: calls that take more than one step, and may ask something whose answer comes later."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.commands.attributes import altered
from broker.core.names.definitions import Define
from broker.engine.jobs import Job, Look
from broker.interface import Call
from broker.mqi import MQOO, MQRC, ObjectDescriptor
from broker.storage.store import StoreFailedError, StoreFullError
from tests.engine.bench import Bench, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from broker.core.names.definitions import Definition
    from broker.engine.conversation import Conversation
    from broker.engine.jobs import LookingSteps, Steps
    from broker.storage.store import Done

MODEL = ObjectDescriptor(object_name="SYSTEM.DEFAULT.MODEL.QUEUE")


class Asked(Look):
    """A look that answers when the test does."""

    def __init__(self, fault: Exception | None = None) -> None:
        self._fault = fault
        self.done: Done

    @property
    def begun(self) -> bool:
        return hasattr(self, "done")

    def begin(self, done: Done) -> None:
        if self._fault is not None:
            raise self._fault
        self.done = done


class Answered(Look):
    """A look that answers at once."""

    def begin(self, done: Done) -> None:
        done(None)


class Program:
    """A connection whose calls are jobs that look, or change a description of Q, and what they have seen."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.port: Conversation = bench.manager.converse("test")
        self.seen: list[Any] = []

    def asking(self, *looks: Look) -> Call[int]:
        """A call that only looks. It is answered with the number of looks."""
        return self._issued(lambda call: self.port.call_order.look(call, self._asking(call, looks)))

    def changing(self, name: str, *looks: Look) -> Call[int]:
        """A call that looks and then describes Q by this name."""
        return self._issued(lambda call: self.port.call_order.change(call, self._changing(call, name, looks)))

    def steps(self, make: Callable[[Call[int]], LookingSteps]) -> Call[int]:
        return self._issued(lambda call: self.port.call_order.look(call, make(call)))

    def _issued(self, make: Callable[[Call[int]], None]) -> Call[int]:
        return self.port.call_order.after_own_writes(Call(), make)

    def _asking(self, call: Call[int], looks: tuple[Look, ...]) -> Generator[Look | None, Exception | None]:
        try:
            for look in looks:
                self.seen.append((yield look))
            call.set_result(len(looks))
        finally:
            self.seen.append("over")

    def _changing(self, call: Call[int], name: str, looks: tuple[Look, ...]) -> Steps:
        for look in looks:
            self.seen.append((yield look))
        self.seen.append(f"{name} on {description(self.bench)!r}")
        error = yield (Define(described(self.bench, name)),)
        self.seen.append((name, error))
        if not call.done():
            call.set_result(0)


def description(bench: Bench) -> Any:
    return bench.manager.core.objects.definitions["QUEUE", "Q"].attributes["DESCR"]


def described(bench: Bench, name: str) -> Definition:
    """Q with this description."""
    queue = bench.manager.core.objects.definitions["QUEUE", "Q"]
    return altered(queue, {"DESCR": name}, datetime.fromtimestamp(0, UTC))


def reason(call: Call[Any]) -> Any:
    error = call.exception()
    assert isinstance(error, MQError)
    return error.reason


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_job_goes_on_when_its_look_is_answered_and_later_calls_wait_behind_it() -> None:
    async with opened() as bench:
        program, look = Program(bench), Asked()
        call = program.asking(look)
        behind, again = program.port.begin(), program.asking(Answered())
        await turns()
        assert look.begun
        assert not any(each.done() for each in (call, behind, again))
        look.done(None)
        assert not call.done()  # whoever answers may be in the middle of something
        await turns()
        assert (call.result(), behind.result(), again.result()) == (1, 0, 1)
        assert program.seen == [None, "over", None, "over"]


async def test_other_connections_and_jobs_go_on_while_one_waits_for_its_answer() -> None:
    async with opened() as bench:
        program, other, look = Program(bench), Program(bench), Asked()
        call = program.asking(look)
        await turns()
        assert await other.asking(Answered(), Answered()) == 2
        assert await other.changing("other") == 0
        await bench.queue.put(b"x")
        async with bench.connection.open(MODEL, MQOO.OUTPUT):
            assert not call.done()
        look.done(None)
        assert await call == 1


async def test_a_job_is_told_the_error_with_which_a_look_or_a_change_ended() -> None:
    async with opened() as bench:
        program, look = Program(bench), Asked()
        call = program.asking(look, Answered())
        await turns()
        error = StoreFailedError("no answer")
        look.done(error)
        assert await call == 2
        assert program.seen == [error, None, "over"]
        bench.store.fill()
        assert await program.changing("x" * 64) == 0
        refused = program.seen[-1][1]
        assert isinstance(refused, StoreFullError)


async def test_an_answer_that_comes_twice_counts_once() -> None:
    async with opened() as bench:
        program, first, second = Program(bench), Asked(), Asked()
        call = program.asking(first, second)
        await turns()
        first.done(None)
        first.done(KeyError("again"))
        await turns()
        first.done(KeyError("again"))
        await turns()
        assert not call.done()
        second.done(None)
        assert await call == 2
        assert program.seen == [None, None, "over"]


@pytest.mark.parametrize("late", [False, True])
async def test_the_end_of_the_connection_ends_a_call_that_looks(late: bool) -> None:
    async with opened() as bench:
        program, look = Program(bench), Asked()
        call, behind = program.asking(look), program.port.begin()
        await turns()
        program.port.break_()
        assert (reason(call), reason(behind)) == (MQRC.CONNECTION_BROKEN, MQRC.CONNECTION_BROKEN)
        assert program.port.end_reported
        if late:
            look.done(None)
        await turns()
        assert program.seen == ["over"]  # closed where it was
        look.done(None)
        await turns()
        assert program.seen == ["over"]
        await works(bench)


async def test_a_call_that_looks_alone_has_reported_the_end_of_its_connection() -> None:
    async with opened() as bench:
        program = Program(bench)
        call = program.asking(Asked())
        assert not program.port.end_reported
        program.port.break_()
        assert reason(call) == MQRC.CONNECTION_BROKEN
        assert program.port.end_reported


async def test_a_call_that_has_looked_reports_no_end() -> None:
    async with opened() as bench:
        program = Program(bench)
        assert await program.asking(Answered()) == 1
        program.port.break_()
        assert not program.port.end_reported


async def test_a_call_that_looks_is_left_when_nobody_waits_for_it_and_the_next_is_made() -> None:
    async with opened() as bench:
        program, look = Program(bench), Asked()
        call, behind = program.asking(look), program.port.begin()
        await turns()
        call.cancel()
        await turns()
        assert behind.result() == 0
        assert program.seen == ["over"]
        look.done(None)
        await turns()
        assert program.seen == ["over"]


@pytest.mark.parametrize("end", ["cancel", "cut"])
async def test_a_call_that_changes_goes_on_when_nobody_waits_for_it(end: str) -> None:
    async with opened() as bench:
        program, look = Program(bench), Asked()
        call, behind = program.changing("changed", look), program.port.begin()
        await turns()
        if end == "cancel":
            call.cancel()
        else:
            program.port.break_()
        await turns()
        assert behind.done() == (end == "cut")
        assert description(bench) == ""
        look.done(None)
        await turns(30)
        assert description(bench) == "changed"
        assert (behind.exception() is None) == (end == "cancel")
        assert call.cancelled() == (end == "cancel")
        await works(bench)


@pytest.mark.parametrize("fault", [KeyError("injected"), MQError(MQRC.Q_MGR_NOT_AVAILABLE, "nobody there")])
async def test_a_look_that_cannot_begin_is_one_that_ended_with_an_error(fault: Exception) -> None:
    async with opened() as bench:
        program = Program(bench)
        assert await program.asking(Asked(fault), Answered()) == 2
        told, *rest = program.seen
        assert isinstance(told, MQError)
        assert told.reason == (fault.reason if isinstance(fault, MQError) else MQRC.UNEXPECTED_ERROR)
        assert rest == [None, "over"]


@pytest.mark.parametrize("before", [0, 1])
async def test_a_mistake_in_a_job_answers_its_call_and_the_next_is_made(
    before: int, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(call: Call[int]) -> LookingSteps:
        for _ in range(before):
            yield Answered()
        raise KeyError("injected")

    def refused(call: Call[int]) -> LookingSteps:
        for _ in range(before):
            yield Answered()
        raise MQError(MQRC.Q_MGR_NOT_AVAILABLE, "nobody there")

    async with opened() as bench:
        program = Program(bench)
        calls = [program.steps(wrong), program.steps(refused), program.asking(Answered())]
        await turns(30)
        assert (reason(calls[0]), reason(calls[1])) == (MQRC.UNEXPECTED_ERROR, MQRC.Q_MGR_NOT_AVAILABLE)
        assert calls[2].result() == 1
        assert caplog.text.count("KeyError: 'injected'") == 1
        await works(bench)


async def test_jobs_that_change_stand_still_for_a_change_and_those_that_look_go_on() -> None:
    async with opened() as bench:
        first, second, third, looking = (Program(bench) for _ in range(4))
        bench.store.hold()
        changes = [first.changing("a"), second.changing("b"), third.changing("c")]
        await bench.store.wait_held()
        assert await looking.asking(Answered(), Answered()) == 2
        assert (first.seen, second.seen, third.seen) == (["a on ''"], [], [])
        bench.store.release()
        await asyncio.gather(*changes)
        assert (second.seen[0], third.seen[0]) == ("b on 'a'", "c on 'b'")
        assert description(bench) == "c"


async def test_a_job_hears_of_its_change_before_the_next_job_makes_one() -> None:
    async with opened() as bench:
        first, second = Program(bench), Program(bench)
        second.seen = first.seen
        await asyncio.gather(first.changing("a"), second.changing("b"))
        assert first.seen == ["a on ''", ("a", None), "b on 'a'", ("b", None)]


async def test_two_jobs_that_change_very_much_take_turns() -> None:
    async with opened() as bench:
        changed: list[str] = []

        def changes(name: str, call: Call[int]) -> Steps:
            for _ in range(3):
                changed.append(name)
                yield (Define(bench.manager.core.objects.definitions["QUEUE", "Q"]),)
                yield None
            call.set_result(0)

        def issued(name: str) -> Call[int]:
            port = bench.manager.converse(name)
            return port.call_order.in_order(Call(), lambda call: port.call_order.change(call, changes(name, call)))

        await asyncio.gather(issued("a"), issued("b"))
        assert changed == ["a", "b", "a", "b", "a", "b"]


async def test_of_several_changes_none_is_made_after_one_that_could_not_be() -> None:
    async with opened() as bench:
        told: list[tuple[Exception | None, str]] = []

        def changes(call: Call[int]) -> Steps:
            for first, second in ("a", "b"), ("c", "d"):
                error = yield (Define(described(bench, first)), Define(described(bench, second)))
                told.append((error, description(bench)))
            call.set_result(0)

        full = StoreFullError("no room")
        bench.store.fail_next(full)
        port = bench.manager.converse("test")
        await port.call_order.in_order(Call(), lambda call: port.call_order.change(call, changes(call)))
        assert told == [(full, ""), (None, "d")]


async def test_a_job_is_over_once_when_the_queue_manager_ends_while_its_change_is_written() -> None:
    async with opened() as bench:
        over: list[str] = []

        def change(call: Call[int]) -> Steps:
            yield (Define(described(bench, "x")),)
            call.set_result(0)

        call: Call[int] = Call()
        bench.store.hold()
        bench.manager.context.jobs.start(Job(change(call), call, partial(over.append, "over")))
        await bench.store.wait_held()
        bench.manager._end()
        assert reason(call) == MQRC.Q_MGR_STOPPING
        bench.store.release()
        await turns()
        assert over == ["over"]


async def test_jobs_that_wait_end_with_the_queue_manager() -> None:
    async with opened() as bench:
        looking, changing = Program(bench), Program(bench)
        looks = Asked(), Asked()
        calls = looking.asking(looks[0]), changing.changing("never", looks[1])
        await turns()
    for look in looks:
        look.done(None)
    await turns()
    assert [str(call.exception()) for call in calls] == [
        "MQRC_Q_MGR_STOPPING (2162): the queue manager is stopping",
        "MQRC_Q_MGR_STOPPING (2162): QM1 is stopping",
    ]
    assert (looking.seen, changing.seen) == (["over"], [])


async def works(bench: Bench) -> None:
    """Whether others can look and change."""
    other = Program(bench)
    assert await other.asking(Answered()) == 1
    assert await other.changing("others") == 0
    await asyncio.wait_for(bench.queue.put(b"x"), 60)
