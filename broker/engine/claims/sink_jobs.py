"""The jobs of the calls about sinks and prepared units (`broker.engine.jobs.jobs`).

The pieces of one unit follow one another, and so do the publications, discards and resets of one sink, whatever their
connections (claims rule 1.2). Units of one sink are staged side by side. While a sink is deciding a batch nothing of it
is answered: a piece that comes then waits until the decision has settled, and is told what came of it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.core.message.generated import reports
from broker.core.message.rows import Rows
from broker.core.prepared import discarding
from broker.core.prepared import sink as sinks
from broker.core.prepared.publishing import Publishing
from broker.core.prepared.staging import StagedPiece, Staging, is_known
from broker.core.queues.unit import ACTIVE, PREPARED
from broker.core.security.rights import Right
from broker.engine.calls.answers import succeed
from broker.engine.jobs.awaits import PAUSE, Fetched, FifoLock, Written
from broker.engine.jobs.group_awaits import Asked
from broker.engine.jobs.jobs import Job
from broker.engine.journal.bodies import RUN_LENGTH, damaged, tell_damage
from broker.interface.claims.claims import Publication, Staged
from broker.interface.port import Call
from broker.mqi.errors import MQError
from broker.storage.store import DataDamagedError, StoreError, StoreFullError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Generator, Hashable, Sequence

    from broker.core.message.entry import PreparedEntry
    from broker.core.prepared.publishing import PublishedUnit
    from broker.core.prepared.sink import Ledger, Sink
    from broker.core.prepared.unit import PreparedUnit, UnitName
    from broker.core.security.caller import Caller
    from broker.engine.context import EngineContext
    from broker.engine.jobs.jobs import Steps

logger = logging.getLogger(__name__)


class SinkJobs:
    """The steps that change the sinks of a queue manager."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._core = context.core
        self._sinks = context.core.sinks
        self._lines: dict[Hashable, deque[FifoLock]] = {}

    def lock(self, key: Hashable) -> FifoLock:
        """The lock of this sink, by its name, or of this unit."""
        return FifoLock(self._lines, key)

    async def ledger(self, name: str) -> tuple[str, int] | None:
        """Return the ledger of a sink, when nothing of it is on its way."""
        await self._decided(name)
        sink = self._sinks.by_name.get(name)
        return None if sink is None else sink.published

    # Staging

    async def stage(
        self, take_apart: Callable[[], StagedPiece], name: UnitName, first: int, query: str | None
    ) -> Staged:
        """A piece of a unit, which is taken apart if it is wanted."""
        staging: Staging | None = None
        sharing = self._context.sharing
        if sharing is not None and not self._sinks.has(name.sink, [name]):
            await Asked(sharing, "a look for a sink", partial(sharing.sinks.check_private, name.sink))
        while True:
            await self._decided(name.sink)
            if self._sinks.is_published(name.sink, name.batch, query, [name]):
                return Staged(published=True)
            if is_known(self._sinks.unit(name), first):
                return Staged(published=False)
            if staging is not None and staging.checked:
                break
            staging = staging or Staging(self._core, take_apart())
            for _ in self._checked(staging):
                await PAUSE
        rows = self._with_effects(staging.freeze, self._context.clock.time())
        await Written(self._context.journal, rows, partial(self._staged, staging))
        return Staged(published=False)

    def _checked(self, staging: Staging) -> Generator[None]:
        try:
            yield from staging.check(self._context.clock.time())
        finally:
            self._context.perform()

    def _staged(self, staging: Staging, error: Exception | None) -> None:
        if error is None or isinstance(error, StoreFullError):
            entries = staging.settle(written=error is None)
            for entry in entries:
                if entry.persistence:
                    self._context.bodies.settled(entry)

    async def _decided(self, name: str) -> None:
        """Wait until nothing is on its way of which the sink's answers depend."""
        while self._sinks.deciding(name):
            await Written(self._context.journal, Rows())

    # Publishing

    async def publish(
        self, call: Call[Publication], name: str, batch: int, query: str | None, winners: Sequence[PublishedUnit]
    ) -> None:
        """Decide a batch, and answer when all that it publishes is visible. Then its losers go."""
        sink = self._sinks.sink(name)
        publishing = Publishing(self._core, self._sinks, sink, batch, query, winners)
        sink.deciding = True
        try:
            succeed(call, await self._published(publishing))
        finally:
            sink.deciding = False
            self._sinks.tidy(sink)
        losers = publishing.losers()
        if losers:
            self._do(self._discarded_all(losers), self.lock(name))

    async def _published(self, publishing: Publishing) -> Publication:
        if publishing.already:  # the ledger says so when that has settled, and no publishing is under way now
            return Publication(0, already=True)
        if publishing.waits:
            await Written(self._context.journal, Rows())
        publishing.check()
        asking = publishing.place()
        try:
            for start in range(0, len(asking), RUN_LENGTH):
                await self._report(publishing, asking[start : start + RUN_LENGTH])
            rows = publishing.freeze(self._context.clock.time())
        except BaseException:
            self._leave(publishing)
            raise
        await Written(self._context.journal, rows, partial(self._settled, publishing))
        while not publishing.shown:
            await PAUSE
            publishing.show(self._context.moment())
            self._context.perform()
        return Publication(publishing.messages, already=False)

    async def _report(self, publishing: Publishing, entries: Sequence[PreparedEntry]) -> None:
        """Make the confirmations of the arrival of some messages; where the data of one is damaged, without data."""
        on_disk = reports.unread((entry, reports.COA) for entry in entries)
        make = partial(self._made, publishing, entries)
        while on_disk:
            try:
                await Fetched(self._context.bodies, on_disk, make)
                return
            except DataDamagedError as error:
                without = damaged(on_disk, error)
                for entry in without:
                    tell_damage(entry, str(error))
                on_disk = [entry for entry in on_disk if entry not in without]
        make()
        await PAUSE

    def _made(self, publishing: Publishing, entries: Sequence[PreparedEntry]) -> None:
        publishing.report(entries, self._context.moment())
        self._context.perform()

    def _settled(self, publishing: Publishing, error: Exception | None) -> None:
        if error is not None and not isinstance(error, StoreFullError):
            return
        publishing.settle(self._context.moment(), committed=error is None)
        if publishing.reports is not None:
            self._context.settle(publishing.reports, committed=error is None)
        self._context.perform()

    def _leave(self, publishing: Publishing) -> None:
        """A publishing that is not decided after all leaves no reports."""
        publishing.give_up()
        unit = publishing.reports
        if unit is not None and unit.state == ACTIVE:
            self._core.backout(unit)
            self._context.settle(unit, committed=False)

    # Discarding

    async def discard(self, names: Sequence[UnitName], caller: Caller | None) -> int:
        """Discard the units of these names, as far as they are there: how many they were."""
        count = 0
        sharing = self._context.sharing
        shared = [name for name in names if sharing is not None and not self._sinks.has(name.sink)]
        if sharing is not None and shared:
            asked = partial(sharing.sinks.discard, shared, caller)
            count = await Asked(sharing, "the end of prepared units", asked)
        for name in dict.fromkeys(names):
            count += await self.resolve(name)
        return count

    async def resolve(self, name: UnitName) -> bool:
        """Discard a unit, if it is there and nobody is deciding about it: whether it was."""
        async with self.lock(name.sink):
            return await self._discarded(name)

    async def _discarded(self, name: UnitName) -> bool:
        """Discard a unit, in slices, behind what is on its way to it: whether it was there."""
        await Written(self._context.journal, Rows())
        unit = self._sinks.unit(name)
        while unit is not None and unit.coming:
            await Written(self._context.journal, Rows())
            unit = self._sinks.unit(name)
        while unit is not None and unit.state == PREPARED:
            rows = discarding.freeze(unit)
            await Written(self._context.journal, rows, partial(self._gone, unit))
        return unit is not None

    def _gone(self, unit: PreparedUnit, error: Exception | None) -> None:
        if error is None or isinstance(error, StoreFullError):
            for entry in discarding.settle(self._core, unit, written=error is None):
                self._context.bodies.gone(entry)

    async def _discarded_all(self, units: Sequence[PreparedUnit]) -> None:
        for unit in units:
            try:
                await self._discarded(unit.name)
            except (MQError, StoreError) as error:
                logger.warning("prepared unit not discarded unit=%s: %s", unit.name.text, error)
                return

    async def reset(self, name: str, caller: Caller | None) -> None:
        """RESET SINK: the sink belongs to no query any more, and has no units. Raises UNKNOWN_OBJECT_NAME (2085),
        NOT_AUTHORIZED (2035) for a caller who may not clear the queues of its units.
        """
        async with self.lock(name):
            sink = self._sinks.by_name.get(name)
            if sink is None:
                raise sinks.unknown(name)
            sink.deciding = True
            try:
                await Written(self._context.journal, Rows())
                self._sinks.judge(caller, name, Right.CLR)
                for unit in list(sink.units.values()):
                    await self._discarded(unit.name)
                if sink.ledger is not None:
                    await self._dropped([(sink, sink.ledger)])
            finally:
                sink.deciding = False
                self._sinks.tidy(sink)

    def _dropped(self, ledgers: Sequence[tuple[Sink, Ledger]]) -> Written:
        rows = Rows(dropped=[(sinks.SPACE, sink.name) for sink, _ in ledgers])

        def settle(error: Exception | None) -> None:
            if error is None:
                self._sinks.drop(ledgers)

        return Written(self._context.journal, rows, settle)

    # What nobody comes back for

    def tidy(self, age: float) -> None:
        """Discard the units that nobody has touched for so many seconds, and forget the ledgers whose time is up."""
        now = self._context.clock.time()
        orphans = self._sinks.orphans(now - age)
        for unit in orphans:
            logger.warning(
                "prepared unit discarded unit=%s messages=%d: neither published nor touched for %d s",
                unit.name.text, len(unit.entries), now - unit.touched,
            )  # fmt: skip
            self._do(self._orphaned(unit, now - age), self.lock(unit.name.sink))
        ending = self._sinks.ending(now)
        if ending:
            self._do(self._forgotten(ending))

    async def _orphaned(self, unit: PreparedUnit, before: float) -> None:
        if unit in self._sinks.orphans(before):
            await self._discarded_all([unit])

    async def _forgotten(self, ending: Sequence[tuple[Sink, Ledger]]) -> None:
        still = [(sink, ledger) for sink, ledger in ending if sink.ledger is ledger and not sink.deciding]
        if still:
            await self._dropped(still)

    def _do(self, steps: Steps[None], lock: FifoLock | None = None) -> None:
        """Take steps for which no program waits."""
        self._context.jobs.run(Job(steps, _unheard(), _nothing, lock=lock))

    def _with_effects(self, step: Callable[..., Rows], *arguments: Any) -> Rows:
        try:
            return step(*arguments)
        finally:
            self._context.perform()


def _unheard() -> Call[Any]:
    call: Call[Any] = Call()
    call.add_done_callback(lambda done: done.cancelled() or done.exception())
    return call


def _nothing() -> None:
    """Nobody stands behind these steps."""
