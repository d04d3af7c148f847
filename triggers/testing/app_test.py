"""`app.test()`: an app in a test, on a queue manager of its own, with time under control (handlers rule 11).

    async with app.test() as t:
        await t.put("ORDERS", Order("chair", 5))
        await t.idle()
        assert await t.messages("SHIPPED") == ["5 chairs"]

Everything runs in the test's event loop. Time stands, but for `advance` and what advances; the wall clock begins at
2026-01-01. All that is drawn by chance comes of the seed: the test runs the same way again, and another way with
another seed.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from broker.deprecated import renamed_argument
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.testing import settle
from triggers.schedule.interval import seconds as seconds_of
from triggers.serving.session import bound
from triggers.testing.decoding import decoded
from triggers.testing.failures import TestLog
from triggers.testing.harness import QUIET_TURNS, Harness
from triggers.testing.programs import AppProgram
from triggers.testing.stuck import no_progress
from triggers.testing.waits import asleep_for, places

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence
    from contextvars import Token
    from datetime import timedelta
    from types import TracebackType
    from typing import Unpack

    from broker import Connection, JobStatus, Message, PutResult, QueueManager
    from broker.testing import VirtualClock
    from triggers.app.app import App
    from triggers.app.putting import PutOptions
    from triggers.history.results import MessageResult
    from triggers.serving.run import Run
    from triggers.serving.session import AppSession
    from triggers.testing.failures import Event
    from triggers.testing.stand_ins import StandIns

PATIENCE: Final = 5.0
"""Real seconds without progress after which a test fails."""

REAL_WAIT: Final = 0.2
"""Real seconds that `advance` waits for a handler that waits for something else than time."""

RUNS_MAX: Final = 10_000
DAYS_MAX: Final = 30
"""The reach of `idle(delayed=True)`: so many outcomes, or so many days."""

STEPS: Final = ("begin", "work", "mark", "prepare", "commit", "decide")
"""The steps of a transaction behind which a worker may be killed."""

_POLL: Final = 0.001
_PERIODIC: Final = "PERIODIC."


class AppTest:
    """A test of an app. Make it with `app.test(seed=0)`, and enter it."""

    __test__ = False  # it is no class of tests

    def __init__(
        self, app: App, seed: int = 0, *, patience: float = PATIENCE, databases: Mapping[Any, Any] | None = None
    ) -> None:
        self.app = app
        self.seed = seed
        self.patience = patience
        self._harness = Harness(seed)
        self._log = TestLog(self._harness.clock)
        self._client: AppProgram
        self._worker: AppProgram
        self._stand_ins = _stand_ins(app, databases or {})
        self._bound: Token[Mapping[App, AppSession]] | None = None
        self._waited_out: object = None

    @property
    def manager(self) -> QueueManager:
        """The queue manager."""
        return self._harness.manager

    @property
    def clock(self) -> VirtualClock:
        """The time of the test."""
        return self._harness.clock

    @property
    def events(self) -> list[Event]:
        """The outcomes so far, in their order."""
        return self._log.events

    def connect(self, appl_name: str = "test") -> Connection:
        """A connection to the queue manager, to be entered, for what needs the MQI."""
        return self.manager.connect(appl_name)

    async def put(self, q_name: str, body: object, **options: Unpack[PutOptions]) -> PutResult:
        """`app.put`."""
        return await self.app.put(q_name, body, **options)

    async def result(self, put: PutResult | bytes, type: Any = Any) -> MessageResult[Any]:
        """Return the end of a message of a handler with `history=`, when no handler has anything to do any more; as
        `app.result`. Raises TimeoutError for one that has not ended.
        """
        await self._come_to_rest(stand=True)
        return await self.app.result(put, 0, type)

    async def status(self, put: PutResult | bytes, *, queue: str | None = None) -> JobStatus:
        """Return what has become of a message until now, whatever goes on; as `app.status`."""
        return await self.app.status(put, queue=queue)

    def sqlite(self, database: Any) -> sqlite3.Connection:
        """A connection of the test's own to a database of the app that is in memory here. Raises ValueError for one
        that is not.
        """
        if self._stand_ins is None:
            raise ValueError(f"{self.app.name} has no database")
        return self._stand_ins.connection(self.app.database(database))

    # Progress

    @renamed_argument("waiting", "delayed")
    async def idle(self, *, delayed: bool = False) -> None:
        """Return when no message is available for a handler any more, none runs, and all are settled. Time stands, but
        for a handler that sleeps for longer than its `timeout`, or does not go on otherwise: it goes on to that.

        With `delayed`, time is advanced until besides no message is delayed, be it for a retry or by its put, but for
        those of periodic work; at most for 10,000 outcomes or 30 days.

        Raises what handlers raised, several as a group; NoProgressError.
        """
        await self._come_to_rest(stand=True)
        if delayed:
            begun, outcomes = self.clock.monotonic(), len(self.events)
            while self._awaits_time() and (due := self.clock.next_timer) is not None:
                if len(self.events) - outcomes >= RUNS_MAX or self.clock.monotonic() - begun >= DAYS_MAX * 86400:
                    raise RuntimeError(
                        f"after {len(self.events) - outcomes} outcomes and {self.clock.monotonic() - begun:,.0f} "
                        "seconds messages are still delayed: some are tried again for ever"
                    )
                await self.clock.advance(due)
                await self._come_to_rest(stand=True)
        self._log.raise_failures()

    async def advance(self, by: float | str | timedelta) -> None:
        """Let time pass: seconds, a timedelta, or text such as "90m" or "1d". What is due runs in the order of time.

        Raises what handlers raised, several as a group.
        """
        await self._come_to_rest(stand=False)
        await self._pass(seconds_of(by))
        self._log.raise_failures()

    @contextmanager
    def failures(self) -> Iterator[list[BaseException]]:
        """Collect what handlers raise meanwhile, instead of having it raised."""
        seen: list[BaseException] = []
        self._log.collect(seen)
        try:
            yield seen
        finally:
            self._log.collect_no_more()

    async def _pass(self, seconds: float) -> None:
        """Go from one timer that is due to the next."""
        end = self.clock.monotonic() + seconds
        while (due := self.clock.next_timer) is not None and self.clock.monotonic() + due <= end + 1e-9:
            await self.clock.advance(due)
            await self._come_to_rest(stand=False)
        await self.clock.advance(max(end - self.clock.monotonic(), 0.0))

    async def _come_to_rest(self, *, stand: bool) -> None:
        """Return when nothing goes on any more without time. With `stand` every handler must have ended; without it
        they may wait for a time to come, and what waits for something else is given `REAL_WAIT`.
        """
        last: object = None
        since = time.monotonic()
        while True:
            await settle(QUIET_TURNS)
            runs = self._worker.runs
            if not runs and not self._worker.unsettled and not self._writing() and not self._resolving():
                return
            state = self._state(runs)
            now = time.monotonic()
            if state != last:
                last, since = state, now
            if stand and self._times_out(runs, now - since) and (due := self.clock.next_timer) is not None:
                await self.clock.advance(due)
                continue
            if not stand and not any(run.server.handler.threaded for run in runs):
                if state == self._waited_out or now - since >= REAL_WAIT:
                    self._waited_out = state
                    return
            elif now - since >= self.patience:
                raise no_progress(runs, self.patience)
            await asyncio.sleep(_POLL)

    def _times_out(self, runs: set[Run], quiet: float) -> bool:
        """True when each handler can only time out: it sleeps for longer, or nothing has gone on for `patience`."""
        going = [run for run in runs if run.decided is None]
        return bool(going) and all(
            run.server.handler.timeout is not None and (quiet >= self.patience or self._oversleeps(run))
            for run in going
        )

    def _oversleeps(self, run: Run) -> bool:
        """True for a handler that sleeps until after its timeout."""
        timeout = run.server.handler.timeout
        left = math.inf if timeout is None else run.began + timeout - self.clock.monotonic()
        return run.task is not None and asleep_for(run.task) > left

    def _state(self, runs: set[Run]) -> object:
        """Return a value that changes when something goes on."""
        where = {run.delivered.id: tuple(places(run.task)) if run.task is not None else () for run in runs}
        return len(self.events), where, self._worker.unsettled

    def _resolving(self) -> bool:
        return self._worker.resolves or self._client.resolves

    def _writing(self) -> bool:
        journal: Mapping[str, Any] = self.manager.journal.figures()
        return bool(journal["waiting"])

    def _awaits_time(self) -> bool:
        """True if messages are delayed on the handlers' queues, but for periodic work, or a unit of work is in doubt,
        about which a resolver asks again later: the session that it waited for may have been of a worker that died.
        """
        handlers: Sequence[Mapping[str, Any]] = self.manager.handler_figures()
        delayed = any(each["delayed"] for each in handlers if not each["queue"].startswith(_PERIODIC))
        return delayed or bool(self.manager.core.branches.by_id)

    # What is on the queues

    async def messages(self, q_name: str) -> list[Any]:
        """The bodies of the messages that are available on a queue, in its order: JSON as it is there, other text as
        str, all else as bytes; of a dead letter that of the message that it is made of.
        """
        return [decoded(message) for message in await self.browse(q_name)]

    async def browse(self, q_name: str) -> list[Message]:
        """The messages that are available on a queue, in its order, with their descriptors and properties."""
        found = []
        async with self.manager.connect("test") as connection, connection.open(q_name, MQOO.BROWSE) as queue:
            try:
                while True:
                    found.append(await queue.get(options=MQGMO.BROWSE_NEXT))
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
        return found

    # What goes wrong

    async def kill_worker(self, after: str | None = None) -> None:
        """The process of the worker dies, with what it has in its hands; another is started in its place.

        With `after` it works on until the next transaction with a database has made that step, and dies there; time is
        advanced where nothing goes on without it. The steps: "begin",
        "work" (the handler has returned), "mark", "prepare", "commit" (in the database), "decide". Raises
        NoProgressError where none comes to it.
        """
        if after is not None:
            await self._come_behind(after)
        await self._worker.die()
        await self._start_worker()

    async def cut(self) -> None:
        """The line of the worker is cut. It connects again."""
        await self.kill_worker()

    async def restart(self, *, kill: bool = False) -> None:
        """The queue manager ends, in order or killed, and is started on what it has left; workers connect again."""
        await self._stop_programs(kill=kill)
        await self._harness.stop(kill=kill)
        await self._harness.start()
        await self._start_programs()

    async def _come_behind(self, step: str) -> None:
        """Let the worker work until a transaction has made this step."""
        if step not in STEPS:
            raise ValueError(f"after={step!r}: one of {', '.join(STEPS)}")
        stopped, since = self._worker.stop_behind(step), time.monotonic()
        while not stopped.is_set():
            await settle(QUIET_TURNS)
            rests = not self._worker.runs and not self._worker.unsettled and not self._resolving()
            if rests and self._awaits_time() and (due := self.clock.next_timer) is not None:
                await self.clock.advance(due)
                since = time.monotonic()
            if time.monotonic() - since >= self.patience:
                raise no_progress(self._worker.runs, self.patience)
            await asyncio.sleep(_POLL)

    def disk_full(self) -> Any:
        """`with t.disk_full():` the disk has no room meanwhile: what adds something is refused (2192)."""
        return self._harness.disk_full()

    # Its life

    async def __aenter__(self) -> Self:
        await self._harness.start()
        try:
            await self._start_programs()
        except BaseException:
            await self._harness.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._come_to_rest(stand=False)
                self._log.raise_failures()
        except BaseException as failed:
            self._tell_seed(failed)
            raise
        finally:
            await self._stop_programs()
            await self._harness.stop()
            if self._stand_ins is not None:
                self._stand_ins.close()
        if error is not None:
            self._tell_seed(error)

    def _tell_seed(self, error: BaseException) -> None:
        error.add_note(f"the test of {self.app.name} ran with seed={self.seed}")

    async def _start_programs(self) -> None:
        """The test itself puts and requests; the worker is a program of its own."""
        self._client = AppProgram(self.app, self._harness, self._log, self._stand_ins, handlers=False)
        await self._client.begun()
        await self._start_worker()
        self._bound = bound.set({**bound.get({}), self.app: self._client.session})

    async def _start_worker(self) -> None:
        """Start a worker. What the one before has left is decided before it handles anything."""
        if self.app.databases:
            await self._client.rest()
        self._worker = AppProgram(self.app, self._harness, self._log, self._stand_ins, handlers=True)
        await self._worker.begun()

    async def _stop_programs(self, *, kill: bool = False) -> None:
        await (self._worker.die() if kill else self._worker.stop())
        await self._client.stop()
        self._unbind()

    def _unbind(self) -> None:
        if self._bound is None:
            return
        try:
            bound.reset(self._bound)
        except ValueError:  # it was entered in another context, as fixtures may be
            bound.set({app: session for app, session in bound.get({}).items() if app is not self.app})
        self._bound = None


def _stand_ins(app: App, said: Mapping[Any, Any]) -> StandIns | None:
    """Return the stand-ins of the databases of an app; None where it has none."""
    if not app.databases and not said:
        return None
    from triggers.testing.stand_ins import StandIns  # with the databases, which most apps do not have

    return StandIns(app, said)
