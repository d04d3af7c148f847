"""A driver of Spark over a checkpoint, with the queue manager's consumer as its source (claims rule 4).

What it does in which order is what Spark was seen to do: `initialOffset` as often as it likes, `partitions` first after
a restart with a logged batch, an empty range before it, `commit` of a batch with the next one's `latestOffset`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from broker import MQError
from broker.interface.batches.column_messages import messages
from broker.interface.batches.columns import unpack
from broker.mqi import MQRC
from tests.simulation.claims.actors import ENDED, TaskFailed
from tests.simulation.claims.records import Offset, Row, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.claims.claims import Cut, Registration
    from tests.simulation.claims import records
    from tests.simulation.claims.actors import Actor
    from tests.simulation.claims.records import Query, Records

LOUD = frozenset({MQRC.SUBSCRIPTION_IN_USE, MQRC.UOW_COMMITTED, MQRC.NO_SUBSCRIPTION, MQRC.NO_DATA_AVAILABLE})
"""Of a driver that is not, or not any more, the one whose checkpoint counts."""

IDLE = 3
"""After so many claims in a row that find nothing a driver ends, when all is to come to its end."""

TASK_ATTEMPTS = 4
ROOM = 1 << 30  # bytes: no limit


class Driver:
    """One run of a query."""

    def __init__(self, query: Query, q_names: Sequence[str]) -> None:
        self._query = query
        self._q_names = q_names
        self._seen = _state(query)
        self._registration: Registration | None = None
        self._own: records.Registration
        self._uuid = ""
        self._base = 0

    async def run(self, actor: Actor) -> None:
        query = self._query
        try:
            await self._run(actor)
        except MQError as error:
            records = actor.world.records
            if error.reason == MQRC.OBJECT_CHANGED and not records.superseded(query.consumer, self._own):
                raise Violation(f"{actor.name} is stopped, and nobody else has registered: {error}") from error
            alone = query.consumer not in records.twins and not query.over
            if error.reason in LOUD and alone and self._seen == _state(query):
                raise Violation(f"{actor.name} has the only checkpoint, and is refused: {error}") from error
            raise

    async def _run(self, actor: Actor) -> None:
        query = self._query
        last = max(query.offsets, default=-1)
        for _ in range(2 if last <= 0 else 0):
            state = await actor.ask(
                "consumer", query.consumer, self._names(actor) if actor.chance(0.7) or last < 0 else ()
            )
            self._uuid, self._base = state.uuid, state.base
        batch = last if last >= 0 and last not in query.commits else last + 1
        idle = 0
        while not self._given_up():
            start = query.offsets.get(batch - 1)
            if batch not in query.offsets:
                end = await self._latest_offset(actor, start)
                if end == self._position(start):
                    idle += 1
                    if actor.world.quiet and idle > IDLE:
                        return
                    await actor.pause()
                    continue
                idle = 0
                await actor.pause()
                if self._given_up():
                    return
                assert self._registration is not None
                query.log(batch, Offset(self._uuid, self._registration.lineage, end))
                self._seen = _state(query)
            await self._batch(actor, batch, start)
            batch += 1

    def _given_up(self) -> bool:
        return self._query.over

    def _names(self, actor: Actor) -> list[str]:
        """The names of its queues, in an order that means nothing, so that the consumer changes now and then."""
        return actor.random.sample(self._q_names, len(self._q_names))

    def _position(self, start: Offset | None) -> int:
        return self._base if start is None else start.sequence

    async def _latest_offset(self, actor: Actor, start: Offset | None) -> int:
        position = self._position(start)
        await self._register(actor, start, position, None)
        assert self._registration is not None
        count, generation = actor.random.randint(1, 6), self._registration.generation
        named = {"before": None, "whole": self._query.groups}
        end: int = await self._ask(actor, "claim", self._uuid, generation, position, count, ROOM, **named)
        if end < position:
            raise Violation(f"{actor.name} has claimed up to {end}, and was at {position}")
        return end

    async def _register(self, actor: Actor, offset: Offset | None, start: int, end: int | None) -> None:
        """Once for each driver."""
        if self._registration is not None:
            return
        if offset is not None:
            self._uuid = offset.consumer
        lineage = None if offset is None else offset.lineage
        self._own = own = actor.world.records.begin(self._query.consumer, actor.name)
        try:
            self._registration = await actor.ask("register", self._uuid, lineage, start, end)
        except MQError as error:
            if error.reason not in ENDED and not actor.perhaps:
                own.refused, own.ended = True, actor.world.records.tick()
            raise
        own.ended = actor.world.records.tick()

    async def _ask(self, actor: Actor, verb: str, *arguments: Any, **named: Any) -> Any:
        """Make a call as the reader, which must fail when that is another for certain."""
        records = actor.world.records
        records.tick()
        replaced = records.replaced(self._query.consumer, self._own)
        answer = await actor.ask(verb, *arguments, **named)
        if replaced:
            raise Violation(f"{actor.name} is answered {verb}, and another reader has registered before it asked")
        return answer

    # A batch

    async def _batch(self, actor: Actor, batch: int, before: Offset | None) -> None:
        query, offset = self._query, self._query.offsets[batch]
        start, end = self._position(before), offset.sequence
        if self._registration is None and actor.chance(0.5):
            await self._register(actor, offset, end, end)
            await self._pin(actor, end, end)  # a restart asks for the empty range first
        await self._register(actor, offset, start, end)
        cuts = await self._pin(actor, start, end)
        rows: list[Row] = []
        for after, last in _parts(actor, start, end, [cut.sequence for cut in cuts]):
            rows += await self._task(actor, after, last)
            await actor.pause()
        if self._query.groups:
            self._check_cuts(actor, rows, [cut.sequence for cut in cuts])
        if self._given_up():
            return
        query.write(batch, rows)
        await actor.pause()
        if self._given_up():
            return
        query.commits.add(batch)
        self._seen = _state(query)

    async def _pin(self, actor: Actor, start: int, end: int) -> list[Cut]:
        assert self._registration is not None
        generation, lineage = self._registration.generation, self._registration.lineage
        cuts: list[Cut] = await self._ask(actor, "pin", self._uuid, generation, lineage, start, end)
        if start < end and (cuts[-1].sequence != end or sum(cut.messages for cut in cuts) != end - start):
            raise Violation(f"{actor.name} has pinned {start} to {end}, and is given {cuts}")
        return cuts

    async def _task(self, actor: Actor, after: int, last: int) -> list[Row]:
        """Read a partition, a few times if it must be. All of it must be there."""
        for left in reversed(range(TASK_ATTEMPTS)):
            rows = await self._read(actor, after, last)
            if actor.world.quiet or actor.chance(0.9):
                break
            if not left:
                raise TaskFailed
            await actor.pause()
        found = [row.sequence for row in rows]
        if found != list(range(after + 1, last + 1)):
            raise Violation(f"{actor.name} reads {after} to {last}, and finds {found}")
        return rows

    async def _read(self, actor: Actor, after: int, last: int) -> list[Row]:
        assert self._registration is not None
        rows: list[Row] = []
        while after < last:
            frame = await self._ask(actor, "read_claimed", self._uuid, self._registration.generation, after, last)
            found = rows_of(frame)
            if not found:
                break
            rows += found
            after = found[-1].sequence
            await actor.pause()
        return rows

    def _check_cuts(self, actor: Actor, rows: Sequence[Row], cuts: Sequence[int]) -> None:
        """No group is parted by a cut, and each stands whole and in logical order."""
        sent = actor.world.records.sent
        open_at = 0
        for row in rows:
            member = sent[row.name].member
            if (member.number if member else 1) != open_at + 1:
                raise Violation(f"{actor.name}: {sent[row.name]} stands behind number {open_at} of its group")
            open_at = member.number % member.size if member else 0
            if open_at and row.sequence in cuts:
                raise Violation(f"{actor.name}: {sent[row.name]} is parted from its group by a cut")
        if open_at:
            raise Violation(f"{actor.name}: the group of {sent[rows[-1].name]} is not whole")


class Supervisor:
    """The supervisor that runs a query again and again: kills its drivers, or forgets them while they live."""

    def __init__(self, records: Records, query: Query, q_names: Sequence[str]) -> None:
        self.query = query
        self.q_names = q_names
        self.drivers: list[Actor] = []
        records.queries.append(query)

    def driver(self, actor: Actor) -> Actor:
        """A new driver of the query."""
        driver = Driver(self.query, self.q_names)
        made = actor.world.spawn(f"driver {self.query.consumer}", driver.run)
        self.drivers.append(made)
        return made

    async def run(self, actor: Actor) -> None:
        while not actor.world.quiet and not self.query.over:
            driver = self.driver(actor)
            while not driver.over and not actor.world.quiet:
                if actor.chance(0.02):
                    if actor.chance(0.5):
                        driver.kill()
                    break  # it may live on as a zombie
                await actor.pause()
            await actor.pause()


def rows_of(frame: bytes) -> list[Row]:
    """The messages of a frame of claims."""
    return [Row(each.sequence, each.data.decode(), each.md.backout_count) for each in messages(unpack(frame))]


def _parts(actor: Actor, start: int, end: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """The range in two partitions, or in one, cut where it may be."""
    middle = actor.random.choice([start, *cuts])
    places = sorted({start, middle, end})
    return list(pairwise(places))


def _state(query: Query) -> tuple[int, int]:
    """Return how far a checkpoint has come."""
    return max(query.offsets, default=-1), max(query.commits, default=-1)
