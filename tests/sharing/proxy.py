"""A proxy before the socket of PostgreSQL, which cuts, holds and delays what passes, as a network does."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.sharing.postgres import Postgres

SOCKET: Final = ".s.PGSQL.5432"

_CHUNK_BYTES: Final = 1 << 16


class LineJudge(Protocol):
    """Judges what passes on one line, as `Proxy.to_server` and `Proxy.to_client` do on all."""

    def to_server(self, piece: bytes) -> bytes | None: ...

    def to_client(self, piece: bytes) -> bytes | None: ...


class Proxy:
    """A socket in `folder` that leads to the server; entered with `async with`.

    `to_server` and `to_client`, where they are set, are asked about each piece that passes: what they return is passed
    on, None cuts that line when the piece has not been passed on. `judge_of_line` makes a judge for each new line,
    which is asked before them. `delay` is asked, for each piece, for how many seconds it is held up.
    """

    def __init__(self, server: Postgres) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evermq-proxy-"))
        self.dsn = server.dsn(folder=self.folder)
        self.to_server: Callable[[bytes], bytes | None] | None = None
        self.to_client: Callable[[bytes], bytes | None] | None = None
        self.judge_of_line: Callable[[], LineJudge] | None = None
        self.delay: Callable[[], float] | None = None
        self._target = server.folder / SOCKET
        self._lines: dict[_Line, asyncio.Task[None]] = {}
        self._through = asyncio.Event()
        self._through.set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cut()
        shutil.rmtree(self.folder)

    @property
    def lines(self) -> int:
        """The number of sessions."""
        return len(self._lines)

    async def cut(self) -> None:
        """Break all lines, and let nobody connect."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            (self.folder / SOCKET).unlink(missing_ok=True)
        self.cut_lines()
        while self._lines:
            await asyncio.wait(self._lines.values())

    def cut_lines(self) -> None:
        """Break all lines; whoever wants to may connect again."""
        self.let_through()
        for line in self._lines:
            line.abort()

    async def mend(self) -> None:
        """Let sessions through again."""
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._serve, self.folder / SOCKET)

    def lead_to(self, server: Postgres) -> None:
        """Lead to another server from now on. All lines break."""
        self._target = server.folder / SOCKET
        self.cut_lines()

    def hold(self) -> None:
        """Pass nothing on, in either direction, until `let_through`."""
        self._through.clear()

    def let_through(self) -> None:
        self._through.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(self, (reader, writer), server)
        task = asyncio.current_task()
        assert task is not None
        self._lines[line] = task
        try:
            await line.run()
        finally:
            del self._lines[line]


class _Line:
    """One session that goes through."""

    def __init__(
        self,
        proxy: Proxy,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._judge = None if proxy.judge_of_line is None else proxy.judge_of_line()

    def abort(self) -> None:
        for _, writer in (self._client, self._server):
            writer.transport.abort()

    async def run(self) -> None:
        """Pass on until one end closes."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pass(self._client[0], self._server[1], "to_server"))
            tasks.create_task(self._pass(self._server[0], self._client[1], "to_client"))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        with suppress(OSError):
            while piece := await reader.read(_CHUNK_BYTES):
                if self._proxy.delay is not None:
                    await asyncio.sleep(self._proxy.delay())
                await self._proxy._through.wait()
                passed: bytes | None = piece
                for judge in (self._judge, self._proxy):
                    asked: Callable[[bytes], bytes | None] | None = getattr(judge, direction, None)
                    if asked is not None and passed is not None:
                        passed = asked(passed)
                if passed is None:
                    break
                writer.write(passed)
                await writer.drain()
        self.abort()


class CutAt:
    """A judge of a proxy's that lets so many bytes pass, and cuts all lines behind them."""

    def __init__(self, proxy: Proxy, count: int) -> None:
        self.has_cut = False
        self._proxy = proxy
        self._left = count

    def __call__(self, piece: bytes) -> bytes | None:
        if self.has_cut:
            return None
        passed, self._left = piece[: self._left], self._left - len(piece)
        if self._left >= 0:
            return piece
        self.has_cut = True
        asyncio.get_running_loop().call_soon(self._proxy.cut_lines)  # when this part is written
        return passed or None
