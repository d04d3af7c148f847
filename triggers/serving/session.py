"""A running app: its connections, the services of its handlers, and its requests, from entering to leaving."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import anyio

from broker import Portal
from broker.life import Life
from broker.mqi import MQRC, MQError
from broker.refusals import Refusals
from broker.unclosed import SourceLine, caller
from triggers.app.definitions import NotServableError, define, unserved
from triggers.app.lifetime import leave, lone
from triggers.app.middleware import around
from triggers.app.putting import AppPuts
from triggers.app.requests import Requests
from triggers.bodies.bodies import reader
from triggers.history.asking import ResultsAsked
from triggers.monitor.connections import ENDED
from triggers.schedule.periodic import register
from triggers.serving.loop_watch import HandlerWatch
from triggers.serving.outcomes import OutcomeLog
from triggers.serving.serving import CLEAN_UP, QueueService, within
from triggers.serving.used_databases import UsedDatabases

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType

    from anyio.abc import TaskStatus

    from broker import Connection
    from triggers.app.app import App
    from triggers.app.handler import Handler
    from triggers.app.source import AppSource

T = TypeVar("T")

logger = logging.getLogger(__name__)

GRACE: Final = 25.0
"""Seconds that handlers have to end when an app stops, below the 30 of Kubernetes (handlers rule 9.1)."""

RECONNECT_MIN: Final = 0.1
RECONNECT_MAX: Final = 5.0
"""Seconds between two attempts to reach a queue manager that is gone (handlers rule 9.2)."""

ANEW_MAX: Final = 60.0
"""Seconds at most until a queue that could not be served any more is tried again."""

bound: ContextVar[Mapping[App, AppSession]] = ContextVar("evermq_sessions")
"""The sessions that apps have in this context, before the one that they have for all."""

_ANY_REPLY: Any = bytes | str | Any

_AWAY: Final = ENDED | {MQRC.HOST_NOT_AVAILABLE, MQRC.MAX_CONNS_LIMIT_REACHED}
_OUT_OF_GROUP: Final = (MQRC.DB2_NOT_AVAILABLE, MQRC.CF_NOT_AVAILABLE)
"""The reasons of a queue manager that is out of its queue-sharing group for now: an app waits until it is back."""


class AppSession(ResultsAsked):
    """Runs an app with connections, time and chance of a source, for as long as its context is entered.

    - `handlers`: whether it serves the handlers of the app. What they name is defined in any case.
    - `grace`: seconds that they have to end when it is left.
    - `wait`: wait for the queue manager, for ever; else an app cannot begin without it. It reconnects later anyway.
    - `bind`: be the session of the app in this context alone, and not wherever else nothing is bound.

    `cancelled` is how many handlers the stop had to cancel.
    """

    def __init__(
        self,
        app: App,
        source: AppSource,
        *,
        handlers: bool = True,
        grace: float = GRACE,
        wait: bool = False,
        bind: bool = False,
    ) -> None:
        self.app = app
        self.source = source
        self.clock = source.clock
        self.handlers: list[Handler] = []
        self.services: dict[str, QueueService] = {}
        self.cancelled = 0
        self._taken = 0  # by services that have ended
        self.requests = Requests(source, app.name, self.reached)
        self.puts = AppPuts(self)
        self.log = OutcomeLog(self.clock)
        self.databases = UsedDatabases(self)
        self.thread = 0  # that of its event loop
        self.waits = wait
        self._serves = handlers
        self._bind = bind
        self._grace = grace
        self._around = around(app.middleware)
        self._watch: HandlerWatch | None = None
        self.may_put = False  # until its queues are there
        self._began = False
        self._reported_away = False
        self.portal: Portal
        self.tasks: anyio.abc.TaskGroup
        self._served = asyncio.Event()
        self._stopped = asyncio.Event()
        self._life = Life(f"the app {app.name}", self._live, caller())
        self._line: tuple[Connection, AsyncExitStack] | None = None
        self._connecting = asyncio.Lock()

    # Connections

    async def connection(self) -> Connection:
        """The connection of the app for what no handler does; one that was lost is made anew (`reached`)."""
        async with self._connecting:
            if self._line is None or self._line[0].port.broken:
                await self._hang_up()
                exit = AsyncExitStack()
                connect = partial(self.source.connect, self.app.name)
                self._line = await self.reached(lambda: exit.enter_async_context(connect())), exit
            return self._line[0]

    async def reached(self, connect: Callable[[], Awaitable[T]]) -> T:
        """Return what `connect` does. A queue manager that is away is waited for, as `connect(url, reconnect=True)`
        does, once the app has begun; raises MQError before that, where it is embedded, and when the app stops.
        """
        delay = RECONNECT_MIN
        while True:
            try:
                return await connect()
            except MQError as error:
                if not self._began or self.source.embedded or error.reason not in _AWAY or self._stopped.is_set():
                    raise
                self._report_away(error)
            await self.pause(delay * (0.5 + self.source.random.random() / 2))
            delay = min(2 * delay, RECONNECT_MAX)

    async def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line[1].aclose()

    async def request(self, q_name: str, body: object, timeout: float, type: Any) -> Any:
        """A request and its reply, as `App.request`."""
        read = reader(_ANY_REPLY if type is Any else type)
        self.puts.joined(syncpoint=False)
        return read(await self.requests.request(q_name, body, timeout))

    # Life

    async def __aenter__(self) -> Self:
        """Connect, define what is missing, and begin to serve. Raises MQError, NotServableError, CommandFailedError."""
        await self._begin(hosted=True)
        return self

    async def open(self, opened_at: SourceLine) -> None:
        """As entering does, without a block to leave: `close` ends it."""
        self._life.opened_at = opened_at
        await self._begin(hosted=False)

    async def close(self) -> None:
        """Stop, as leaving the block does. Harmless when it has ended."""
        await self._left(None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._left(error)

    async def _begin(self, *, hosted: bool) -> None:
        self.handlers = sorted(self.app.complete_handlers(), key=lambda handler: handler.q_name)
        self._enlist()
        try:
            await self._life.begin(hosted=hosted)
        except BaseExceptionGroup as group:
            self._delist()
            raise lone(group) from None
        except BaseException:
            self._delist()
            raise

    async def _left(self, error: BaseException | None) -> None:
        self.stop()
        try:
            await leave(self._life, error, lone)
        finally:
            self._delist()

    async def _live(self, life: Life) -> None:
        async with AsyncExitStack() as stack:
            if not self._bind:
                stack.callback(self._delist)
            await stack.enter_async_context(self.source)
            stack.push_async_callback(self._hang_up)
            stack.push_async_callback(self.requests.close)
            stack.push_async_callback(self.close_results)
            stack.push_async_callback(self.databases.close)
            self.tasks = await stack.enter_async_context(anyio.create_task_group())
            self._watch = HandlerWatch(self._whose)
            stack.callback(self._watch.stop)
            await self.databases.open_all()
            await self.tasks.start(self._run, name=f"serve {self.app.name}")
            try:
                error = await life.until_left(self.tasks.cancel_scope)
            finally:
                self.stop()  # where nobody has left it
            await self._finish(error)

    def _enlist(self) -> None:
        """Be the session of the app. Raises RuntimeError where it has one."""
        self.portal = Portal()
        self.thread = get_ident()
        if self._bind:
            bound.set({**bound.get({}), self.app: self})
        elif self.app.running_session is not None:
            raise RuntimeError(f"the app {self.app.name} runs already")
        else:
            self.app.running_session = self

    def _delist(self) -> None:
        if self._bind:
            bound.set({app: session for app, session in bound.get({}).items() if session is not self})
        elif self.app.running_session is self:
            self.app.running_session = None
            self.app.failed_session = self if self._life.ended_alone else None

    @property
    def taken(self) -> int:
        """The number of deliveries that it was given."""
        return self._taken + sum(service.taken for service in self.services.values())

    def stop(self) -> None:
        """Take nothing more, in this turn of the loop, and return what has not begun. Handlers that run go on."""
        self._stopped.set()
        for service in self.services.values():
            service.stop()

    def cancel(self) -> None:
        """Besides, cancel the handlers that run; their messages are returned, uncharged."""
        self.stop()
        for service in self.services.values():
            service.cancel()

    async def wait(self) -> None:
        """Return when nothing is served any more: it was stopped, or its queue manager in this process was."""
        await self._served.wait()

    async def _finish(self, error: BaseException | None) -> None:
        """Let handlers that run end, unless the block is left by a cancellation; then cancel what is left."""
        if not isinstance(error, asyncio.CancelledError) and not await within(
            self.clock, self._grace, self._served.wait()
        ):
            self.cancel()
            await within(self.clock, 2 * CLEAN_UP, self._served.wait())
        self.tasks.cancel_scope.cancel()

    # Serving

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        """Serve until stopped, over one connection after the other."""
        delay = RECONNECT_MIN
        refusals = Refusals()
        try:
            while not self._stopped.is_set():
                try:
                    async with self.source.connect(self.app.name) as connection:
                        await define(connection, self.handlers, self._targets, self.app.name)
                        self.may_put = True
                        if self._serves and not self._began:
                            await self._report_unserved(connection)
                        for work in self.app.periodic if self._serves else ():
                            await register(connection, work, self.clock)
                        if self._reported_away:
                            logger.warning("%s serves again", self.app.name, extra={"event": "app_serves_again"})
                            self._reported_away = False
                        delay = RECONNECT_MIN
                        refusals.note(None)
                        await self._serve(connection, task_status)
                        return
                except (MQError, NotServableError) as error:
                    refusals.note(error if isinstance(error, MQError) else None)
                    if not self._comes_again(error, refusals):
                        return
                await self.pause(delay * (0.5 + self.source.random.random() / 2))
                delay = min(2 * delay, RECONNECT_MAX)
        finally:
            self._served.set()

    @property
    def _targets(self) -> list[str]:
        """The queues that the app puts to and has no handler for."""
        return sorted(self.app.targets - self.app.handlers.keys())

    async def _report_unserved(self, connection: Connection) -> None:
        """Say which queues the app puts to and nobody serves, as far as its queue manager knows."""
        for q_name in await unserved(connection, self._targets):
            logger.warning(
                "%s puts to %s, which nobody serves now: its messages wait for a worker that does",
                self.app.name, q_name, extra={"event": "nobody_serves", "app": self.app.name, "queue": q_name},
            )  # fmt: skip

    def _comes_again(self, error: MQError | NotServableError, refusals: Refusals) -> bool:
        """True if it is to connect again after this error; raises it where it cannot begin, or may not come back."""
        away = isinstance(error, MQError) and error.reason in _AWAY
        out_of_group = isinstance(error, MQError) and error.reason in _OUT_OF_GROUP
        if not (self._began or out_of_group or (self.waits and away)):
            raise error
        if self._stopped.is_set():
            return False
        if self.source.embedded and not out_of_group:
            if not away:
                raise error
            logger.info("%s ends with its queue manager: %s", self.app.name, error, extra={"event": "app_ends"})
            return False
        if refusals.are_final:
            raise error
        if refusals.count:
            fields = {"event": "app_refused"}
            logger.warning("%s is refused, and tries once more: %s", self.app.name, error, extra=fields)
        else:
            self._report_away(error)
        return True

    def _report_away(self, error: Exception) -> None:
        """Say once that the queue manager is away."""
        if not self._reported_away:
            self._reported_away = True
            fields = {"event": "app_not_served"}
            logger.warning("%s is not served for now, and tried again for ever: %s", self.app.name, error, extra=fields)

    async def _serve(self, connection: Connection, task_status: TaskStatus[None]) -> None:
        """Serve all queues of the handlers; without any, only begin."""
        served = self.handlers if self._serves else []
        left = len(served)

        def began() -> None:
            nonlocal left
            left -= 1
            if left <= 0 and not self._began:
                self._began = True
                task_status.started()

        if not served:
            began()
        try:
            async with anyio.create_task_group() as tasks:
                for handler in served:
                    tasks.start_soon(self._serve_queue, connection, handler, began, name=f"serve {handler.q_name}")
        except BaseExceptionGroup as group:
            raise lone(group) from None

    async def _serve_queue(self, connection: Connection, handler: Handler, began: Any) -> None:
        """Serve a queue for as long as the connection is there; one that is deleted, when it is there again."""
        delay = RECONNECT_MIN
        while not self._stopped.is_set():
            service = self.service(connection, handler)
            self.services[handler.q_name] = service
            try:
                await service.run(began)
            except MQError as error:
                if not self._began or connection.port.broken or error.reason in ENDED:
                    raise
                fields = {"event": "queue_not_served"}
                logger.error("queue %s is not served, and tried again: %s", handler.q_name, error, extra=fields)
            finally:
                self.cancelled += service.cancelled_runs
                self._taken += service.taken
                service.taken = 0
            await self.pause(delay)
            delay = min(2 * delay, ANEW_MAX)
            began = None

    def service(self, connection: Connection, handler: Handler) -> QueueService:
        """Make the service of a handler's queue over a connection."""
        service = QueueService(connection, handler, self.clock, self.log, owner=self, app=self.app)
        service.replies = self.puts.reply
        service.watch = self._watch
        service.around = self._around
        self.databases.serve(service, connection)
        return service

    def _whose(self, task: asyncio.Task[object]) -> str | None:
        """The handler that a task runs; asked by another thread while the task holds the event loop."""
        for service in list(self.services.values()):
            if any(run.task is task for run in list(service.runs)):
                return service.handler.name
        return None

    async def pause(self, delay: float) -> bool:
        """Wait, unless stopped meanwhile. True if it is not stopped."""
        return not await within(self.clock, delay, self._stopped.wait())
