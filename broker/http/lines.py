"""The lines of one address: how many there may be, and their end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import anyio
from uvicorn.config import Config
from uvicorn.server import ServerState

from broker.clock import cancel_timer
from broker.http.line import HttpLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Clock
    from broker.clock import Timer
    from broker.http.application import Application

IDLE_SECONDS: Final = 60
"""How long a line that asks nothing is kept."""


class HttpLines:
    """The lines of one address, on which `application` answers. For one more than `most` the one goes that has asked
    nothing for the longest time.
    """

    def __init__(self, application: Application, clock: Clock, most: int, send_timeout: float) -> None:
        self.application = application
        self.clock = clock
        self.send_timeout = send_timeout
        self.config = Config(
            application, loop="none", http=HttpLine, ws="none", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False,
        )  # fmt: skip
        self.config.load()
        self.state = ServerState()
        self.most = most
        self._open: set[HttpLine] = set()
        self._idle: dict[HttpLine, float] = {}  # since when; the one that has been so for the longest time first
        self._idle_timer: Timer | None = None  # for the first of them

    def __len__(self) -> int:
        return len(self._open)

    def line(self, about: dict[str, Any], gone: Callable[[], None]) -> HttpLine:
        """Return the protocol of a line; `about` is what requests on it can learn of it (`scope["state"]`)."""
        return HttpLine(self, about, gone)

    def begun(self, line: HttpLine) -> None:
        """A line has begun, and asks nothing yet."""
        self._open.add(line)
        self.idle(line)
        if len(self) > self.most and self._idle:
            next(iter(self._idle)).cut()

    def asks(self, line: HttpLine) -> None:
        """A line asks something."""
        self._idle.pop(line, None)

    def idle(self, line: HttpLine) -> None:
        """A line has its answer."""
        self._idle[line] = self.clock.monotonic()
        if self._idle_timer is None:
            self._idle_timer = self.clock.call_later(IDLE_SECONDS, self._end_idle)

    def ended(self, line: HttpLine) -> None:
        """A line has ended."""
        self._open.discard(line)
        self._idle.pop(line, None)

    async def end(self, seconds: float) -> None:
        """End all lines: those that ask something when they have their answers, or after so many seconds."""
        for line in list(self._open):
            line.shutdown()
        with anyio.move_on_after(seconds, shield=True):
            while self._open or self.state.tasks:  # noqa: ASYNC110  # uvicorn tells of neither
                await anyio.sleep(0.01)
        for task in list(self.state.tasks):
            task.cancel()
        for line in list(self._open):
            line.cut()
        if self.state.tasks:
            await asyncio.wait(list(self.state.tasks))
        cancel_timer(self._idle_timer)

    def _end_idle(self) -> None:
        """End the lines that have asked nothing for a minute."""
        self._idle_timer = None
        now = self.clock.monotonic()
        for line, since in list(self._idle.items()):
            if now - since < IDLE_SECONDS:
                self._idle_timer = self.clock.call_later(IDLE_SECONDS - (now - since), self._end_idle)
                return
            if line.is_watched:  # something has begun to come
                self.asks(line)
                self.idle(line)
            else:
                line.shutdown()
