"""`evermq status --watch`: the status again and again."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker.cli.terminal.screen import fitted
from tests.cli.conftest import command, environment, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon


@pytest.mark.parametrize(
    ("text", "columns", "lines", "shown"),
    [
        ("a\nbb\nccc", 2, 3, ["a", "bb", "cc"]),
        ("a\nb\nc", 9, 2, ["a", "..."]),
        ("a\x1b[2J", 9, 9, ["a\\x1b[2J"]),
    ],
)
def test_a_screen_has_the_lines_that_there_is_room_for(text: str, columns: int, lines: int, shown: list[str]) -> None:
    assert fitted(text, columns, lines) == shown


@contextmanager
def watching(*words: str, **streams: Any) -> Iterator[subprocess.Popen[Any]]:
    """A command that somebody at a terminal ends by Ctrl-C."""
    variables = {name: value for name, value in environment().items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(command(*words), env=variables, preexec_fn=interruptible, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_status_is_an_object_a_line_until_ctrl_c(daemon: RunningDaemon) -> None:
    words = ("status", "--json", "--watch", "0.1", "--url", daemon.url)
    with watching(*words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["name"] for _ in range(3)] == ["QM1"] * 3
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


def test_on_a_terminal_each_status_takes_the_place_of_the_one_before(
    daemon: RunningDaemon, evermq: Callable[..., Result]
) -> None:
    evermq("mqsc", "--url", daemon.url, input=b"DEFINE QLOCAL(WATCHED) REPLACE\n")
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 30, 0, 0))
    words = ("status", "WATCHED", "--watch", "0.1", "--url", daemon.url)
    try:
        with watching(*words, stdout=theirs) as process:
            os.close(theirs)
            read = b""
            while read.count(b"\x1b[H\x1b[J") < 3:
                read += os.read(ours, 4096)
            process.send_signal(signal.SIGINT)
            process.wait(30)
    finally:
        os.close(ours)
    first, second, *_ = read.decode().replace("\r", "").split("\x1b[H\x1b[J")[1:]
    assert first.startswith("queue WATCHED\n  depth              0\n")
    assert (second[:14], first.count("\n"), first.split("\n")[4]) == ("queue WATCHED\n", 4, "...")


def test_an_interval_that_is_none_is_refused(evermq: Callable[..., Result]) -> None:
    assert evermq("status", "--watch", "0").exit_code == 20
