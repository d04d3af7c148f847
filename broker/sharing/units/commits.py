"""Commits of units of work that are all in the database: those of many connections are one statement, and one
transaction (queue-sharing rule 10.2.3).

While one is under way others gather; then the first of them leads the next. What keeps all of them from being committed
may be the fault of one: then each is made by itself.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from broker.sharing.database.database import Database

AT_ONCE: Final = 50
"""The most calls whose units are committed by one statement."""

_STATEMENTS: Final = 2  # under way at a time
COMMIT: Final = "SELECT commit_units($1, $2, $3)"
"""With a member, its epoch and units: those that are committed."""


class _Commit:
    """The units of one call, and what became of them."""

    def __init__(self, ids: Sequence[UUID]) -> None:
        self.ids = ids
        self.turn = anyio.Event()
        self.served = False  # by the statement of another
        self.committed: Sequence[UUID] = ()
        self.error: Exception | None = None


class Commits:
    """The commits of one member."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Commit] = deque()
        self._under_way = 0

    async def commit(self, ids: Sequence[UUID]) -> Sequence[UUID]:
        """Commit units: return those that are committed. It is asked again where the answer was lost.

        Raises MQError, OutcomeUnknownError.
        """
        one = _Commit(ids)
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
        return one.committed

    def _go_on(self) -> None:
        """Let the first of those that still wait lead the next statement."""
        if self._waiting:
            self._waiting.popleft().turn.set()
        else:
            self._under_way -= 1

    async def _make(self, together: Sequence[_Commit]) -> None:
        ids = [id for one in together for id in one.ids]
        own = self._database.member, self._database.epoch
        try:
            ((committed,),) = await self._database.decide(COMMIT, *own, ids)
        except MQError as error:
            if len(together) == 1:
                together[0].error = error
                return
            for one in together:
                await self._make([one])
        except OutcomeUnknownError as error:
            for one in together:
                one.error = error
        else:
            for one in together:
                one.committed = committed or ()
