"""A connection for code that is not asynchronous: Spark calls readers and writers so, in many processes.

Each process has one event loop, in a thread of its own, and one line to each queue manager, which goes on as long as
the process. A call that the line is lost under is made again, until the queue manager has been out of reach for some
time: so the restart of a daemon is a pause. Only calls that may be made twice are made here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from functools import cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

import broker
from broker.mqi import MQRC, MQError
from broker.spark.credentials import NO_CREDENTIALS, JobCredentials

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

logger = logging.getLogger(__name__)

T = TypeVar("T")

APPL_NAME: Final = "evermq spark"

_OUT_OF_REACH: Final = frozenset(
    (
        MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.HOST_NOT_AVAILABLE, MQRC.Q_MGR_NOT_AVAILABLE,
        MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING, MQRC.CONNECTION_QUIESCING, MQRC.CONNECTION_STOPPING,
    )
)  # fmt: skip

_PAUSE_MIN: Final = 0.05
_PAUSE_MAX: Final = 2.0


class SparkLine:
    """The line of this process to the queue manager at a URL. `prepare` is called, in a thread, before each attempt to
    reach it: what it raises is raised by the calls.
    """

    def __init__(
        self, url: str, patience: float, prepare: Callable[[], None] | None, credentials: JobCredentials
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._prepare = prepare
        self._patience = patience
        self._loop = _loop(os.getpid())
        self._dialled = asyncio.Lock()
        self._connection: broker.Connection | None = None

    def call(self, make: Callable[[broker.Connection], Awaitable[T]]) -> T:
        """Return the result of `make` with a connection. Raises what it raises; where the queue manager cannot be
        reached, after having tried for `patience` seconds.
        """
        return self.start(make).result()

    def start(self, make: Callable[[broker.Connection], Awaitable[T]]) -> Future[T]:
        """The same, to come."""
        return asyncio.run_coroutine_threadsafe(self._repeated(make), self._loop)

    async def _repeated(self, make: Callable[[broker.Connection], Awaitable[T]]) -> T:
        deadline: float | None = None
        pause = _PAUSE_MIN
        while True:
            try:
                return await make(await self._reached())
            except MQError as error:
                if error.reason not in _OUT_OF_REACH:
                    raise
                now = self._loop.time()
                if deadline is None:
                    deadline = now + self._patience
                    logger.warning("queue manager out of reach url=%s: %s", self._url, error)
                if now >= deadline:
                    error.add_note(f"{self._url} was tried for {self._patience:g} s (option retryTimeout)")
                    raise
                pause = min(pause, deadline - now)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)

    async def _reached(self) -> broker.Connection:
        async with self._dialled:
            if self._connection is None or self._connection.port.broken:
                if self._prepare is not None:
                    await asyncio.to_thread(self._prepare)
                given = self._credentials.as_arguments()
                self._connection = await broker.connect(self._url, appl_name=APPL_NAME, **given).__aenter__()
            return self._connection


def line(
    url: str,
    patience: float,
    prepare: Callable[[], None] | None = None,
    credentials: JobCredentials = NO_CREDENTIALS,
) -> SparkLine:
    """The line of this process to the queue manager at `url`, which is made at its first call; `patience` in seconds.

    Raises ValueError for a URL that is none, and for credentials that are not for it.
    """
    key = (os.getpid(), url, patience, credentials)
    if key not in _lines:
        broker.connect(url, **credentials.as_arguments())  # only reads the URL
        _lines[key] = SparkLine(url, patience, prepare, credentials)
    return _lines[key]


_lines: Final[dict[tuple[int, str, float, JobCredentials], SparkLine]] = {}


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of this process. A process that was forked has one of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=partial(_run, loop), name="evermq", daemon=True).start()
    return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
