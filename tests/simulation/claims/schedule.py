"""A schedule: one seed, one queue manager that dies and starts again, and the actors that use it.

One task decides what comes next: an actor takes a step, the event loop turns, the store finds no room, the process
dies. All chance is in the seed, and nothing else is. At the end nothing fails any more: every actor comes to its end,
what was refused is resolved, all that is left is claimed, and the judge compares.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from broker import Connection, MQError, QueueManager
from broker.mqi import MQGMO, MQOO, MQRC
from broker.storage.store import StoreFailedError, StoreFullError
from tests.simulation.claims.actors import Actor
from tests.simulation.claims.administrator import give_up
from tests.simulation.claims.judge import Judge, check_sink
from tests.simulation.claims.programs import Producer, Rival
from tests.simulation.claims.records import Query, Records, Violation
from tests.simulation.claims.setting import CONFIGS, OUT, PREPARED_AGE, QUEUES, formatted
from tests.simulation.claims.sink import SinkQuery, SinkSupervisor
from tests.simulation.claims.source import LOUD, Driver, Supervisor
from tests.simulation.clock import SimulatedClock
from tests.simulation.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Work: TypeAlias = "Callable[[Actor], Coroutine[Any, Any, None]]"
"""What an actor does."""

STEPS = 420
PATIENCE = 5000  # turns of the event loop after which nothing more will come
QUIET_STEPS = 20_000
BATCHES = 5  # of the query that writes to the sink
QUIET_TURNS = 100
TRIES = 30  # of a driver at the end


class Schedule:
    """A run. What the actors see of it is `tests.simulation.claims.actors.World`."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.random = Random(seed)
        self.records = Records()
        self.quiet = False
        self.life = 0
        self.trace: list[str] | None = [] if trace else None
        self.figures: Counter[str] = Counter(schedules=1)
        self._step = 0
        self._clock = SimulatedClock()
        self._disk = Disk(self.random, formatted())
        self._config = self.random.choice(CONFIGS)
        self._actors: list[Actor] = []
        self._spawned = 0
        self._manager: QueueManager
        self._closing: asyncio.Event
        self._living: asyncio.Task[None]
        self._room_at: int | None = None
        self._unexpected: list[str] = []
        self._supervisors: list[Supervisor] = []
        self._twins: list[Supervisor] = []
        self._sinks = [SinkQuery("Q1", BATCHES)]
        self._alone = self.random.random() < 0.2  # one consumer, and nobody that competes with it

    # What actors see of it

    def connect(self, name: str) -> Connection:
        return self._manager.connect(name)

    def spawn(self, name: str, work: Work) -> Actor:
        self._spawned += 1
        actor = Actor(self, f"{name} #{self._spawned}", work)
        self._actors.append(actor)
        return actor

    @property
    def now(self) -> float:
        return self._clock.monotonic()

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self._step:5} {text}")

    # The run

    async def run(self) -> None:
        """All of it. Raises Violation."""
        try:
            await self._run()
        finally:
            for actor in self._actors:
                actor.close()

    async def _run(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self._unexpected.append(str(context)))
        await self._disk.format()
        await self._start()
        self._begin()
        twin_at = self.random.randint(30, STEPS) if self.random.random() < 0.5 else -1
        for self._step in range(STEPS):
            await self._happen()
            if self._step == twin_at:
                self._twin()
        await self._end()
        self._count()

    def _begin(self) -> None:
        for number in range(2):
            self.spawn(f"producer {number}", Producer(f"p{number}", QUEUES).run)
        consumers = [("WHOLE", True), ("EACH", False)]
        if self._alone:
            consumers = [self.random.choice(consumers)]
        else:
            self.spawn("rival", Rival(QUEUES).run)
        for name, groups in consumers:
            q_names = self.random.choice([["A.*"], list(QUEUES), ["A.*", *QUEUES], [QUEUES[0]]])
            supervisor = Supervisor(self.records, Query(name, groups), q_names)
            self._supervisors.append(supervisor)
            self.spawn(f"supervisor {name}", supervisor.run)
        self.spawn("sink supervisor Q1", SinkSupervisor(self._sinks[0]).run)

    def _twin(self) -> None:
        """Another query begins on what one has: with no checkpoint, or with a copy of that."""
        supervisor = self.random.choice(self._supervisors)
        original = supervisor.query
        if self.random.random() < 0.5:
            twin = Query(original.consumer, original.groups)
        else:
            twin = original.copied_now()
            self.figures["copies"] += 1
        self.records.twins.add(original.consumer)
        twins = Supervisor(self.records, twin, supervisor.q_names)
        self._twins.append(twins)
        self.spawn(f"supervisor of a twin {twin.consumer}", twins.run)
        if self.random.random() < 0.5:
            self._sinks.append(SinkQuery("Q2", 3))
            self.spawn("sink supervisor Q2", SinkSupervisor(self._sinks[1]).run)

    async def _happen(self) -> None:
        """One step."""
        if self._room_at == self._step:
            self._make_room()
        chance = self.random.random()
        if chance < 0.008:
            await self._die()
        elif chance < 0.012:
            await self._fail()
        elif chance < 0.014:
            await self._stop()
        elif chance < 0.025:
            self._fill()
        elif chance < 0.03:
            self._let_time_pass()
        elif chance < 0.033 and self.random.random() < 0.5:
            supervisor = self.random.choice(self._supervisors)
            await self._give_up(supervisor)
        elif chance < 0.25:
            await self._turns(self.random.randrange(1, 12))
        else:
            self._take_step(self._actors)
        await self._turn()

    def _let_time_pass(self) -> None:
        if self.random.random() < 0.3:
            self._clock.step(self.random.choice([-300.0, 30.0]))
        else:
            self._clock.advance(self.random.choice([0.3, 5.0, 5.0, 400.0, 1.1 * PREPARED_AGE]))

    def _take_step(self, actors: list[Actor]) -> None:
        ready = [actor for actor in actors if actor.ready]
        if ready:
            self._act(self.random.choice(ready))

    def _act(self, actor: Actor) -> None:
        actor.step()
        if actor.over:
            self._actors.remove(actor)
            self.figures["refused"] += isinstance(actor.error, MQError) and actor.error.reason in LOUD

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

    async def _fail(self) -> None:
        """A write fails, and nobody knows whether it is there."""
        lose = self.random.random() < 0.5
        self.note(f"the store fails, lose={lose}")
        self._disk.faults.fail_next(StoreFailedError("no answer"), lose=lose)

    async def _die(self) -> None:
        """The process dies: nothing more reaches the disk, nobody hears anything more."""
        self.note("crash")
        self.figures["crashes"] += 1
        self._disk.faults.kill()
        await self._ended()
        await self._start()

    async def _stop(self) -> None:
        """An orderly stop, in the middle of whatever goes on."""
        self.note("stop")
        self.figures["stops"] += 1
        await self._ended()
        await self._start()

    async def _ended(self) -> None:
        self._closing.set()
        for _ in range(PATIENCE):
            if self._living.done() and self._disk.idle:
                break
            await asyncio.sleep(0)
        else:
            raise Violation("the queue manager does not end")
        error = self._living.exception()
        if error is not None and not isinstance(error, StoreFailedError | StoreFullError):
            raise error

    async def _start(self) -> None:
        self.life += 1
        self.note(f"life {self.life}")
        self._make_room()
        manager = self._manager = QueueManager.open(self._config, store=self._disk, clock=self._clock)
        manager.random_bits = self.random.getrandbits
        self._closing = asyncio.Event()
        opened = asyncio.Event()
        self._living = asyncio.create_task(self._keep_open(opened))
        for _ in range(PATIENCE):
            if opened.is_set():
                break
            if self._living.done():
                self.note(f"no start: {self._living.exception()!r}")
                await self._start()
                return
            await asyncio.sleep(0)
        else:
            raise Violation("the queue manager does not start")
        manager.core.check_invariants()

    async def _keep_open(self, opened: asyncio.Event) -> None:
        async with self._manager:
            opened.set()
            await self._closing.wait()

    async def _turns(self, count: int) -> None:
        for _ in range(count):
            await self._turn()

    async def _turn(self) -> None:
        """Let the event loop turn once; a queue manager that has ended for its store starts again."""
        await asyncio.sleep(0)
        if self._unexpected:
            raise Violation(self._unexpected[0])
        if self._living.done() or self._manager.journal.error is not None:
            self.figures["failures"] += 1
            await self._ended()
            await self._start()

    # The administrator

    async def _give_up(self, supervisor: Supervisor) -> None:
        """While he acts nothing else does but the queue manager."""
        self.figures["resolved"] += 1
        consumer = supervisor.query.consumer
        twins = [driver for twin in self._twins if twin.query.consumer == consumer for driver in twin.drivers]

        async def work(actor: Actor) -> None:
            await give_up(actor, supervisor, twins)
            self.records.twins.discard(consumer)

        administrator = self.spawn("administrator", work)
        await self._finish(administrator)
        if administrator.error is not None:
            raise Violation(f"{consumer} cannot be resolved: {administrator.error}")
        if not self.quiet:
            self.spawn(f"supervisor {consumer}", supervisor.run)

    async def _finish(self, actor: Actor) -> None:
        """Let it come to its end, alone."""
        for _ in range(PATIENCE):
            if actor.over:
                return
            if actor.ready:
                self._act(actor)
            await self._turn()
        raise Violation(f"{actor.name} is never answered")

    # The end

    async def _end(self) -> None:
        self.quiet = True
        self._make_room()
        for actor in [each for each in self._actors if each.name.startswith(("driver", "supervisor"))]:
            actor.kill()
            self._actors.remove(actor)
        await self._let_others_end()
        for supervisor in self._supervisors:
            await self._drain(supervisor)
        await self._turns(QUIET_TURNS)
        if not self._disk.faults.refused:
            self._check_still("when all have ended")
        for _ in range(3):  # a unit for whose discarding there was no room goes as an orphan
            self._clock.advance(2 * PREPARED_AGE)
            await self._turns(QUIET_TURNS)
        left = {name: await self._browse(name) for name in (*QUEUES, OUT)}
        self._check_still("after all")
        await self._stop()
        self._check_still("after a restart")
        kept = {name: await self._browse(name) for name in (*QUEUES, OUT)}
        sent = self.records.sent
        wanted = [name for queue in QUEUES for name in left[queue] if sent[name].persistent]
        if [name for queue in QUEUES for name in kept[queue]] != wanted:
            raise Violation(f"a restart has made {kept} of {left}")
        judge = Judge(self.records, [name for queue in QUEUES for name in left[queue]], self.life - 1)
        judge.check()
        if self._alone:
            judge.check_order()
        check_sink(self._sinks, left[OUT], restarted=self.life > 2)

    async def _let_others_end(self) -> None:
        for self._step in range(STEPS, STEPS + QUIET_STEPS):
            self._actors = [actor for actor in self._actors if not actor.over]  # some may have been killed
            if not self._actors:
                return
            self._take_step(self._actors)
            await self._turn()
        raise Violation(f"these never end: {[actor.name for actor in self._actors]}")

    async def _drain(self, supervisor: Supervisor) -> None:
        """Run the query until it finds nothing more, give it up where it is refused, acknowledge the last batch."""
        for _ in range(TRIES):
            actor = Actor(
                self, f"last driver {supervisor.query.consumer}", Driver(supervisor.query, supervisor.q_names).run
            )
            await self._finish_alone(actor)
            if actor.error is None:
                await self._finish_query(supervisor.query)
                return
            if isinstance(actor.error, MQError) and actor.error.reason in LOUD:
                await self._give_up(supervisor)
        raise Violation(f"{supervisor.query.consumer} comes to no end: {actor.error}")

    async def _finish_alone(self, actor: Actor) -> None:
        self._actors.append(actor)
        await self._finish(actor)

    async def _finish_query(self, query: Query) -> None:
        """`broker.spark.finish`: the end of the last batch is acknowledged, though Spark never says so."""
        if not query.commits:
            return
        offset = query.offsets[max(query.commits)]

        async def work(actor: Actor) -> None:
            found = await actor.ask("register", offset.consumer, offset.lineage, offset.sequence, offset.sequence)
            await actor.ask("acknowledge", offset.consumer, found.generation, offset.sequence)

        await self._insist("finish", work)

    def _check_still(self, when: str) -> None:
        core = self._manager.core
        core.check_invariants()
        for name in (*QUEUES, OUT):
            queue = core.objects.queues[name]
            if queue.claimed or queue.prepared or queue.uncommitted:
                what = f"{queue.claimed} claimed, {queue.prepared} prepared, {queue.uncommitted} uncommitted"
                raise Violation(f"{name} has {what} {when}")

    async def _browse(self, name: str) -> list[str]:
        found: list[str] = []

        async def work(actor: Actor) -> None:
            queue = await actor.connection.open(name, MQOO.BROWSE)
            while True:
                try:
                    found.append((await queue.get(None, MQGMO.BROWSE_NEXT)).data.decode())
                except MQError as error:
                    if error.reason != MQRC.NO_MSG_AVAILABLE:
                        raise
                    return

        await self._insist(f"browse {name}", work, found.clear)
        return found

    async def _insist(self, name: str, work: Work, again: Callable[[], object] = lambda: None) -> None:
        """Have this done, again and again: a fault that was planned before the end may still strike."""
        for _ in range(TRIES):
            again()
            actor = Actor(self, name, work)
            await self._finish_alone(actor)
            if actor.error is None:
                return
        raise Violation(f"{name}: {actor.error}")

    def _count(self) -> None:
        figures, records = self.figures, self.records
        figures["put"] += len(records.sent)
        figures["archived"] += sum(len(rows) for query in records.queries for rows in query.output.values())
        figures["taken"] += sum(len(taking.names) for taking in records.taken if taking.committed)
        figures["doubled by a copy"] += records.doubled_by_copies
        figures["published"] += sum(len(query.commits) for query in self._sinks)
