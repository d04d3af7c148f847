"""What the calls about consumers do, as jobs (`broker.engine.jobs`).

Those that change a consumer follow one another, whatever their connections (claims rule 2.4): each takes its turn
first. A claim and the ends of claims go in slices, each durable before the next is chosen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from broker.core.claims import claiming, ending
from broker.core.claims.cutting import Cutting
from broker.core.message.rows import Rows
from broker.engine.answers import fail_written, succeed
from broker.engine.looks import Fetched, Turn, Written
from broker.interface.claims import ConsumerState, Cut, Registration
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Generator, Hashable, Iterator, Sequence

    from broker.core.claims.claiming import Limits
    from broker.core.claims.consumer import Consumer
    from broker.core.queues.queue import LocalQueue
    from broker.engine.context import EngineContext
    from broker.engine.jobs import Look, Steps
    from broker.interface.port import Call
    from broker.storage.store import Done

S = TypeVar("S")
T = TypeVar("T")

_FULL = MQRC.STORAGE_MEDIUM_FULL
_LOOKS = 1000  # messages that one step looks at


class ClaimJobs:
    """The steps that change the consumers of a queue manager."""

    def __init__(self, context: EngineContext, random_bits: Callable[[int], int]) -> None:
        self._context = context
        self._core = context.core
        self._random_bits = random_bits
        self._lines: dict[Hashable, deque[Done]] = {}

    def in_turn(self, name: str, steps: Generator[S, Exception | None, T]) -> Generator[S | Look, Exception | None, T]:
        """These steps, when it is their turn among those about the consumer of this name."""
        turn = Turn(self._lines, name)
        try:
            yield turn
            return (yield from steps)
        finally:
            turn.end()

    # A consumer and its readers

    def consumer(self, call: Call[ConsumerState], name: str, q_names: Sequence[str]) -> Steps:
        """Look the consumer up, or make it; other names of queues replace those that it had."""
        consumers = self._core.consumers
        consumer = consumers.by_name.get(name)
        error: Exception | None = None
        if consumer is None:
            consumers.check_names(q_names)
            consumer, rows = consumers.make(name, q_names, f"{self._random_bits(128):032x}")
            made = consumer
            error = yield self._written(rows, lambda: consumers.add(made))
        elif q_names and tuple(q_names) != consumer.q_names:
            consumers.check_names(q_names)
            error = yield self._changed(consumer, q_names=tuple(q_names))
        else:
            error = yield self._written(Rows())  # what the answer says has settled
        if error is None:
            succeed(call, _state(consumer, self._core.ids.last))
        else:
            fail_written(call, error, _FULL)

    def register(
        self, call: Call[Registration], consumer: Consumer, lineage: str | None, start: int | None, end: int | None
    ) -> Steps:
        """A reader with a checkpoint becomes the one that may read; it is checked before anything is changed."""
        consumer.check_lineage(lineage)
        position = consumer.base if start is None else start
        consumer.check_position(position, end)
        error = yield self._changed(consumer, generation=consumer.generation + 1)
        answer = Registration(consumer.generation, lineage or f"{self._random_bits(64):016x}", position)
        self._answer(call, error, answer)

    def resume(self, call: Call[Registration], consumer: Consumer) -> Steps:
        """A reader without a checkpoint goes on where the consumer stands: what was not acknowledged comes again."""
        lineage = f"{self._random_bits(64):016x}"
        position = consumer.acknowledged
        error = yield self._changed(
            consumer, generation=consumer.generation + 1, lineage=lineage, pinned=consumer.acknowledged
        )
        self._answer(call, error, Registration(consumer.generation, lineage, position))

    def pin(self, call: Call[list[Cut]], consumer: Consumer, lineage: str, start: int, end: int) -> Steps:
        """A batch is going to be read."""
        consumer.check_lineage(lineage)
        if start < consumer.acknowledged:
            raise consumer.passed(start, "acknowledged", consumer.acknowledged)
        if end > consumer.next - 1:
            raise consumer.missing(end)
        error = yield self._changed(consumer, lineage=lineage, pinned=max(consumer.pinned, end))
        if error is not None:
            fail_written(call, error, _FULL)
            return
        cutting = Cutting()
        for first in range(start, end, _LOOKS):
            for sequence, entry in enumerate(consumer.between(first, min(first + _LOOKS, end)), first + 1):
                cutting.add(sequence, entry)
            yield None
        succeed(call, [Cut(*piece) for piece in cutting.pieces])

    # Claims

    def claim(self, call: Call[int], consumer: Consumer, start: int, limits: Limits) -> Steps:
        """Acknowledge up to `start`, then claim, unless claims beyond it exist."""
        if start < consumer.pinned:
            raise consumer.passed(start, "pinned", consumer.pinned)
        if start > consumer.next - 1:
            raise consumer.missing(start)
        error = yield from self._acknowledge(consumer, start)
        if error is None and consumer.next - 1 == start:
            error = yield from self._claim(consumer, limits)
        if isinstance(error, StoreFullError) and consumer.next - 1 > start:
            error = None  # what was claimed before there was no room is a shorter claim
        if error is None:
            succeed(call, consumer.next - 1)
        else:
            fail_written(call, error, _FULL)

    def _claim(self, consumer: Consumer, limits: Limits) -> Generator[Look | None, Exception | None, Exception | None]:
        taken, size = 0, consumer.bytes
        while True:
            queues = self._core.consumers.queues_for(consumer)
            for _ in self._ready(queues, limits):
                yield None
            queues = claiming.queues_for([queue for queue in queues if not queue.deleted], consumer)
            entries = claiming.choose(consumer, queues, limits, taken, consumer.bytes - size)
            if not entries:
                return None
            now = self._context.clock.time()
            rows = claiming.freeze(consumer, entries, now)
            settle = partial(claiming.settle, self._core, consumer, entries, now)
            error = yield Written(self._context.journal, rows, partial(self._settled, settle))
            if error is not None:
                return error
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

    def acknowledge(self, call: Call[int], consumer: Consumer, to: int) -> Steps:
        """The consumer is done with what it has read."""
        if to > consumer.pinned:
            raise consumer.missing(to) if to > consumer.next - 1 else _not_pinned(consumer, to)
        error = yield from self._acknowledge(consumer, to)
        self._answer(call, error, 0)

    def _acknowledge(self, consumer: Consumer, to: int) -> Generator[Look | None, Exception | None, Exception | None]:
        error = yield self._written(Rows())  # "nothing to do" too is said when all before it has settled
        while error is None and consumer.acknowledged < to:
            entries = ending.next_slice(consumer, to)
            on_disk = ending.unread(entries)
            if on_disk:
                freeze = Fetched(self._context.bodies, on_disk, partial(self._end, consumer, entries))
                error = yield freeze
                if error is not None:
                    return error
                ended = freeze.made
            else:
                ended = self._end(consumer, entries)
            assert ended is not None
            error = yield Written(self._context.journal, ended.rows, partial(self._ended, consumer, ended))
        return error

    def _end(self, consumer: Consumer, entries: Sequence[Any]) -> ending.Slice:
        return ending.acknowledge(self._core, consumer, entries, self._context.moment())

    def _ended(self, consumer: Consumer, ended: ending.Slice, error: Exception | None) -> None:
        self._context.settle(ended.unit, committed=error is None)
        if error is None:
            ending.acknowledged(self._core, consumer, ended, self._context.clock.time())
            for entry in ended.messages:
                self._context.bodies.gone(entry)
            self._context.perform()

    def release(self, call: Call[int], consumer: Consumer) -> Steps:
        """The consumer gives all back that it has claimed."""
        count = len(consumer.claims)
        error = yield from self.resolve(consumer, commit=False, pinned=True)
        self._answer(call, error, count)

    def resolve(
        self, consumer: Consumer, *, commit: bool, pinned: bool
    ) -> Generator[Look | None, Exception | None, Exception | None]:
        """End all claims of a consumer, and its lineage: with `commit` those that are pinned are acknowledged, and the
        rest goes back; else all goes back, and where some are pinned only if the administrator says `pinned`, since
        they may be in a sink already. Its value is the error that ended it half-way, to be gone on with by another.

        Raises SUBSCRIPTION_IN_USE (2429).
        """
        read = max(consumer.pinned - consumer.acknowledged, 0)
        if read and not (commit or pinned):
            raise MQError(
                MQRC.SUBSCRIPTION_IN_USE,
                f"{read} messages of consumer {consumer.name} are pinned, so they may have been read, and be in a sink "
                "already: ACTION(COMMIT) removes them, PINNED(YES) returns them all the same",
            )
        error = yield self._changed(consumer, generation=consumer.generation + 1, lineage="")
        if error is None and commit:
            error = yield from self._acknowledge(consumer, consumer.pinned)
        while error is None and consumer.claims:
            ended = ending.release(consumer, ending.next_slice(consumer, consumer.next - 1))
            error = yield Written(self._context.journal, ended.rows, partial(self._released, consumer, ended))
        if error is None:
            error = yield self._changed(consumer, base=consumer.acknowledged, pinned=consumer.acknowledged)
        return error

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

    def _answer(self, call: Call[Any], error: Exception | None, answer: object) -> None:
        if error is None:
            succeed(call, answer)
        else:
            fail_written(call, error, _FULL)


def _not_pinned(consumer: Consumer, to: int) -> MQError:
    return MQError(
        MQRC.NO_DATA_AVAILABLE,
        f"the messages of consumer {consumer.name} are pinned up to {consumer.pinned}, and this reader says {to}: what "
        "nobody was allowed to read cannot be acknowledged",
    )


def _state(consumer: Consumer, arrived: int) -> ConsumerState:
    return ConsumerState(
        consumer.uuid, consumer.generation, consumer.lineage, consumer.base, consumer.acknowledged, consumer.pinned,
        consumer.next, arrived,
    )  # fmt: skip
