"""Connecting: a line, and a first conversation on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Never

from broker.client.address import Address, parse
from broker.client.identity import ClientIdentity, Secret, identity_of
from broker.client.reaching import reach
from broker.client.reconnecting import ReconnectingPort
from broker.client.redial import Redial
from broker.clock import Clock
from broker.interface.connection import Connection
from broker.interface.port import answer
from broker.interface.tagging import Tagging, tagging_of
from broker.unclosed import caller

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from broker.client.line import Line
    from broker.client.port import RemotePort
    from broker.client.tls import TLS
    from broker.interface.port import Port
    from broker.unclosed import SourceLine

_ENTER: Final = "async with broker.connect(url) as connection, or connection = await broker.connect(url)"


def connect(  # noqa: PLR0913  # all by keyword
    url: str,
    *,
    appl_name: str = "",
    user: str = "",
    password: Secret | None = None,
    token: Secret | None = None,
    channel: str = "",
    tls: TLS | None = None,
    clock: Clock | None = None,
    reconnect: bool = False,
    options: int = 0,
    conn_tag: bytes = b"",
) -> ConnectCall:
    """Connect to a queue manager (MQCONN): `async with broker.connect("mq://127.0.0.1:1414/QM1") as connection`, or
    `connection = await broker.connect(...)` and `await connection.close()`.

    `url` is `mq://host[:port][/QM]`, port 1414 unless it says otherwise, `mqs://` with TLS, port 1415, or
    `mq+unix:///path/to.sock[?name=QM]`; without a name any queue manager there will do. Several hosts,
    `mq://h1:1414,h2:1414/GRP1`, are tried in order from a random one on, where GRP1 may be the name of a queue-sharing
    group: any member will do that is in it now. `connection.connect()` opens further connections on the same socket,
    which closes with the last, and on another one where the channel lets no more of them share it (SHARECNV). With one
    of the four MQCNO options for it, `conn_tag`, up to 128 bytes, keeps programs from running beside one another
    (MQCONNX): CONN_TAG_IN_USE (2271) while another has it, or has left a unit of work that is not over.

    The user, whom messages bear, is `user`, that of the URL (`mqs://alice@host`), EVERMQ_USER, or that of this process.
    `password` or `token` proves it: a text, the Path of a file, or a function, async or not, each read or called before
    each dial; else EVERMQ_PASSWORD, or a file that EVERMQ_PASSWORD_FILE or EVERMQ_TOKEN_FILE names. A secret goes over
    TLS, loopback and socket files alone (SECURITY_ERROR, 2063), and never in a URL. Before a token ends a fresh
    one is brought, while the connection goes on. `channel`, or `?channel=`, names the channel to come in by. `tls`, or
    `?ca=&cert=&key=`, or EVERMQ_CA, EVERMQ_CERT and EVERMQ_KEY, says whom `mqs://` trusts, and which certificate the
    client has.

    Raises ValueError for a URL that is none, and MQError: HOST_NOT_AVAILABLE (2538) when nobody listens there,
    Q_MGR_NOT_AVAILABLE (2059) when what listens does not answer as a queue manager, or is out of the group that the URL
    names, Q_MGR_NAME_ERROR (2058) when its name is another, Q_MGR_QUIESCING (2161), MAX_CONNS_LIMIT_REACHED (2025),
    CHANNEL_NOT_AVAILABLE (2537), NOT_AUTHORIZED (2035), SSL_INITIALIZATION_ERROR (2393) when either end does not accept
    the other's certificate, KEY_REPOSITORY_ERROR (2381) for a file of TLS that cannot be used. When the line breaks,
    all calls raise CONNECTION_BROKEN (2009), and the queue manager backs out the unit of work.

    With `reconnect` that is so for calls under way alone. The line is made again, after 0.1 s at first and 5 s at last,
    for ever, and calls made meanwhile wait for it. Queues are open as they were, browse cursors at their beginning. A
    unit of work that was open is gone: its next call, and its commit, raise CONNECTION_BROKEN. Locks, trigger starts
    and deliveries are gone too. Where the user is refused at two dials in turn, all calls raise NOT_AUTHORIZED. To
    enter it a queue manager must be there all the same.
    """
    address = parse(url)
    identity = identity_of(address, user=user, password=password, token=token, channel=channel, tls=tls)
    call = ConnectCall(address, appl_name, identity, clock or Clock(), reconnect)
    call.tagging = tagging_of(options, conn_tag)
    call.opened_at = caller()
    return call


class ConnectCall:
    """An MQCONN to make: enter it with `async with` for the connection, or await it."""

    def __init__(
        self, address: Address, appl_name: str, identity: ClientIdentity, clock: Clock, reconnect: bool
    ) -> None:
        self._address = address
        self._appl_name = appl_name
        self._identity = identity
        self._clock = clock
        self._reconnect = reconnect
        self.tagging: Tagging | None = None
        self.opened_at: SourceLine | None = None
        self._connection: Connection

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._opened().__await__()

    async def _opened(self) -> Connection:
        connection = await self.__aenter__()
        connection.opened_at = self.opened_at
        return await connection

    async def __aenter__(self) -> Connection:
        _, made = await reach(self._address, self._clock, self._identity, self._begin)
        port: Port = made
        if self._reconnect:
            port = ReconnectingPort(Redial(self._address, self._identity, self._clock), made)
        self._connection = Connection(port)
        return self._connection

    async def _begin(self, line: Line) -> RemotePort:
        call = line.converse(self._address.q_mgr_name, self._appl_name, self._identity.user)
        await answer(call)
        if self.tagging is not None:
            await answer(call.port.serialize(*self.tagging))
        return call.port

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # for who takes it for the connection

        def __getattr__(self, name: str) -> Never:
            if hasattr(Connection, name):
                raise RuntimeError(f"there is no connection yet, and so no {name}: {_ENTER}")
            raise AttributeError(name)
