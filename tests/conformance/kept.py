"""Groups that stay joined from one scenario to the next: joining and leaving are most of what a scenario costs there.

A group of each kind is joined in a task of its own and lent to the scenarios, one after the other. At the end of each
its programs are disconnected and, while the members are joined, all is looked at that a scenario may have left behind
(`SharedSystem.check_joined`). Then what it has defined is deleted, and the group is compared with what it was when it
was new. What differs ends the group, as does a test that has failed, and the next scenario makes another: nothing is
mended but what `SharedSystem.tidy` says.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from tests.conformance.sharing import SharedSystem
from tests.sharing.database import GroupDatabase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sharing.postgres import Postgres


class _Joined:
    """A group that has been joined, and the task that it lives in: what is entered there is left there."""

    def __init__(self, server: Postgres, way: str, count: int) -> None:
        self.group = GroupDatabase(server, reused=True)
        self.system = SharedSystem(self.group, way, count)
        self.when_new: dict[str, object] = {}
        self.broken = anyio.CancelScope()
        """Of whom it is lent to: cancelled when the group has ended by itself, as when a queue manager has failed."""
        self._ends = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> None:
        self._task = asyncio.create_task(self._live(), name=f"group {self.group.name}")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait((self._task, ready), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()
        self.when_new = await self.system.standing()

    async def _live(self) -> None:
        try:
            async with self.group, self.system:
                if self.system.persists:
                    await self.system.mqsc("ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) DEFPSIST(YES)")
                self._ready.set()
                await self.system.serve(self._ends)
        finally:
            self.broken.cancel()

    async def is_as_new(self) -> bool:
        """Look at what the last scenario has left while the members are joined; raise AssertionError where something
        is wrong. Return whether another may have the group.
        """
        await self.system.check_joined()
        await self.system.tidy()
        return await self.system.standing() == self.when_new

    async def end(self) -> None:
        """The members leave in order, and all is looked at once more."""
        self._ends.set()
        if self._task is not None:
            await self._task


class KeptGroups:
    """The groups that are joined, one of a kind: the way in which it is reached, and how many members there are.

    `every`: so many scenarios a group is lent to at most.
    """

    def __init__(self, every: int) -> None:
        self._joined: dict[tuple[str, int], _Joined] = {}
        self._every = every
        self._lent: dict[tuple[str, int], int] = {}

    @asynccontextmanager
    async def lend(self, server: Postgres, way: str, count: int) -> AsyncIterator[tuple[SharedSystem, Loan]]:
        """A system as new for one scenario."""
        kind = way, count
        if kind not in self._joined:
            joined = _Joined(server, way, count)
            await joined.join()
            self._joined[kind] = joined
            self._lent[kind] = 0
        joined = self._joined[kind]
        loan = Loan()
        joined.broken = anyio.CancelScope()
        self._lent[kind] += 1
        as_new = False
        try:
            with joined.broken:
                yield joined.system, loan
                joined.system.check()
                await joined.system.leave()
                if not loan.failed:
                    as_new = await joined.is_as_new()
        finally:
            if not as_new or self._lent[kind] == self._every:
                del self._joined[kind]
                await joined.end()

    async def end(self) -> None:
        """All members leave, those that came last first."""
        while self._joined:
            _, joined = self._joined.popitem()
            await joined.end()


class Loan:
    """The outcome of a scenario that has borrowed a group."""

    failed = False
