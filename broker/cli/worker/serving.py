"""One process of a worker: it serves until it is told to end, and then sees its handlers out (handlers section 9).

Of the signals, the first takes nothing more and gives handlers their grace; the second cancels them; the third ends the
process, which is then a crash. What does not end although it is cancelled, or holds the event loop, is left behind: its
messages were returned before, or are another worker's when the line is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import anyio

from broker import MQError
from broker.cli.conversation import run
from broker.cli.program import DONE, SOME_FAILED, CannotRunError, lone
from broker.cli.worker.link import Link
from broker.cli.worker.loading import own_files
from broker.client.address import completed
from broker.databases.errors import ProgramDatabaseError
from broker.mqi import MQRC
from broker.refusals import REFUSALS_MAX, Refusals
from triggers import HandlerImportError, NotServableError, TriggerMonitor
from triggers.app.source import source_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from broker.cli.worker.loading import LoadedHandlers
    from triggers import App
    from triggers.app.source import AppSource
    from triggers.serving.session import AppSession

logger = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

LEAVE_BEHIND: Final = 8.0
"""Seconds, after handlers were cancelled, until what has not ended is left behind: it had 5 s to clean up."""

LOOK: Final = 0.1
"""Seconds between two looks at how many deliveries have been taken."""

RECONNECT_MIN: Final = 0.1
RECONNECT_MAX: Final = 5.0
"""Seconds between two tries to reach a queue manager for functions with @process."""

DEFAULT_URL: Final = "mq://127.0.0.1:1414"

_AWAY: Final = frozenset(
    {
        MQRC.CONNECTION_BROKEN,
        MQRC.HCONN_ERROR,
        MQRC.HOST_NOT_AVAILABLE,
        MQRC.MAX_CONNS_LIMIT_REACHED,
        MQRC.Q_MGR_NOT_AVAILABLE,
        MQRC.Q_MGR_QUIESCING,
        MQRC.Q_MGR_STOPPING,
    }
)


class Settings(NamedTuple):
    """The options of the command. `child` is the descriptor of the link to the process above this one."""

    targets: tuple[str, ...]
    url: str | None = None
    user: str = ""
    channel: str = ""
    ca: str = ""
    cert: str = ""
    cert_key: str = ""
    queues: str | None = None
    concurrency: int | None = None
    grace: float = 25.0
    max_tasks: int | None = None
    child: int | None = None

    @property
    def identity(self) -> dict[str, str]:
        """Return who connects, as far as the command line says."""
        given = {"user": self.user, "channel": self.channel, "ca": self.ca, "cert": self.cert, "key": self.cert_key}
        return {name: value for name, value in given.items() if value}


def serve(loaded: LoadedHandlers, settings: Settings) -> int:
    """Serve until told to end: the exit code. Raises CannotRunError."""
    try:
        return run(Worker(loaded, settings).run)
    except BaseExceptionGroup as group:
        error = lone(group)
        raise error from error.__cause__  # whose notes are told


class Worker:
    """Serves apps and modules in this process."""

    def __init__(self, loaded: LoadedHandlers, settings: Settings) -> None:
        self._loaded = loaded
        self._settings = settings
        self._sessions: list[AppSession] = []
        self._monitors: dict[asyncio.Task[Any], TriggerMonitor] = {}
        self._entering: set[asyncio.Task[Any]] = set()
        self._signals = 0
        self._left = len(loaded.apps) + bool(loaded.modules)  # that do not serve yet
        self._monitors_begun = 0
        self._cancelled = 0
        self._link: Link | None = None
        self._stopping: asyncio.Event

    async def run(self) -> int:
        """Serve until told to end: the exit code."""
        self._stopping = asyncio.Event()
        with self._handling_signals():
            async with anyio.create_task_group() as tasks:
                if self._settings.child is not None:
                    self._link = Link(self._settings.child, gone=self._stop)
                    self._link.tell(loaded=True)
                for target, app in self._loaded.apps.items():
                    tasks.start_soon(self._serve_app, target, app, name=f"serve {target}")
                if self._loaded.modules:
                    tasks.start_soon(self._serve_modules, name="serve @process")
                if self._settings.max_tasks is not None:
                    tasks.start_soon(self._count, self._settings.max_tasks)
            code = SOME_FAILED if self._cancelled else DONE
            if len(asyncio.all_tasks()) > 1:
                _end(code)
        return code

    # What it serves

    async def _serve_app(self, target: str, app: App) -> None:
        task = asyncio.current_task()
        assert task is not None
        session = app.running(grace=self._settings.grace, wait=True)
        self._entering.add(task)
        try:
            async with session:
                self._entering.discard(task)
                self._sessions.append(session)
                self._serves()
                await self._stopping.wait()
        except asyncio.CancelledError:
            if task not in self._entering or not self._stopping.is_set():
                raise
            task.uncancel()  # it was told to end before it served
        except (MQError, NotServableError, ProgramDatabaseError, TypeError) as error:
            refused = isinstance(error, MQError) and error.reason == MQRC.NOT_AUTHORIZED
            if refused:
                self._tell_refused(1 if task in self._entering else REFUSALS_MAX)
            elif task not in self._entering:
                raise
            raise CannotRunError(f"{target}: {error}") from error
        finally:
            self._entering.discard(task)
            self._cancelled += session.cancelled

    async def _serve_modules(self) -> None:
        """Run a trigger monitor, over one connection after the other."""
        task = asyncio.current_task()
        assert task is not None
        source, delay, reported = self._source(), RECONNECT_MIN, False
        refusals = Refusals()
        while not self._stopping.is_set():
            begun = self._monitors_begun
            try:
                async with source.connect("evermq worker") as connection:
                    if reported:
                        logger.warning(
                            "functions with @process are served again", extra={"event": "functions_served_again"}
                        )
                    delay, reported = RECONNECT_MIN, False
                    await self._monitor(task, connection)
            except (HandlerImportError, ValueError) as error:
                raise CannotRunError(str(error)) from error
            except asyncio.CancelledError:
                if self._signals < 2:
                    raise
                task.uncancel()
            except MQError as error:
                refusals.note(error)
                once_more = refusals.count > 0 and not refusals.are_final and 0 < begun == self._monitors_begun
                if error.reason not in _AWAY and not once_more:
                    self._tell_refused(refusals.count)
                    raise CannotRunError(str(error)) from error
                if once_more:
                    logger.warning(
                        "functions with @process are refused, and tried once more: %s",
                        error,
                        extra={"event": "functions_refused"},
                    )
                elif not reported:
                    logger.warning(
                        "functions with @process are not served for now, and tried for ever: %s",
                        error,
                        extra={"event": "functions_not_served"},
                    )
                reported = True
            await self._sleep(delay)
            delay = min(2 * delay, RECONNECT_MAX)

    def _source(self) -> AppSource:
        """Return where functions with @process are served: where the apps are, if they are at one place."""
        places = {str(app.source): app.source for app in self._loaded.apps.values()}
        if len(places) == 1:
            return places.popitem()[1]
        return source_of(completed(self._settings.url or DEFAULT_URL, **self._settings.identity))

    async def _monitor(self, task: asyncio.Task[Any], connection: Any) -> None:
        monitor = TriggerMonitor(connection, self._loaded.modules, stop_timeout=self._settings.grace)
        try:
            async with monitor:
                self._monitors[task] = monitor
                self._monitors_begun += 1
                self._serves()
                await self._stopping.wait()
                asyncio.get_running_loop().call_later(max(self._settings.grace - 0.05, 0), self._look_at, monitor)
        finally:
            self._monitors.pop(task, None)

    def _look_at(self, monitor: TriggerMonitor) -> None:
        """Its handlers are about to be cancelled."""
        self._cancelled += monitor.statistics().running

    def _serves(self) -> None:
        """An app, or the modules, are served; when all are, say so."""
        self._left -= 1
        if self._left == 0:
            names = [q_name for app in self._loaded.apps.values() for q_name in app.handlers]
            names += [f"@process of {module.__name__}" for module in self._loaded.modules]
            logger.info("worker ready pid=%d serves=%s", os.getpid(), ",".join(names))
            if self._link is not None:
                self._link.tell(ready=True, files=own_files())

    def _tell_refused(self, times: int) -> None:
        """Tell the process above that the user was refused at so many dials in turn."""
        if self._link is not None:
            self._link.tell(refusals=times)

    async def _count(self, most: int) -> None:
        """Ask for a successor when so many deliveries have been taken."""
        while not self._stopping.is_set():
            await self._sleep(LOOK)
            taken = sum(session.taken for session in self._sessions)
            taken += sum(monitor.statistics().started for monitor in self._monitors.values())
            if taken >= most:
                if self._link is not None:
                    self._link.tell(full=True)
                return

    async def _sleep(self, delay: float) -> None:
        """Wait, unless told to end meanwhile."""
        with anyio.move_on_after(delay):
            await self._stopping.wait()

    # Its end

    @contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Handle signals even while a handler holds the event loop with Python code."""
        loop = asyncio.get_running_loop()

        def handle(number: int, frame: FrameType | None) -> None:
            self._signals = which = self._signals + 1  # another may come while this one is handled
            if which > 2:
                _end(SOME_FAILED)
            after = LEAVE_BEHIND if which > 1 else self._settings.grace + LEAVE_BEHIND
            timer = threading.Timer(after, _leave_behind)
            timer.daemon = True
            timer.start()
            loop.call_soon_threadsafe(self._stop if which == 1 else self._cancel)

        before = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self) -> None:
        """Take nothing more."""
        if self._stopping.is_set():
            return
        logger.info("worker stops pid=%d grace=%g", os.getpid(), self._settings.grace)
        self._stopping.set()
        for session in self._sessions:
            session.stop()
        for task in self._entering:
            task.cancel()

    def _cancel(self) -> None:
        """Besides, cancel the handlers."""
        self._stop()
        logger.info("worker cancels its handlers pid=%d", os.getpid())
        for session in self._sessions:
            session.cancel()
        for task, monitor in self._monitors.items():
            self._look_at(monitor)
            task.cancel()


def _leave_behind() -> None:
    logger.error(
        "handlers that have not ended are left behind pid=%d", os.getpid(), extra={"event": "handlers_left_behind"}
    )
    _end(SOME_FAILED)


def _end(code: int) -> NoReturn:
    """End the process, whatever still runs in it."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
