"""Connecting: a line, and a first conversation on it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, Never

from broker.client.address import Address, parse
from broker.client.line import Line
from broker.clock import Clock
from broker.interface.connection import Connection
from broker.interface.port import answer
from broker.interface.users import process_user
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from types import TracebackType

    from broker.interface.port import Port

_ENTER: Final = "async with broker.connect(url) as connection"


def connect(url: str, *, appl_name: str = "", user: str = "", clock: Clock | None = None) -> ConnectCall:
    """Connect to a queue manager (MQCONN): `async with broker.connect("mq://127.0.0.1:1414/QM1") as connection`.

    `url` is `mq://host[:port][/QM]`, port 1414 unless it says otherwise, or `mq+unix:///path/to.sock[?name=QM]`;
    without a name any queue manager there will do. `connection.connect()` opens further connections on the same socket,
    which closes with the last of them. Messages bear `user`, the one that this process runs as unless another is given.

    Raises ValueError for a URL that is none, and MQError: HOST_NOT_AVAILABLE (2538) when nobody listens there,
    Q_MGR_NOT_AVAILABLE (2059) when what listens does not answer as a queue manager, Q_MGR_NAME_ERROR (2058) when its
    name is another, Q_MGR_QUIESCING (2161), MAX_CONNS_LIMIT_REACHED (2025). When the line breaks, all calls raise
    CONNECTION_BROKEN (2009), and the queue manager backs out the unit of work.
    """
    return ConnectCall(parse(url), appl_name, user or process_user(), clock or Clock())


class ConnectCall:
    """An MQCONN to make: enter it with `async with` for the connection."""

    def __init__(self, address: Address, appl_name: str, user: str, clock: Clock) -> None:
        self._address = address
        self._appl_name = appl_name
        self._user = user
        self._clock = clock
        self._connection: Connection

    async def __aenter__(self) -> Connection:
        self._connection = Connection(await _dial(self._address, self._appl_name, self._user, self._clock))
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # for who takes it for the connection

        def __await__(self) -> Never:
            raise TypeError(f"connect() is entered, not awaited: {_ENTER}")

        def __getattr__(self, name: str) -> Never:
            if hasattr(Connection, name):
                raise RuntimeError(f"there is no connection yet, and so no {name}: {_ENTER}")
            raise AttributeError(name)


async def _dial(address: Address, appl_name: str, user: str, clock: Clock) -> Port:
    """Open a line and a conversation on it; whatever ends this early leaves no socket behind."""
    line = Line(clock, str(address))
    try:
        await _reach(address, line)
        await line.welcomed
        return await answer(line.converse(address.q_mgr_name, appl_name, user))
    except BaseException:
        line.welcomed.cancel()
        line.abort("nobody waits for it")
        raise


async def _reach(address: Address, line: Line) -> None:
    loop = asyncio.get_running_loop()
    try:
        if address.path:
            await loop.create_unix_connection(lambda: line, address.path)
        else:
            await loop.create_connection(lambda: line, address.host, address.port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise MQError(MQRC.HOST_NOT_AVAILABLE, f"nobody answers at {address}: {why}") from error
