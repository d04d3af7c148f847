"""Notices to systemd: that the daemon starts, is ready, alive, reloading and stopping.

1. While it starts, `EXTEND_TIMEOUT_USEC` gives it more time as long as it makes progress: it computes, or it reads and
   writes blocks of a disk. A start that waits for another process is given none.
2. READY comes when it listens and its services have started. What is wrong later, such as a full disk, is in STATUS
   and does not take that back.
3. WATCHDOG comes at half of its interval, from a timer of the event loop, while no check of `/livez` fails. So neither
   a loop that is held nor a journal that hangs is taken for a daemon that lives.
4. Without NOTIFY_SOCKET nothing is sent and no timer runs.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Final, Self

from broker.clock import Clock, cancel_timer
from broker.engine.mistakes import mistake
from broker.server.service.notify_socket import NotifySocket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from broker.clock import Timer
    from broker.engine import QueueManager
    from broker.engine.jobs.slices import Work

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Between two looks at the progress of the start."""

EXTENSION_SECONDS: Final = 30
"""The time for the start that progress gives, from then on."""

STATUS_SECONDS: Final = 10.0
"""Between two looks at what the status says."""

BUSY_SECONDS: Final = 0.05
"""Processor time within a look that counts as progress: the look itself takes next to none."""

_A_STEP: Final = 256  # queues that are counted at a time
_MICROSECONDS: Final = 1_000_000


def worked() -> tuple[float, int]:
    """Return the seconds that this process has computed, and the blocks that it has read and written."""
    try:
        import resource
    except ImportError:  # no Unix
        return time.process_time(), 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_inblock + used.ru_oublock


class ServiceNotices:
    """The notices of a daemon, between entering and leaving its context."""

    def __init__(
        self,
        socket: NotifySocket | None,
        watchdog: float | None = None,
        *,
        clock: Clock | None = None,
        worked: Callable[[], tuple[float, int]] = worked,
    ) -> None:
        self._socket = socket
        self._watchdog = watchdog
        self._clock = clock or Clock()
        self._worked = worked
        self._before = worked()
        self._timers: dict[str, Timer] = {}
        self._manager: QueueManager | None = None
        self._status = ""
        self._starved = False

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Return the notices that the environment asks for."""
        socket = NotifySocket.of(environ)
        return cls(socket, None if socket is None else watchdog_of(environ))

    def __enter__(self) -> Self:
        if self._socket is not None:
            self._say("starting")
            self._later("start", LOOK_SECONDS, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers.values():
            cancel_timer(timer)
        if self._socket is not None:
            self._socket.close()

    def ready(self, manager: QueueManager) -> None:
        """The daemon is ready."""
        if self._socket is None:
            return
        self._manager = manager
        cancel_timer(self._timers.pop("start", None))
        self._socket.send(READY=1)
        self._count()
        if self._watchdog is not None:
            self._feed()

    def reloading(self) -> None:
        """It reads its configuration again."""
        if self._socket is not None:
            self._socket.send(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)

    def reloaded(self) -> None:
        """It has read its configuration, or could not use it."""
        if self._socket is not None:
            self._socket.send(READY=1)

    def stopping(self) -> None:
        """It ends."""
        if self._socket is not None:
            cancel_timer(self._timers.pop("status", None))
            self._socket.send(STOPPING=1, STATUS="stopping")

    # Timers

    def _later(self, name: str, seconds: float, step: Callable[[], None]) -> None:
        self._timers[name] = self._clock.call_later(seconds, step)

    def _look(self) -> None:
        """Ask for more time where the start has made progress."""
        assert self._socket is not None
        before, self._before = self._before, self._worked()
        computed, blocks = self._before[0] - before[0], self._before[1] - before[1]
        if computed >= BUSY_SECONDS or blocks:
            self._socket.send(EXTEND_TIMEOUT_USEC=EXTENSION_SECONDS * _MICROSECONDS)
        self._later("start", LOOK_SECONDS, self._look)

    def _feed(self) -> None:
        """Tell the watchdog that the daemon lives, if it does."""
        assert self._socket is not None
        assert self._manager is not None
        assert self._watchdog is not None
        failing = self._manager.failing_checks()
        if not failing:
            self._socket.send(WATCHDOG=1)
        elif not self._starved:
            logger.error("watchdog not notified: %s", in_words(failing))
        self._starved = bool(failing)
        self._later("watchdog", self._watchdog / 2, self._feed)

    def _count(self) -> None:
        assert self._manager is not None
        self._manager.slices.run(self._counting(self._manager), self._counted)

    def _counting(self, manager: QueueManager) -> Work:
        """Say in the status what the queue manager holds, or what is wrong with it."""
        queues = messages = 0
        for number, queue in enumerate(list(manager.core.objects.queues.values())):
            if not queue.name.startswith("SYSTEM."):
                queues += 1
                messages += queue.depth
            if number % _A_STEP == 0:
                yield
        failing = manager.failing_checks(ready=True)
        if failing:
            self._say(f"{manager.name} is not ready: {in_words(failing)}")
        else:
            self._say(
                f"{manager.name}: {queues:,} queues, {messages:,} messages, {len(manager.conversations):,} connections"
            )

    def _counted(self, error: Exception | None) -> None:
        if error is not None:
            mistake(error, "the status for the service manager")
        self._later("status", STATUS_SECONDS, self._count)

    def _say(self, status: str) -> None:
        if status != self._status and self._socket is not None:
            self._status = status
            self._socket.send(STATUS=status)


def watchdog_of(environ: Mapping[str, str]) -> float | None:
    """Return the interval of the watchdog in seconds; None where there is none for this process."""
    text = environ.get("WATCHDOG_USEC", "")
    meant = environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or not int(text) or (meant and meant != str(os.getpid())):
        return None
    return int(text) / _MICROSECONDS


def in_words(failing: Mapping[str, str]) -> str:
    """Return checks that fail, with their reasons, in a line."""
    return "; ".join(f"{name}: {why}" for name, why in failing.items())
