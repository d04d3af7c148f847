"""What the calls about sinks and prepared units do, as jobs (`broker.engine.jobs`).

The pieces of one unit follow one another, and so do the publications, discards and resets of one sink, whatever their
connections (claims rule 1.2). Units of one sink are staged side by side. While a sink is deciding a batch nothing of it
is answered: a piece that comes then waits until the decision has settled, and is told what came of it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.core.message import reports
from broker.core.message.rows import Rows
from broker.core.prepared import discarding
from broker.core.prepared import sink as sinks
from broker.core.prepared.publishing import Publication
from broker.core.prepared.staging import Piece, Staging, is_known
from broker.core.queues.unit import ACTIVE, PREPARED
from broker.engine.answers import fail_written, succeed
from broker.engine.bodies import RUN_LENGTH, damaged, tell_damage
from broker.engine.group_commands import Asked
from broker.engine.jobs import Job, Look
from broker.engine.looks import Fetched, Turn, Written
from broker.interface.claims import Publication as Published
from broker.interface.claims import Staged
from broker.interface.port import Call
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import DataDamagedError, StoreFullError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Generator, Hashable, Sequence

    from broker.core.message.entry import PreparedEntry
    from broker.core.prepared.publishing import Winner
    from broker.core.prepared.sink import Ledger, Sink
    from broker.core.prepared.unit import PreparedUnit, UnitName
    from broker.engine.context import EngineContext
    from broker.engine.jobs import Steps
    from broker.storage.store import Done

Part: TypeAlias = "Generator[Look | None, Exception | None, Exception | None]"
"""Steps that are a part of a job; their value is the error that ended them."""

_FULL = MQRC.STORAGE_MEDIUM_FULL

logger = logging.getLogger(__name__)


class SinkJobs:
    """The steps that change the sinks of a queue manager."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._core = context.core
        self._sinks = context.core.sinks
        self._lines: dict[Hashable, deque[Done]] = {}

    def in_turn(self, key: Hashable, steps: Steps) -> Steps:
        """These steps, when it is their turn among those about this sink, by its name, or this unit."""
        turn = Turn(self._lines, key)
        try:
            yield turn
            yield from steps
        finally:
            turn.end()

    def ledger(self, call: Call[tuple[str, int] | None], name: str) -> Steps:
        """What the ledger of a sink says, when nothing of it is on its way."""
        error = yield from self._decided(name)
        if error is not None:
            fail_written(call, error, _FULL)
            return
        sink = self._sinks.by_name.get(name)
        ledger = None if sink is None else sink.ledger
        succeed(call, None if ledger is None else (ledger.query, ledger.batch))

    # Staging

    def stage(
        self, call: Call[Staged], take_apart: Callable[[], Piece], name: UnitName, first: int, query: str | None
    ) -> Steps:
        """A piece of a unit, which is taken apart if it is wanted."""
        staging: Staging | None = None
        sharing = self._context.sharing
        if sharing is not None and not self._sinks.has(name.sink, [name]):
            error = yield Asked(sharing, "a look for a sink", partial(sharing.sinks.check_private, name.sink))
            if error is not None:
                fail_written(call, error, _FULL)
                return
        while True:
            error = yield from self._decided(name.sink)
            if error is not None:
                fail_written(call, error, _FULL)
                return
            if self._is_published(name, query):
                succeed(call, Staged(published=True))
                return
            if is_known(self._sinks.unit(name), first):
                succeed(call, Staged(published=False))
                return
            if staging is not None and staging.checked:
                break
            staging = staging or Staging(self._core, take_apart())
            for _ in self._checked(staging):
                yield None
        rows = self._with_effects(staging.freeze, self._context.clock.time())
        error = yield Written(self._context.journal, rows, partial(self._staged, staging))
        if error is None:
            succeed(call, Staged(published=False))
        else:
            fail_written(call, error, _FULL)

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

    def _is_published(self, name: UnitName, query: str | None) -> bool:
        sink = self._sinks.by_name.get(name.sink)
        if sink is not None and sink.is_published(name.batch, query):
            return True
        return self._sinks.remembers([name])

    def _decided(self, name: str) -> Part:
        """Wait until nothing is on its way of which the sink's answers depend."""
        error: Exception | None = None
        while error is None and self._sinks.deciding(name):
            error = yield Written(self._context.journal, Rows())
        return error

    # Publishing

    def publish(
        self, call: Call[Published], name: str, batch: int, query: str | None, winners: Sequence[Winner]
    ) -> Steps:
        """Decide a batch; when all that it publishes is visible, that is the answer. Then its losers go."""
        sink = self._sinks.sink(name)
        publication = Publication(self._core, sink, batch, query, winners)
        sink.deciding = True
        try:
            error = yield from self._published(call, publication)
        finally:
            sink.deciding = False
            self._sinks.tidy(sink)
        if error is not None:
            fail_written(call, error, _FULL)
        losers = publication.losers() if error is None else []
        if losers:
            self._do(self.in_turn(name, self._discarded_all(losers)))

    def _published(self, call: Call[Published], publication: Publication) -> Part:
        error: Exception | None = None
        if publication.already:  # the ledger says so when that has settled, and no publication is under way now
            succeed(call, Published(0, already=True))
            return error
        if publication.waits:
            error = yield Written(self._context.journal, Rows())
            if error is not None:
                return error
        publication.check()
        asking = publication.place()
        try:
            for start in range(0, len(asking), RUN_LENGTH):
                error = yield from self._report(publication, asking[start : start + RUN_LENGTH])
                if error is not None:
                    self._leave(publication)
                    return error
            rows = publication.freeze(self._context.clock.time())
        except BaseException:
            self._leave(publication)
            raise
        error = yield Written(self._context.journal, rows, partial(self._settled, publication))
        while error is None and not publication.shown:
            yield None
            publication.show(self._context.moment())
            self._context.perform()
        if error is None:
            succeed(call, Published(publication.messages, already=False))
        return error

    def _report(self, publication: Publication, entries: Sequence[PreparedEntry]) -> Part:
        """Make the confirmations of the arrival of some messages; where the data of one is damaged, without data."""
        on_disk = reports.unread((entry, reports.COA) for entry in entries)
        make = partial(self._made, publication, entries)
        error: Exception | None = None
        while on_disk:
            error = yield Fetched(self._context.bodies, on_disk, make)
            if not isinstance(error, DataDamagedError):
                return error
            without = damaged(on_disk, error)
            for entry in without:
                tell_damage(entry, str(error))
            on_disk = [entry for entry in on_disk if entry not in without]
        make()
        yield None
        return None

    def _made(self, publication: Publication, entries: Sequence[PreparedEntry]) -> None:
        publication.report(entries, self._context.moment())
        self._context.perform()

    def _settled(self, publication: Publication, error: Exception | None) -> None:
        if error is not None and not isinstance(error, StoreFullError):
            return
        publication.settle(self._context.moment(), committed=error is None)
        if publication.reports is not None:
            self._context.settle(publication.reports, committed=error is None)
        self._context.perform()

    def _leave(self, publication: Publication) -> None:
        """A publication that is not decided after all leaves no reports."""
        publication.give_up()
        unit = publication.reports
        if unit is not None and unit.state == ACTIVE:
            self._core.backout(unit)
            self._context.settle(unit, committed=False)

    # Discarding

    def discard(self, call: Call[int], names: Sequence[UnitName]) -> Steps:
        """Discard the units of these names, as far as they are there."""
        count = 0
        sharing = self._context.sharing
        shared = [name for name in names if sharing is not None and not self._sinks.has(name.sink)]
        if sharing is not None and shared:
            asked = Asked(sharing, "the end of prepared units", partial(sharing.sinks.discard, shared))
            error = yield asked
            if error is not None:
                fail_written(call, error, _FULL)
                return
            count = asked.answer
        for name in dict.fromkeys(names):
            done: list[PreparedUnit] = []
            error = yield from self._in_turn(name.sink, self._discarded(name, done))
            if error is not None:
                fail_written(call, error, _FULL)
                return
            count += len(done)
        succeed(call, count)

    def _in_turn(self, key: Hashable, steps: Part) -> Part:
        turn = Turn(self._lines, key)
        try:
            yield turn
            return (yield from steps)
        finally:
            turn.end()

    def _discarded(self, name: UnitName, done: list[PreparedUnit]) -> Part:
        """Discard a unit, in slices, behind what is on its way to it; `done` has it then."""
        error = yield Written(self._context.journal, Rows())
        unit = self._sinks.unit(name)
        while error is None and unit is not None and unit.coming:
            error = yield Written(self._context.journal, Rows())
            unit = self._sinks.unit(name)
        if unit is None:
            return error
        while error is None and unit.state == PREPARED:
            rows = discarding.freeze(unit)
            error = yield Written(self._context.journal, rows, partial(self._gone, unit))
        if error is None:
            done.append(unit)
        return error

    def _gone(self, unit: PreparedUnit, error: Exception | None) -> None:
        if error is None or isinstance(error, StoreFullError):
            for entry in discarding.settle(self._core, unit, written=error is None):
                self._context.bodies.gone(entry)

    def _discarded_all(self, units: Sequence[PreparedUnit]) -> Steps:
        for unit in units:
            error = yield from self._discarded(unit.name, [])
            if error is not None:
                logger.warning("prepared unit not discarded unit=%s: %s", unit.name.text, error)
                return

    def resolve(self, name: UnitName, done: list[PreparedUnit]) -> Part:
        """RESOLVE INDOUBT: discard a unit, if it is there and nobody is deciding about it; `done` has it then."""
        return self._in_turn(name.sink, self._discarded(name, done))

    def reset(self, name: str) -> Part:
        """RESET SINK: the sink belongs to no query any more, and has no units. Raises UNKNOWN_OBJECT_NAME (2085)."""
        return self._in_turn(name, self._reset(name))

    def _reset(self, name: str) -> Part:
        sink = self._sinks.by_name.get(name)
        if sink is None:
            raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"there is no sink {name}")
        sink.deciding = True
        try:
            error = yield Written(self._context.journal, Rows())
            for unit in list(sink.units.values()):
                if error is None:
                    error = yield from self._discarded(unit.name, [])
            if error is None and sink.ledger is not None:
                error = yield self._dropped([(sink, sink.ledger)])
        finally:
            sink.deciding = False
            self._sinks.tidy(sink)
        return error

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
            self._do(self.in_turn(unit.name.sink, self._orphaned(unit, now - age)))
        ending = self._sinks.ending(now)
        if ending:
            self._do(self._forgotten(ending))

    def _orphaned(self, unit: PreparedUnit, before: float) -> Steps:
        if unit in self._sinks.orphans(before):
            yield from self._discarded_all([unit])

    def _forgotten(self, ending: Sequence[tuple[Sink, Ledger]]) -> Steps:
        still = [(sink, ledger) for sink, ledger in ending if sink.ledger is ledger and not sink.deciding]
        if still:
            yield self._dropped(still)

    def _do(self, steps: Steps) -> None:
        """Take steps for which no program waits."""
        self._context.jobs.run(Job(steps, _unheard(), _nothing))

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
