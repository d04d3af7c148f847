"""Standard streams that whoever starts the program has closed."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import command, environment, ready

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon

CLOSED = {0: "<&-", 1: ">&-", 2: "2>&-"}


def closing(streams: tuple[int, ...], *words: str) -> list[str]:
    """The command line of a real process that has these streams closed."""
    return ["sh", "-c", f'exec "$@" {" ".join(CLOSED[each] for each in streams)}', "sh", *command(*words)]


def ended(streams: tuple[int, ...], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        closing(streams, *words),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


@pytest.fixture
def queue(daemon: RunningDaemon, evermq: Callable[..., Result]) -> str:
    """A queue of the daemon's with one message."""
    assert evermq("mqsc", "--url", daemon.url, input=b"DEFINE QLOCAL(STREAMS) REPLACE\n").exit_code == 0
    evermq("get", "STREAMS", "--all", "--url", daemon.url)
    assert evermq("put", "STREAMS", "kept", "--url", daemon.url).exit_code == 0
    return "STREAMS"


@pytest.mark.parametrize("closed", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_a_command_says_whether_its_output_could_be_written(daemon: RunningDaemon, closed: tuple[int, ...]) -> None:
    done = ended(closed, "status", "--url", daemon.url)
    assert done.returncode == (20 if 1 in closed else 0)
    reported = "evermq: standard input or output is closed, which this command needs\n"
    assert done.stderr == (reported if 1 in closed and 2 not in closed else "")
    assert ("name               QM1" in done.stdout) == (1 not in closed)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["put", "STREAMS", "one"], 0),  # needs none of them
        (["put", "STREAMS"], 20),
        (["put", "STREAMS", "--lines"], 20),
        (["get", "STREAMS"], 20),
        (["browse", "STREAMS"], 20),
        (["explain", "STREAMS"], 20),
        (["mqsc"], 20),
    ],
)
def test_with_all_streams_closed_a_command_ends_with_a_code(
    daemon: RunningDaemon, queue: str, words: list[str], code: int
) -> None:
    assert ended((0, 1, 2), *words, "--url", daemon.url).returncode == code


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["no-such-command"], ["bench", "--help"]], ids=" ".join)
def test_what_needs_no_daemon_ends_with_20_too(words: list[str]) -> None:
    assert ended((0, 1, 2), *words).returncode == 20


def test_a_message_whose_output_was_closed_stays_on_its_queue(
    daemon: RunningDaemon, queue: str, evermq: Callable[..., Result]
) -> None:
    assert ended((1,), "get", queue, "--url", daemon.url).returncode == 20
    assert evermq("get", queue, "--url", daemon.url).stdout == "kept\n"


def test_a_full_disk_under_the_output_is_said_once(daemon: RunningDaemon, queue: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("status", "--url", daemon.url),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (20, "evermq: No space left on device\n")


_PRINTING = """\
from triggers import process

@process("PRINT")
async def told(trigger, connection):
    print("told", flush=True)
    await connection.put1("PRINTED", b"told")
"""

_QUEUES = """\
DEFINE PROCESS(PRINT)
DEFINE QLOCAL(PRINTED)
DEFINE QLOCAL(Q) PROCESS(PRINT) TRIGGER TRIGTYPE(EVERY)
"""


def test_a_daemon_runs_without_standard_streams_and_its_handlers_may_print(
    tmp_path: Path, evermq: Callable[..., Result]
) -> None:
    (tmp_path / "broker.toml").write_text(
        '[queue_manager]\nstartup = ["queues.mqsc"]\n[listener]\nport = 0\n'
        '[trigger_monitor]\nhandlers = ["printing"]\n',
        "utf-8",
    )
    (tmp_path / "queues.mqsc").write_text(_QUEUES, "utf-8")
    (tmp_path / "printing.py").write_text(_PRINTING, "utf-8")
    with subprocess.Popen(
        closing((0, 1), "run", "--config", "broker.toml"),
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        daemon = ready(process, process.stderr)
        assert evermq("put", "Q", "print", "--url", daemon.url).exit_code == 0
        printed = evermq("get", "PRINTED", "--wait", "10", "--url", daemon.url)
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=30)[1]
    assert (printed.stdout, process.returncode) == ("told\n", 0), rest
