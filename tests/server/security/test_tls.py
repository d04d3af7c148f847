"""The listener with TLS: who shakes hands with it, what it proves, and what becomes of those who do not."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import socket
import ssl
import struct
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQOO, MQRC
from broker.server import Server
from broker.server.security.lines import LineSecurity
from broker.wire import Endpoint, Role, Verb
from tests.conformance.test_events import event_of
from tests.server.security.conftest import dial, hung_up, listening, port_of, replaced, until
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from pathlib import Path

    from broker import QueueManager
    from broker.testing import VirtualClock
    from tests.server.security.conftest import Files

VERSIONS = ("TLSv1_2", "TLSv1_3")


def only_line(server: Server) -> LineSecurity:
    (session,) = server._sessions
    return session.line


async def refused_by(port: int, context: ssl.SSLContext) -> bool:
    """True if the handshake fails, or the line ends before WELCOME: in TLS 1.3 a client learns so late."""
    try:
        line = await dial(port, context)
    except (ssl.SSLError, ConnectionError):
        return True
    try:
        line.say(*HELLO)
        return await hung_up(line)
    finally:
        line.close()


REFUSED = "connection_refused peer=127.0.0.1: "


async def refusal(caplog: pytest.LogCaptureFixture) -> str:
    """The last refusal in the log, once there is one."""
    while True:
        found = [text for text in map(logging.LogRecord.getMessage, caplog.records) if text.startswith(REFUSED)]
        if found:
            return found[-1].removeprefix(REFUSED)
        await asyncio.sleep(0)


async def test_without_tls_no_context_is_made(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*arguments: object) -> None:
        raise AssertionError("an SSLContext was made")

    monkeypatch.setattr(ssl.SSLContext, "__new__", made)
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        line = await dial(port_of(server))
        await line.log_in()
        line.close()


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_learns_what_the_handshake_has_proved(
    manager: QueueManager, files: Files, version: str
) -> None:
    async with listening(manager, files.config) as server:
        line = await dial(port_of(server), files.client(files.bob, version=version))
        await line.log_in()
        found = only_line(server)
        line.close()
    assert found.certificate is not None
    assert (found.address, found.protocol, found.cipher) == ("127.0.0.1", line.tls.version(), line.tls.cipher()[0])  # type: ignore[index]
    assert ("commonName", "bob") in found.certificate.subject
    assert {name for name, _ in found.certificate.issuer} == {"organizationName", "organizationalUnitName"}
    assert int(found.certificate.serial, 16) > 0
    assert found.certificate.ends > datetime.now(UTC).timestamp()


async def test_a_client_without_a_certificate_is_let_in_to_log_in(manager: QueueManager, files: Files) -> None:
    async with listening(manager, files.config) as server:
        line = await dial(port_of(server), files.client())
        await line.log_in()
        assert only_line(server).certificate is None
        await line.call(2)
        line.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["of another issuer", "expired", "self-signed"])
async def test_a_wrong_certificate_of_a_client_is_refused(
    manager: QueueManager, files: Files, version: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    other = trustme.CA()
    then = datetime.now(UTC) - timedelta(days=1)
    certificate = {
        "of another issuer": other.issue_cert("bob@example.com"),
        "expired": files.programs.issue_cert("bob@example.com", not_after=then),
        "self-signed": other.issue_cert("bob@example.com"),
    }[kind]
    context = files.client(certificate, version=version)
    if kind == "self-signed":
        with other.cert_pem.tempfile() as cert, other.private_key_pem.tempfile() as key:
            context.load_cert_chain(cert, key)
    async with listening(manager, files.config) as server:
        assert await refused_by(port_of(server), context)
        why = await refusal(caplog)
    assert why.startswith("no TLS handshake: the certificate of the client is refused: ")
    assert {"expired": "certificate has expired"}.get(kind, "certificate") in why


async def test_a_revoked_certificate_is_refused_and_others_of_its_issuer_come_in(
    manager: QueueManager, files: Files
) -> None:
    alice = files.programs.issue_cert("alice@example.com")
    files.write("crl.pem", revoking(files.programs, alice))
    async with listening(manager, replaced(files.config, crl=files.folder / "crl.pem")) as server:
        assert await refused_by(port_of(server), files.client(alice))
        line = await dial(port_of(server), files.client(files.bob))
        await line.log_in()
        line.close()


def revoking(issuer: trustme.CA, revoked: trustme.LeafCert) -> bytes:
    """A list of the issuer that revokes a certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    key: Any = serialization.load_pem_private_key(issuer.private_key_pem.bytes(), None)
    signer = x509.load_pem_x509_certificate(issuer.cert_pem.bytes())
    number = x509.load_pem_x509_certificate(revoked.cert_chain_pems[0].bytes()).serial_number
    now = datetime.now(UTC)
    entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
    builder = x509.CertificateRevocationListBuilder().issuer_name(signer.subject).add_revoked_certificate(entry)
    builder = builder.last_update(now - timedelta(hours=1)).next_update(now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


# What is offered (X3.5)


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
async def test_x3_5_nothing_below_tls_1_2_is_spoken(manager: QueueManager, files: Files, version: str) -> None:
    context = files.client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    async with listening(manager, files.config) as server:
        assert await refused_by(port_of(server), context)


async def test_x3_5_a_minimum_of_1_3_refuses_1_2(manager: QueueManager, files: Files) -> None:
    async with listening(manager, replaced(files.config, minimum="1.3")) as server:
        assert await refused_by(port_of(server), files.client(version="TLSv1_2"))
        line = await dial(port_of(server), files.client(version="TLSv1_3"))
        await line.log_in()
        line.close()


async def test_x3_5_of_all_suites_of_tls_1_2_those_with_ecdhe_and_aead_are_accepted(
    manager: QueueManager, files: Files
) -> None:
    every = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    every.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    names = [each["name"] for each in every.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert len(names) > 30
    accepted = []
    async with listening(manager, files.config, LimitsConfig(handshake_rate=1000)) as server:
        for name in names:
            context = files.client(version="TLSv1_2")
            context.set_ciphers(f"{name}:@SECLEVEL=0")
            try:
                line = await dial(port_of(server), context)
            except (ssl.SSLError, ConnectionError):
                continue
            accepted.append(name)
            assert line.tls.compression() is None
            line.close()
    assert set(accepted) == {
        "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("sslscan") is None, reason="sslscan is not installed")
async def test_x3_5_sslscan_finds_nothing_weak(manager: QueueManager, files: Files) -> None:
    async with listening(manager, files.config, LimitsConfig(handshake_rate=1000)) as server:
        scan = await asyncio.create_subprocess_exec(
            "sslscan", "--no-colour", f"127.0.0.1:{port_of(server)}", stdout=asyncio.subprocess.PIPE
        )
        text = (await scan.communicate())[0].decode()
    assert scan.returncode == 0, text
    for line in text.splitlines():
        if line.startswith(("Accepted", "Preferred")):
            assert re.search("(TLSv1.2 .*ECDHE|TLSv1.3 .*TLS_).*(GCM|CHACHA20)", line), line
    assert re.findall(r"^(\S+) +enabled$", text, re.MULTILINE) == ["TLSv1.2", "TLSv1.3"]


# Sessions that are resumed (X3.3)


@pytest.mark.parametrize("version", VERSIONS)
async def test_x3_3_a_session_from_before_the_issuer_changed_does_not_bring_its_client_in(
    manager: QueueManager, files: Files, version: str
) -> None:
    async with listening(manager, files.config) as server:
        context = files.client(files.bob, version=version)
        client = await asyncio.to_thread(shaken, port_of(server), context)
        assert not client["reused"]
        files.trust(trustme.CA())
        assert await server.reload_certificates()
        assert await asyncio.to_thread(shaken, port_of(server), context, client["session"]) == {}


def shaken(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> dict[str, Any]:
    """Shake hands, say HELLO and CONNECT, and hear of it; nothing where the server ends the line. `session` is
    resumed. The line is ended in order: OpenSSL forgets the session of one that is cut.
    """
    end = Endpoint(Role.CLIENT)
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost", session=session) as line:
                for said in (HELLO, (Verb.CONNECT, 1, 1, "", "test", "bob")):
                    line.sendall(end.send(*said))
                    if not (data := line.recv(1000)):
                        return {}
                    (heard,) = end.receive(data)
                found = {"session": line.session, "reused": line.session_reused, "cipher": line.cipher()}
                line.unwrap()
                return {**found, "verb": heard[0]}
        except (ssl.SSLError, ConnectionError):
            return {}


async def test_x3_3_a_session_that_is_resumed_proves_no_more_than_its_certificate_does(
    manager: QueueManager, clock: VirtualClock, files: Files
) -> None:
    ends = datetime.now(UTC) + timedelta(hours=1)
    brief = files.programs.issue_cert("bob@example.com", common_name="bob", not_after=ends)
    clock.step(ends.timestamp() - 10 - clock.time())
    async with listening(manager, files.config) as server:
        context = files.client(brief, version="TLSv1_2")
        first = await asyncio.to_thread(shaken, port_of(server), context)
        again = await asyncio.to_thread(shaken, port_of(server), context, first["session"])
        assert (again["reused"], again["verb"]) == (True, Verb.ANSWER)
        await clock.advance(11)
        late = await asyncio.to_thread(shaken, port_of(server), context, first["session"])
        assert (late["reused"], late["verb"]) == (True, Verb.FAILED)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("version", ["tls1_2", "tls1_3"])
async def test_x3_3_nor_does_openssl_come_in_with_it(
    manager: QueueManager, files: Files, version: str, tmp_path: Path
) -> None:
    key, chain, saved = tmp_path / "bob.key", tmp_path / "bob.pem", tmp_path / "session"
    key.write_bytes(files.bob.private_key_pem.bytes())
    chain.write_bytes(files.bob.cert_chain_pems[0].bytes())

    def client(port: int, *more: str) -> str:
        words = ["openssl", "s_client", f"-{version}", "-connect", f"127.0.0.1:{port}", "-cert", str(chain),
                 "-key", str(key), "-ign_eof", *more]  # fmt: skip
        hello = Endpoint(Role.CLIENT).send(*HELLO)
        bad = hello + struct.pack(">I", 3) + b"bad"  # which ends the line
        return subprocess.run(words, input=bad, capture_output=True, timeout=30).stdout.decode("latin-1")

    async with listening(manager, files.config) as server:
        first = await asyncio.to_thread(client, port_of(server), "-sess_out", str(saved))
        assert "EverMQ" in first
        assert "New, TLS" in first
        files.trust(trustme.CA())
        assert await server.reload_certificates()
        again = ["-sess_in", str(saved)] if saved.exists() else []  # of TLS 1.3 there is none: no ticket was given
        assert bool(again) == (version == "tls1_2")
        second = await asyncio.to_thread(client, port_of(server), *again)
    assert "EverMQ" not in second
    assert "Reused, TLS" not in second


# Others who come to the port


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "the client speaks HTTP"),
        (Endpoint(Role.CLIENT).send(*HELLO), "mqs:// is the address of this port, not mq://"),
        (bytes(range(200)), "no TLS handshake: "),
        (b"\x16\x03\x01\x02\x00" + b"\x00" * 512, "no TLS handshake: "),
    ],
    ids=["HTTP", "HELLO", "noise", "noise in a record"],
)
async def test_what_is_no_tls_is_hung_up_on_with_one_line_in_the_log(
    manager: QueueManager, files: Files, said: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with listening(manager, files.config) as server:
        line = await dial(port_of(server))
        line.writer.write(said)
        assert b"EverMQ" not in await line.reader.read(1000)
        assert why in await refusal(caplog)
        assert server.sessions == 0
        good = await dial(port_of(server), files.client())
        await good.log_in()
        good.close()
        line.close()
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]


async def test_x9_2_sslev_tells_of_a_handshake_that_came_to_nothing(manager: QueueManager, files: Files) -> None:
    async with listening(manager, files.config) as server, manager.connect() as owner:
        assert (await owner.mqsc("ALTER QMGR SSLEV(ENABLED)"))[0].ok
        line = await dial(port_of(server))
        line.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert b"EverMQ" not in await line.reader.read(1000)
        async with owner.open("SYSTEM.ADMIN.CHANNEL.EVENT", MQOO.INPUT_SHARED) as events:
            event = event_of(await events.get(options=MQGMO.WAIT, wait=10))
        assert event.reason == MQRC.CHANNEL_SSL_ERROR
        assert "the client speaks HTTP" in event.parameters.values()
        line.close()


async def test_a_handshake_that_never_ends_is_cut(
    manager: QueueManager, clock: VirtualClock, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with listening(manager, files.config) as server:
        silent, half = await dial(port_of(server)), await dial(port_of(server))
        half.writer.write(b"\x16\x03\x01\x02\x00\x01")
        await until(lambda: server.newcomers == 2)
        await clock.advance(5.1)
        assert await hung_up(silent)
        assert await hung_up(half)
        assert "no login within [limits] login_timeout = 5 s" in await refusal(caplog)
        assert server.newcomers == 0
        silent.close()
        half.close()


async def test_tls_on_the_port_without_is_one_clear_line(
    manager: QueueManager, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(manager, files.config) as server:
        plain = int(server.addresses[0].rpartition(":")[2])
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            await dial(plain, files.client())
    assert "this port is without: mq:// leads to it, and mqs:// to the one of [tls]" in caplog.text
