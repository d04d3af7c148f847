"""Calls of many connections that are one statement in the database, and one transaction (queue-sharing rule 10.2.3).

While some statements are under way others gather; then the first of them leads the next. What keeps all of them from
being made may be the fault of one: then each is made by itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import anyio

from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE: Final = 50
"""The most calls that one statement makes."""

_STATEMENTS: Final = 2  # under way at a time


class _Gathered(Generic[T, R]):
    """A call, and what became of it."""

    def __init__(self, call: T) -> None:
        self.call = call
        self.turn = anyio.Event()
        self.served = False  # by the statement of another
        self.results: list[R] = []
        self.error: Exception | None = None


class Gathering(Generic[T, R]):
    """Makes calls of one kind: `make` makes some of them, all or none, by one statement, and returns what each comes
    to.
    """

    def __init__(self, make: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._make_all = make
        self._waiting: deque[_Gathered[T, R]] = deque()
        self._under_way = 0

    async def make(self, call: T) -> R:
        """Make a call, with those that gather behind it. Raises what it raises by itself, OutcomeUnknownError."""
        one: _Gathered[T, R] = _Gathered(call)
        if self._under_way < _STATEMENTS:
            self._under_way += 1
        else:
            self._waiting.append(one)
            await one.turn.wait()
        if not one.served:
            others = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE - 1))]
            try:
                await self._make([one, *others])
            finally:
                for other in others:
                    other.served = True
                    other.turn.set()
                self._go_on()
        if one.error is not None:
            raise one.error
        return one.results[0]

    def _go_on(self) -> None:
        """Let the first of those that still wait lead the next statement."""
        if self._waiting:
            self._waiting.popleft().turn.set()
        else:
            self._under_way -= 1

    async def _make(self, together: Sequence[_Gathered[T, R]]) -> None:
        try:
            results = await self._make_all([one.call for one in together])
        except Exception as error:
            if len(together) > 1 and not isinstance(error, OutcomeUnknownError):
                for one in together:
                    await self._make([one])
                return
            for one in together:
                one.error = error
        else:
            for one, result in zip(together, results, strict=True):
                one.results.append(result)
