"""A connection that a blocking face makes and ends."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

from broker.interface.blocking.connection import SyncConnection
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from broker.interface.connection import Connection
    from broker.interface.portal import Portal


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
        self._held: tuple[AbstractAsyncContextManager[Connection], Connection] | None = None
        self._closed = False

    @property
    def _target(self) -> Connection:
        if self._held is None:
            with self._making:
                if self._closed:
                    raise MQError(MQRC.HCONN_ERROR, "the connection has ended")
                if self._held is None:
                    self._held = self._portal.call(self._make())
        return self._held[1]

    async def _make(self) -> tuple[AbstractAsyncContextManager[Connection], Connection]:
        made = self._made()
        return made, await made.__aenter__()

    def _entered(self) -> None:
        self._target  # noqa: B018  # makes it

    def _left(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        held, closed, self._closed = self._held, self._closed, True
        if closed:
            return
        try:
            if held is not None:
                self._portal.call(held[0].__aexit__(kind, error, trace))
        finally:
            self._over()

    def disconnect(self) -> MQRC | int:
        """End the connection (MQDISC): commits the unit of work and closes all handles. Harmless when it has ended."""
        if not self._closed and self._held is not None:
            reason = self._portal.call(self._target.disconnect())
            self._left(None, None, None)
            return reason
        self._left(None, None, None)
        return MQRC.NONE

    def __del__(self) -> None:
        if getattr(self, "_held", None) is not None and not self._closed:
            warnings.warn(f"{self!r} is dropped, and was not closed", ResourceWarning, source=self, stacklevel=1)
            self._closed = True
            self._over()

    def __repr__(self) -> str:
        return f"<blocking connection{' closed' if self._closed else ''}>"
