"""The process above those that serve: it starts them, passes signals on, and replaces them.

A process that ends by itself is started again, after 0.1 s, then after twice as long, up to 30 s, until one has served
for a minute. Where the user was refused at two dials in turn, none is started again, and all end. One that is to be
replaced, because a file has changed or it has taken as many deliveries as it may, serves until its successor does; then
it ends as at a signal. Where the successor cannot begin, it goes on.

Each is in a session of its own, so that Ctrl-C comes to it once; and it ends in order when this process is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import anyio

from broker.cli.program import COULD_NOT_RUN, DONE, SOME_FAILED
from broker.cli.worker.changes import FileChanges
from broker.cli.worker.link import Link
from broker.cli.worker.serving import LEAVE_BEHIND, SIGNALS
from broker.refusals import REFUSALS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import Process, TaskGroup

    from broker.cli.worker.serving import Settings

logger = logging.getLogger(__name__)

RESTART_MIN: Final = 0.1
RESTART_MAX: Final = 30.0
"""Seconds until a process that has ended by itself is started again."""

STEADY: Final = 60.0
"""One that has served for so many seconds was no failure of its start."""

LOOK: Final = 0.25
"""Seconds between two looks at the files."""

KILL_AFTER: Final = 2.0
"""Seconds after which a process that should have left all behind is killed."""


class ServingProcess:
    """A process that serves, or is about to."""

    def __init__(self, process: Process, end: socket.socket, loaded: asyncio.Event) -> None:
        self.process = process
        self.began = False
        """It has imported what it serves, and handles signals."""
        self._loaded = loaded
        self.files: list[str] = []
        self.reported: int = 0
        """The number of signals that it was sent."""
        self.refusals: int = 0
        """The number of dials, the last ones, at which its user was refused."""
        self.ready = asyncio.Event()
        self.to_replace = asyncio.Event()
        self._link = Link(end, heard=self._heard, gone=lambda: None)

    def _heard(
        self,
        *,
        loaded: bool = False,
        ready: bool = False,
        full: bool = False,
        refusals: int = 0,
        files: Sequence[str] = (),
    ) -> None:
        self.files += files
        self.refusals += refusals
        if loaded:
            self.began = True
            self._loaded.set()
        if ready:
            self.ready.set()
        if full:
            self.to_replace.set()

    async def ended(self) -> int:
        """Wait for its end: its exit code, below 0 for a signal."""
        code = await self.process.wait()
        self._link.finish()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Harmless when it has ended."""
        self.reported += 1
        if self.process.returncode is None:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                return


class Parent:
    """Runs `count` processes until it is told to end, by as many signals as they would be."""

    def __init__(self, settings: Settings, count: int, *, reload: bool) -> None:
        self._settings = settings
        self._count = count
        self._reload = reload
        self._changes = FileChanges()
        self._children: set[ServingProcess] = set()
        self._serving: dict[int, ServingProcess] = {}  # by place
        self._signals = 0
        self._code = DONE
        self._stopping = asyncio.Event()
        self._loaded = asyncio.Event()
        """A process has imported what is to be served: the others will be able to, too."""
        self._began = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._tasks: TaskGroup

    async def run(self) -> int:
        """The exit code: the worst of those of the processes that ended in order."""
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            async with anyio.create_task_group() as helpers:
                helpers.start_soon(self._handle, signals, name="signals")
                if self._reload:
                    helpers.start_soon(self._watch_files, name="watch files")
                async with anyio.create_task_group() as self._tasks:
                    for place in range(self._count):
                        self._tasks.start_soon(self._fill, place, name=f"process {place + 1}")
                helpers.cancel_scope.cancel()
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        return self._code

    # Processes

    async def _fill(self, place: int) -> None:
        """Keep a process at this place."""
        if place:
            await self._loaded.wait()
        wait = RESTART_MIN
        refusals = 0
        while not self._stopping.is_set():
            child = await self._start()
            self._serving[place] = child
            since = asyncio.get_running_loop().time()
            code = await self._served_by(place)
            if self._stopping.is_set():
                return
            child = self._serving[place]
            refusals = child.refusals + (0 if child.ready.is_set() else refusals)
            if code == COULD_NOT_RUN and (not self._began or refusals >= REFUSALS_MAX):
                self._end_with(COULD_NOT_RUN)  # it has said why
                return
            if asyncio.get_running_loop().time() - since > STEADY:
                wait = RESTART_MIN
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            fields = {"event": "worker_process_ended", "pid": child.process.pid, "code": code, "wait_s": wait}
            logger.error("worker process ended by itself %s, another starts in %g s", how, wait, extra=fields)
            with anyio.move_on_after(wait):
                await self._stopping.wait()
            wait = min(2 * wait, RESTART_MAX)

    async def _served_by(self, place: int) -> int:
        """The exit code of the process that served at this place last, of those that replaced one another."""
        while True:
            child = self._serving[place]
            code = await self._ended_or_to_replace(child)
            if code is not None:
                return code
            child.to_replace.clear()
            successor = await self._start()
            if await self._is_ready(successor):
                self._serving[place] = successor
                if not child.reported:
                    child.signal(signal.SIGTERM)
                self._tasks.start_soon(self._see_out, child, name=f"see out {child.process.pid}")
            elif not self._stopping.is_set():
                logger.error("worker process not replaced pid=%d: the new one has not begun", child.process.pid)

    async def _ended_or_to_replace(self, child: ServingProcess) -> int | None:
        """Its exit code, or None when it is to be replaced."""
        ending = asyncio.ensure_future(self._ended(child))
        replacing = asyncio.ensure_future(child.to_replace.wait())
        try:
            await asyncio.wait((ending, replacing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            replacing.cancel()
            if not ending.done():
                ending.cancel()
        return ending.result() if ending.done() and not ending.cancelled() else None

    async def _is_ready(self, child: ServingProcess) -> bool:
        """True when it serves, False when it has ended before."""
        ending = asyncio.ensure_future(self._ended(child))
        ready = asyncio.ensure_future(child.ready.wait())
        try:
            await asyncio.wait((ending, ready), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            if not ending.done():
                ending.cancel()
        return child.ready.is_set()

    async def _see_out(self, child: ServingProcess) -> None:
        await self._ended(child)

    async def _ended(self, child: ServingProcess) -> int:
        code = await child.ended()
        self._children.discard(child)
        if child.reported and code and child.began:
            self._code = max(self._code, code if code > 0 else SOME_FAILED)
        return code

    async def _start(self) -> ServingProcess:
        ours, theirs = socket.socketpair()
        settings = self._settings
        python = [sys.executable, *(["-B"] if self._reload else [])]  # bytecode may be of code of the same second
        words = [*python, "-m", "broker", "worker", *settings.targets, f"--grace={settings.grace}"]
        options = {
            "url": settings.url,
            "user": settings.user or None,
            "channel": settings.channel or None,
            "ca": settings.ca or None,
            "cert": settings.cert or None,
            "cert-key": settings.cert_key or None,
            "queues": settings.queues,
            "concurrency": settings.concurrency,
            "max-tasks": settings.max_tasks,
        }
        words += [f"--{name}={value}" for name, value in options.items() if value is not None]
        with theirs:
            process = await anyio.open_process(
                [*words, f"--child={theirs.fileno()}"],
                stdin=subprocess.DEVNULL,
                stdout=None,
                stderr=None,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        child = ServingProcess(process, ours, self._loaded)
        self._children.add(child)
        self._tasks.start_soon(self._note, child, name=f"note {process.pid}")
        if self._stopping.is_set():
            child.signal(signal.SIGTERM)
        return child

    async def _note(self, child: ServingProcess) -> None:
        """Watch the files of a child once it serves."""
        if await self._is_ready(child):
            self._began = True
            self._changes.watch(child.files)

    # Its end

    async def _handle(self, signals: object) -> None:
        async for _ in signals:  # type: ignore[attr-defined]  # which anyio does not name
            self._signals += 1
            if self._signals == 1:
                self._stop()
            elif self._signals == 2:
                self._pass_on(signal.SIGTERM)
            else:
                self._pass_on(signal.SIGKILL)
                os._exit(SOME_FAILED)

    def _end_with(self, code: int) -> None:
        self._code = code
        self._stop()

    def _stop(self) -> None:
        """Tell all to end; those that are seen out have been told."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._loaded.set()
        for child in self._children:
            if not child.reported:
                child.signal(signal.SIGTERM)
        after = self._settings.grace + LEAVE_BEHIND + KILL_AFTER
        self._kill_timer = asyncio.get_running_loop().call_later(after, self._kill)

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children:
            child.signal(number)

    def _kill(self) -> None:
        """Kill what has not ended in time, such as a process that is stopped."""
        for child in self._children:
            logger.error(
                "worker process killed, it has not ended pid=%d",
                child.process.pid,
                extra={"event": "worker_process_killed"},
            )
            child.signal(signal.SIGKILL)

    async def _watch_files(self) -> None:
        """Have all processes replaced when a file has changed and none has since the last look."""
        pending: list[str] = []
        while not self._stopping.is_set():
            await anyio.sleep(LOOK)
            changed = self._changes.changed()
            if changed:
                pending += changed
            elif pending:
                logger.info(
                    "files changed, new processes take over files=%s",
                    ",".join(sorted(set(pending))),
                    extra={"event": "files_changed"},
                )
                pending = []
                for child in self._serving.values():
                    child.to_replace.set()
