"""The jobs of the calls about consumers (`broker.engine.jobs.jobs`).

Those that change a consumer follow one another, whatever their connections (claims rule 2.4): each has its lock
meanwhile. A claim and the ends of claims go in slices, each durable before the next is chosen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.core.claims import claiming, ending
from broker.core.claims.cutting import Cutting
from broker.core.message.rows import Rows
from broker.engine.jobs.awaits import PAUSE, Fetched, FifoLock, Written
from broker.interface.claims.claims import ConsumerState, Cut, Registration
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from broker.core.claims.claiming import Limits
    from broker.core.claims.consumer import Consumer
    from broker.core.queues.queue import LocalQueue
    from broker.engine.context import EngineContext

_LOOKS = 1000  # messages that one step looks at


class ClaimJobs:
    """The steps that change the consumers of a queue manager."""

    def __init__(self, context: EngineContext, random_bits: Callable[[int], int]) -> None:
        self._context = context
        self._core = context.core
        self._random_bits = random_bits
        self._lines: dict[Hashable, deque[FifoLock]] = {}

    def lock(self, name: str) -> FifoLock:
        """The lock of the consumer of this name."""
        return FifoLock(self._lines, name)

    # A consumer and its readers

    async def consumer(self, name: str, q_names: Sequence[str]) -> ConsumerState:
        """Look the consumer up, or make it; other names of queues replace those that it had."""
        consumers = self._core.consumers
        consumer = consumers.by_name.get(name)
        if consumer is None:
            consumers.check_names(q_names)
            consumer, rows = consumers.make(name, q_names, f"{self._random_bits(128):032x}")
            await self._written(rows, partial(consumers.add, consumer))
        elif q_names and tuple(q_names) != consumer.q_names:
            consumers.check_names(q_names)
            await self._changed(consumer, q_names=tuple(q_names))
        else:
            await self._written(Rows())  # what the answer says has settled
        return state_of(consumer, self._core.ids.last)

    async def register(
        self, consumer: Consumer, lineage: str | None, start: int | None, end: int | None
    ) -> Registration:
        """A reader with a checkpoint becomes the one that may read; it is checked before anything is changed."""
        position, changes = consumer.registered(lineage, start, end)
        await self._changed(consumer, **changes)
        return Registration(consumer.generation, lineage or f"{self._random_bits(64):016x}", position)

    async def resume(self, consumer: Consumer) -> Registration:
        """A reader without a checkpoint goes on where the consumer stands: what was not acknowledged comes again."""
        await self._changed(consumer, **consumer.resumed(f"{self._random_bits(64):016x}"))
        return Registration(consumer.generation, consumer.lineage, consumer.acknowledged)

    async def pin(self, consumer: Consumer, lineage: str, start: int, end: int) -> list[Cut]:
        """A batch is going to be read."""
        await self._changed(consumer, **consumer.pin(lineage, start, end))
        cutting = Cutting()
        for first in range(start, end, _LOOKS):
            for sequence, entry in enumerate(consumer.between(first, min(first + _LOOKS, end)), first + 1):
                cutting.add(sequence, entry)
            if first + _LOOKS < end:
                await PAUSE
        return [Cut(*piece) for piece in cutting.pieces]

    # Claims

    async def claim(self, consumer: Consumer, start: int, limits: Limits) -> int:
        """Acknowledge up to `start`, then claim, unless claims beyond it exist."""
        consumer.check_claim(start)
        try:
            await self._acknowledge(consumer, start)
            if consumer.next - 1 == start:
                await self._claim(consumer, limits)
        except StoreFullError:
            if consumer.next - 1 <= start:
                raise  # else what was claimed before there was no room is a shorter claim
        return consumer.next - 1

    async def _claim(self, consumer: Consumer, limits: Limits) -> None:
        taken, size = 0, consumer.bytes
        while True:
            queues = [queue for queue in self._core.consumers.queues_for(consumer) if limits.allow(queue)]
            for _ in self._ready(queues, limits):
                await PAUSE
            queues = claiming.queues_for([queue for queue in queues if not queue.deleted], consumer)
            entries = claiming.choose(consumer, queues, limits, taken, consumer.bytes - size)
            if not entries:
                return
            now = self._context.clock.time()
            rows = claiming.freeze(consumer, entries, now)
            settle = partial(claiming.settle, self._core, consumer, entries, now)
            await Written(self._context.journal, rows, partial(self._settled, settle))
            taken += len(entries)

    def _settled(self, settle: Callable[..., None], error: Exception | None) -> None:
        settle(durable=error is None)
        self._context.perform()

    def _ready(self, queues: Sequence[LocalQueue], limits: Limits) -> Iterator[None]:
        """Discard what is expired on the queues, and find out which groups are complete, in steps."""
        for _ in self._core.expiry(queues, self._context.clock.time()):
            self._context.perform()
            yield
        for queue in queues if limits.whole else ():
            yield from queue.shelf.wholes().all_steps(queue.shelf.entries)

    # Their ends

    async def acknowledge(self, consumer: Consumer, to: int) -> int:
        """The consumer is done with what it has read."""
        consumer.check_acknowledge(to)
        await self._acknowledge(consumer, to)
        return 0

    async def _acknowledge(self, consumer: Consumer, to: int) -> None:
        await self._written(Rows())  # "nothing to do" too is said when all before it has settled
        while consumer.acknowledged < to:
            entries = ending.next_slice(consumer, to)
            on_disk, end = ending.unread(entries), partial(self._end, consumer, entries)
            ended = await Fetched(self._context.bodies, on_disk, end) if on_disk else end()
            await Written(self._context.journal, ended.rows, partial(self._ended, consumer, ended))

    def _end(self, consumer: Consumer, entries: Sequence[Any]) -> ending.Slice:
        return ending.acknowledge(self._core, consumer, entries, self._context.moment())

    def _ended(self, consumer: Consumer, ended: ending.Slice, error: Exception | None) -> None:
        self._context.settle(ended.unit, committed=error is None)
        if error is None:
            ending.acknowledged(self._core, consumer, ended, self._context.clock.time())
            for entry in ended.messages:
                self._context.bodies.gone(entry)
            self._context.perform()

    async def release(self, consumer: Consumer) -> int:
        """The consumer gives all back that it has claimed."""
        count = consumer.claim_count
        await self.resolve(consumer, commit=False, pinned=True)
        return count

    async def resolve(self, consumer: Consumer, *, commit: bool, pinned: bool) -> None:
        """End all claims of a consumer, and its lineage: with `commit` those that are pinned are acknowledged, and the
        rest goes back; else all goes back, and where some are pinned only if the administrator says `pinned`, since
        they may be in a sink already. An error that ends it half-way leaves it to be gone on with by another.

        Raises SUBSCRIPTION_IN_USE (2429).
        """
        await self._changed(consumer, **consumer.resolved(commit=commit, pinned=pinned))
        if commit:
            await self._acknowledge(consumer, consumer.pinned)
        while consumer.claims:
            ended = ending.release(consumer, ending.next_slice(consumer, consumer.next - 1))
            await Written(self._context.journal, ended.rows, partial(self._released, consumer, ended))
        await self._changed(consumer, **consumer.emptied())

    def _released(self, consumer: Consumer, ended: ending.Slice, error: Exception | None) -> None:
        moment = self._context.moment()
        ending.released(self._core, consumer, ended, moment, durable=error is None)
        self._context.perform()

    # Writing

    def _changed(self, consumer: Consumer, **changes: Any) -> Written:
        """Make changes of a consumer durable; then they are so in memory."""
        rows = Rows(states=[consumer.row(**changes)])
        return self._written(rows, partial(consumer.change, **changes))

    def _written(self, rows: Rows, settle: Callable[[], None] | None = None) -> Written:
        def settled(error: Exception | None) -> None:
            if error is None and settle is not None:
                settle()

        return Written(self._context.journal, rows, settled)


def state_of(consumer: Consumer, arrived: int) -> ConsumerState:
    """Return the state of a consumer for its readers; `arrived` is the last arrival number."""
    return ConsumerState(
        consumer.uuid, consumer.generation, consumer.lineage, consumer.base, consumer.acknowledged, consumer.pinned,
        consumer.next, arrived,
    )  # fmt: skip
