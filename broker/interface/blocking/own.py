"""A connection that a blocking face makes and ends."""

from __future__ import annotations

import asyncio
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker.interface.blocking.connection import SyncConnection
from broker.interface.port import ENDED
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import TypeAlias

    from broker.interface.connection import Connection
    from broker.interface.portal import Portal

    Held: TypeAlias = tuple[AbstractAsyncContextManager[Connection], Connection]


class OwnConnection(SyncConnection):
    """A connection that is made for its face: at the first call, and ended with it. `made` makes it, to be entered;
    `over` is called when it has ended.
    """

    def __init__(
        self,
        portal: Portal,
        made: Callable[[], AbstractAsyncContextManager[Connection]],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._portal = portal
        self._made = made
        self._over = over
        self._making = threading.Lock()
        self._held: Held | None = None
        self._closed = False

    @property
    def _target(self) -> Connection:
        held = self._held
        if self._closed:
            raise MQError(MQRC.HCONN_ERROR, ENDED)
        if held is None:
            with self._making:
                held = self._held = self._held or self._portal.call(self._make())
        return held[1]

    async def _make(self) -> Held:
        made = self._made()
        return made, await made.__aenter__()

    def _entered(self) -> None:
        self._target  # noqa: B018  # makes it

    def _left(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end(kind, error, trace)

    def disconnect(self) -> MQRC | int:
        """End the connection (MQDISC): commits the unit of work and closes all handles. Harmless when it has ended."""
        return self._end(None, None, None)

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> MQRC | int:
        held, closed, self._closed = self._held, self._closed, True
        if closed:
            return MQRC.NONE
        try:
            return MQRC.NONE if held is None else self._portal.call(self._ended(held, kind, error, trace))
        except MQError:
            if kind is None and not (self._portal.loop.is_closed() and held is not None and not held[1].works):
                raise
            return MQRC.NONE  # it has ended with the event loop of its queue manager, and nothing was lost by that
        finally:
            self._over()

    async def _ended(self, held: Held, *raised: Any) -> MQRC | int:
        entered, connection = held
        reason = await connection.disconnect() if raised[0] is None else MQRC.NONE
        await entered.__aexit__(*raised)
        return reason

    def __del__(self) -> None:
        held: Held | None = getattr(self, "_held", None)
        if held is not None and not self._closed:
            warnings.warn(f"{self!r} is dropped, and was not closed", ResourceWarning, source=self, stacklevel=1)
            self._closed = True
            with suppress(RuntimeError):  # its event loop is closed
                asyncio.run_coroutine_threadsafe(_dropped(held[0], self._over), self._portal.loop)

    def __repr__(self) -> str:
        return f"<blocking connection{' closed' if self._closed else ''}>"


async def _dropped(entered: AbstractAsyncContextManager[Connection], over: Callable[[], None]) -> None:
    """End a connection that nobody has any more; its unit of work is backed out."""
    try:
        await entered.__aexit__(ResourceWarning, ResourceWarning(), None)
    finally:
        over()
