"""Run steps once for all that happens together: the replies of a line leave in one write, however many calls have been
answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.engine.mistakes import contained, mistake

if TYPE_CHECKING:
    from collections.abc import Callable


class Afterwards:
    """Steps that are left until the one that is being taken is over. They follow in the same turn of the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left: list[Callable[[], None]] | None = None  # None when no step is being taken
        self._for_next_turn: list[Callable[[], None]] = []

    def leave(self, step: Callable[[], None]) -> None:
        """Take `step` when the step that is being taken is over, or in the next turn of the event loop when none is."""
        if self._left is None:
            self._loop.call_soon(step)
        else:
            self._left.append(step)

    def next_turn(self, step: Callable[[], None]) -> None:
        """Take `step` in the next turn of the event loop, together with all others that are to be taken then."""
        if not self._for_next_turn:
            self._loop.call_soon(self.take, self._take_turn)
        self._for_next_turn.append(step)

    def _take_turn(self) -> None:
        steps, self._for_next_turn = self._for_next_turn, []
        for step in steps:
            contained(step)

    def take(self, step: Callable[..., None], *arguments: object) -> None:
        """Take a step, then what was left in it; within another step it is a part of that. What the steps that were
        left leave is for the next turn of the event loop. Raises what `step` raises, when the others have been taken.
        """
        if self._left is not None:
            step(*arguments)
            return
        left: list[Callable[[], None]] = []
        self._left = left
        try:
            step(*arguments)
        finally:
            self._left = None
            for each in left:
                try:
                    each()
                except Exception as wrong:
                    mistake(wrong, "a step")
