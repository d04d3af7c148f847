"""Secrets of real processes, and all that others can read of these: output, logs, command lines, files (X9.3)."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import command, environment, ready
from tests.handlers.processes import APP, PATIENCE, worker
from tests.security.processes import command_lines, contents
from triggers import App

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

CANARY = "Canary7"
ROOT, BOB, WRONG, TOKEN = (f"{CANARY}of{name}" for name in ("root", "bob", "nobody", "atoken"))
PLANTED = "this is no secret"
"""Texts that have to be found where the secrets are looked for: else nothing would be."""

SERVED = """
DEFINE QLOCAL(Q) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(Q)
DEFINE PROCESS(Q)
DEFINE QLOCAL(OUT) DEFPSIST(YES)
DEFINE QLOCAL(NONE)
DEFINE QLOCAL(Q.DEAD) DEFPSIST(YES)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT,DSP)
SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(ALL)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(ALL)
SET AUTHREC PROFILE('**') OBJTYPE(PROCESS) PRINCIPAL('bob') AUTHADD(ALL)
"""
HANDLERS = """
import logging
from broker import Connection
logging.getLogger().setLevel(logging.DEBUG)

@app.handler("Q", retry=0, traceback=4000)
async def handle(body: str, connection: Connection) -> None:
    saw("begin")
    while not SEEN.with_name("go").exists():
        await asyncio.sleep(0.01)
    raise LookupError(f"{app!r} {app.source!r} {connection!r} {connection.port!r} {vars(app.source).keys()}")
"""


class Operator:
    """Runs commands as users do, and keeps what they say."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.said: list[str] = []

    def run(self, who: Mapping[str, str], *words: str, text: str | None = None, code: int = 0) -> str:
        done = subprocess.run(
            command(*words, "--url", self.url),
            input=text, capture_output=True, text=True, timeout=PATIENCE, env=environment(**who),
        )  # fmt: skip
        self.said += [done.stdout, done.stderr]
        assert done.returncode == code, done.stderr
        return done.stdout

    @contextmanager
    def waiting(self, who: Mapping[str, str], *words: str) -> Iterator[None]:
        """A command that runs until it is ended."""
        with subprocess.Popen(
            command(*words, "--url", self.url),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**who),
        ) as process:  # fmt: skip
            yield
            process.send_signal(signal.SIGINT)
            self.said += process.communicate(timeout=PATIENCE)


@contextmanager
def daemon(folder: Path) -> Iterator[str]:
    """The URL of a daemon that logs all it can, to the file `log` of this folder."""
    text = '[queue_manager]\ndata = "data"\n[listener]\nport = 0\n[logging]\nlevel = "DEBUG"\n'
    (folder / "broker.toml").write_text(text, "utf-8")
    run = command("run", "--config", "broker.toml")
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(run, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment()) as process,
    ):
        assert process.stderr is not None
        running = ready(process, process.stderr)
        log.writelines(running.log)
        log.flush()
        copying = threading.Thread(target=log.writelines, args=(process.stderr,))
        copying.start()
        try:
            yield running.url
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
            copying.join()


async def put_by_app(url: str) -> None:
    app = App(url, user="bob", password=lambda: BOB, name="shop")
    async with app.running(handlers=False):
        await app.put("OUT", PLANTED)
        async with app.running_session.source.connect("other") as connection:  # type: ignore[union-attr]
            assert "QM1" in repr(connection)


def test_x9_3_no_secret_of_a_process_is_where_others_can_read_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets, program, server = (tmp_path / name for name in ("secrets", "program", "server"))
    for folder in (secrets, program, server):
        folder.mkdir()
    for name, secret in (("root", ROOT), ("bob", BOB), ("token", TOKEN)):
        (secrets / name).write_text(f"{secret}\n", "utf-8")
    (program / "shop.py").write_text(APP + HANDLERS, "utf-8")
    root = {"EVERMQ_USER": "root", "EVERMQ_PASSWORD": ROOT}
    bob = {"EVERMQ_USER": "bob", "EVERMQ_PASSWORD": BOB}
    seen = ""
    with daemon(server) as url:
        operator = Operator(url)
        operator.run({}, "user", "add", "root", "--groups", "mqm", "--password-file", str(secrets / "root"))
        operator.run(root, "user", "add", "bob", "--password-file", str(secrets / "bob"))
        operator.run(root, "mqsc", text=SERVED)
        operator.run(bob, "put", "OUT", PLANTED)
        asyncio.run(put_by_app(url))
        operator.run({"EVERMQ_USER": "bob", "EVERMQ_PASSWORD": WRONG}, "status", code=20)
        operator.run({"EVERMQ_USER": "bob", "EVERMQ_TOKEN_FILE": str(secrets / "token")}, "status", code=20)
        operator.run({"EVERMQ_USER": "nobody", "EVERMQ_PASSWORD": BOB}, "status", code=20)
        options = ("--processes", "2", "--user", "bob")
        with (
            operator.waiting(bob, "get", "NONE", "--wait", "60"),
            worker(program, url, *options, EVERMQ_PASSWORD_FILE=str(secrets / "bob")) as workers,
        ):
            workers.logged("worker ready", 2)
            operator.run(bob, "put", "Q", PLANTED)
            workers.saw("begin")
            seen += command_lines()
            (program / "go").touch()
            operator.run(bob, "get", "Q.DEAD", "--wait", "60", "--json")
            assert workers.end() == 0
        for words in (("status", "--json"), ("explain", "open", "Q", "--as", "bob", "--for", "put")):
            operator.run(root, *words)
        operator.run(root, "mqsc", text="DISPLAY USER(*) ALL\nDISPLAY AUTHREC\nDISPLAY QMGR ALL\n")
        operator.run(root, "backup", str(tmp_path / "backup"))
    said = "".join([*operator.said, *workers.log])
    readable = {
        "command lines": seen.encode(),
        "output": said.encode(),
        "log of the daemon": (server / "log").read_bytes(),
        "log of this process": caplog.text.encode(),
        "store": contents(server / "data"),
        "backup": contents(tmp_path / "backup"),
    }
    for place, planted in {
        "command lines": url, "output": "UrlSource", "log of the daemon": "connection_refused user=bob",
        "log of this process": "DEBUG", "store": PLANTED, "backup": PLANTED,
    }.items():  # fmt: skip
        assert planted.encode() in readable[place], place
    assert [place for place, text in readable.items() if CANARY.encode() in text] == []
