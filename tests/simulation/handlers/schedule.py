"""A schedule: one seed, one queue manager that dies and starts again, a producer, and workers that come and go.

One task decides what comes next: a put, an outcome of a handler, some time, a kill, no room on the disk. All chance is
in the seed. At the end nothing fails any more, time passes until nothing waits, and the records are compared with what
is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from broker import QueueManager
from broker.core.message.entry import AVAILABLE
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.mqi.delivery_fields import Outcome
from broker.storage.store import StoreFailedError, StoreFullError
from tests.simulation.clock import SimulatedClock
from tests.simulation.disk import Disk
from tests.simulation.handlers.producer import Producer
from tests.simulation.handlers.records import Records, Violation
from tests.simulation.handlers.setting import DEAD, OUT, SOURCE, formatted, terms_drawn
from tests.simulation.handlers.worker import Worker
from tests.simulation.setting import CONFIGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

STEPS: Final = 400
PATIENCE: Final = 5000  # turns of the event loop after which nothing more will come
WORKERS: Final = 3
QUIET_TURNS: Final = 40
DRAINED_IN: Final = 3000
TRIES: Final = 30

OUTCOMES: Final = (
    *[Outcome.DONE] * 6, *[Outcome.FAILED] * 4, Outcome.REJECTED, Outcome.LATER, Outcome.LATER, Outcome.RETURNED,
)  # fmt: skip


class Schedule:
    """A run."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.random = Random(seed)
        self.trace: list[str] | None = [] if trace else None
        self.terms = terms_drawn(self.random)
        self.records = Records(self.terms)
        self.figures: Counter[str] = Counter(schedules=1)
        self._step = 0
        self._clock = SimulatedClock()
        self._disk = Disk(self.random, formatted())
        self._config = self.random.choice(CONFIGS)
        self.manager: QueueManager
        self._producer: Producer
        self._workers: list[Worker] = []
        self._spawned = 0
        self._life = 0
        self._closing: asyncio.Event
        self._living: asyncio.Task[None]
        self._room_at: int | None = None
        self._dead_at: int | None = None
        self._inhibited = False
        self._unexpected: list[str] = []

    @property
    def now(self) -> float:
        return self._clock.monotonic()

    @property
    def wall(self) -> float:
        return self._clock.time()

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self._step:5} {self.now:9.3f} {text}")

    # The run

    async def run(self) -> None:
        """All of it. Raises Violation."""
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self._unexpected.append(str(context)))
        await self._disk.format()
        await self._start()
        for self._step in range(STEPS):
            await self._happen()
        await self._end()
        self.figures += self.records.figures

    async def _happen(self) -> None:
        """One step."""
        if self._room_at == self._step:
            self._make_room()
        chance = self.random.random()
        if chance < 0.03:
            await self._befall(chance)
        elif chance < 0.05:
            self._kill_a_worker()
        elif chance < 0.1:
            self._clock.advance(self.random.choice((0.1, 0.6, 2.0, 9.0, 70.0)))
        elif chance < 0.3:
            self._producer.put()
        elif chance < 0.65:
            self._act()
        elif chance < 0.7:
            self._check_rest()
        else:
            for _ in range(self.random.randrange(1, 12)):
                await self._turn()
        await self._turn()

    async def _befall(self, chance: float) -> None:
        """Something that the queue manager has no hand in."""
        if chance < 0.008:
            await self._die()
        elif chance < 0.012:
            self._fail()
        elif chance < 0.016:
            await self._stop()
        elif chance < 0.025:
            self._fill()
        else:
            await self._inhibit(inhibited=not self._inhibited)

    def _act(self) -> None:
        """A worker takes, or a handler comes to its end."""
        worker = self.random.choice(self._workers)
        idle = worker.idle
        if idle and self.random.random() < 0.7:
            worker.handle(self.random.choice(idle), self.random.choice(OUTCOMES))
        else:
            worker.take()

    def _kill_a_worker(self) -> None:
        worker = self.random.choice(self._workers)
        self._workers.remove(worker)
        self.figures["workers killed"] += 1
        worker.cut()
        self._hire()

    def _hire(self) -> None:
        self._spawned += 1
        self._workers.append(Worker(self, self.manager, f"worker {self._spawned}"))

    async def _inhibit(self, *, inhibited: bool) -> None:
        """Nothing can be put to the dead-letter queue, or it can again."""
        word = "DISABLED" if inhibited else "ENABLED"

        async def alter() -> None:
            async with self.manager.connect("administrator") as connection:
                (reply,) = await connection.mqsc(f"ALTER QLOCAL({DEAD}) PUT({word})")
                if reply.ok:
                    self._inhibited = inhibited
                    self.note(f"PUT({word}) on {DEAD}")

        await self._try(alter)

    async def _try(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Return True if it could be done: the queue manager may end meanwhile."""
        life = self._life
        task = asyncio.ensure_future(work())
        for _ in range(PATIENCE):
            if task.done():
                break
            await self._turn()
            if self._life != life:
                task.cancel()
        try:
            await asyncio.wait_for(task, 60)
        except (MQError, asyncio.CancelledError):
            return False
        return True

    # What befalls the store and the process

    def _fill(self) -> None:
        faults, after = self._disk.faults, self.random.randint(1, 3)
        self.note(f"no room from the write {after} on")
        if self.random.random() < 0.5:
            faults.fill(after=after)
            self._room_at = self._step + self.random.randint(5, 40)
        else:
            faults.fail_next(StoreFullError("the disk is full"), after=after)

    def _make_room(self) -> None:
        self._room_at = None
        self._disk.faults.make_room()

    def _fail(self) -> None:
        """A write fails, and nobody knows whether it is there."""
        lose = self.random.random() < 0.5
        self.note(f"the store fails, lose={lose}")
        self._disk.faults.fail_next(StoreFailedError("no answer"), lose=lose)

    async def _die(self) -> None:
        """The process dies: nothing more reaches the disk, nobody hears anything more."""
        self.note("crash")
        self.figures["crashes"] += 1
        self._disk.faults.kill()
        self._lose_all()
        await self._ended()
        await self._start()

    async def _stop(self) -> None:
        """An orderly stop, in the middle of whatever goes on: it charges nobody."""
        self.note("stop")
        self.figures["stops"] += 1
        await self._ended()
        await self._start()

    async def _ended(self) -> None:
        refusals = self._disk.refusals
        self._closing.set()
        for _ in range(PATIENCE):
            if self._living.done() and self._disk.idle and not self._producer.busy:
                break
            await asyncio.sleep(0)
            self._look()
        else:
            raise Violation("the queue manager does not end")
        error = self._living.exception()
        if error is not None and not isinstance(error, StoreFailedError | StoreFullError):
            raise error
        failed = error is not None or self.manager.journal.error is not None
        failed = failed or self._disk.refusals > refusals  # the marks of what was given back may be there still
        if failed:
            self.records.any_may_be_lost()
        for worker in self._workers:
            worker.look()
            if failed:
                self.records.lost(worker)
            for delivered in worker.handled.values():
                self.records.let_go(self.records.messages[delivered.messages[0].data.decode()])
            worker.handled.clear()
            worker.let_go()

    async def _start(self) -> None:
        self._life += 1
        self.note(f"life {self._life}")
        self._make_room()
        for record in self.records.messages.values():
            record.refused_until = 0.0
            if not record.persistent:
                record.handled_by = None
        manager = self.manager = QueueManager.open(self._config, store=self._disk, clock=self._clock)
        manager.random_bits = self.random.getrandbits
        self._closing = asyncio.Event()
        opened = asyncio.Event()
        self._living = asyncio.create_task(self._keep_open(opened))
        for _ in range(PATIENCE):
            if opened.is_set():
                if manager.journal.error is None:
                    break
                self._closing.set()  # its first write has failed
            if self._living.done():
                self.note(f"no start: {self._living.exception()!r}")
                await self._start()
                return
            await asyncio.sleep(0)
        else:
            raise Violation("the queue manager does not start")
        manager.core.check_invariants()
        self._producer = Producer(self, manager)
        self._workers.clear()
        for _ in range(WORKERS):
            self._hire()

    async def _keep_open(self, opened: asyncio.Event) -> None:
        async with self.manager:
            opened.set()
            await self._closing.wait()

    async def _turn(self) -> None:
        """Let the event loop turn once; a queue manager that has ended for its store starts again."""
        await asyncio.sleep(0)
        self._look()
        if self._living.done() or self.manager.journal.error is not None:
            self.figures["failures"] += 1
            self._lose_all()
            await self._ended()
            await self._start()

    def _lose_all(self) -> None:
        """The queue manager has gone with all that handlers had in their hands."""
        if any(worker.takes for worker in self._workers):
            self.records.any_may_be_lost()
        for worker in self._workers:
            self.records.lost(worker)
            worker.let_go()

    def _look(self) -> None:
        if self._unexpected:
            raise Violation(self._unexpected[0])
        self._producer.look()
        for worker in self._workers:
            worker.look()

    # At rest

    def _check_rest(self) -> None:
        """While nothing is on its way to the store: no message is available without a start (H2.13)."""
        if not self._disk.idle or self._producer.busy:
            return
        core = self.manager.core
        core.check_invariants()
        queue = core.objects.queues[SOURCE]
        available = sum(
            entry.state == AVAILABLE and not (entry.handling and entry.handling.failure and entry.handling.failure.dead)
            for entry in queue.shelf.entries.values()
        )
        if available > queue.pending_starts:
            found = [(entry, entry.handling) for entry in queue.shelf.entries.values() if entry.state == AVAILABLE]
            raise Violation(
                f"{available} messages are available, and {queue.pending_starts} starts pending: {found[:3]}"
            )
        self.figures["rests"] += 1

    def _check_sum(self) -> None:
        """H13.1."""
        for _, _, each in self.manager.core.deliveries.counts():
            ends = each.succeeded + each.failed + each.rejected + each.unreadable + each.later
            ends += each.crashed + each.returned + each.running
            if each.started != ends or each.running:
                raise Violation(f"{each.started} started, {ends} ended, {each.running} running: {each.figures()}")
            self.figures["started"] += each.started

    # The end

    async def _end(self) -> None:
        self._make_room()
        self._inhibited = True  # nobody may have heard that it is
        await self._insist(lambda: self._inhibit(inhibited=False), lambda: not self._inhibited)
        await self._drain()
        self._check_sum()
        found = await self._browsed(OUT), await self._browsed(DEAD)
        self.records.check_end(*found)
        await self._stop()
        kept = await self._browsed(OUT), await self._browsed(DEAD)
        wanted = tuple([name for name in names if self.records.messages[name].persistent] for names in found)
        if kept != wanted:
            raise Violation(f"a restart has made {kept} of {found}")
        await self._drain()  # nothing is there
        self.figures["done"] += len(found[0])
        self.figures["dead"] += len(found[1])

    async def _drain(self) -> None:
        """Until nothing is on the queue any more."""
        still = 0
        for self._step in range(STEPS, STEPS + DRAINED_IN):
            for worker in self._workers:
                for delivered in worker.idle:
                    outcome = Outcome.DONE if self.random.random() < 0.8 else Outcome.FAILED
                    worker.handle(delivered, outcome)
                worker.take()
            for _ in range(QUIET_TURNS):
                await self._turn()
            queue = self.manager.core.objects.queues[SOURCE]
            at_rest = self._disk.idle and not self._producer.busy and all(worker.waits for worker in self._workers)
            if at_rest and not queue.depth:
                return
            if at_rest and not queue.shelf.delayed:
                still += 1
                if still > 3:
                    raise Violation(f"{queue.depth} messages are stranded, {queue.pending_starts} starts pending")
            else:
                still = 0
            if at_rest:
                self._check_rest()
                self._clock.advance(self.random.choice((0.5, 20.0)))
            elif self.random.random() < 0.2:
                self._clock.advance(0.1)
        raise Violation(f"{queue.depth} messages never come to an end")

    async def _browsed(self, name: str) -> list[str]:
        found: list[str] = []

        async def browse() -> None:
            found.clear()
            async with self.manager.connect("auditor") as connection, connection.open(name, MQOO.BROWSE) as queue:
                while True:
                    try:
                        message = await queue.get(None, MQGMO.BROWSE_NEXT)
                    except MQError as error:
                        if error.reason == MQRC.NO_MSG_AVAILABLE:
                            return
                        raise
                    found.append(message.data[-message.data[::-1].index(b"m") - 1 :].decode())  # behind the MQDLH

        for _ in range(TRIES):
            if await self._try(browse):
                return found
        raise Violation(f"{name} cannot be browsed")

    async def _insist(self, work: Callable[[], Awaitable[None]], done: Callable[[], bool]) -> None:
        for _ in range(TRIES):
            await work()
            if done():
                return
        raise Violation("it cannot be done")
