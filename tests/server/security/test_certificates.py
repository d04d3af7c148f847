"""The certificates of the listener: taken anew when they are replaced, and kept when what is new is wrong."""

from __future__ import annotations

import os
import signal
import tomllib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import anyio
import pytest
import trustme

from broker.config import Config, ListenerConfig, QueueManagerConfig, TlsConfig, TokensConfig
from broker.server import StartError, daemon
from broker.server.security.certificates import LOOK_SECONDS, Certificates
from broker.testing import VirtualClock
from tests.server.security.bad_files import BAD_FILES, another_key, encrypted
from tests.server.security.conftest import LETS_IN_AS_BOB, Line, dial, listening, port_of, replaced, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskStatus

    from broker import QueueManager
    from broker.server import Server
    from tests.server.security.conftest import Files


async def serial_of(server: Server, files: Files) -> str:
    """The serial number that a new line is shown."""
    line = await dial(port_of(server), files.client())
    try:
        await line.log_in()
        return line.serial
    finally:
        line.close()


@pytest.mark.parametrize(("spoil", "said"), BAD_FILES, ids=[spoil.__name__ for spoil, _ in BAD_FILES])
async def test_x3_2_what_is_wrong_at_a_reload_keeps_the_old_and_is_told(
    manager: QueueManager, files: Files, spoil: Callable[[Files], None], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(manager, files.config) as server:
        before = await serial_of(server, files)
        spoil(files)
        assert not await server.reload_certificates()
        assert f"certificate not reloaded: {said.format(folder=files.folder)}" in caplog.text
        assert "the old one goes on" in caplog.text
        assert await serial_of(server, files) == before
        line = await dial(port_of(server), files.client(files.bob))
        await line.log_in()  # by the old issuers, too
        line.close()
        files.renew()
        files.trust(files.programs)
        assert await server.reload_certificates()
        assert await serial_of(server, files) != before


@pytest.mark.parametrize(("spoil", "said"), BAD_FILES, ids=[spoil.__name__ for spoil, _ in BAD_FILES])
async def test_what_is_wrong_at_the_start_ends_it(
    manager: QueueManager, files: Files, spoil: Callable[[Files], None], said: str
) -> None:
    spoil(files)
    with pytest.raises(StartError) as caught:
        async with listening(manager, files.config):
            pass
    assert str(caught.value).startswith(said.format(folder=files.folder))


def with_password(files: Files) -> TlsConfig:
    """The files with a key that is encrypted, and its password in a file."""
    files.write("server.key", encrypted(files, b"canary of the key"))
    files.write("password", b"canary of the key\n")
    return replaced(files.config, key_password_file=files.folder / "password")


async def test_a_key_with_a_password_is_opened_and_a_wrong_one_is_not_repeated(
    manager: QueueManager, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    tls = with_password(files)
    async with listening(manager, tls) as server:
        await serial_of(server, files)
        files.write("password", b"canary of another\n")
        assert not await server.reload_certificates()
    assert f"the password in {files.folder}/password does not open {files.folder}/server.key" in caplog.text
    assert "canary" not in caplog.text


async def test_a_file_of_a_password_that_others_may_write_is_refused(
    manager: QueueManager, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    tls = with_password(files)
    async with listening(manager, tls) as server:
        (files.folder / "password").chmod(0o622)
        assert not await server.reload_certificates()
        assert "[tls] key_password_file: others may write" in caplog.text
    with pytest.raises(StartError, match=r"\[tls\] key_password_file: others may write .* \(mode 0622\).*: chmod go-w"):
        async with listening(manager, tls):
            pass
    assert "canary" not in caplog.text


async def test_the_key_may_be_in_the_file_of_the_certificate(manager: QueueManager, files: Files) -> None:
    issued = files.renew()
    files.write("server.pem", issued.private_key_and_cert_chain_pem.bytes())
    async with listening(manager, replaced(files.config, key=None, ca=None)) as server:
        await serial_of(server, files)


# The watch


class LookClock(VirtualClock):
    """A clock that knows how often somebody has begun to wait for the next look."""

    looks = 0

    async def sleep(self, delay: float) -> None:
        self.looks += delay == LOOK_SECONDS
        await super().sleep(delay)


@pytest.fixture
def clock() -> LookClock:
    return LookClock()


async def look(clock: LookClock) -> None:
    """Let the time pass to the next look, and what it leads to: then the one behind it is waited for."""
    looks = clock.looks
    await clock.advance(LOOK_SECONDS)
    while clock.looks == looks:
        await anyio.to_thread.run_sync(lambda: None)


@pytest.fixture
async def watched(files: Files, clock: LookClock, caplog: pytest.LogCaptureFixture) -> Certificates:
    caplog.set_level("INFO")
    certificates = Certificates(files.config, clock)
    await certificates.start()
    return certificates


async def test_x3_4_a_certificate_and_its_key_replaced_apart_are_taken_together(
    manager: QueueManager, clock: LookClock, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(manager, files.config) as server:
        before = await serial_of(server, files)
        old_key = (files.folder / "server.key").read_bytes()
        files.renew()
        new_key = (files.folder / "server.key").read_bytes()
        files.write("server.key", old_key)  # the certificate alone is new
        await look(clock)
        assert await serial_of(server, files) == before
        files.write("server.key", new_key)
        await look(clock)
        assert await serial_of(server, files) == before
        await until_other(server, files, before, clock)
    assert "certificate not reloaded" not in caplog.text


async def until_other(server: Server, files: Files, before: str, clock: LookClock) -> None:
    """Let time pass until a new line is shown another certificate. On a busy machine a look may meet the one before it,
    and come to nothing.
    """
    while await serial_of(server, files) == before:
        await look(clock)


async def test_a_file_behind_a_link_is_seen_and_a_wrong_one_is_told_once(
    manager: QueueManager, clock: LookClock, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        (files.folder / name).mkdir()
        files.renew()
        for file in ("server.pem", "server.key"):
            (files.folder / file).rename(files.folder / name / file)
    (files.folder / "now").symlink_to("one")
    now = files.folder / "now"
    async with listening(
        manager, replaced(files.config, certificate=now / "server.pem", key=now / "server.key")
    ) as server:
        before = await serial_of(server, files)
        (files.folder / "next").symlink_to("two")
        (files.folder / "next").rename(now)
        await until_other(server, files, before, clock)
        (files.folder / "two" / "server.key").write_bytes(b"nonsense")
        while "certificate not reloaded" not in caplog.text:  # a look that meets one before it may come to nothing
            await look(clock)
        for _ in range(5):
            await look(clock)
        assert caplog.text.count("certificate not reloaded") == 1


@pytest.mark.parametrize(("days", "told"), [(40, None), (29, "29.0"), (6.5, "6.5"), (0.5, "0.5")])
async def test_the_end_of_a_certificate_is_told_at_the_start(
    files: Files, days: float, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(start=datetime.now(UTC).timestamp())
    files.renew(not_after=datetime.now(UTC) + timedelta(days=days, minutes=1))
    await Certificates(files.config, clock).start()
    assert ("certificate ends" in caplog.text) == (told is not None)
    if told is not None:
        assert f"certificate ends in {told} days" in caplog.text


async def test_the_end_of_a_certificate_is_told_thirty_seven_and_one_days_before_once_each(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(start=datetime.now(UTC).timestamp())
    files.renew(not_after=datetime.now(UTC) + timedelta(days=40))
    certificates = Certificates(files.config, clock)
    await certificates.start()
    told = []
    for hour in range(41 * 24):
        certificates.warn_of_end()
        if caplog.records:
            told.append(40 - hour // 24)
            caplog.clear()
        await clock.advance(3600)
    assert told == [30, 7, 1]


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
async def test_a_key_that_all_may_read_is_warned_of(
    files: Files, clock: LookClock, mode: int, *, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    (files.folder / "server.key").chmod(mode)
    await Certificates(files.config, clock).start()
    assert (
        f"private key readable by every user of this machine path={files.folder}/server.key" in caplog.text
    ) == warned


# Under load (X3.1)


async def lines_live_while_certificates_change(manager: QueueManager, files: Files, lines: int, reloads: int) -> None:
    """So many lines call all the time while certificate and issuer are replaced; new lines see what is new."""
    stop = False
    calls = 0

    async def work(line: Line) -> None:
        nonlocal calls
        number = 1
        while not stop:
            number += 1
            await line.call(number)
            calls += 1
        line.close()

    async with listening(manager, files.config) as server, anyio.create_task_group() as tasks:
        for _ in range(lines):
            line = await dial(port_of(server), files.client(files.bob))
            await line.log_in()
            tasks.start_soon(work, line)
        seen = {await serial_of(server, files)}
        for number in range(reloads):
            files.renew()
            if number % 10 == 9:
                another_key(files)
            if number % 2:
                files.trust(trustme.CA())
            assert await server.reload_certificates() == (number % 10 != 9)
            seen.add(await serial_of(server, files))
            assert server.sessions >= lines
            before = calls
            await until(lambda before=before: calls > before + lines)  # type: ignore[misc]
        assert len(seen) == 1 + reloads - reloads // 10
        line = await dial(port_of(server), files.client(files.bob))
        await line.log_in()
        line.close()
        stop = True


async def test_x3_1_no_line_is_lost_while_certificates_change(manager: QueueManager, files: Files) -> None:
    await lines_live_while_certificates_change(manager, files, 5, 4)


async def test_x3_1_nor_of_a_hundred_lines_at_fifty_changes(manager: QueueManager, files: Files) -> None:
    await lines_live_while_certificates_change(manager, files, 100, 49)


async def test_all_lines_with_tls_may_be_ended_and_others_stay(manager: QueueManager, files: Files) -> None:
    async with listening(manager, files.config) as server:
        plain = await dial(int(server.addresses[0].rpartition(":")[2]))
        await plain.log_in()
        secured = await dial(port_of(server), files.client())
        await secured.log_in()
        server.end_tls_lines()
        assert (await secured.hear())[3] == 2009
        await plain.call(2)
        plain.close()
        secured.close()


# The daemon


def configured(files: Files, tls: TlsConfig, **sections: object) -> Config:
    files.write("bob.mqsc", LETS_IN_AS_BOB.encode())
    queue_manager = QueueManagerConfig(
        name="QM1", data=files.folder / "data", quiesce_timeout=0.2, startup=(files.folder / "bob.mqsc",)
    )
    return Config(queue_manager=queue_manager, listener=ListenerConfig(port=0), tls=tls, **sections)  # type: ignore[arg-type]


async def running(config: Config, *, task_status: TaskStatus[str]) -> None:
    await daemon.run(config, ready=task_status.started)


async def test_the_daemon_names_both_listeners_and_reloads_at_a_hangup(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with anyio.create_task_group() as tasks:
        line: str = await tasks.start(running, configured(files, files.config))
        plain, secured = (int(each.rpartition(":")[2]) for each in line.rpartition(" on ")[2].split(", "))
        first = await dial(secured, files.client())
        await first.log_in()
        files.renew()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "certificate reloaded serial=" in caplog.text)
        second = await dial(secured, files.client())
        assert second.serial != first.serial
        await first.call(2)
        third = await dial(plain)
        await third.log_in()
        for each in (first, second, third):
            each.close()
        os.kill(os.getpid(), signal.SIGTERM)
    assert "certificate_reloaded" in [getattr(each, "event", "") for each in caplog.records]


async def test_a_hangup_without_tls_changes_nothing(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with anyio.create_task_group() as tasks:
        await tasks.start(running, configured(files, TlsConfig()))
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "configuration reloaded changed=0 waiting=0" in caplog.text)
        os.kill(os.getpid(), signal.SIGTERM)


async def test_x1_2_tls_without_a_certificate_is_refused_with_the_lines(files: Files) -> None:
    with pytest.raises(StartError) as caught:
        await daemon.run(configured(files, TlsConfig(host="0.0.0.0")))
    assert str(caught.value) == "[tls] host is set, and there is no certificate. Write, with the paths of yours:"
    assert caught.value.__notes__ == ['[tls]\nhost = "0.0.0.0"\ncertificate = "server.pem"\nkey = "server.key"']


async def test_x1_2_tls_without_a_way_to_prove_who_one_is_is_refused_with_the_three_ways(files: Files) -> None:
    with pytest.raises(StartError) as caught:
        await daemon.run(configured(files, replaced(files.config, ca=None)))
    assert str(caught.value) == "[tls] host is set, and nobody could prove who they are. Give one of these:"
    (lines,) = caught.value.__notes__
    assert "evermq user add NAME --groups mqm" in lines
    assert tomllib.loads(lines).keys() == {"tls", "tokens"}


async def test_x1_2_an_issuer_of_tokens_is_a_way(files: Files) -> None:
    tokens = TokensConfig(issuer="https://login.example.com", audience="evermq", jwks="https://login.example.com/keys")
    config = configured(files, replaced(files.config, ca=None), tokens=tokens)
    async with anyio.create_task_group() as tasks:
        assert " ready on " in await tasks.start(running, config)
        os.kill(os.getpid(), signal.SIGTERM)
