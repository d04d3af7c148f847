"""Clearing a queue: CLEAR QLOCAL, and the purge of a queue with many messages that is to be deleted (semantics 9.6).

The messages go a run at a time, each run one transaction: the event loop is given back between two of them, and no
transaction grows with the queue. It is over when the last run is durable; what ends it before that leaves the rest of
the messages on the queue. Meanwhile the queue cannot be opened (OBJECT_IN_USE, 2042).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.engine.mistakes import mistake
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.unit import Unit
    from broker.engine.context import EngineContext
    from broker.storage.store import Done

RUN_LENGTH: Final = 500
"""Messages that are removed together."""


class Clearing:
    """One such piece of work. `done` is called when it is over, with the error that ended it or None."""

    def __init__(self, context: EngineContext, queue: LocalQueue, done: Done) -> None:
        self._context = context
        self._queue = queue
        self._done = done
        self._run: Unit

    def begin(self) -> None:
        """From now on nobody opens the queue; the rest is done in later turns of the event loop."""
        self._queue.clearing = True
        self._go_on()

    def _go_on(self) -> None:
        self._context.slices.run(self._take(), self._taken)

    def _take(self) -> Iterator[None]:
        self._run = self._context.core.clear(self._queue, RUN_LENGTH)
        yield

    def _taken(self, wrong: Exception | None) -> None:
        """A run of messages is out of sight, if there were any left: remove them."""
        if wrong is not None:
            self._end(mistake(wrong, "the clearing of a queue"))
        elif not self._run.gets:
            self._end(None)
        else:
            self._context.journal.submit(self._context.core.commit(self._run), self._run_written)

    def _run_written(self, error: Exception | None) -> None:
        try:
            self._settle(error)
        except Exception as wrong:
            error = mistake(wrong, "the clearing of a queue")
        if error is None:
            self._go_on()
        else:
            self._end(error)

    def _settle(self, error: Exception | None) -> None:
        if error is None:
            self._context.settle(self._run, committed=True)
        elif isinstance(error, StoreFullError):
            self._queue.deleted = False  # it stays, with what is left
            self._context.settle(self._run, committed=False)

    def _end(self, error: Exception | None) -> None:
        self._queue.clearing = False
        self._done(error)
