"""The programs of a test: the worker, and the test's own part of the app. Each is a session in a task of its own, so
that either can die without the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.mqi import MQError
from broker.testing import settle
from triggers.serving.session import AppSession
from triggers.testing.harness import QUIET_TURNS

if TYPE_CHECKING:
    from broker.transactions import TransactionStep
    from triggers.app.app import App
    from triggers.serving.run import Run
    from triggers.testing.failures import TestLog
    from triggers.testing.harness import Harness
    from triggers.testing.stand_ins import StandIns


_POLL: Final = 0.001
_POLLS_MAX: Final = 300
"""How often is looked, in real time, whether the databases of a program that ends are closed."""


class WorkerKilledError(Exception):
    """The program is dead, and does nothing more."""


class AppProgram:
    """A program that runs an app, with its handlers or without, and sees its own session as the app's."""

    def __init__(self, app: App, harness: Harness, log: TestLog, stand_ins: StandIns | None, *, handlers: bool) -> None:
        self._source = harness.source()
        self.session = session = AppSession(app, self._source, handlers=handlers, bind=True)
        session.log = log
        session.databases.stand_ins = stand_ins
        session.databases.reached_step = self._reached if app.databases else None
        session.databases.when_open = self.rest
        self._clock = harness.clock
        self._serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._dead = False
        self._polls = 0
        self._stop_at: str | None = None
        self._stopped = asyncio.Event()
        self._go_on = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"program of {app.name}")

    @property
    def runs(self) -> set[Run]:
        """The runs that it has in its hands."""
        return {run for service in self.session.services.values() for run in service.runs}

    @property
    def unsettled(self) -> int:
        """The number of its unsettled deliveries."""
        return sum(service.unsettled for service in self.session.services.values())

    @property
    def resolves(self) -> bool:
        """True if it asks a database, or tells the queue manager what one has said."""
        return self.session.databases.busy

    async def rest(self) -> None:
        """Return when it resolves nothing. Before it serves that makes tests the same on machines fast and slow: what
        another has left is decided, and old markers are deleted, before it handles anything.
        """
        await settle(QUIET_TURNS)
        while self.resolves:
            await asyncio.sleep(_POLL)
            await settle(QUIET_TURNS)

    def stop_behind(self, step: str) -> asyncio.Event:
        """Stand still behind the next such step of a transaction. Returns the event that it does."""
        self._stop_at = step
        return self._stopped

    async def _reached(self, step: TransactionStep) -> None:
        """A transaction has made a step."""
        if self._stop_at == step.value:
            self._stop_at = None
            self._stopped.set()
            await self._go_on.wait()
        if self._dead:
            raise WorkerKilledError("the test has killed this worker")

    async def begun(self) -> None:
        """Return when it serves. Raises why it cannot."""
        await asyncio.shield(self._serving)

    async def stop(self) -> None:
        """It stops in order: takes nothing more; what runs is cancelled and returned."""
        self.session.cancel()
        await self._ended()

    async def die(self) -> None:
        """Its process is killed: nothing is settled any more."""
        self._dead = True
        self._source.cut()
        self._go_on.set()
        await self._ended()

    async def _ended(self) -> None:
        """Return when it has ended. That may take time of the test's: handlers have some to clean up."""
        self._over.set()
        while not self._task.done():
            await settle()
            if self._databases_end():
                await asyncio.sleep(_POLL)
                continue
            if not self._task.done() and (due := self._clock.next_timer) is not None:
                await self._clock.advance(due)
        self._task.result()

    def _databases_end(self) -> bool:
        """True while its databases may do something in real time, which no timer brings about."""
        self._polls += 1
        return self.session.databases.in_use and self._polls < _POLLS_MAX

    async def _run(self) -> None:
        try:
            async with self.session:
                self._serving.set_result(None)
                await self._over.wait()
        except BaseException as error:
            if not self._serving.done():
                self._serving.set_exception(error)
            elif not isinstance(error, MQError):  # the connection that was cut
                raise
