"""`evermq run` in a process of its own: handlers of the current folder, startup commands, the log, the end."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from tests.cli.conftest import command, environment, running

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
) -> None:
    (tmp_path / "broker.toml").write_text(_CONFIGURATION, "utf-8")
    (tmp_path / "start.mqsc").write_text(_STARTUP, "utf-8")
    (tmp_path / "shout.py").write_text(_HANDLER, "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        assert evermq("put", "QUIET", "hello", "--url", daemon.url).exit_code == 0
        assert evermq("get", "LOUD", "--wait", "10", "--url", daemon.url).stdout == "HELLO\n"
    assert {json.loads(line)["level"] for line in daemon.log} == {"INFO"}
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
