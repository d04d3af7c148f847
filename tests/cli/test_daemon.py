"""`evermq run` in a process of its own: handlers of the current folder, startup commands, the log, the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import command, environment, ready, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

_CONFIGURATION = """\
[queue_manager]
name = "SHOP"
startup = ["start.mqsc"]
[listener]
port = 0
[trigger_monitor]
handlers = ["shout"]
[logging]
format = "json"
"""

_STARTUP = """\
DEFINE QLOCAL(LOUD) REPLACE
DEFINE PROCESS(SHOUT) REPLACE
DEFINE QLOCAL(QUIET) PROCESS(SHOUT) TRIGGER TRIGTYPE(EVERY) REPLACE
"""

_HANDLER = """\
from broker.mqi import MQOO
from triggers import process

@process("SHOUT")
async def shout(trigger, connection):
    async with connection.unit_of_work(), connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
        await connection.put1("LOUD", message.data.upper(), message.md)
"""


def test_a_handler_of_the_current_folder_serves_a_queue_defined_at_the_start(
    evermq: Callable[..., Result], tmp_path: Path
) -> None:  # S-11
    (tmp_path / "broker.toml").write_text(_CONFIGURATION, "utf-8")
    (tmp_path / "start.mqsc").write_text(_STARTUP, "utf-8")
    (tmp_path / "shout.py").write_text(_HANDLER, "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        assert evermq("put", "QUIET", "hello", "--url", daemon.url).exit_code == 0
        assert evermq("get", "LOUD", "--wait", "10", "--url", daemon.url).stdout == "HELLO\n"
    lines = [json.loads(line) for line in daemon.log]
    assert [line["message"] for line in lines if line["level"] != "INFO"] == []
    by_event = {line["event"]: line for line in lines}
    assert by_event["new_store"]["path"] == "evermq-data"
    assert by_event["startup_commands_complete"]["commands"] == 3
    assert by_event["ready"]["queue_manager"] == "SHOP"
    assert by_event["ready"]["addresses"] == [daemon.url.removeprefix("mq://")]
    assert (tmp_path / "evermq-data").is_dir()


def test_a_terminal_has_a_prompt_and_no_echo_of_the_commands(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n[logging]\nlevel = 'ERROR'\n", "utf-8")
    master, slave = os.openpty()
    try:
        with running("--config", "broker.toml", folder=tmp_path) as daemon:
            os.write(master, b"DEFINE QLOCAL(A) +\nMAXDEPTH(1)\nEND\n")
            done = subprocess.run(
                command("mqsc", "--url", daemon.url),
                stdin=slave,
                capture_output=True,
                env=environment(),
                timeout=30,
                check=False,
            )
    finally:
        os.close(master)
        os.close(slave)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"QM1>    > AMQ8006I: IBM MQ queue created.\nQM1> One MQSC command read.\n" in done.stdout


# Handlers that do what they should not, and signals

_GUESTS = """\
import asyncio, time
from broker.mqi import MQOO
from triggers import process

class Unheard(BaseException):
    pass

ERRORS = {b"interrupt": KeyboardInterrupt, b"exit": SystemExit, b"generator": GeneratorExit, b"bare": Unheard}

@process("SHOUT")
async def handle(trigger, connection):
    async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
    if message.data == b"swallow":
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
    if message.data == b"stray":
        asyncio.create_task(swallow())
    if message.data == b"block":
        time.sleep(3600)
    if message.data in ERRORS:
        raise ERRORS[message.data]("told by the message")
    await connection.put1("LOUD", message.data)

stray = set()

async def swallow():
    stray.add(asyncio.current_task())
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""

_IMPATIENT = """\
import sys
from broker.cli import main
from broker.server import daemon
daemon.END_GRACE = 0.1
sys.argv[0] = "evermq"
main()
"""


@pytest.fixture
def guests(tmp_path: Path) -> Path:
    """A folder with a daemon's configuration, and handlers that do what their messages say."""
    configuration = _CONFIGURATION.replace("[listener]", "quiesce_timeout = 0.1\n[listener]")
    (tmp_path / "broker.toml").write_text(configuration, "utf-8")
    (tmp_path / "start.mqsc").write_text(_STARTUP, "utf-8")
    (tmp_path / "shout.py").write_text(_GUESTS, "utf-8")
    return tmp_path


def test_a_handler_cannot_end_the_daemon_whatever_it_raises(evermq: Callable[..., Result], guests: Path) -> None:
    with running("--config", "broker.toml", folder=guests) as daemon:
        for text in ("interrupt", "exit", "generator", "bare"):
            assert evermq("put", "QUIET", text, "--url", daemon.url).exit_code == 0
        assert evermq("put", "QUIET", "good", "--url", daemon.url).exit_code == 0
        assert evermq("get", "LOUD", "--wait", "10", "--url", daemon.url).stdout == "good\n"


def test_a_hangup_changes_nothing_and_is_logged(evermq: Callable[..., Result], guests: Path) -> None:
    with running("--config", "broker.toml", folder=guests) as daemon:
        daemon.process.send_signal(signal.SIGHUP)
        assert daemon.process.stderr is not None
        assert "configuration reloaded changed=0 waiting=0" in daemon.process.stderr.readline()
        assert evermq("put", "LOUD", "still here", "--url", daemon.url).exit_code == 0


@pytest.mark.parametrize(
    ("text", "function"), [("swallow", "shout:handle"), ("stray", "shout:swallow"), ("block", "shout:handle")]
)
def test_a_daemon_that_a_handler_keeps_from_ending_names_it_and_ends_with_20(
    evermq: Callable[..., Result], guests: Path, text: str, function: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _IMPATIENT, "run", "--config", "broker.toml"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=guests,
        env=environment(),
    ) as process:
        try:
            assert process.stderr is not None
            daemon = ready(process, process.stderr)
            put = command("put", "QUIET", text, "--url", daemon.url)
            with subprocess.Popen(put, env=environment(), stderr=subprocess.DEVNULL) as putting:
                if text == "block":  # nobody is served any more, not even who put the message
                    blocked = next(line for line in process.stderr if "event loop is blocked" in line)
                    assert re.search(rf"task=trigger:QUIET:1 handler={function} ", blocked)
                    putting.kill()
                else:
                    assert putting.wait(30) == 0
                    if text == "stray":
                        assert evermq("get", "LOUD", "--wait", "10", "--url", daemon.url).stdout == "stray\n"
                    else:
                        until_it_runs(evermq, daemon.url)
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=30)[1]
        finally:
            process.kill()
    assert process.returncode == 20
    (gave_up,) = [json.loads(line)["message"] for line in rest.splitlines() if "did not end in time" in line]
    assert f"handler={function} file={guests / 'shout.py'}" in gave_up


def until_it_runs(evermq: Callable[..., Result], url: str) -> None:
    """Return when the handler has got the message."""
    while True:
        figures = json.loads(evermq("status", "--json", "--url", url).stdout)
        (quiet,) = [queue for queue in figures["queues"] if queue["name"] == "QUIET"]
        if (quiet["depth"], quiet["trigger_running"]) == (0, 1):
            return


# Ctrl-C during the start

_CTRL_C_AT = """\
import logging, os, signal, sys
from broker.cli import main
from broker.cli.terminal import logs

class CtrlC(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith(sys.argv[1]):
            logging.getLogger().removeHandler(self)
            for _ in range(int(sys.argv[2])):
                os.kill(os.getpid(), signal.SIGINT)

def set_up(*arguments, before=logs.set_up):
    before(*arguments)
    logging.getLogger().addHandler(CtrlC())

logs.set_up = set_up
main(sys.argv[3:])
"""


@pytest.mark.parametrize("moment", ["messages loaded", "queue manager started", "startup commands complete"])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_gives_the_start_up_and_a_second_one_ends_it_in_words(guests: Path, moment: str, times: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CTRL_C_AT, moment, str(times), "run", "--config", "broker.toml"],
        capture_output=True,
        text=True,
        cwd=guests,
        env=environment(),
        timeout=60,
        check=False,
    )
    reported = [
        json.loads(line) for line in done.stderr.splitlines()
    ]  # no traceback, nothing that is no line of the log
    ended = [line["message"] for line in reported if "daemon ends at once" in line["message"]]
    assert (done.returncode, len(ended)) in {(130, 0), *([(20, 1)] if times == 2 else [])}  # it may end in order first
    assert ended or "signal=SIGINT: the start is given up" in done.stderr
    assert "look at the disk" not in done.stderr
    assert "store failed" not in done.stderr


def test_a_second_ctrl_c_ends_a_start_that_the_import_of_a_handler_blocks(guests: Path) -> None:
    twice = "import os, signal, time\nfor _ in range(2):\n    os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    (guests / "shout.py").write_text(twice, "utf-8")
    done = subprocess.run(
        command("run", "--config", "broker.toml"),
        capture_output=True,
        text=True,
        cwd=guests,
        env=environment(),
        timeout=60,
        check=False,
    )
    last = json.loads(done.stderr.splitlines()[-1])["message"]
    assert (done.returncode, last.partition(";")[0]) == (
        20,
        "a second signal, SIGINT, during the start: the daemon ends at once",
    )
