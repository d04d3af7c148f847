"""A socket in the middle, to cut a line at a byte of the test's choice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self, cast

if TYPE_CHECKING:
    from types import TracebackType


class Proxy:
    """Passes bytes between clients and the server at `target`.

    `cut_after(up, down)` cuts the next line when so many bytes have passed from the client and to it; what is beyond is
    not passed on. `cut_under_way` does that to lines that there are, `cut` cuts all now.
    """

    def __init__(self, target: str) -> None:
        self.lead_to(target)
        self._halves: list[_Half] = []
        self._up: int | None = None
        self._down: int | None = None
        self.passed = {"up": 0, "down": 0}

    def lead_to(self, target: str) -> None:
        """Pass the bytes of later lines to this server."""
        self._host, _, port = target.rpartition(":")
        self._port = int(port)

    @property
    def url(self) -> str:
        return f"mq://{self.address}"

    @property
    def address(self) -> str:
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def cut_after(self, *, up: int | None = None, down: int | None = None) -> None:
        self._up, self._down = up, down

    def cut_under_way(self, *, up: int | None = None, down: int | None = None) -> None:
        """Cut the lines that there are when so many more bytes have passed on one of them."""
        for half in self._halves:
            half.budget = up if half.way == "up" else down

    def cut(self) -> None:
        for half in self._halves:
            half.cut()

    def deafen(self) -> None:
        """Pass on one more piece of what clients say, and nothing behind it."""
        for half in self._halves:
            half.pieces = 1 if half.way == "up" else None

    async def hung_up(self) -> None:
        """Return when all clients have closed their sockets."""
        for half in self._halves:
            if half.way == "up":
                await half.lost.wait()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._server.close()
        await asyncio.sleep(0)

    def _accept(self) -> _Half:
        client = _Half(self, "up", self._up)
        server = _Half(self, "down", self._down)
        client.other, server.other = server, client
        self._halves += [client, server]
        asyncio.get_running_loop().create_task(self._dial(server))
        return client

    async def _dial(self, server: _Half) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: server, self._host, self._port)
        except OSError:  # there is no server now
            server.other.cut()
            return
        server.other.pass_on()


class _Half(asyncio.Protocol):
    """One socket: what comes in on it goes out on the other."""

    def __init__(self, proxy: Proxy, way: str, budget: int | None) -> None:
        self.other: _Half
        self.transport: asyncio.Transport | None = None
        self._proxy = proxy
        self.way = way
        self.budget = budget
        self.pieces: int | None = None  # that are still passed on, if not all
        self.lost = asyncio.Event()
        self._waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        self.pass_on()

    def pass_on(self) -> None:
        if self.other.transport is None or self.transport is None or self.transport.is_closing():
            return
        data, self._waiting = self._waiting, b""
        if self.budget is not None:
            data, over = data[: self.budget], len(data) >= self.budget
            self.budget -= len(data)
        else:
            over = False
        if self.pieces is not None and data:
            if not self.pieces:
                return
            self.pieces -= 1
        self._proxy.passed[self.way] += len(data)
        self.other.transport.write(data)
        if over:
            self._proxy.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        if self.other.transport is not None:
            self.other.transport.close()

    def cut(self) -> None:
        """Close the socket: what was passed on is still delivered."""
        if self.transport is not None:
            self.transport.close()
