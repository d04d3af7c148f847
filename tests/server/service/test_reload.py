"""The reload: each key acts or is named, a mistake changes nothing, and all of a file is taken or nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import pytest
import trustme

from broker import MQError, QueueManager, connect
from broker.cli import run as command
from broker.cli.terminal import logs
from broker.cli.terminal.recent_log import RecentLog
from broker.config import SECTIONS, Config, LimitsConfig, changes, settings
from broker.config.kinds import (
    AnyText,
    Choice,
    DatabaseAddress,
    FileMode,
    FilePath,
    GroupName,
    HostName,
    IpAddress,
    LoopbackHost,
    ModuleName,
    ObjectName,
    Seconds,
    Several,
    SharingGroupName,
    SocketAddress,
    Switch,
    UserName,
    WebOrigin,
    Whole,
)
from broker.mqi import MQOO, MQPMO, MQRC
from broker.server.errors import ReloadError
from broker.server.session import Session
from tests.server.security.conftest import LETS_IN_AS_BOB, dial, until
from tests.server.service.daemons import running, write
from triggers import TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from broker.config import Setting
    from broker.server.http_server import HttpServer
    from tests.server.security.conftest import Files
    from tests.server.service.daemons import Running

CANARY: Final = "canary-of-the-database"


def another(setting: Setting, folder: Path) -> object:
    """A value that a key may have, and has not by default."""
    default: Any = setting.default
    match setting.kind:
        case Whole(low, high):
            return default + 1 if default < high else low
        case Seconds():
            return default / 2 if default else 1.0
        case Switch():
            return not default
        case Choice(words):
            return words[-1] if default != words[-1] else words[0]
        case Several(element):
            return (another(setting._replace(kind=element, default=""), folder),)
        case FilePath():
            path = folder / f"another-{setting.key}"
            path.write_text("secret\n", "utf-8")
            path.chmod(0o600)
            return path
        case kind:
            texts: dict[type[Any], str] = {
                ObjectName: "QM2", SharingGroupName: "QSG2", AnyText: "another", HostName: "mq.example",
                WebOrigin: "https://mq.example", IpAddress: "127.0.0.1",
                LoopbackHost: "127.0.0.2", FileMode: "0660", UserName: "bob", GroupName: "staff", ModuleName: "another",
                SocketAddress: "127.0.0.1:9480", DatabaseAddress: f"postgresql://me:{CANARY}@host/database",
            }  # fmt: skip
            return texts[type(kind)]


ACTS: Final[dict[str, Callable[[QueueManager], object]]] = {
    "unit_of_work_bytes": lambda manager: manager.core.unit_bytes_max,
    "keys": lambda manager: manager.core.keys.maximum,
    "script_bytes": lambda manager: manager.commands.script_bytes,
    "body_bytes": lambda manager: manager.bodies.budget,
    "claim_age": lambda manager: manager.claim_watch.claim_age,
    "prepared_bytes": lambda manager: manager.core.sinks.bytes_max,
}
"""Limits of the queue manager that a part of it has as a number. The others are asked of its configuration."""


class Log:
    """What the daemon's log is set to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.section: object = None
        monkeypatch.setattr(logs, "set_up", self._set_up)

    def _set_up(self, section: object, recent: object) -> None:
        self.section = section


async def test_o6_1_each_key_of_the_sample_file_acts_or_is_named_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = Log(monkeypatch)
    http: dict[str, object] = {"listen": "127.0.0.1:0", "probes": "127.0.0.1:0"}
    async with running(tmp_path, {"http": http, "security": {"loopback": "check"}}) as it:
        it.reload.followers.append(command.log_follower(RecentLog(10)))
        service = command.trigger_monitor(it.first.trigger_monitor, 0.1, it.reload)
        async with service(it.manager) as monitor:
            for section in SECTIONS:
                for key, setting in settings(section).items():
                    await _check(it, section, setting._replace(key=key), tmp_path, log, monitor)
    assert "me:***@host" in caplog.text
    assert CANARY not in caplog.text


async def _check(it: Running, section: str, setting: Setting, folder: Path, log: Log, monitor: TriggerMonitor) -> None:
    write(it.path, it.tables)
    await it.reload.reload()
    assert changes(it.first, it.reload.config) == []
    key, place = setting.key, f"[{section}] {setting.key}"
    before = getattr(getattr(it.first, section), key)
    value = another(setting._replace(default=before) if isinstance(before, int | float | str) else setting, folder)
    it.change(section, key, value)
    taken, waiting = await it.reload.reload()
    assert [str(each).partition(" = ")[0] for each in (taken if setting.live else waiting)] == [place]
    (change,) = taken or waiting
    assert (change.before, change.after) == (before, value)
    holds = getattr(getattr(it.manager.config, section), key)
    assert holds == (value if setting.live else before), place
    assert getattr(getattr(it.reload.config, section), key) == holds
    if not setting.live:
        assert not taken
    elif section == "limits":
        assert getattr(it.server.limits, key) == value, place
        acts = ACTS.get(key)
        assert acts is None or acts(it.manager) == value, place
    elif section == "http":
        assert await _acts_on_http(it, key, value), place
    elif section == "logging":
        assert getattr(log.section, key) == value, place
    elif section == "trigger_monitor":
        assert _figures(monitor)[key] == value, place
    else:
        assert section == "tls", f"{place} is live: prove that a change acts"


async def _acts_on_http(it: Running, key: str, value: object) -> bool:
    server = cast("HttpServer", it.http)
    at_listen, at_probes = server.addresses
    match key:
        case "metrics":
            return await _status(at_listen, "/metrics") == 401
        case "probes_metrics":
            return (await _status(at_listen, "/metrics"), await _status(at_probes, "/metrics")) == (200, 404)
        case "hosts":
            reached = [await _status(at_listen, "/livez", f"Host: {name}") for name in ("mq.example", "other.example")]
            return reached == [200, 421]
        case "forwarded_from":  # a proxy that is believed has to say who asks
            return await _status(at_listen, "/livez", "Host: localhost\r\nX-Forwarded-For: nobody") == 400
        case "rest_cors_allowed_origins":
            (origin,) = cast("tuple[str]", value)
            asks = f"Host: localhost\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST"
            return await _status(at_listen, "/jobs/Q/1", asks, "OPTIONS") == 204
        case "rest_csrf_validation":
            assert server.parts is not None
            return server.parts.rest.csrf_validation == value
        case "rest_messaging_enabled":
            assert server.parts is not None
            return server.parts.messaging.enabled == value
        case "connections_per_user":
            return server.entrance.most == value
        case "connections":
            return {address.lines.most for address in server._addresses} == {value}
        case _:
            return (key, server._scrapes.queues_max) == ("queues_max", value)


async def _status(address: str, path: str, head: str = "Host: localhost", method: str = "GET") -> int:
    """The status with which a path is answered, to a request with these headers."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode())
    line, _ = await reader.readline(), await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(line.split()[1])


def _figures(monitor: TriggerMonitor) -> dict[str, object]:
    shared = monitor._shared
    assert shared is not None
    return {
        "batch_size": shared.batch_size,
        "throttle_delay": shared.throttle_delay,
        "generation_interval": monitor._generation_interval,
        "sweep_interval": monitor._sweep_interval,
        "max_tasks": monitor._capacity._max_tasks,
        "max_handlers": monitor._capacity._max_handlers,
    }


async def test_o6_1_no_part_of_a_line_keeps_limits_of_its_own(tmp_path: Path) -> None:
    def parts(found: object, seen: set[int]) -> Iterator[object]:
        if id(found) not in seen and type(found).__module__.startswith("broker.server"):
            seen.add(id(found))
            yield found
            names = {name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ())}
            for name in {*vars(found), *names} - {"server", "_server", "manager", "_manager"}:
                yield from parts(getattr(found, name, None), seen)

    async with running(tmp_path) as it:
        found = list(parts(Session(it.server), set()))
        assert {"Session", "Intake", "Replies", "ServedCalls"} <= {type(each).__name__ for each in found}
        assert not [each for each in found if any(isinstance(value, LimitsConfig) for value in vars(each).values())]


# What programs see


async def test_more_connections_are_let_in_behind_a_reload(tmp_path: Path) -> None:
    async with running(tmp_path, {"limits": {"connections": 1}}) as it, connect(it.url):
        with pytest.raises(MQError) as refused:
            async with connect(it.url):
                pass
        assert refused.value.reason == MQRC.MAX_CONNS_LIMIT_REACHED
        it.change("limits", "connections", 2)
        await it.reload.reload()
        async with connect(it.url) as other:
            assert other.q_mgr_name == "QM1"


async def test_a_unit_of_work_that_has_begun_meets_a_lower_limit_behind_a_reload(tmp_path: Path) -> None:
    async with running(tmp_path) as it, connect(it.url) as connection:
        await connection.mqsc("DEFINE QLOCAL(Q)", check=True)
        await connection.put1("Q", b"x" * 2000, options=MQPMO.SYNCPOINT)
        it.change("limits", "unit_of_work_bytes", 2048)
        await it.reload.reload()
        with pytest.raises(MQError) as refused:
            await connection.put1("Q", b"x" * 100, options=MQPMO.SYNCPOINT)
        await connection.commit()
    assert "its limit is near" in str(refused.value)


async def test_bodies_leave_memory_for_a_lower_budget(tmp_path: Path) -> None:
    async with running(tmp_path) as it, connect(it.url) as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) MAXDEPTH(5000) DEFPSIST(YES)", check=True)
        for _ in range(10):
            async with connection.open("Q", MQOO.OUTPUT) as queue:
                await queue.put_many([b"x" * 100] * 100)
        assert it.manager.bodies.bytes == 1000 * 100
        it.change("limits", "body_bytes", 5000)
        await it.reload.reload()
        await until(lambda: it.manager.bodies.bytes <= 5000)


async def test_lines_with_tls_are_shown_the_certificate_of_another_file(files: Files, tmp_path: Path) -> None:
    async with running(tmp_path, _with_tls(files)) as it:
        port = int(it.server.addresses[-1].rpartition(":")[2])
        first = await dial(port, files.client())
        for name in ("server.pem", "server.key"):
            (files.folder / name).rename(files.folder / f"old.{name}")
        files.renew()
        (files.folder / "server.pem").rename(files.folder / "new.pem")
        it.change("tls", "certificate", files.folder / "new.pem")
        await it.reload.reload()
        second = await dial(port, files.client())
        assert second.serial != first.serial
        first.close()
        second.close()


async def test_tls_of_a_higher_version_and_other_issuers_hold_for_those_who_come_then(
    files: Files, tmp_path: Path
) -> None:
    async with running(tmp_path, _with_tls(files)) as it:
        port = int(it.server.addresses[-1].rpartition(":")[2])
        (await dial(port, files.client(version="TLSv1_2"))).close()
        it.change("tls", "minimum", "1.3")
        await it.reload.reload()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await dial(port, files.client(version="TLSv1_2"))
        line = await dial(port, files.client(files.bob, version="TLSv1_3"))
        await line.log_in()
        line.close()
        files.write("others.pem", trustme.CA().cert_pem.bytes())
        it.change("tls", "ca", files.folder / "others.pem")
        await it.reload.reload()
        line = await dial(port, files.client(files.bob))
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await line.log_in()
        line.close()


async def test_certificates_that_cannot_be_used_keep_everything_as_it_was(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, _with_tls(files)) as it:
        before = it.manager.config
        write(
            it.path,
            {**it.tables, "tls": {**it.tables["tls"], "certificate": files.folder / "ca.pem"}, "limits": {"keys": 5}},
        )
        with pytest.raises(ReloadError, match=r"\[tls\] certificate, key: "):
            await it.reload.reload()
        assert it.manager.config is before
        assert it.manager.core.keys.maximum == LimitsConfig().keys
        assert "configuration not reloaded: [tls] certificate, key: " in caplog.text


def _with_tls(files: Files) -> dict[str, dict[str, object]]:
    own = files.config
    (files.folder / "bob.mqsc").write_text(LETS_IN_AS_BOB, "utf-8")
    return {
        "queue_manager": {"data": "data", "quiesce_timeout": 0.2, "startup": (files.folder / "bob.mqsc",)},
        "tls": {"host": own.host, "port": 0, "certificate": own.certificate, "key": own.key, "ca": own.ca},
    }


# Mistakes


MISTAKES: Final = {
    "[limits]\nkeys = 5\n[listener]\nprot = 1": r"\[listener\] prot: unknown key; did you mean port\?",
    "[limits]\nkeys = 0": r"\[limits\] keys: wants a whole number from 1 to 100000000, not 0",
    "[limits\nkeys = 5": "not TOML",
}


@pytest.mark.parametrize("text", MISTAKES)
async def test_a_wrong_file_changes_nothing_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    async with running(tmp_path) as it:
        before = it.manager.config
        it.path.write_text(text, "utf-8")
        with pytest.raises(ReloadError, match=MISTAKES[text]):
            await it.reload.reload()
        assert it.manager.config is before
        it.path.unlink()
        with pytest.raises(ReloadError, match="no such file"):
            await it.reload.reload()
    assert caplog.text.count("configuration not reloaded: ") == 2


async def test_one_follower_that_refuses_keeps_all_others_from_changing(tmp_path: Path) -> None:
    async def refuse(config: Config) -> Callable[[], None]:
        raise ReloadError("the last one does not agree")

    async with running(tmp_path) as it:
        it.reload.followers.append(refuse)
        it.change("limits", "keys", 5)
        with pytest.raises(ReloadError, match="the last one does not agree"):
            await it.reload.reload()
        assert it.manager.core.keys.maximum == LimitsConfig().keys
        assert changes(it.reload.config, it.first) == []


# Orders


async def test_a_hangup_reloads_with_a_line_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(tmp_path) as it:
        write(it.path, {**it.tables, "limits": {"keys": 5, "connections": 7}, "listener": {"port": 1499}})
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "configuration reloaded" in caplog.text)
        lines = [each.getMessage() for each in caplog.records if each.name == "broker.server.service.reload"]
    assert lines == [
        "setting changed setting=[limits] connections before=10_000 after=7",
        "setting changed setting=[limits] keys before=1_000_000 after=5",
        "setting waits setting=[listener] port before=0 after=1499: it holds from the next start on",
        "configuration reloaded changed=2 waiting=1",
    ]


async def test_refresh_config_is_answered_with_what_has_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as it, connect(it.url) as connection:
        write(it.path, {**it.tables, "limits": {"keys": 5}, "listener": {"port": 1499}})
        (reply,) = await connection.mqsc("REFRESH CONFIG")
        assert reply.ok
        assert reply.text.splitlines() == [
            "EMQ0028I: Configuration reloaded: changed 1, waiting for the next start 1.",
            "   changed: [limits] keys = 5 (was 1_000_000)",
            "   waiting: [listener] port = 1499 (was 0)",
        ]
        write(it.path, {**it.tables, "limits": {"keys": 5}})
        (reply,) = await connection.mqsc("REFRESH CONFIG")
        assert reply.text == "EMQ0028I: Configuration reloaded: no key has changed."
        it.path.write_text("[limits]\nkeys = 0", "utf-8")
        (reply,) = await connection.mqsc("REFRESH CONFIG")
        assert not reply.ok
        assert reply.text.startswith("EMQ0029E: The configuration was not reloaded, and nothing has changed: ")


async def test_refresh_config_of_a_queue_manager_in_a_program_is_refused() -> None:
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        (reply,) = await connection.mqsc("REFRESH CONFIG")
        assert (reply.code, reply.ok) == ("EMQ0030E", False)


async def test_reloads_are_made_one_after_the_other(tmp_path: Path) -> None:
    marks: list[str] = []
    async with running(tmp_path) as it:
        it.reload.began, it.reload.ended = lambda: marks.append("began"), lambda: marks.append("ended")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(it.reload.reload)
    assert marks == ["began", "ended"] * 3
