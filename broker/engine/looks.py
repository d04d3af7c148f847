"""What jobs wait for besides changes of definitions: that rows are durable, that bodies are in memory, that it is their
turn (`broker.engine.jobs`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.engine.jobs import Look
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.engine.bodies import Bodies
    from broker.engine.journal import Journal
    from broker.storage.store import Done

T = TypeVar("T")


class Written(Look):
    """Rows are made durable. `settle` lets them take effect (it is told None), or undoes what was frozen
    (StoreFullError), in the step in which that is known: between that and the next step of the job others have their
    turn. After any other error nothing takes effect any more (journal rule 7).
    """

    __slots__ = ("_journal", "_rows", "_settle")

    def __init__(self, journal: Journal, rows: Rows, settle: Callable[[Exception | None], None] | None = None) -> None:
        self._journal = journal
        self._rows = rows
        self._settle = settle

    def begin(self, done: Done) -> None:
        self._journal.submit(self._rows, self._written(done))

    def _written(self, done: Done) -> Done:
        def written(error: Exception | None) -> None:
            try:
                if self._settle is not None and (error is None or isinstance(error, StoreFullError)):
                    self._settle(error)
            finally:
                done(error)

        return written


class Fetched(Look, Generic[T]):
    """The bodies of messages are in memory: `use` makes of them what is wanted in that step, since they may leave
    memory in the next. What it made is `made`.
    """

    __slots__ = ("_bodies", "_entries", "_use", "made")

    def __init__(self, bodies: Bodies, entries: Sequence[Entry], use: Callable[[], T]) -> None:
        self._bodies = bodies
        self._entries = entries
        self._use = use
        self.made: T | None = None

    def begin(self, done: Done) -> None:
        if all(entry.data is not None for entry in self._entries):
            self._fetched(done, None)
        else:
            self._bodies.fetch(self._entries, lambda error: self._fetched(done, error))

    def _fetched(self, done: Done, error: Exception | None) -> None:
        if error is None:
            try:
                self.made = self._use()
            except Exception as wrong:
                error = wrong
        done(error)


class Turn(Look):
    """One at a time for each key, first come, first served: a job that was given its turn must `end` it, whatever
    happens. `lines` has the turns that were taken and those that are waited for.
    """

    __slots__ = ("_done", "_key", "_lines")

    def __init__(self, lines: dict[Hashable, deque[Done]], key: Hashable) -> None:
        self._lines = lines
        self._key = key
        self._done: Done | None = None

    def begin(self, done: Done) -> None:
        self._done = done
        line = self._lines.setdefault(self._key, deque())
        line.append(done)
        if line[0] is done:
            done(None)

    def end(self) -> None:
        """Leave the line, and let the next have its turn if this one had it; harmless when it was never in it."""
        done, self._done = self._done, None
        line = self._lines.get(self._key)
        if done is None or line is None:
            return
        had_it = line[0] is done
        line.remove(done)
        if not line:
            del self._lines[self._key]
        elif had_it:
            line[0](None)
