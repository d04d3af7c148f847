"""Calls of many connections that are one statement in the database, and one transaction (queue-sharing rule 10.2.3).

While a statement is under way others gather; then the first of them leads the next (`StatementLine`). Two may be under
way, so that the database makes one while the answers of the other are given: the second begins when as many calls wait
as the first makes. Of what mostly waits for the disk there is one. A statement costs as much as some dozen messages, so
it is not begun for one of many. What keeps all of them from being made may be the fault of one: then each is made by
itself (`Gathering`).
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import anyio

from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE: Final = 50
"""The most calls that one statement makes, and the most messages that a get asks it for."""

STATEMENTS: Final = 2
"""Under way at a time."""


class _Turn(Generic[T]):
    """A call that waits for its turn."""

    def __init__(self, call: T) -> None:
        self.call = call
        self.comes = anyio.Event()
        self.served = False  # by the statement of another


class StatementLine(Generic[T]):
    """Calls of one kind, while statements that make some of them are `under_way`."""

    def __init__(self) -> None:
        self.under_way = 0
        self._made = 0  # calls that these make
        self._waiting: deque[_Turn[T]] = deque()

    @asynccontextmanager
    async def turn(self, call: T, most: int) -> AsyncIterator[Sequence[T]]:
        """Wait for the turn of a call, which has come where fewer than `most` statements are under way and they make no
        more calls than wait, and for as long as the block makes one. It is given the calls that this one leads, itself
        first; none if another has led it.
        """
        if not self._waiting and self.under_way < most and self._made <= 1:
            self.under_way += 1
            self._made += 1
        else:
            turn = _Turn(call)
            self._waiting.append(turn)
            if self.under_way < most and self._enough_wait:
                self.under_way += 1
                self._wake()
            await turn.comes.wait()
            if turn.served:
                yield ()
                return
        others = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE - 1))]
        self._made += len(others)
        try:
            yield [call, *[other.call for other in others]]
        finally:
            for other in others:
                other.served = True
                other.comes.set()
            self._made -= 1 + len(others)
            self._go_on()

    @property
    def _enough_wait(self) -> bool:
        return bool(self._waiting) and self._made <= len(self._waiting)

    def _wake(self) -> None:
        """Let the first of those that wait lead a statement."""
        self._waiting.popleft().comes.set()
        self._made += 1

    def _go_on(self) -> None:
        """Begin the next statement in place of one that is over, where enough calls wait."""
        if self._enough_wait:
            self._wake()
        else:
            self.under_way -= 1


class _Gathered(Generic[T, R]):
    """A call, and what became of it."""

    def __init__(self, call: T) -> None:
        self.call = call
        self.results: list[R] = []
        self.error: Exception | None = None


class Gathering(Generic[T, R]):
    """Makes calls of one kind: `make` makes some of them, all or none, by one statement, and returns what each comes
    to. At `most` so many statements are under way at a time: one of what mostly waits for the disk.
    """

    def __init__(self, make: Callable[[Sequence[T]], Awaitable[Sequence[R]]], most: int = STATEMENTS) -> None:
        self._make_all = make
        self._most = most
        self._line: StatementLine[_Gathered[T, R]] = StatementLine()

    async def make(self, call: T) -> R:
        """Make a call, with those that gather behind it. Raises what it raises by itself, OutcomeUnknownError."""
        one: _Gathered[T, R] = _Gathered(call)
        async with self._line.turn(one, self._most) as together:
            if together:
                await self._make(together)
        if one.error is not None:
            raise one.error
        return one.results[0]

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
