"""A driver of Spark whose sink is a queue: tasks stage, some twice and some too late, and the driver publishes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from broker import MQError
from broker.interface.claims.claims import UnitName, Winner
from broker.interface.claims.staging import Row, frames
from broker.mqi import MQRC, MessageDescriptor
from tests.simulation.claims.actors import ENDED, TaskFailed
from tests.simulation.claims.records import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.claims.actors import Actor

SINK = "S"
QUEUE = "OUT"
PARTITIONS = 2
PATIENCE = 900.0  # seconds: what nobody touches for longer may be discarded
FAILURES = 4  # of a task, then its job fails
_AGAIN = frozenset({*ENDED, MQRC.STORAGE_MEDIUM_FULL, MQRC.Q_FULL})


class SinkQuery:
    """A streaming query that writes to the sink: its checkpoint, and the rows that it has by nature."""

    def __init__(self, name: str, batches: int) -> None:
        self.name = name
        self.batches = batches
        self.commits: set[int] = set()

    def rows(self, batch: int, partition: int) -> list[str]:
        """The same whenever the batch is run."""
        return [f"{self.name}.{batch}.{partition}.{at}" for at in range((batch * 7 + partition * 3) % 4)]

    @property
    def done(self) -> bool:
        return len(self.commits) == self.batches


class _Job:
    """The tasks of a batch, as the driver knows them."""

    def __init__(self, now: float) -> None:
        self.begun = now
        self.won: dict[int, Winner] = {}
        self.failures = 0
        self.error: Exception = TaskFailed()
        self.live = [0] * PARTITIONS
        self.attempts = count()


class SinkDriver:
    """One run of the query."""

    def __init__(self, query: SinkQuery) -> None:
        self._query = query

    async def run(self, actor: Actor) -> None:
        query = self._query
        for batch in range(len(query.commits), query.batches):
            job = _Job(actor.world.now)
            while len(job.won) < PARTITIONS:
                await self._start_tasks(actor, batch, job)
                await actor.pause()
                if not actor.world.quiet and actor.chance(0.01):  # it is cancelled
                    await self._abort(actor, job)
            await self._publish(actor, batch, job)
            await actor.pause()
            query.commits.add(batch)

    async def _start_tasks(self, actor: Actor, batch: int, job: _Job) -> None:
        for partition in range(PARTITIONS):
            if partition in job.won:
                continue
            if job.failures >= FAILURES:
                await self._abort(actor, job)
            if job.live[partition] < (2 if actor.chance(0.1) else 1):  # a speculative twin
                job.live[partition] += 1
                task = _Task(self._query, batch, partition, job)
                actor.world.spawn(f"task {self._query.name} {batch} {partition}", task.run)

    async def _abort(self, actor: Actor, job: _Job) -> None:
        """Discard just the attempts whose messages have come: there may be others, of other drivers."""
        await actor.ask("discard", [winner.unit for winner in job.won.values()])
        raise job.error

    async def _publish(self, actor: Actor, batch: int, job: _Job) -> None:
        winners = [job.won[partition] for partition in range(PARTITIONS)]
        for left in (2, 1, 0):
            try:
                answer = await actor.ask("publish", SINK, batch, self._query.name, winners)
            except MQError as error:
                if error.reason == MQRC.UOW_CANCELED and actor.world.now < job.begun + PATIENCE:
                    raise Violation(f"{actor.name}: what was staged of batch {batch} is not there: {error}") from error
                if error.reason != MQRC.STORAGE_MEDIUM_FULL or not left:
                    raise
                await actor.pause()
            else:
                break
        staged = sum(winner.rows for winner in winners)
        if not answer.already and answer.messages != staged:
            raise Violation(f"{actor.name}: {staged} messages were staged, and {answer.messages} are published")


class _Task:
    """One attempt at a partition."""

    def __init__(self, query: SinkQuery, batch: int, partition: int, job: _Job) -> None:
        self._query = query
        self._batch = batch
        self._partition = partition
        self._job = job

    async def run(self, actor: Actor) -> None:
        job, partition = self._job, self._partition
        try:
            winner = await self._stage(actor)
        except (MQError, TaskFailed) as error:
            job.failures += 1
            job.error = error
            raise
        finally:
            job.live[partition] -= 1
        job.won.setdefault(partition, winner)

    async def _stage(self, actor: Actor) -> Winner:
        rows = self._query.rows(self._batch, self._partition)
        attempt = attempt_of(actor, next(self._job.attempts))
        unit = UnitName(SINK, self._batch, self._partition, attempt)
        first = 0
        while first < len(rows):
            piece = rows[first : first + actor.random.randint(1, 2)]
            last = first + len(piece) == len(rows)
            await self._piece(actor, unit, first, piece, last=last)
            if actor.chance(0.1) and not actor.world.quiet:  # its answer was lost, for all that it knows
                await self._piece(actor, unit, first, piece, last=last)
            if actor.chance(0.08) and not actor.world.quiet:
                raise TaskFailed
            first += len(piece)
            await actor.pause()
        return Winner(unit, len(rows))

    async def _piece(self, actor: Actor, unit: UnitName, first: int, piece: Sequence[str], *, last: bool) -> None:
        for left in (2, 1, 0):
            try:
                await actor.ask("stage", unit, self._query.name, first, frame_of(piece), options=0, last=last)
            except MQError as error:
                if error.reason not in _AGAIN or not left:
                    raise
                await actor.pause()
            else:
                return


class SinkSupervisor:
    """The supervisor that runs the query until it is done, or the sink is another query's."""

    def __init__(self, query: SinkQuery) -> None:
        self.query = query

    async def run(self, actor: Actor) -> None:
        while not self.query.done:
            driver = actor.world.spawn(f"sink {self.query.name}", SinkDriver(self.query).run)
            while not driver.over:
                if not actor.world.quiet and actor.chance(0.02):
                    if actor.chance(0.5):
                        driver.kill()
                    break
                await actor.pause()
            error = driver.error
            if isinstance(error, MQError) and error.reason == MQRC.SUBSCRIPTION_IN_USE:
                return
            await actor.pause()


def attempt_of(actor: Actor, _: int) -> bytes:
    """The attempt of a task. It is random, and not the number that Spark has for it: those begin again with each
    driver.
    """
    return actor.random.randbytes(16)


def persistent(name: str) -> bool:
    """True if a row is written as a persistent message."""
    return not name.endswith("2")


def frame_of(names: Sequence[str]) -> bytes:
    """Messages for the queue of the sink, as a frame of columns."""
    (frame,) = frames(Row(QUEUE, name, MessageDescriptor(persistence=int(persistent(name)))) for name in names)
    return frame
