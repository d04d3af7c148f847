"""A store in memory that takes its time, as a seed has it.

What is written is durable at once, or some turns of the event loop later. So the steps of a program that waits for it
come in another order with another seed, and in the same order with the same one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Final

from broker.storage.memory import MemoryStore

if TYPE_CHECKING:
    from broker.storage.store import Done, Rows

TURNS: Final = 3
"""The number of turns of the event loop that an answer takes at most."""


class SeededStore(MemoryStore):
    """A `MemoryStore` whose answers come in their order, each up to `TURNS` turns of the event loop after the one
    before it.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._random = Random(seed)
        self._answers: deque[tuple[int, Done, Exception | None]] = deque()

    def submit(self, rows: Rows, done: Done) -> bool:
        """Take in all of `rows` at once, or none, and tell so sooner or later."""
        turns = self._random.randint(0, TURNS)
        if not turns and not self._answers:
            return super().submit(rows, done)
        reported: list[Exception | None] = []
        if super().submit(rows, reported.append):
            self._answer_later(turns, done)
        else:  # the error is told in the next turn
            asyncio.get_running_loop().call_soon(lambda: self._answer_later(turns, done, reported[0]))
        return False

    def _answer_later(self, turns: int, done: Done, error: Exception | None = None) -> None:
        self._answers.append((max(turns, 1), done, error))
        if len(self._answers) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """A turn of the loop has passed."""
        turns, done, error = self._answers[0]
        if turns > 1:
            self._answers[0] = (turns - 1, done, error)
        else:
            self._answers.popleft()
        if self._answers:
            asyncio.get_running_loop().call_soon(self._turn)
        if turns <= 1:
            done(error)
