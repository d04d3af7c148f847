"""Certificates, a listener with TLS, and clients that shake hands with it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest
import trustme

from broker.config import LimitsConfig, ListenerConfig, TlsConfig
from broker.server import Server
from broker.server.security import places
from broker.server.security.entry_policy import EntryPolicy
from broker.wire import Endpoint, Role, Verb
from tests.server.conftest import anyio_backend, clock, manager
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime
    from pathlib import Path

    from broker import QueueManager

__all__ = ["anyio_backend", "clock", "manager"]


LETS_IN_AS_BOB: Final = """
ALTER CHANNEL(EVERMQ.SVRCONN) CHLTYPE(SVRCONN) MCAUSER('bob')
SET CHLAUTH(EVERMQ.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL) CHCKCLNT(ASQMGR) ACTION(REPLACE)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(NONE)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
"""


class Files:
    """The files of `[tls]` in a folder, and the issuers that have signed them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts = trustme.CA()
        self.config = TlsConfig(
            host="127.0.0.1", port=0, certificate=folder / "server.pem", key=folder / "server.key", ca=folder / "ca.pem"
        )
        self.renew()
        self.trust(trustme.CA())

    def renew(self, not_after: datetime | None = None) -> trustme.LeafCert:
        """Write a new certificate of the host, and its key."""
        issued = self.hosts.issue_cert("localhost", "127.0.0.1", not_after=not_after)
        self.write("server.pem", issued.cert_chain_pems[0].bytes())
        self.write("server.key", issued.private_key_pem.bytes())
        (self.folder / "server.key").chmod(0o600)
        return issued

    def trust(self, issuer: trustme.CA) -> None:
        """Write the issuer of the certificates of programs, of which that of Bob is one."""
        self.write("ca.pem", issuer.cert_pem.bytes())
        self.programs = issuer
        self.bob = issuer.issue_cert("bob@example.com", common_name="bob")

    def write(self, name: str, data: bytes) -> None:
        """Replace a file, as one should."""
        path = self.folder / f"{name}.new"
        path.write_bytes(data)
        path.rename(self.folder / name)

    def client(self, certificate: trustme.LeafCert | None = None, *, version: str = "") -> ssl.SSLContext:
        """The context of a client that trusts the host, of one version of TLS if it is named."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.hosts.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        if version:
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@asynccontextmanager
async def listening(
    manager: QueueManager, tls: TlsConfig, limits: LimitsConfig | None = None, **admission: Any
) -> AsyncIterator[Server]:
    """A server with TLS, whose port is `port_of`. Whoever comes in is bob. All handshakes begin at once: time may stand
    still.
    """
    async with manager.connect() as owner:
        for reply in await owner.mqsc(LETS_IN_AS_BOB):
            assert reply.ok, reply.text
    admitted = EntryPolicy(tls=tls, can_authenticate=lambda: True, **admission)
    with patch.object(places, "ALL_AT_ONCE", 10_000):
        async with Server(manager, ListenerConfig(port=0), limits or LimitsConfig(), admitted) as server:
            yield server


def port_of(server: Server) -> int:
    """The port with TLS."""
    return int(server.addresses[-1].rpartition(":")[2])


class Line:
    """The client's end of a line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.end = Endpoint(Role.CLIENT)

    @property
    def tls(self) -> ssl.SSLObject:
        found: ssl.SSLObject = self.writer.get_extra_info("ssl_object")
        return found

    @property
    def serial(self) -> str:
        """The serial number of the certificate that the server has shown."""
        shown: Any = self.tls.getpeercert()
        return str(shown["serialNumber"])

    async def hear(self) -> list[Any]:
        """The next frame; EOFError where the server has hung up."""
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        (frame,) = self.end.receive(length.to_bytes(4, "big") + await self.reader.readexactly(length))
        return frame

    def say(self, *frame: Any) -> None:
        self.writer.write(self.end.send(*frame))

    async def log_in(self) -> None:
        """HELLO, WELCOME, CONNECT and its answer."""
        self.say(*HELLO)
        assert (await self.hear())[0] == Verb.WELCOME
        self.say(Verb.CONNECT, 1, 1, "", "test", "bob")
        assert (await self.hear())[0] == Verb.ANSWER

    async def call(self, call: int) -> None:
        """A call of this number, and its answer."""
        self.say(Verb.COMMIT, 1, call)
        while (frame := await self.hear())[0] == Verb.HEARTBEAT:
            pass
        assert frame[:3] == [Verb.ANSWER, 1, call]

    def close(self) -> None:
        self.writer.transport.abort()


async def dial(port: int, context: ssl.SSLContext | None = None) -> Line:
    """Connect, and shake hands where there is a context."""
    name = "localhost" if context else None
    return Line(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name))


async def hung_up(line: Line) -> bool:
    """True if the server has ended the line without a byte."""
    try:
        return await line.reader.read(100) == b""
    except (ConnectionError, ssl.SSLError):
        return True


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is so, which the test's own timeout bounds."""
    while not true():  # noqa: ASYNC110  # other ends of sockets make it so
        await asyncio.sleep(0)


def replaced(config: TlsConfig, **changes: Any) -> TlsConfig:
    return replace(config, **changes)
