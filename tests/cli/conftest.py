"""A daemon in a process of its own, and the command line against it."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner

from broker.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

ROOT = Path(__file__).parents[2]


class RunningDaemon(NamedTuple):
    """A daemon that is ready: its process, its URL, and its log so far."""

    process: subprocess.Popen[str]
    url: str
    log: list[str]

    @property
    def addresses(self) -> list[str]:
        """All addresses on which it listens, as its ready line tells them."""
        return self.log[-1].rpartition(" addresses=")[2].strip().split(",")


def interruptible() -> None:
    """Before a process begins: let SIGINT end it, though it may have been ignored since a shell in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def command(*words: str) -> list[str]:
    """The command line of a real process."""
    return [sys.executable, "-m", "broker", *words]


def environment(**variables: str) -> dict[str, str]:
    """The environment of a real process, which finds the packages and none of the tester's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


@contextmanager
def running(*words: str, folder: Path) -> Iterator[RunningDaemon]:
    """A daemon that runs until it has been told to end, and ends in order."""
    with subprocess.Popen(
        command("run", *words), stderr=subprocess.PIPE, text=True, cwd=folder, env=environment()
    ) as process:
        assert process.stderr is not None
        try:
            yield ready(process, process.stderr)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                rest = process.communicate(timeout=30)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert process.returncode == 0, rest


def ready(process: subprocess.Popen[str], stderr: IO[str]) -> RunningDaemon:
    """The daemon once its ready line has told where it listens."""
    log = []
    for line in stderr:
        log.append(line)
        if found := re.search(r" ready on ([\w.:]+)", line):
            return RunningDaemon(process, f"mq://{found[1]}", log)
    raise AssertionError("".join(log))


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon that the tests of this folder share: each uses queues of its own."""
    folder = tmp_path_factory.mktemp("daemon")
    (folder / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=folder) as started:
        yield started


@pytest.fixture
def evermq(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line, run in this process with bytes for its standard input."""
    for name in os.environ:
        if name.startswith("EVERMQ_"):
            monkeypatch.delenv(name)

    def invoke(*words: str, input: bytes = b"") -> Result:
        return CliRunner().invoke(main, list(words), input=input)

    return invoke


@pytest.fixture
def on(daemon: RunningDaemon, evermq: Callable[..., Result]) -> Callable[..., Result]:
    """The command line, talking to the daemon."""

    def invoke(*words: str, input: bytes = b"") -> Result:
        return evermq(*words, "--url", daemon.url, input=input)

    return invoke


@pytest.fixture(autouse=True)
def process_of_the_tests() -> Iterator[None]:
    """`evermq run` takes over its process: the log, the collection of garbage, how threads take turns, where modules
    are found. What the tests had set up comes back afterwards.
    """
    names = (None, "aiosqlite", "asyncio")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers[:], logger.level) for logger in loggers]
    path, collections, switch_seconds = sys.path[:], gc.get_threshold(), sys.getswitchinterval()
    yield
    sys.path[:] = path
    gc.set_threshold(*collections)
    sys.setswitchinterval(switch_seconds)
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
