"""Clients over TLS: to a real session behind a listener of the test's own, whose certificates the test makes."""

from __future__ import annotations

import asyncio
import pickle
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme

import broker
from broker import TLS, MQError, connect
from broker.mqi import MQOO, MQRC
from broker.server.session import Session
from tests.client.gate import Gate, HastyClock
from tests.server.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.server import Server

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])


class Pki:
    """An authority, the files of its certificates, and a context of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)

    def context(self, *names: str, version: ssl.TLSVersion = TLS_1_3, asks: bool = False) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = made.maximum_version = version
        self.authority.issue_cert(*names).configure_cert(made)
        if asks:
            self.authority.configure_trust(made)
            made.verify_mode = ssl.CERT_REQUIRED
        return made

    def files(self, authority: trustme.CA | None = None, *, together: bool = False) -> dict[str, Any]:
        """The certificate and the key of a client."""
        issued = (authority or self.authority).issue_cert("alice")
        certificate, key = self.folder / "cert.pem", self.folder / "key.pem"
        if together:
            issued.private_key_and_cert_chain_pem.write_to_path(certificate)
            return {"certificate": certificate}
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return {"certificate": certificate, "key": key}


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@asynccontextmanager
async def listening(server: Server, context: ssl.SSLContext) -> AsyncIterator[str]:
    """The address of a listener with TLS before the sessions of a server."""
    made = await asyncio.get_running_loop().create_server(lambda: Session(server), "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{made.sockets[0].getsockname()[1]}"
    finally:
        made.close()


async def refused(url: str, **options: Any) -> MQError:
    with pytest.raises(MQError) as raised:
        await connect(url, **options)
    return raised.value


@VERSIONS
async def test_a_client_trusts_what_ca_trusts_and_calls_go_over_tls(
    version: ssl.TLSVersion, server: Server, pki: Pki
) -> None:
    body = bytes(range(256)) * 1000
    async with (
        listening(server, pki.context("127.0.0.1", version=version)) as place,
        connect(f"mqs://{place}/QM1", tls=TLS(ca=pki.ca)) as connection,
        await connection.connect() as further,
        further.open("Q", MQOO.INPUT_SHARED) as queue,
    ):
        await connection.put1("Q", body)
        message = await queue.get()
        assert message is not None
        assert message.data == body


@VERSIONS
async def test_a_connection_that_has_ended_waits_for_no_goodbye_with_which_its_loop_could_not_be_closed(
    version: ssl.TLSVersion, server: Server, pki: Pki
) -> None:
    async with (
        listening(server, pki.context("127.0.0.1", version=version)) as place,
        Proxy(place) as proxy,
    ):
        async with connect(f"mqs://{proxy.address}/QM1", tls=TLS(ca=pki.ca)) as connection:
            await connection.put1("Q", b"x")
            proxy.deafen()  # it hears DISCONNECT, and not that TLS is to end
        async with asyncio.timeout(10):
            await proxy.hung_up()


@pytest.mark.parametrize("source", ["argument", "url", "environment"])
async def test_ca_certificate_and_key_are_found_as_the_user_is(
    source: str, server: Server, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X10.1."""
    files = pki.files()
    good = {"ca": str(pki.ca), "cert": str(files["certificate"]), "key": str(files["key"])}
    bad = dict.fromkeys(good, "/nowhere.pem")
    sources = [good if name == source else bad for name in ("argument", "url", "environment")]
    from_argument, from_url, from_environment = sources
    if source == "environment":
        from_url = {}
    if source != "argument":
        from_argument = {}
    for name, file in from_environment.items():
        monkeypatch.setenv(f"EVERMQ_{name.upper()}", file)
    query = "&".join(f"{name}={file}" for name, file in from_url.items())
    given = TLS(ca=good["ca"], certificate=good["cert"], key=good["key"]) if from_argument else None
    async with (
        listening(server, pki.context("127.0.0.1", asks=True)) as place,
        connect(f"mqs://{place}/QM1{'?' if query else ''}{query}", tls=given) as connection,
    ):
        assert connection.q_mgr_name == "QM1"


async def test_a_key_may_be_in_the_file_of_its_certificate_and_none_of_elsewhere_is_taken(
    server: Server, pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERMQ_CERT", "/nowhere.pem")
    monkeypatch.setenv("EVERMQ_KEY", "/nowhere.pem")
    async with (
        listening(server, pki.context("127.0.0.1", asks=True)) as place,
        connect(f"mqs://{place}", tls=TLS(ca=pki.ca, **pki.files(together=True))) as connection,
    ):
        assert connection.q_mgr_name == "QM1"


async def test_a_certificate_that_was_replaced_counts_at_the_next_dial(gate: Gate, pki: Pki) -> None:
    """X10.1."""
    async with gate.listening(ssl=pki.context("127.0.0.1", asks=True)):
        tls = TLS(ca=pki.ca, **pki.files(trustme.CA()))
        made = connect(f"mqs://127.0.0.1:{gate.port}", tls=tls)
        with pytest.raises(MQError):
            await made
        pki.files()
        async with made as connection:
            assert connection.q_mgr_name == "QM1"


@VERSIONS
async def test_a_server_that_nobody_vouches_for_is_2393(version: ssl.TLSVersion, gate: Gate, pki: Pki) -> None:
    read = gate.read
    async with gate.listening(ssl=pki.context("127.0.0.1", version=version)):
        url = f"mqs://127.0.0.1:{gate.port}"
        for options in ({}, {"tls": TLS(ca=Pki(pki.folder).ca)}):
            error = await refused(url, password="canary", **options)
            assert error.reason == MQRC.SSL_INITIALIZATION_ERROR
            assert "the certificate of the queue manager is not accepted" in error.detail
            assert "is its authority in ca= or EVERMQ_CA?" in error.detail
    assert gate.read == read


async def test_another_host_name_is_2393_unless_it_is_the_one_given(gate: Gate, pki: Pki) -> None:
    async with gate.listening(ssl=pki.context("qm.example")):
        url = f"mqs://127.0.0.1:{gate.port}"
        error = await refused(url, tls=TLS(ca=pki.ca))
        assert error.reason == MQRC.SSL_INITIALIZATION_ERROR
        assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in error.detail
        error = await refused(url, tls=TLS(ca=pki.ca, server_name="other.example"))
        assert "Hostname mismatch, certificate is not valid for 'other.example'" in error.detail
        async with connect(url, tls=TLS(ca=pki.ca, server_name="qm.example")) as connection:
            assert connection.q_mgr_name == "QM1"


@VERSIONS
@pytest.mark.parametrize("brings", ["none", "of another authority"])
async def test_a_certificate_that_is_refused_is_2393_with_the_word_of_the_alert(
    brings: str, version: ssl.TLSVersion, server: Server, pki: Pki
) -> None:
    files: dict[str, Any] = pki.files(trustme.CA()) if brings != "none" else {}
    async with listening(server, pki.context("127.0.0.1", version=version, asks=True)) as place:
        error = await refused(f"mqs://{place}", tls=TLS(ca=pki.ca, **files))
    assert error.reason == MQRC.SSL_INITIALIZATION_ERROR
    assert place in error.detail
    alerts = ("certificate required", "handshake failure", "unknown ca")
    told = [f"it has refused the line, with the alert: {alert}" for alert in alerts]
    assert any(each in error.detail for each in [*told, "it has hung up before it let the client in"])


async def test_an_end_before_the_welcome_is_2393(pki: Pki) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=pki.context("127.0.0.1"))
    async with server:
        error = await refused(f"mqs://127.0.0.1:{server.sockets[0].getsockname()[1]}", tls=TLS(ca=pki.ca))
    assert error.reason == MQRC.SSL_INITIALIZATION_ERROR
    assert "it has hung up before it let the client in" in error.detail


async def test_what_refuses_the_line_in_words_is_heard(server: Server, pki: Pki) -> None:
    async with listening(server, pki.context("127.0.0.1")) as place:
        error = await refused(f"mqs://{place}/QM2", tls=TLS(ca=pki.ca))
    assert error.reason == MQRC.Q_MGR_NAME_ERROR


async def test_a_port_without_tls_is_told(server: Server) -> None:
    error = await refused(f"mqs://{server.addresses[0]}")
    assert error.reason == MQRC.SSL_INITIALIZATION_ERROR
    assert "perhaps it is a port for mq://" in error.detail


async def test_nobody_there_is_2538(pki: Pki) -> None:
    gate = Gate()
    async with gate.listening():
        pass
    error = await refused(f"mqs://127.0.0.1:{gate.port}", tls=TLS(ca=pki.ca))
    assert error.reason == MQRC.HOST_NOT_AVAILABLE


async def test_a_line_over_tls_is_made_again(gate: Gate, pki: Pki) -> None:
    async with gate.listening(ssl=pki.context("127.0.0.1")):
        url, clock = f"mqs://127.0.0.1:{gate.port}", HastyClock()
        async with connect(url, tls=TLS(ca=pki.ca), password="x", clock=clock, reconnect=True) as connection:
            gate.cut()
            while not connection.port.down:  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert (await connection.status())["name"] == "QM1"
    assert gate.secrets == [b"x", b"x"]


# Files


@pytest.mark.parametrize("content", [None, b"", b"no PEM"])
async def test_files_of_no_use_are_2381_and_named(content: bytes | None, pki: Pki) -> None:
    bad = pki.folder / "bad.pem"
    if content is not None:
        bad.write_bytes(content)
    error = await refused("mqs://127.0.0.1:1", tls=TLS(ca=bad))
    assert (error.reason, f"ca = {bad}" in error.detail) == (MQRC.KEY_REPOSITORY_ERROR, True)
    wrong: tuple[dict[str, Any], ...] = {"certificate": bad}, {**pki.files(), "key": bad}
    for files in wrong:
        error = await refused("mqs://127.0.0.1:1", tls=TLS(ca=pki.ca, **files))
        assert error.reason == MQRC.KEY_REPOSITORY_ERROR
        assert f"certificate = {files['certificate']}, with its key" in error.detail


async def test_a_key_of_another_certificate_is_2381(pki: Pki) -> None:
    files = pki.files()
    trustme.CA().issue_cert("bob").private_key_pem.write_to_path(files["key"])
    error = await refused("mqs://127.0.0.1:1", tls=TLS(ca=pki.ca, **files))
    assert error.reason == MQRC.KEY_REPOSITORY_ERROR
    assert "key values mismatch" in error.detail


async def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(pki: Pki) -> None:
    from cryptography.hazmat.primitives import serialization

    files = pki.files()
    key = serialization.load_pem_private_key(files["key"].read_bytes(), None)
    files["key"].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"passphrase"),
        )
    )
    error = await refused("mqs://127.0.0.1:1", tls=TLS(ca=pki.ca, **files))
    assert error.reason == MQRC.KEY_REPOSITORY_ERROR
    assert "the key has a passphrase" in error.detail


def test_a_key_alone_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a key and no certificate"):
        TLS(key="key.pem")


def test_tls_shows_no_key_and_travels_to_other_processes() -> None:
    """X9.3."""
    tls = TLS(ca="ca.pem", certificate="cert.pem", key="canary", server_name="qm.example")
    assert repr(tls) == "TLS(ca='ca.pem', certificate='cert.pem', server_name='qm.example')"
    assert pickle.loads(pickle.dumps(tls)) == tls
    assert broker.TLS is TLS


# Who does not use it


def test_a_client_without_tls_makes_no_context_and_loads_no_tls() -> None:
    program = (
        "import asyncio, ssl, sys\n"
        "def made(*arguments): raise AssertionError('a context')\n"
        "ssl.SSLContext.__new__ = made\n"
        "import broker\n"
        "async def main():\n"
        "    async with broker.QueueManager.open(name='QM1') as manager:\n"
        "        from broker.config import LimitsConfig, ListenerConfig\n"
        "        from broker.server import Server\n"
        "        async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:\n"
        "            url = f'mq://{server.addresses[0]}'\n"
        "            async with broker.connect(url, reconnect=True) as connection:\n"
        "                await connection.status()\n"
        "asyncio.run(main())\n"
        "print('broker.client.tls' in sys.modules, 'broker.client.renewal' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("False False\n", "", 0)
