"""Jobs: calls that take more than one step, and may ask something whose answer comes later."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.commands.table.attributes import altered
from broker.core.names.definitions import Define
from broker.engine.jobs.awaits import PAUSE, Changed, FifoLock, Look
from broker.engine.jobs.jobs import Job
from broker.interface import Call
from broker.mqi import MQOO, MQRC, ObjectDescriptor
from broker.storage.store import StoreFailedError, StoreFullError
from tests.engine.bench import Bench, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.names.definitions import Change, Definition
    from broker.engine.conversation import Conversation
    from broker.engine.jobs.jobs import Steps
    from broker.storage.store import Done

MODEL = ObjectDescriptor(object_name="SYSTEM.DEFAULT.MODEL.QUEUE")


class Asked(Look[None]):
    """A look that answers when the test does."""

    answer = None

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


class Answered(Look[None]):
    """A look that answers at once."""

    answer = None

    def begin(self, done: Done) -> None:
        done(None)


class Program:
    """A connection whose calls are jobs that look, or change a description of Q, and what they have seen."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.port: Conversation = bench.manager.converse("test")
        self.seen: list[Any] = []

    def asking(self, *looks: Look[None]) -> Call[int]:
        """A call that only looks. It is answered with the number of looks."""
        return self._issued(lambda call: self.port.call_order.look(call, self._asking(looks)))

    def changing(self, name: str, *looks: Look[None]) -> Call[int]:
        """A call that looks and then describes Q by this name."""
        return self._issued(lambda call: self.port.call_order.change(call, self._changing(name, looks)))

    def steps(self, make: Callable[[], Steps[int]]) -> Call[int]:
        return self._issued(lambda call: self.port.call_order.look(call, make()))

    def _issued(self, make: Callable[[Call[int]], None]) -> Call[int]:
        return self.port.call_order.after_own_writes(Call(), make)

    async def _asking(self, looks: tuple[Look[None], ...]) -> int:
        try:
            for look in looks:
                self.seen.append(await outcome(look))
        finally:
            self.seen.append("over")
        return len(looks)

    async def _changing(self, name: str, looks: tuple[Look[None], ...]) -> int:
        for look in looks:
            self.seen.append(await outcome(look))
        self.seen.append(f"{name} on {description(self.bench)!r}")
        self.seen.append((name, await outcome(Changed(Define(described(self.bench, name))))))
        return 0


async def outcome(awaited: Look[None] | Changed) -> Exception | None:
    """The error with which that ended."""
    try:
        await awaited
    except Exception as error:
        return error
    return None


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
        reported = program.seen[0]
        assert (type(reported), str(reported)) == (StoreFailedError, "no answer")
        assert reported is not error  # which another job may be told too: each raises its own
        assert program.seen[1:] == [None, "over"]
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
        reported, *rest = program.seen
        assert isinstance(reported, MQError)
        assert reported.reason == (fault.reason if isinstance(fault, MQError) else MQRC.UNEXPECTED_ERROR)
        assert rest == [None, "over"]


@pytest.mark.parametrize("before", [0, 1])
async def test_a_mistake_in_a_job_answers_its_call_and_the_next_is_made(
    before: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def wrong() -> int:
        for _ in range(before):
            await Answered()
        raise KeyError("injected")

    async def refused() -> int:
        for _ in range(before):
            await Answered()
        raise MQError(MQRC.Q_MGR_NOT_AVAILABLE, "nobody there")

    async with opened() as bench:
        program = Program(bench)
        calls = [program.steps(wrong), program.steps(refused), program.asking(Answered())]
        await turns(30)
        assert (reason(calls[0]), reason(calls[1])) == (MQRC.UNEXPECTED_ERROR, MQRC.Q_MGR_NOT_AVAILABLE)
        assert calls[2].result() == 1
        assert caplog.text.count("KeyError: 'injected'") == 1
        await works(bench)


@pytest.mark.parametrize(
    ("error", "answer"),
    [(StoreFullError("no room"), MQRC.STORAGE_MEDIUM_FULL), (StoreFailedError("cut off"), MQRC.CONNECTION_BROKEN)],
)
async def test_an_error_of_the_store_that_a_job_lets_through_answers_its_call(
    error: Exception, answer: MQRC, caplog: pytest.LogCaptureFixture
) -> None:
    async def asking() -> int:
        await look
        return 0

    async with opened() as bench:
        program, look = Program(bench), Asked()
        call = program.steps(asking)
        await turns()
        look.done(error)
        await turns()
        assert reason(call) == answer
        assert not caplog.records


async def test_a_job_that_awaits_what_nobody_would_resume_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    async def sleeping() -> int:
        await asyncio.sleep(0)
        return 0

    async def waiting() -> int:
        await asyncio.get_running_loop().create_future()
        return 0

    async with opened() as bench:
        program = Program(bench)
        calls = [program.steps(sleeping), program.steps(waiting)]
        await turns(30)
        assert [reason(call) for call in calls] == [MQRC.UNEXPECTED_ERROR, MQRC.UNEXPECTED_ERROR]
        for kind in ("NoneType", "Future"):
            assert f"TypeError: a job awaits pauses, changes and looks, not {kind}" in caplog.text
        await works(bench)


class Locked:
    """Jobs that need the lock of a key from their begin to their end, and what they have done."""

    def __init__(self, bench: Bench) -> None:
        self._jobs = bench.manager.context.jobs
        self.lines: dict[Any, Any] = {}
        self.done: list[str] = []

    def run(self, name: str, look: Look[None], key: str = "key") -> Call[str]:
        call: Call[str] = Call()
        call.add_done_callback(lambda done: done.exception())
        lock = FifoLock(self.lines, key)
        self._jobs.start(Job(self._steps(name, look), call, partial(self.done.append, f"{name} over"), lock=lock))
        return call

    async def _steps(self, name: str, look: Look[None]) -> str:
        self.done.append(name)
        await look
        return name

    def in_part(self, name: str, look: Look[None]) -> Call[str]:
        """A job that needs the lock for a part of its steps."""
        call: Call[str] = Call()
        call.add_done_callback(lambda done: done.exception())
        self._jobs.start(Job(self._part(name, look), call, partial(self.done.append, f"{name} over")))
        return call

    async def _part(self, name: str, look: Look[None]) -> str:
        async with FifoLock(self.lines, "key"):
            return await self._steps(name, look)


async def test_jobs_with_the_lock_of_one_key_follow_one_another() -> None:
    async with opened() as bench:
        locked, looks = Locked(bench), [Asked(), Asked(), Asked()]
        first, second, third = locked.run("a", looks[0]), locked.in_part("b", looks[1]), locked.run("c", looks[2])
        other = locked.run("other", Answered(), key="another")
        await turns()
        assert (locked.done, other.result()) == (["a", "other", "other over"], "other")
        looks[0].done(MQError(MQRC.Q_FULL))
        await turns()
        assert reason(first) == MQRC.Q_FULL
        assert locked.done[3:] == ["a over", "b"]
        looks[1].done(None)
        await turns()
        assert (second.result(), locked.done[5:]) == ("b", ["b over", "c"])
        looks[2].done(None)
        await turns()
        assert third.result() == "c"
        assert not locked.lines


async def test_the_end_of_the_queue_manager_leaves_nobody_in_line_for_a_lock(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as bench:
        locked = Locked(bench)
        calls = [locked.run("a", Asked()), locked.in_part("b", Asked()), locked.run("c", Asked())]
        await turns()
    assert [reason(call) for call in calls] == [MQRC.Q_MGR_STOPPING] * 3
    assert locked.done == ["a", "a over", "b over", "c over"]
    assert not locked.lines
    assert not caplog.records


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

        async def changes(name: str) -> int:
            for _ in range(3):
                changed.append(name)
                await Changed(Define(bench.manager.core.objects.definitions["QUEUE", "Q"]))
                await PAUSE
            return 0

        def issued(name: str) -> Call[int]:
            port = bench.manager.converse(name)
            return port.call_order.in_order(Call(), lambda call: port.call_order.change(call, changes(name)))

        await asyncio.gather(issued("a"), issued("b"))
        assert changed == ["a", "b", "a", "b", "a", "b"]


async def test_of_several_changes_none_is_made_after_one_that_could_not_be() -> None:
    async with opened() as bench:
        reported: list[tuple[object, str]] = []

        async def changes() -> int:
            for pair in ("a", "b"), ("c", "d"):
                defined: list[Change] = [Define(described(bench, name)) for name in pair]
                error = await outcome(Changed(*defined))
                reported.append((error and str(error), description(bench)))
            return 0

        full = StoreFullError("no room")
        bench.store.fail_next(full)
        port = bench.manager.converse("test")
        await port.call_order.in_order(Call(), lambda call: port.call_order.change(call, changes()))
        assert reported == [("no room", ""), (None, "d")]


async def test_a_job_is_over_once_when_the_queue_manager_ends_while_its_change_is_written() -> None:
    async with opened() as bench:
        over: list[str] = []

        async def change() -> int:
            await Changed(Define(described(bench, "x")))
            return 0

        call: Call[int] = Call()
        bench.store.hold()
        bench.manager.context.jobs.start(Job(change(), call, partial(over.append, "over")))
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
    """Check that others can look and change."""
    other = Program(bench)
    assert await other.asking(Answered()) == 1
    assert await other.changing("others") == 0
    await asyncio.wait_for(bench.queue.put(b"x"), 60)
