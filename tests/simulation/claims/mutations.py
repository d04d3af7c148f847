"""Ways to take one rule of claims and prepared units out of the queue manager, by name: schedules must find each.

A mutation changes the code that runs; all other rules are left as they are. `RULES` says which rule of
`docs/rules/claims.md` each is about.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from broker.core.claims import claiming, ending
from broker.core.claims.consumer import Consumer
from broker.core.message.rows import Rows
from broker.core.prepared import discarding, staging
from broker.core.prepared.publishing import Publishing
from broker.core.prepared.sink import Sink
from broker.core.prepared.sinks import Sinks
from broker.core.prepared.staging import Staging
from broker.engine.claims import claim_jobs, ranges, sink_jobs
from broker.engine.claims.claim_jobs import ClaimJobs
from broker.engine.claims.sink_jobs import SinkJobs
from broker.engine.jobs.awaits import FifoLock, Written
from broker.interface.claims.claims import Staged
from broker.mqi import MQRC
from broker.mqi.errors import MQError
from tests.simulation.claims import sink as sink_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from broker.storage.store import Done


@contextmanager
def _patched(*changes: tuple[object, str, Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(patch.object(owner, name, value))
        yield


def _nothing(*_: Any) -> None:
    return None


# Claims


def no_lineage() -> AbstractContextManager[None]:
    """A reader with any checkpoint, or none, may register."""
    return _patched((Consumer, "check_lineage", _nothing))


def no_pin() -> AbstractContextManager[None]:
    """A claim may begin before what is pinned."""
    check, claim = Consumer.check_position, ClaimJobs.claim

    def check_position(self: Consumer, start: int, end: int | None) -> None:
        pinned, self.pinned = self.pinned, 0
        try:
            check(self, start, end)
        finally:
            self.pinned = pinned

    async def claim_anyway(self: ClaimJobs, consumer: Consumer, start: int, limits: Any) -> Any:
        consumer.pinned = min(consumer.pinned, max(start, consumer.acknowledged))
        return await claim(self, consumer, start, limits)

    return _patched((Consumer, "check_position", check_position), (ClaimJobs, "claim", claim_anyway))


def generation_first() -> AbstractContextManager[None]:
    """A register raises the generation, and is checked afterwards."""
    register = ClaimJobs.register

    async def raise_first(self: ClaimJobs, consumer: Consumer, *position: Any) -> Any:
        await self._changed(consumer, generation=consumer.generation + 1)
        return await register(self, consumer, *position)

    return _patched((ClaimJobs, "register", raise_first))


def any_generation_reads() -> AbstractContextManager[None]:
    """An older reader may still read."""
    read = ranges.read_claimed

    def read_claimed(conversation: Any, uuid: str, _: int, *rest: Any) -> None:
        read(conversation, uuid, conversation.core.consumers.find(uuid).generation, *rest)

    return _patched((ranges, "read_claimed", read_claimed))


def refused_acknowledge_reinstates() -> AbstractContextManager[None]:
    """What could not be acknowledged is available again."""
    ended = ClaimJobs._ended

    def reinstated(self: ClaimJobs, consumer: Consumer, slice_: ending.Slice, error: Exception | None) -> None:
        ended(self, consumer, slice_, error)
        if error is not None:
            for entry in slice_.messages:
                consumer.claims[consumer.claims.index(entry)] = None
                entry.queue.release(entry)

    return _patched((ClaimJobs, "_ended", reinstated))


def nonpersistent_claims_in_memory() -> AbstractContextManager[None]:
    """A claim does not write a nonpersistent message."""
    freeze = claiming.freeze

    def without(*arguments: Any) -> Rows:
        rows = freeze(*arguments)
        rows.inserts = []
        return rows

    return _patched((claiming, "freeze", without))


def pinned_claims_go_back() -> AbstractContextManager[None]:
    """RESOLVE BACKOUT asks nobody about claims that are pinned."""
    resolve = ClaimJobs.resolve

    def resolved(self: ClaimJobs, consumer: Consumer, *, commit: bool, pinned: bool) -> Any:
        return resolve(self, consumer, commit=commit, pinned=pinned or True)

    return _patched((ClaimJobs, "resolve", resolved))


def no_turns() -> AbstractContextManager[None]:
    """Calls about one consumer do not follow one another."""
    return _patched((ClaimJobs, "lock", lambda _self, _consumer: FifoLock({}, "")))


def unchained_claims() -> AbstractContextManager[None]:
    """The slices of a claim are numbered and written without waiting for the one before."""
    freeze, claim = claiming.freeze, ClaimJobs._claim
    ahead: dict[Consumer, int] = {}  # how many are numbered, and perhaps not settled

    class Sent(Written):
        def begin(self, done: Done) -> None:
            super().begin(_nothing)
            done(None)

    def numbered(consumer: Consumer, entries: Any, now: float) -> Rows:
        settled, consumer.next = consumer.next, ahead.get(consumer, consumer.next)
        try:
            return freeze(consumer, entries, now)
        finally:
            ahead[consumer] = consumer.next + len(entries)
            consumer.next = settled

    class Unchained:
        """A claim, with its writes sent."""

        def __init__(self, steps: Any) -> None:
            self._steps = steps

        def __await__(self) -> Any:
            error: Exception | None = None
            while True:
                with _patched((claim_jobs, "Written", Sent)):
                    try:
                        step = self._steps.send(None) if error is None else self._steps.throw(error)
                    except StopIteration:
                        return
                try:
                    yield step
                    error = None
                except Exception as reported:
                    error = reported

    async def unchained(self: ClaimJobs, consumer: Consumer, limits: Any) -> None:
        try:
            await Unchained(claim(self, consumer, limits))
        finally:
            ahead.pop(consumer, None)
        await Written(self._context.journal, Rows())

    return _patched((claiming, "freeze", numbered), (ClaimJobs, "_claim", unchained))


def unchained_acknowledges() -> AbstractContextManager[None]:
    """The slices of an acknowledge are written without waiting for the one before."""

    async def acknowledge(self: ClaimJobs, consumer: Consumer, to: int) -> None:
        first, left = consumer.acknowledged, consumer.claims[: max(to - consumer.acknowledged, 0)]
        while left:
            part, left = left[: claiming.SLICE_LENGTH], left[claiming.SLICE_LENGTH :]
            ended = self._end(consumer, part)
            consumer.acknowledged += len(part)
            Written(self._context.journal, ended.rows, partial(self._ended, consumer, ended)).begin(_nothing)
        consumer.acknowledged = first
        await Written(self._context.journal, Rows())

    return _patched((ClaimJobs, "_acknowledge", acknowledge))


def slices_part_groups() -> AbstractContextManager[None]:
    """A slice ends after so many messages, in the middle of a group too."""
    choose = claiming.choose
    return _patched((claiming, "choose", lambda *arguments: choose(*arguments)[: claiming.SLICE_LENGTH]))


def groups_by_arrival() -> AbstractContextManager[None]:
    """The members of a group are claimed as they arrived."""
    choose = claiming.choose
    return _patched((claiming, "choose", lambda *arguments: sorted(choose(*arguments), key=lambda each: each.key)))


def early_answers() -> AbstractContextManager[None]:
    """What a call about a consumer does takes effect, and is answered, before it is durable."""

    class Early(Written):
        def begin(self, done: Done) -> None:
            if self._settle is not None:
                self._settle(None)
            self._journal.submit(self._rows, _nothing)
            done(None)

    return _patched((claim_jobs, "Written", Early))


# Prepared units


def attempts_by_number() -> AbstractContextManager[None]:
    """The attempt of a task is the number that Spark has for it."""
    return _patched((sink_queries, "attempt_of", lambda _, number: number.to_bytes(16, "big")))


def any_query() -> AbstractContextManager[None]:
    """A sink is any query's."""
    is_published = Sink.is_published

    def of_any(self: Sink, batch: int, query: str | None) -> bool:
        return is_published(self, batch, query if self.ledger is None else self.ledger.query)

    return _patched((Sink, "is_published", of_any))


def any_batch() -> AbstractContextManager[None]:
    """A sink publishes any batch but the last again."""

    def is_published(self: Sink, batch: int, _: str | None) -> bool:
        return self.ledger is not None and self.ledger.batch == batch

    return _patched((Sink, "is_published", is_published), (Sink, "check_next", _nothing))


def published_stage_refused() -> AbstractContextManager[None]:
    """Staging for the last batch is an error."""
    stage = SinkJobs.stage

    async def refused(self: SinkJobs, *arguments: Any) -> Staged:
        staged = await stage(self, *arguments)
        if staged.published:
            raise MQError(MQRC.UOW_COMMITTED, "the batch is published")
        return staged

    return _patched((SinkJobs, "stage", refused))


def no_count() -> AbstractContextManager[None]:
    """What is there of the winners is published."""
    check = Publishing.check

    def there(self: Publishing) -> None:
        units = [(winner, self._manager.sinks.unit(winner.unit)) for winner in self._winners]
        self._winners = [winner._replace(rows=unit.rows) for winner, unit in units if unit is not None]
        check(self)

    return _patched((Publishing, "check", there))


def pieces_twice() -> AbstractContextManager[None]:
    """A piece that comes again is staged again."""
    return _patched((sink_jobs, "is_known", lambda *_: False), (staging, "_check_index", _nothing))


def abort_of_all() -> AbstractContextManager[None]:
    """An abort discards all units of the batch."""
    discard = SinkJobs.discard

    def of_batch(self: SinkJobs, names: Any, caller: Any) -> Any:
        batches = {(name.sink, name.batch) for name in names}
        units = self._core.sinks.units.values()
        return discard(self, [unit.name for unit in units if (unit.name.sink, unit.name.batch) in batches], caller)

    return _patched((SinkJobs, "discard", of_batch))


def early_ledger() -> AbstractContextManager[None]:
    """ "Already published" is said of a batch whose decision is on its way."""
    freeze, settle = Publishing.freeze, Publishing.settle
    before: dict[Publishing, Any] = {}

    def frozen(self: Publishing, now: float) -> Rows:
        rows = freeze(self, now)
        if self._ledger is not None:
            before[self], self._sink.ledger = self._sink.ledger, self._ledger
        return rows

    def settled(self: Publishing, moment: Any, *, committed: bool) -> None:
        ledger = before.pop(self, self._sink.ledger)
        if not committed:
            self._sink.ledger = ledger
        settle(self, moment, committed=committed)

    return _patched(
        (Publishing, "freeze", frozen),
        (Publishing, "settle", settled),
        (SinkJobs, "lock", lambda _self, _key: FifoLock({}, "")),
        (Sinks, "deciding", lambda *_: False),
    )


def losers_stay() -> AbstractContextManager[None]:
    """The other units of a batch are left where they are."""
    return _patched((Publishing, "losers", lambda _: []))


def refused_publish_backs_out() -> AbstractContextManager[None]:
    """Units whose decision found no room are gone."""
    settle = Publishing.settle

    def settled(self: Publishing, moment: Any, *, committed: bool) -> None:
        settle(self, moment, committed=committed)
        for unit in () if committed else self.units:
            discarding.freeze(unit)
            discarding.settle(self._manager, unit, written=True)

    return _patched((Publishing, "settle", settled))


def nonpersistent_rows_in_memory() -> AbstractContextManager[None]:
    """A stage does not write nonpersistent messages."""
    freeze = Staging.freeze

    def without(self: Staging, now: float) -> Rows:
        rows = freeze(self, now)
        rows.inserts = [row for row in rows.inserts if row.persistent]
        return rows

    return _patched((Staging, "freeze", without))


_BY_RULE: tuple[tuple[str, Callable[[], AbstractContextManager[None]]], ...] = (
    ("1", refused_acknowledge_reinstates),
    ("1", early_answers),
    ("1", early_ledger),
    ("1", nonpersistent_claims_in_memory),
    ("1", nonpersistent_rows_in_memory),
    ("1", refused_publish_backs_out),
    ("2.4", no_turns),
    ("2.4", no_lineage),
    ("2.4", generation_first),
    ("2.4", any_generation_reads),
    ("2.4", no_pin),
    ("2.4", pinned_claims_go_back),
    ("2.5", unchained_claims),
    ("2.5", unchained_acknowledges),
    ("2.8", slices_part_groups),
    ("2.8", groups_by_arrival),
    ("3.1", attempts_by_number),
    ("3.1", any_query),
    ("3.2", pieces_twice),
    ("3.3", any_batch),
    ("3.3", published_stage_refused),
    ("3.4", no_count),
    ("3.4", losers_stay),
    ("3.8", abort_of_all),
)

MUTATIONS = {each.__name__.replace("_", "-"): each for _, each in _BY_RULE}
RULES = {each.__name__.replace("_", "-"): rule for rule, each in _BY_RULE}
