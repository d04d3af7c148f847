"""A store that fails or stalls on purpose, for tests of what an application or a manager does then.

It wraps another store and changes only what becomes of writes, and what is found damaged. Give it to a queue manager in
place of the store it wraps::

    store = FaultStore(MemoryStore())
    store.fail_next(StoreFullError("the disk is full"))      # the next write is refused
    store.fail_next(StoreFailedError("no answer"), after=3, lose=False)   # the third is done, but nobody is told

    store.fill()                                              # no room: what adds something is refused ...
    store.make_room()                                         # ... and taken again

    store.hold()                                              # writes wait ...
    await store.wait_held()                                   # ... here is one: look at what is visible meanwhile
    store.release()                                           # ... and go on

    store.damage(b"ORDER 3")                                  # this data is found damaged when it is read

    store.kill()                                              # the process dies: what is not written will not be
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.storage.store import DataDamagedError, Rows, Store, StoreFailedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from broker.storage.figures import StoreFigures
    from broker.storage.store import Done, KeyRow, MessageRow, ObjectRow, StepRow


class _Fate(NamedTuple):
    """The fate of a write: the error to report, and whether the batch is lost."""

    error: Exception | None = None
    lose: bool = False


_WRITTEN = _Fate()


class FaultStore(Store):
    """The store `inner`, whose writes can be made to fail and to wait.

    `writes` counts what was submitted, whatever became of them, and `refused` those among them that found no room;
    `written` has the batches that `inner` took, in order. Where a method takes `after`, it speaks of the write that is
    so many writes from now; 1 is the next one.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.writes = 0
        self.refused = 0
        self.written: list[Rows] = []
        self.killed = False
        self._fates: dict[int, _Fate] = {}
        self._full_from: int | None = None  # the number of the first write that finds no room
        self._held_from: int | None = None  # the number of the first write that waits
        self._held_answer = False  # whether that one waits for its answer only
        self._waiting: list[Callable[[], None]] = []
        self._damaged: set[bytes] = set()  # data that is
        self._unanswered = 0  # writes that the inner store has, or has had, and nobody has been told of
        self._some_held = asyncio.Event()

    @property
    def held(self) -> int:
        """The number of writes that wait for `release`."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """True if there is no room for the next write that adds something."""
        filled = self._full_from is not None and self.writes + 1 >= self._full_from
        return filled or self.inner.full

    def fail_next(self, error: Exception, *, after: int = 1, lose: bool = True) -> None:
        """Raise `error` from one write.

        With `lose` the batch is not written. Without, it is, and only the answer is lost: the other half of the
        outcomes that StoreFailedError leaves open. Several failures may be planned, one for each write.

        Raises ValueError for `after` below 1, and for a StoreFullError without `lose`: it says that nothing is written.
        """
        if isinstance(error, StoreFullError) and not lose:
            raise ValueError("StoreFullError says that nothing is written: lose must be true")
        self._fates[self._number(after)] = _Fate(error, lose)

    def fill(self, *, after: int = 1) -> None:
        """Have no room, from that write on, for what adds messages or definitions: StoreFullError. What only removes
        goes through, with the room that a store keeps back for that. Raises ValueError for `after` below 1.
        """
        self._full_from = self._number(after)

    def make_room(self) -> None:
        """Have room again."""
        self._full_from = None

    def hold(self, *, after: int = 1, written: bool = False) -> None:
        """Let writes wait, from that one on, before they reach the inner store. With `written` the first of them does
        reach it, and waits with its answer. Raises ValueError for `after` below 1.
        """
        self._held_from = self._number(after)
        self._held_answer = written

    def release(self) -> None:
        """Let the writes that wait go on, in their order, and later ones through."""
        self._held_from = None
        waiting, self._waiting = self._waiting, []
        self._some_held.clear()
        for go_on in waiting:
            go_on()

    async def wait_held(self) -> None:
        """Return as soon as a write waits for `release`."""
        await self._some_held.wait()

    def damage(self, *data: bytes) -> None:
        """Find messages with just this data damaged when they are read, as if bytes of them had changed on the disk:
        DataDamagedError. A queue manager reads what it has no room for in memory (`[limits] body_bytes`), and all after
        a restart.
        """
        self._damaged.update(data)

    def repair(self) -> None:
        """Find no message damaged any more."""
        self._damaged.clear()

    def kill(self) -> None:
        """Let the process die, as far as the store can: nothing that waits or comes later reaches the inner store, and
        nobody is told what became of it. A manager that still runs is told StoreFailedError, and so stops.

        The next `open` begins another life.
        """
        self.killed = True
        self.release()

    async def open(self) -> None:
        """Open the inner store."""
        self.killed = False
        await self.inner.open()

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """Load the objects of the inner store."""
        return await self.inner.load_objects()

    def load_keys(self) -> AsyncIterator[list[KeyRow]]:
        """Load the keys of the inner store."""
        return self.inner.load_keys()

    def load_steps(self) -> AsyncIterator[list[StepRow]]:
        """Load the steps of the inner store."""
        return self.inner.load_steps()

    def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """Load the messages of the inner store."""
        return self.inner.load_messages()

    def watch(self, failed: Callable[[StoreFailedError], None]) -> None:
        """Watch the inner store."""
        self.inner.watch(failed)

    def submit(self, rows: Rows, done: Done) -> bool:
        """Have the inner store write `rows`, or do what was planned for this write. They are durable at once only where
        the inner store says so and nothing was planned.
        """
        self.writes += 1
        fate = self._fates.pop(self.writes, None) or self._fate_by_room(rows)
        if self._held_from is None or self.writes < self._held_from:
            return self._write(rows, done, fate)
        if self._held_answer and self.writes == self._held_from:
            self._write_later(rows, partial(self._keep_answer, done), fate)
        else:
            self._keep(partial(self._write_later, rows, done, fate))
        return False

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Read from the inner store, but for what is damaged."""
        self.inner.read(ids, partial(self._found, done) if self._damaged else done)

    async def backup(self, path: Path) -> None:
        """A copy of the inner store."""
        await self.inner.backup(path)

    async def close(self) -> None:
        """Close the inner store."""
        await self.inner.close()

    def status(self) -> dict[str, Any]:
        """That of the inner store."""
        return self.inner.status()

    def figures(self) -> StoreFigures | None:
        """Return those of the inner store."""
        return self.inner.figures()

    def _found(
        self,
        done: Callable[[dict[int, bytes], Exception | None], None],
        data: dict[int, bytes],
        error: Exception | None,
    ) -> None:
        """The inner store has answered a reading."""
        changed = {id for id, each in data.items() if each in self._damaged}
        if changed and (error is None or isinstance(error, DataDamagedError)):
            known = error.ids if isinstance(error, DataDamagedError) else frozenset[int]()
            error = DataDamagedError(changed | known, str(error or "what the store has is not what was written"))
        done({id: each for id, each in data.items() if id not in changed}, error)

    def _number(self, after: int) -> int:
        """The number of the write that is so many writes from now."""
        if after < 1:
            raise ValueError(f"after is {after}; the next write is 1")
        return self.writes + after

    def _fate_by_room(self, rows: Rows) -> _Fate:
        if self._full_from is None or self.writes < self._full_from or not rows.grows:
            return _WRITTEN
        return _Fate(StoreFullError("there is no room"), lose=True)

    def _write(self, rows: Rows, done: Done, fate: _Fate) -> bool:
        """Write to the inner store. True if all is written at once, and as it should be; else `done` is called."""
        error, lose = (_dead(), True) if self.killed else fate
        self.refused += isinstance(error, StoreFullError)

        def written(failure: Exception | None) -> None:
            self._unanswered -= 1
            if failure is None and not lose:
                self.written.append(rows)
            done(failure or error)

        behind = self._unanswered > 0
        self._unanswered += 1
        at_once = self.inner.submit(Rows() if lose else rows, written)  # Empty, so that the order of answers is kept.
        if at_once and error is None and not behind:
            self._unanswered -= 1
            self.written.append(rows)
            return True
        if at_once:
            asyncio.get_running_loop().call_soon(written, None)
        return False

    def _write_later(self, rows: Rows, done: Done, fate: _Fate) -> None:
        """Write, and call `done` in any case, in a later turn of the event loop."""
        if self._write(rows, done, fate):
            asyncio.get_running_loop().call_soon(done, None)

    def _keep(self, go_on: Callable[[], None]) -> None:
        self._waiting.append(go_on)
        self._some_held.set()

    def _keep_answer(self, done: Done, error: Exception | None) -> None:
        """The write that waits with its answer is there; the later ones may wait already."""

        def answer() -> None:
            done(_dead() if self.killed else error)

        if self._held_from is None:
            answer()
        else:
            self._waiting.insert(0, answer)
            self._some_held.set()


def _dead() -> StoreFailedError:
    return StoreFailedError("the process has been killed")
