"""The daemon with its HTTP server: from the first probe of its start to the last of its end, and what it refuses."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import QueueManager, connect
from broker.config import Config, HttpConfig, ListenerConfig, QueueManagerConfig, TlsConfig
from broker.mqi import MQGMO, MQOO, GetMessageOptions
from broker.server import StartError, daemon
from tests.http.client import answer_of, ask, dial, request
from tests.server.security.conftest import Files, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from anyio.abc import TaskStatus


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        queue_manager=QueueManagerConfig(name="QM1", data=tmp_path / "data", quiesce_timeout=30),
        listener=ListenerConfig(port=0),
        http=HttpConfig(listen="127.0.0.1:0"),
    )


async def running(config: Config, *services: daemon.Service, task_status: TaskStatus[str]) -> None:
    """Run the daemon; it has started when it is ready, with the ready line."""
    await daemon.run(config, services, ready=task_status.started)


def addresses(line: str) -> tuple[str, int]:
    """The URL of the queue manager, and the port of its HTTP server."""
    first, *_, last = line.partition(" ready on ")[2].split(", ")
    return f"mq://{first}", int(last.rpartition(":")[2])


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_the_ready_line_names_the_address_and_the_queue_manager_is_ready(config: Config) -> None:
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        assert ", http://127.0.0.1:" in line
        _, port = addresses(line)
        for path in ("/livez", "/readyz", "/startupz"):
            assert (await ask(port, path)).text == "ok\n"
        answer = await ask(port, "/metrics")
        assert (answer.status, 'evermq_info{name="QM1"' in answer.text) == (200, True)
        terminate()


async def test_o2_2_while_services_begin_it_is_starting(config: Config, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    seen: list[Any] = []

    @asynccontextmanager
    async def service(manager: QueueManager) -> AsyncIterator[None]:
        (found,) = [each for each in caplog.messages if each.startswith("HTTP listening addresses=")]
        port = int(found.rpartition(":")[2])
        seen.append([await ask(port, path) for path in ("/livez", "/readyz", "/startupz", "/metrics")])
        yield

    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config, service)
        live, ready, startup, metrics = seen[0]
        assert live.status == 200
        assert (ready.status, ready.text) == (503, "starting: the startup commands run\n")
        assert (startup.status, metrics.status) == (503, 503)
        assert (await ask(addresses(line)[1], "/startupz")).status == 200
        terminate()


async def test_o2_5_while_it_quiesces_a_probe_says_so_and_the_server_closes_last(config: Config) -> None:
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        url, port = addresses(line)
        kept = await dial(port)
        async with connect(url) as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
            async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
                await queue.put(b"A")
                await queue.get(options=GetMessageOptions(options=MQGMO.SYNCPOINT))
                terminate()
                while (answer := await ask(port, "/readyz")).status == 200:
                    pass
                assert (answer.status, answer.text) == (503, "quiescing: QM1 is quiescing\n")
                assert (await ask(port, "/livez")).status == 200
                assert (await ask(port, "/startupz")).status == 200
                await connection.commit()
        assert await kept.rest() == b""
        kept.close()


class Prober(threading.Thread):
    """Asks /livez from a thread of its own; `in_vain` is set when there was no answer for a while."""

    def __init__(self, port: int, release: Callable[[], None]) -> None:
        super().__init__()
        self.in_vain = False
        self.answer = b""
        self._port = port
        self._release = release

    def run(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), 0.3) as line:
            line.sendall(request("/livez"))
            try:
                line.recv(1)
            except TimeoutError:
                self.in_vain = True
            self._release()
            line.settimeout(60)
            while data := line.recv(1000):
                self.answer += data


async def test_o2_7_while_the_loop_is_held_there_is_no_answer_and_then_a_late_one(config: Config) -> None:
    held = threading.Event()
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        prober = Prober(addresses(line)[1], held.set)
        prober.start()
        held.wait()  # as a handler does that blocks
        await asyncio.to_thread(prober.join)
        assert prober.in_vain
        assert answer_of(prober.answer).text == "ok\n"
        terminate()


async def test_an_end_that_somebody_listens_to_waits_for_nobody(config: Config) -> None:
    async with anyio.create_task_group() as tasks:
        _, port = addresses(await tasks.start(running, config))
        half = await dial(port)
        await half.say(b"GET /livez HTTP/1.1\r\n")
        idle = await dial(port)
        await idle.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await idle.head()
        with anyio.fail_after(20):
            terminate()
            assert await half.rest() == b""
            assert await idle.rest() == b"ok\n"
        half.close()
        idle.close()


# Refused at the start


async def refused(config: Config) -> tuple[str, list[str]]:
    """What the start says, and the lines that it advises to write."""
    with pytest.raises(StartError) as caught:
        await daemon.run(config)
    return str(caught.value), list(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize("listen", ["0.0.0.0:9480", "[::]:9480", "192.0.2.1:9480", "mq.example.com:9480"])
async def test_an_address_beyond_this_machine_is_refused_without_tls_and_nothing_is_changed(
    config: Config, listen: str
) -> None:
    text, lines = await refused(replace(config, http=HttpConfig(listen=listen)))
    assert text == (
        f"cannot serve HTTP on {listen}: without TLS the daemon answers this machine only, but for [http] probes. "
        "Write, with the paths of your certificate:"
    )
    assert lines == [
        f'[http]\nlisten = "{listen}"\ntls = true\n\n[tls]\ncertificate = "server.pem"\nkey = "server.key"'
    ]
    assert config.queue_manager.data is not None
    assert not config.queue_manager.data.exists()


async def test_tls_without_a_certificate_is_refused(config: Config) -> None:
    text, lines = await refused(replace(config, http=HttpConfig(listen="127.0.0.1:0", tls=True)))
    assert text == "[http] tls is true, and there is no certificate. Write, with the paths of yours:"
    assert lines == ['[tls]\nhost = ""\ncertificate = "server.pem"\nkey = "server.key"']


async def test_a_certificate_that_is_none_is_refused(config: Config, tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_text("no certificate")
    tls = TlsConfig(certificate=tmp_path / "server.pem")
    text, _ = await refused(replace(config, http=HttpConfig(listen="127.0.0.1:0", tls=True), tls=tls))
    assert text.startswith(
        f"[tls] certificate, key: {tmp_path}/server.pem and {tmp_path}/server.pem are not a certificate"
    )


async def test_where_nobody_could_log_in_other_machines_are_not_served(config: Config, tmp_path: Path) -> None:
    files = Files(tmp_path)
    tls = replace(files.config, host="", ca=None)
    text, _ = await refused(replace(config, http=HttpConfig(listen="0.0.0.0:0", tls=True), tls=tls))
    assert text == "[http] listen is set, and nobody could prove who they are. Give one of these:"


async def test_an_address_that_is_taken_is_refused(config: Config) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text, _ = await refused(replace(config, http=HttpConfig(listen=f"127.0.0.1:{port}")))
    assert text == f"cannot listen on 127.0.0.1:{port}: Address already in use"


async def test_without_the_extra_the_start_names_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("uvicorn", "broker.http", "broker.server.http_server"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setitem(sys.modules, "uvicorn.config", None)
    text, _ = await refused(config)
    assert text == "[http] needs starlette, uvicorn and others: pip install 'evermq[http]'"


async def test_tls_serves_http_without_a_port_for_programs_and_its_certificate_is_loaded_again(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    files = Files(tmp_path)
    tls = replace(files.config, host="", ca=None)
    config = replace(config, http=HttpConfig(listen="127.0.0.1:0", tls=True), tls=tls)
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        assert line.count(", ") == 1
        _, port = addresses(line)
        assert (await ask(port, "/readyz", context=files.client())).text == "ok\n"
        files.renew()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "certificate reloaded" in caplog.text)
        assert (await ask(port, "/readyz", context=files.client())).text == "ok\n"
        files.renew()
        caplog.clear()
        async with connect(addresses(line)[0]) as connection:
            await connection.mqsc("REFRESH SECURITY TYPE(SSL)", check=True)
        await until(lambda: "certificate reloaded" in caplog.text)
        assert (await ask(port, "/readyz", context=files.client())).text == "ok\n"
        terminate()
