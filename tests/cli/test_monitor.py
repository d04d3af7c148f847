"""`evermq monitor` in a process of its own, against a daemon."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import broker
from broker.mqi import MQAT, MQFMT, MQTM, MessageDescriptor
from tests.cli.conftest import RunningDaemon, command, environment, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Evermq = Callable[..., Result]

_HANDLER = """\
from broker.mqi import MQOO
from triggers import process

@process("SHOUT")
async def shout(trigger, connection):
    async with connection.unit_of_work(), connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
        await connection.put1("LOUD", message.data.upper(), message.md)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RunningDaemon]:
    """A daemon of the test's own."""
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as started:
        yield started


@contextmanager
def monitoring(folder: Path, url: str, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A monitor that waits for trigger messages."""
    with subprocess.Popen(
        command("monitor", "--url", url, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(**variables),
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "waiting for trigger messages" in line:
                    break
            yield process
        finally:
            process.kill()


def trigger(url: str, appl_type: int, process_name: str = "P", appl_id: str = "", env_data: str = "") -> None:
    """Put a trigger message as the queue manager does."""

    async def put() -> None:
        async with broker.connect(url) as connection:
            message = MQTM("QUIET", process_name, appl_type=appl_type, appl_id=appl_id, env_data=env_data)
            await connection.put1(
                "SYSTEM.DEFAULT.INITIATION.QUEUE", message.to_bytes(), MessageDescriptor(format=MQFMT.TRIGGER)
            )

    asyncio.run(put())


def test_commands_are_run_when_they_are_allowed_and_the_monitor_ends_with_its_queue_manager(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    with ExitStack() as later:
        with running("--config", "broker.toml", folder=tmp_path) as own:
            process = later.enter_context(monitoring(tmp_path, own.url, "--commands", "--concurrency", "2"))
            trigger(own.url, MQAT.UNIX, appl_id="/bin/echo", env_data="A B")
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("TMC    2QUIET ")
            assert line.endswith(" A B\n")
        assert process.wait(30) == 0, process.stderr and process.stderr.read()


@pytest.mark.parametrize("variables", [{}, {"EVERMQ_TRIGGER_MONITOR_COMMANDS": "true"}], ids=["not", "allowed"])
def test_the_configuration_says_whether_commands_are_allowed(
    own: RunningDaemon, evermq: Evermq, tmp_path: Path, variables: dict[str, str]
) -> None:
    evermq("mqsc", "--url", own.url, input=b"DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)\n")
    made = tmp_path / "made"
    with monitoring(tmp_path, own.url, **variables) as process:
        trigger(own.url, MQAT.UNIX, appl_id=f"touch {made};", env_data="&")
        trigger(own.url, MQAT.CICS)
        assert evermq("get", "DLQ", "--wait", "20", "--url", own.url).exit_code == 0
        if not variables:
            assert evermq("get", "DLQ", "--wait", "20", "--url", own.url).exit_code == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert made.exists() == bool(variables)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_handlers_of_the_current_folder_serve_processes_and_a_signal_ends_it_in_order(
    own: RunningDaemon, evermq: Evermq, tmp_path: Path, number: signal.Signals
) -> None:
    evermq("mqsc", "--url", own.url, input=b"DEFINE QLOCAL(LOUD)\nDEFINE QLOCAL(QUIET)\n")
    (tmp_path / "shout.py").write_text(_HANDLER, "utf-8")
    with monitoring(tmp_path, own.url, "shout") as process:
        evermq("put", "QUIET", "hello", "--url", own.url)
        trigger(own.url, MQAT.TPF, "SHOUT")
        assert evermq("get", "LOUD", "--wait", "20", "--url", own.url).stdout == "HELLO\n"
        process.send_signal(number)
        assert process.wait(30) == 0


def test_an_error_that_ends_it_is_exit_code_10(own: RunningDaemon, evermq: Evermq, tmp_path: Path) -> None:
    with monitoring(tmp_path, own.url) as process:
        evermq("mqsc", "--url", own.url, input=b"ALTER QLOCAL(SYSTEM.DEFAULT.INITIATION.QUEUE) GET(DISABLED)\n")
        assert process.wait(30) == 10
        assert process.stderr is not None
        assert "MQRC_GET_INHIBITED (2016)" in process.stderr.read()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queue", "NO.SUCH.QUEUE"], "cannot serve NO.SUCH.QUEUE: MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        (["no_such_module"], "the handlers' module 'no_such_module' does not import"),
        (["--concurrency", "0"], "0 is not in the range"),
        (["--config", "no.toml"], "no.toml: no such file or directory"),
    ],
)
def test_what_keeps_it_from_beginning_is_one_line_and_exit_code_20(
    daemon: RunningDaemon, evermq: Evermq, words: list[str], said: str
) -> None:
    result = evermq("monitor", *words, "--url", daemon.url)
    assert (result.exit_code, result.stderr.count("\n")) == (20, 1)
    assert said in result.stderr


def test_without_a_queue_manager_it_says_so(evermq: Evermq) -> None:
    result = evermq("monitor", "--url", "mq://127.0.0.1:1")
    assert (result.exit_code, result.stderr.count("no queue manager at")) == (20, 1)
