"""The disk of a simulation: memory that outlives the queue manager, is as slow as chance has it, and fails when
told to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from broker.storage.memory import MemoryStore
from broker.storage.store import Store, StoreFullError
from broker.testing import FaultStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from random import Random

    from broker.storage.store import Done, KeyRow, MessageRow, ObjectRow, Rows, StepRow

TURNS_MAX = 4  # of the event loop, before a write reaches the disk, and again before it is answered
TURNS_TO_LEARN = 2  # until the queue manager has heard that a write found no room


class Disk(Store):
    """A store for one queue manager after another. A write waits some turns, reaches `faults`, where its fate is
    decided at once, and is answered some turns later; so a crash finds writes at every stage.
    """

    def __init__(self, random: Random, formatted: Sequence[Rows]) -> None:
        self.faults = FaultStore(MemoryStore())
        self._random = random
        self._formatted = formatted
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False
        self.refusals = self.refusals_heard = (
            0  # how many writes found no room; of how many the queue manager has heard
        )

    @property
    def idle(self) -> bool:
        """True if no write is on its way."""
        return not self._busy

    @property
    def stuck(self) -> bool:
        """True if a write has come to where it is to be held for ever: the moment to crash."""
        return self.faults.held > 0

    async def format(self) -> None:
        """Write what a new disk has on it."""
        for rows in self._formatted:
            await self.faults.inner.write(rows)

    async def open(self) -> None:
        await self.faults.open()

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        return await self.faults.load_objects()

    def load_keys(self) -> AsyncIterator[list[KeyRow]]:
        return self.faults.load_keys()

    def load_steps(self) -> AsyncIterator[list[StepRow]]:
        return self.faults.load_steps()

    def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        return self.faults.load_messages()

    def submit(self, rows: Rows, done: Done) -> None:
        self._do(partial(self._submit, rows, partial(self._written, done)))

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        self._do(partial(self.faults.read, list(ids), partial(self._read, done)))

    async def close(self) -> None:
        await self.faults.close()

    def _submit(self, rows: Rows, written: Done) -> None:
        if self.faults.submit(rows, written):
            asyncio.get_running_loop().call_soon(written, None)

    def _do(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self._after_turns(self._waiting.popleft())

    def _read(self, done: Callable[..., None], found: dict[int, bytes], error: Exception | None) -> None:
        self._next()
        done(found, error)

    def _written(self, done: Done, error: Exception | None) -> None:
        self._after_turns(partial(self._answer, done, error))

    def _answer(self, done: Done, error: Exception | None) -> None:
        if isinstance(error, StoreFullError):
            self.refusals += 1
            _count_down(TURNS_TO_LEARN, self._refusal_heard)
        self._next()
        done(error)

    def _refusal_heard(self) -> None:
        self.refusals_heard += 1

    def _after_turns(self, call: Callable[[], None]) -> None:
        _count_down(self._random.randrange(TURNS_MAX), call)


def _count_down(turns: int, call: Callable[[], None]) -> None:
    if turns:
        asyncio.get_running_loop().call_soon(_count_down, turns - 1, call)
    else:
        call()
