"""A daemon and workers as processes of their own, for the tests of workers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.conftest import RunningDaemon, command, environment, running
from tests.security.lines import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0

ROOT = {"EVERMQ_USER": "root", "EVERMQ_PASSWORD": PASSWORD}
BOB = {"EVERMQ_USER": "bob", "EVERMQ_PASSWORD": PASSWORD}
"""The environments of the programs of two users."""

APP = """
import asyncio, json, os, pathlib, signal, time
from broker import Message
from triggers import App, Retry
app = App("mq://127.0.0.1:1")
SEEN = pathlib.Path(__file__).with_name("seen.txt")

def saw(*words):
    with SEEN.open("a") as seen:
        seen.write(" ".join(map(str, words)) + "\\n")
"""


class WorkerProcess:
    """A worker: its process, and its log so far."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(iter(self.process.stderr.readline, ""))

    def saw(self, words: str, times: int = 1) -> None:
        """Return when handlers have noted these words so often."""
        self.until(lambda: self.seen().count(words) >= times, f"{times} x {words!r}")

    def seen(self) -> list[str]:
        """Return the notes of handlers, a line each."""
        file = self.folder / "seen.txt"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def logged(self, pattern: str, times: int = 1) -> list[str]:
        """Return when the log has so many lines with this pattern: those."""
        self.until(lambda: len(self._matching(pattern)) >= times, f"{times} x {pattern!r}")
        return self._matching(pattern)

    def _matching(self, pattern: str) -> list[str]:
        return [line for line in list(self.log) if re.search(pattern, line)]

    def until(self, condition: object, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():  # type: ignore[operator]
            in_time = time.monotonic() < deadline and (self.process.poll() is None or self._reader.is_alive())
            assert in_time, f"no {what}: {self.seen()} {''.join(self.log)}"
            time.sleep(0.01)

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        """Send a signal, if one is given, and wait for the end: the exit code."""
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def read_out(self) -> None:
        """Read its log to the end, when it has ended."""
        self._reader.join(PATIENCE)


@contextmanager
def daemon(folder: Path) -> Iterator[RunningDaemon]:
    """A daemon whose data is in this folder; it may be started again on its port."""
    (folder / "broker.toml").write_text('[queue_manager]\ndata = "data"\n[listener]\nport = 0\n', "utf-8")
    with running("--config", "broker.toml", folder=folder) as daemon:
        yield daemon


@contextmanager
def daemon_with_users(folder: Path, commands: str) -> Iterator[RunningDaemon]:
    """A daemon that checks its users, of whom ROOT has run these commands."""
    with daemon(folder) as running:
        (folder / "root.password").write_text(PASSWORD, "utf-8")
        add = ("user", "add", "root", "--groups", "mqm", "--password-file", str(folder / "root.password"))
        evermq(running.url, *add)
        evermq(running.url, "mqsc", text=commands, **ROOT)
        yield running


@contextmanager
def worker(folder: Path, url: str, *options: str, module: str = "shop", **variables: str) -> Iterator[WorkerProcess]:
    """A worker that serves a module of this folder, with these variables in its environment."""
    with subprocess.Popen(
        command("worker", module, "--url", url, *options),
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(**variables),
    ) as process:
        worker = WorkerProcess(process, folder)
        try:
            yield worker
        finally:
            if process.poll() is None:
                process.kill()
            worker.read_out()


def evermq(url: str, *words: str, text: str | None = None, **variables: str) -> str:
    """Run a client command; what it says. That the queue was empty is no failure."""
    done = subprocess.run(
        command(*words, "--url", url),
        input=text, capture_output=True, text=True, timeout=PATIENCE, env=environment(**variables),
    )  # fmt: skip
    assert done.returncode in (0, 10), done.stderr
    return done.stdout


def put(url: str, queue: str, *bodies: str) -> None:
    evermq(url, "put", queue, "--lines", text="".join(f"{body}\n" for body in bodies))


def left(url: str, queue: str) -> list[tuple[str, int]]:
    """The messages of a queue, with how often each was backed out."""
    lines = evermq(url, "browse", queue, "--json").splitlines()
    return [(message["data"], message["backout_count"]) for message in map(json.loads, lines)]
