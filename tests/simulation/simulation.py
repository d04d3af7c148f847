"""A simulation: one seed, several lives of one queue manager, and the programs that use it.

One task decides what comes next, a step at a time: a program makes a call, a call is cancelled, the event loop turns,
time passes, a line is cut, the process dies. Calls overlap as they like; how many turns a write takes is chance too.
All chance is in the seed, and nothing else is: a run can be had again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from broker import MQError, QueueManager
from broker.mqi import MQGMO, MQOO, MQRC
from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError
from tests.simulation.audit import After, Audit
from tests.simulation.clock import SimulatedClock
from tests.simulation.disk import Disk
from tests.simulation.faults import AT_WRITES, Fault, Kind
from tests.simulation.ledger import Ledger, Violation
from tests.simulation.program import Program
from tests.simulation.setting import CONFIGS, QUEUES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from broker.interface import Message as Got
    from broker.storage.store import Rows
    from tests.simulation.ledger import QueueRecord

PROGRAMS = 3
CALLS_MAX = 4  # of one program at a time
PATIENCE = 5000  # turns of the event loop after which a call that does not wait will never be answered
QUIET_TURNS = 12
ROOM_AFTER = 12  # steps after the first write that found no room, there is room again


class Died(Exception):  # it is no error
    """The life of the queue manager is over: its process has died."""


class StoreFailed(Died):
    """Its store has failed, and it stops."""


class Call:
    """A call that is under way."""

    def __init__(self, program: Program, verb: str, work: Coroutine[Any, Any, None]) -> None:
        self.program = program
        self.verb = verb
        self.task = asyncio.create_task(work)


class Simulation:
    """A run. `fault` is the one fault that strikes; None lets chance choose one for each life."""

    def __init__(
        self, seed: int, formatted: Sequence[Rows], fault: Fault | None, lives: int, steps: int, *, keep_trace: bool
    ) -> None:
        self.random = Random(seed)
        self.clock = SimulatedClock()
        self.disk = Disk(self.random, formatted)
        self.ledger = Ledger(self.clock, {queue.name: queue for queue in map(replace, QUEUES)})
        self.trace: list[str] | None = [] if keep_trace else None
        self.step = 0
        self.life = 0
        self.fault = fault or Fault(Kind.NONE)
        self.crashes = self.unknowns = self.calls_made = 0
        self._chooses_faults = fault is None
        self._lives = lives
        self._steps = steps
        self._config = self.random.choice(CONFIGS)
        self._programs: list[Program] = []
        self._program_count = 0
        self._calls: list[Call] = []
        self._manager: QueueManager
        self._closing: asyncio.Event
        self._living: asyncio.Task[None]
        self._dead = True
        self._after = self._after_crash = After.STOP  # what the next audit follows, and what if the process dies now
        self._refusals_audited = 0
        self._room_at: int | None = None
        self._unexpected: list[str] = []

    # What programs see of it (`tests.simulation.program.World`)

    @property
    def refusals(self) -> int:
        return self.disk.refusals

    @property
    def refusals_heard(self) -> int:
        return self.disk.refusals_heard

    @property
    def failing(self) -> bool:
        return self._dead or self._manager.journal.error is not None

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.step:5} {text}")

    # The run

    async def run(self) -> None:
        """Live, work and die, then take all that is left off the queues, and see that nothing is left then."""
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self._unexpected.append(str(context)))
        await self.disk.format()
        for _ in range(self._lives):
            await self._live(self._work)
        for occupation in (self._drain, self._rest):
            while not await self._live(occupation):
                pass

    async def _live(self, occupation: Callable[[], Awaitable[None]]) -> bool:
        """One life: start, compare what is there with the ledger, do something, stop. Whether it came to its end."""
        self.life += 1
        self._arm()
        try:
            await self._start()
            await self._audit(self._after)
            await occupation()
            await self._stop()
        except Died as died:
            self.note(str(died))
            self.crashes += not isinstance(died, StoreFailed)
            self.unknowns += isinstance(died, StoreFailed)
            await self._bury()
            return False
        self._after = After.STOP
        return True

    def _arm(self) -> None:
        """Plan the fault of this life."""
        if self._chooses_faults:
            kind = self.random.choice([*AT_WRITES, Kind.CRASH, Kind.NONE])
            reach = self._steps if kind is Kind.CRASH else self._steps // 2
            base = self.step if kind is Kind.CRASH else self.disk.faults.writes
            self.fault = Fault(kind, base + self.random.randint(1, reach)) if self.life <= self._lives else _NO_FAULT
            self._room_at = None
        self.fault.arm(self.disk.faults)
        self.note(f"life {self.life}: {self.fault}, {self.disk.faults.writes} writes")

    # A life

    async def _start(self) -> None:
        if self._after is After.STOP:
            self._after_crash = After.BROKEN_STOP  # what the stop kept may be there again at the next start
        while True:
            self._manager = QueueManager.open(self._config, store=self.disk, clock=self.clock)
            self._closing = asyncio.Event()
            opened = asyncio.Event()
            self._living = asyncio.create_task(self._keep_open(opened))
            while not (opened.is_set() or self._living.done()):
                await asyncio.sleep(0)
                if self.disk.stuck:
                    raise Died("crash at the start")
            if opened.is_set():
                break
            self._raise_end()
            self.disk.faults.make_room()
        self._after_crash = After.CRASH
        self._dead = False

    async def _keep_open(self, opened: asyncio.Event) -> None:
        async with self._manager:
            opened.set()
            await self._closing.wait()

    async def _stop(self) -> None:
        """An orderly stop, in the middle of whatever goes on."""
        self.note("stop")
        self._after_crash = After.BROKEN_STOP
        self._end_programs()
        self._closing.set()
        for _ in range(PATIENCE):
            if self._living.done() and not self._under_way():
                break
            await asyncio.sleep(0)
            if self.disk.stuck:
                raise Died("crash in the stop")
        else:
            raise Violation("the stop has no end, or calls are never answered")
        self._dead = True
        self._raise_end()
        if self._manager.journal.error is not None:
            raise StoreFailed("the store has failed in the stop")

    def _raise_end(self) -> None:
        """Raise what ended the queue manager, but for a full store."""
        error = self._living.exception()
        self.note(f"it has ended: {error}")
        if isinstance(error, StoreUnusableError):  # it had not begun: what the store said led to that
            error = error.__cause__
        if isinstance(error, StoreFailedError):
            raise StoreFailed("the store has failed")
        if error is not None and not isinstance(error, StoreFullError):
            raise error

    async def _bury(self) -> None:
        """The process is dead: nothing more reaches the disk, nobody hears anything more."""
        self._after = self._after_crash
        self._dead = True
        self.disk.faults.kill()
        for call in self._calls:
            call.task.cancel()
        self._closing.set()
        for _ in range(PATIENCE):
            if self._living.done() and self.disk.idle and not self._under_way():
                break
            await asyncio.sleep(0)
        else:
            raise Violation("a queue manager whose store has failed does not end")
        self._end_programs()
        error = self._living.exception()
        self.note(f"it has ended: {error}")

    def _end_programs(self) -> None:
        for program in self._programs:
            program.end()
        self._programs.clear()
        self.disk.faults.make_room()

    async def _turn(self) -> None:
        """Let the event loop turn once."""
        await asyncio.sleep(0)
        if self._unexpected:
            raise Violation(self._unexpected[0])
        if self.disk.stuck:
            raise Died("crash")
        if self.fault.kind is Kind.CRASH and self.step == self.fault.at:
            self.fault = _NO_FAULT
            raise Died("crash")
        if self._manager.journal.error is not None:
            await self._calls_end()
            raise StoreFailed("the store has failed")
        if self._living.done():
            raise self._living.exception() or Violation("the queue manager has ended by itself")

    async def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for some work of the simulation's own."""
        task = asyncio.create_task(work)
        try:
            for _ in range(PATIENCE):
                await self._turn()  # first: what ends the queue manager ends the task too
                if task.done():
                    return task.result()
            raise Violation("a call is never answered")
        finally:
            task.cancel()
            await asyncio.wait([task])

    # What happens

    async def _work(self) -> None:
        for _ in range(self._steps):
            self.step += 1
            self._make_room_in_time()
            while len(self._programs) < PROGRAMS:
                await self._new_program()
            chance = self.random.random()
            if chance < 0.72:
                self._make_call()
                await self._turns(self.random.randrange(4))
            elif chance < 0.80:
                self._cancel_call()
            elif chance < 0.92:
                await self._turns(self.random.randrange(15))
            elif chance < 0.95:
                self._move_clock()
            elif chance < 0.97:
                self._cut()
            else:
                await self._quiet()
                await self._audit(After.QUIET)
            await self._turn()

    async def _drain(self) -> None:
        """Get all that is left, in the order in which a browse shows it."""
        program = await self._new_program(ledger_queues=True)
        await self._wait(program.drain())
        await self._quiet()

    async def _rest(self) -> None:
        """Nothing: that there is nothing left is what the audit at the start has seen."""

    async def _new_program(self, *, ledger_queues: bool = False) -> Program:
        await self._turn()
        self._program_count += 1
        program = Program(self, self._program_count, self._manager.connect())
        queues = [queue for queue in self.ledger.queues.values() if queue.there] if ledger_queues else None
        await self._wait(program.open(queues or [self.ledger.queues[queue.name] for queue in QUEUES]))
        self._programs.append(program)
        return program

    def _make_call(self) -> None:
        """A program makes a call, perhaps while others of its calls are under way."""
        program = self.random.choice(self._programs)
        busy = sum(call.program is program for call in self._under_way())
        if busy >= CALLS_MAX or (busy and self.random.random() < 0.5):
            return
        verbs, weights = zip(*self._possible(program), strict=True)
        (verb,) = self.random.choices(verbs, weights)
        work = {
            "put": lambda: program.put(in_unit=False),
            "put in unit": lambda: program.put(in_unit=True),
            "put many": lambda: program.put_many(in_unit=False),
            "put many in unit": lambda: program.put_many(in_unit=True),
            "get": lambda: program.get(in_unit=False),
            "get in unit": lambda: program.get(in_unit=True),
        }.get(verb) or getattr(program, verb)
        self.calls_made += 1
        self._calls.append(Call(program, verb, work()))
        if verb == "disconnect":
            self._programs.remove(program)

    def _possible(self, program: Program) -> list[tuple[str, int]]:
        calls = [("put", 14), ("put in unit", 14), ("get", 11), ("get in unit", 12), ("browse", 4), ("define", 1)]
        calls += [("put many", 2), ("put many in unit", 2), ("create", 1), ("drop", int(program.has_dynamic_queue))]
        if program.may_end_unit:
            calls += [("commit", 9), ("backout", 4)]
        return [*calls, ("disconnect", 1)]

    def _cancel_call(self) -> None:
        under_way = self._under_way()
        if under_way:
            call = self.random.choice(under_way)
            self.note(f"{call.program.name} cancel {call.verb}")
            call.task.cancel()

    def _move_clock(self) -> None:
        if self.random.random() < 0.6:
            seconds = self.random.choice([0.2, 1.0, 4.0, 70.0])
            self.note(f"{seconds} seconds pass")
            self.clock.advance(seconds)
        else:
            seconds = self.random.choice([-3600.0, -5.0, 5.0, 30.0])
            self.note(f"the wall clock steps by {seconds} seconds")
            self.clock.step(seconds)

    def _cut(self) -> None:
        """Break a connection."""
        program = self._programs.pop(self.random.randrange(len(self._programs)))
        self.note(f"{program.name} is cut off")
        program.end()
        program.connection.port.break_()

    def _make_room_in_time(self) -> None:
        if self.fault.kind is not Kind.NO_ROOM:
            return
        if self._room_at is None and self.disk.faults.refused:
            self._room_at = self.step + ROOM_AFTER
        elif self._room_at == self.step:
            self.note("there is room again")
            self.disk.faults.make_room()

    # Waiting

    def _under_way(self) -> list[Call]:
        """The calls that are not answered yet; what went wrong with the others is raised."""
        for call in self._calls:
            if call.task.done() and not call.task.cancelled():
                call.task.result()
        self._calls = [call for call in self._calls if not call.task.done()]
        return self._calls

    async def _turns(self, count: int) -> None:
        for _ in range(count):
            await self._turn()

    async def _calls_end(self) -> None:
        """All calls must be answered."""
        for _ in range(PATIENCE):
            if not self._under_way():
                return
            await asyncio.sleep(0)
        raise Violation(f"journal rule 7: {len(self._calls)} calls are not answered after the store has failed")

    async def _quiet(self) -> None:
        """Let the others run until nothing is on its way but gets that wait for messages."""
        quiet = 0
        for _ in range(PATIENCE):
            await self._turn()
            busy = not self.disk.idle or any(not call.program.waits(call.task) for call in self._under_way())
            quiet = 0 if busy else quiet + 1
            if quiet == QUIET_TURNS:
                return
        raise Violation(f"calls are never answered: {[call.verb for call in self._under_way()]}")

    # Comparing

    async def _audit(self, after: After) -> None:
        """Compare what is on the queues with the ledger."""
        found: dict[QueueRecord, list[Got]] = {}
        await self._wait(self._browse_all(found))
        self._manager.core.check_invariants()
        shown = {queue.name: [got.data.split()[0].decode() for got in messages] for queue, messages in found.items()}
        self.note(f"audit {after.name}: {shown}")
        self.ledger.refused_since = self.disk.refusals > self._refusals_audited
        Audit(self.ledger, found, after).run()
        self._refusals_audited = self.disk.refusals

    async def _browse_all(self, found: dict[QueueRecord, list[Got]]) -> None:
        connection = self._manager.connect()
        for queue in self.ledger.queues.values():
            try:
                handle = await connection.open(queue.name, MQOO.BROWSE)
            except MQError as error:
                if error.reason != MQRC.UNKNOWN_OBJECT_NAME or queue.there:
                    raise Violation(f"invariant 1: {queue.name} cannot be opened: {error}") from error
                queue.there = False
                continue
            if queue.there is False:
                raise Violation(f"invariant 1: {queue.name} is there, and must not be")
            queue.there = True
            found[queue] = messages = []
            try:
                while True:
                    messages.append(await handle.get(None, MQGMO.BROWSE_NEXT))
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
        connection.port.break_()


_NO_FAULT = Fault(Kind.NONE)
