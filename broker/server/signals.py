"""The signals that end the daemon, from before its start until it has ended.

They raise nothing: an exception that Ctrl-C raises wherever the event loop is would leave the store in the middle of
what it does, and the store would call that a failure of the disk.

1. While the daemon starts, the first gives the start up: what has begun ends in order. The second ends the process at
   once, even where the start is blocked.
2. Once it is ready, the first is an order to quiesce, and later ones change nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from anyio import CancelScope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from broker.server.watch import DaemonWatch

logger = logging.getLogger(__name__)

HANDLED: Final = (signal.SIGTERM, signal.SIGINT)


class EndSignals:
    """The signals that end a daemon, from its start. `watch` ends what has not ended in `grace` seconds after the start
    was given up, and `timeout` later where the daemon is ready.
    """

    def __init__(self, watch: DaemonWatch, timeout: float, grace: float) -> None:
        self.given_up: signal.Signals | None = None
        """The signal that has ended the start."""
        self._watch = watch
        self._timeout = timeout
        self._grace = grace
        self._start = CancelScope()
        self._ready = False
        self._first: signal.Signals | None = None
        self._ordered: asyncio.Future[signal.Signals]

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals inside, all that the daemon does. Where they give the start up, leave without an error."""
        loop = asyncio.get_running_loop()
        self._ordered = loop.create_future()

        def handle(number: int, frame: FrameType | None) -> None:
            self._received(loop, signal.Signals(number))

        before = {number: signal.signal(number, handle) for number in HANDLED}
        try:
            with self._start:
                yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def ready(self) -> asyncio.Future[signal.Signals]:
        """The daemon is ready: a future that has the order to quiesce once that has come."""
        self._ready = True
        return self._ordered

    def _received(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        """Handle a signal between two steps of whatever the thread of the loop does, even of what blocks the loop."""
        first, self._first = self._first, self._first or number
        if first is None:
            self._watch.end_within((self._timeout if self._ready else 0.0) + self._grace)
            loop.call_soon_threadsafe(self._handle, number)
        elif not self._ready:
            self._watch.end_now(
                f"a second signal, {number.name}, during the start: the daemon ends at once; nothing that was "
                "acknowledged is lost, and the next start goes on with what is on the disk"
            )

    def _handle(self, number: signal.Signals) -> None:
        if self._ready:
            logger.info("signal received signal=%s", number.name)
            self._ordered.set_result(number)
        else:
            logger.warning("signal received signal=%s: the start is given up; another ends it at once", number.name)
            self.given_up = number
            self._start.cancel()
