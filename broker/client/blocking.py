"""`connect_sync`: a connection for programs that have no event loop, on one of its own in a background thread."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

from broker.client.dial import connect
from broker.interface.blocking import OwnConnection
from broker.interface.portal import Portal

if TYPE_CHECKING:
    from broker.client.identity import Secret
    from broker.client.tls import TLS
    from broker.interface.blocking import SyncConnection


def connect_sync(  # noqa: PLR0913  # all by keyword
    url: str,
    *,
    appl_name: str = "",
    user: str = "",
    password: Secret | None = None,
    token: Secret | None = None,
    channel: str = "",
    tls: TLS | None = None,
    reconnect: bool = False,
    options: int = 0,
    conn_tag: bytes = b"",
) -> SyncConnection:
    """Connect to a queue manager from a program without an event loop, from a thread, or from a notebook: `with
    broker.connect_sync("mq://127.0.0.1:1414") as connection:`. The arguments are those of `connect`.

    It is connected when this returns. An event loop of its own runs in a background thread until `close`, or until it
    is left; the connections that its `connect` makes end with it. Raises what `connect` and entering it raise.
    """
    loop = BackgroundLoop()
    made = partial(
        connect, url, appl_name=appl_name, user=user, password=password, token=token, channel=channel, tls=tls,
        reconnect=reconnect, options=options, conn_tag=conn_tag,
    )  # fmt: skip
    connection = OwnConnection(loop.portal, made, loop.end)
    try:
        return connection.__enter__()
    except BaseException:
        loop.end()
        raise


class BackgroundLoop:
    """An event loop in a thread of its own, until `end`."""

    def __init__(self) -> None:
        self.portal: Portal
        self._ended: asyncio.Event
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evermq connect_sync", daemon=True)
        self._thread.start()
        self._ready.wait()

    def end(self) -> None:
        """End the loop, and its thread."""
        self.portal.loop.call_soon_threadsafe(self._ended.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        self._ended = asyncio.Event()
        self.portal = Portal()
        self._ready.set()
        await self._ended.wait()
