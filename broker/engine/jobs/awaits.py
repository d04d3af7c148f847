"""The awaits of a job (`broker.engine.jobs.jobs`): a pause, changes of definitions, and looks, whose answers come
later: that rows are durable, that bodies are in memory, that a lock is free. Those of the queue-sharing group are in
`group_awaits`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Sequence

    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.names.definitions import Change
    from broker.engine.journal.bodies import Bodies
    from broker.engine.journal.journal import Journal
    from broker.storage.store import Done

T = TypeVar("T")


class Pause:
    """The job can be left for a while."""

    __slots__ = ()

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


PAUSE: Final = Pause()


class Changed:
    """Changes of definitions are made one after the other, each durable and applied before the next."""

    __slots__ = ("changes",)

    def __init__(self, *changes: Change) -> None:
        self.changes = changes

    def __await__(self) -> Generator[Changed, None, None]:
        yield self


class Look(Generic[T]):
    """Something is asked, and the answer comes later: `answer`, for a look that has one."""

    __slots__ = ("answer",)

    answer: T

    def begin(self, done: Done) -> None:
        """Ask. `done` is to be called once, now or later, on the event loop: with None, or the error that left no
        answer.
        """
        raise NotImplementedError

    def __await__(self) -> Generator[Look[T], None, T]:
        yield self
        return self.answer


class Written(Look[None]):
    """Rows are made durable. `settle` lets them take effect (it is told None), or undoes what was frozen
    (StoreFullError), in the step in which that is known: between that and the next step of the job others have their
    turn. After any other error nothing takes effect any more (journal rule 7).
    """

    __slots__ = ("_journal", "_rows", "_settle")

    answer = None

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


class Fetched(Look[T]):
    """The bodies of messages are in memory: `use` makes the answer of them in that step, since they may leave memory in
    the next.
    """

    __slots__ = ("_bodies", "_entries", "_use")

    def __init__(self, bodies: Bodies, entries: Sequence[Entry], use: Callable[[], T]) -> None:
        self._bodies = bodies
        self._entries = entries
        self._use = use

    def begin(self, done: Done) -> None:
        if all(entry.data is not None for entry in self._entries):
            self._fetched(done, None)
        else:
            self._bodies.fetch(self._entries, lambda error: self._fetched(done, error))

    def _fetched(self, done: Done, error: Exception | None) -> None:
        if error is None:
            try:
                self.answer = self._use()
            except Exception as wrong:
                error = wrong
        done(error)


class FifoLock(Look[None]):
    """The lock of a key is had, first come, first served: by a job from its begin to its end, or by a part of one, as a
    context manager. `lines` has for each key who has its lock, and behind that who waits for it.
    """

    __slots__ = ("_done", "_key", "_lines")

    answer = None

    def __init__(self, lines: dict[Hashable, deque[FifoLock]], key: Hashable) -> None:
        self._lines = lines
        self._key = key
        self._done: Done | None = None

    def take(self) -> bool:
        """Take it at once, unless somebody has it."""
        if self._key in self._lines:
            return False
        self._lines[self._key] = deque((self,))
        return True

    def begin(self, done: Done) -> None:
        self._done = done
        self._lines[self._key].append(self)

    def let_go(self) -> None:
        """Let the next have it, or leave the line; harmless when it was never in it."""
        line = self._lines.get(self._key)
        if line is None or self not in line:
            return
        had_it = line[0] is self
        line.remove(self)
        if not line:
            del self._lines[self._key]
        elif had_it:
            line[0]._come()

    def _come(self) -> None:
        assert self._done is not None
        self._done(None)

    async def __aenter__(self) -> Self:
        if not self.take():
            try:
                await self
            except BaseException:
                self.let_go()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.let_go()
