"""What starts with a command: what it needs itself, and no more. Modules are counted; seconds are not."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from broker.cli import COMMANDS, main
from tests.cli.conftest import environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from broker.cli.program import ListedCommand
    from tests.cli.conftest import RunningDaemon

MODULES_MAX = 200

_COUNT = """
import sys
from broker.__main__ import main

try:
    main()
finally:
    print("", *sys.modules, sep="\\n", file=sys.stderr)
"""


def loaded_by(*words: str, folder: Path) -> set[str]:
    """The modules that there are at the end of a command, where nobody measures what it reaches."""
    unmeasured = {name: value for name, value in environment().items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, *words], capture_output=True, text=True, cwd=folder, env=unmeasured, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def rooms(modules: set[str]) -> set[str]:
    """The layers of the package that modules belong to, and the packages beside it that one should not pay for."""
    found = {".".join(name.split(".")[:2]) for name in modules if name.startswith("broker.")}
    return found | ({name.split(".")[0] for name in modules} & {"asyncio", "lark", "triggers", "sqlite3"})


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_what_only_tells_loads_no_command(word: str, tmp_path: Path) -> None:
    modules = loaded_by(word, folder=tmp_path)
    assert len(modules) <= MODULES_MAX
    assert rooms(modules) == {"broker.__main__", "broker.cli", "broker.presentation"}


@pytest.mark.parametrize("words", [("put", "STARTING.Q", "text"), ("status",), ("get", "STARTING.Q")])
def test_a_client_loads_nothing_of_the_queue_manager(
    words: tuple[str, ...], daemon: RunningDaemon, evermq: Callable[..., Result], tmp_path: Path
) -> None:
    evermq("mqsc", "--url", daemon.url, input=b"DEFINE QLOCAL(STARTING.Q) REPLACE")
    evermq("put", "STARTING.Q", "text", "--url", daemon.url)
    found = rooms(loaded_by(*words, "--url", daemon.url, folder=tmp_path))
    assert found - {"broker.dead_letters"} == {  # which the status tells from other queues
        "asyncio", "broker.__main__", "broker.cli", "broker.client", "broker.clock", "broker.deprecated",
        "broker.interface", "broker.mqi", "broker.presentation", "broker.refusals", "broker.secret_files",
        "broker.unclosed", "broker.wire",
    }  # fmt: skip


@pytest.mark.parametrize("handlers", ["", "STARTING_HANDLERS"])
def test_a_daemon_loads_triggers_for_handlers_and_no_parser_before_there_is_something_to_parse(
    handlers: str, tmp_path: Path
) -> None:
    (tmp_path / "STARTING_HANDLERS.py").write_text("")
    modules = loaded_by_daemon(tmp_path, f'[trigger_monitor]\nhandlers = ["{handlers}"]\n' if handlers else "")
    assert "broker.engine.manager" in modules
    security = "broker.server.security"
    assert not modules & {f"{security}.tls", f"{security}.certificates", "cryptography", "joserfc"}
    served_by_http = {
        "starlette",
        "uvicorn",
        "httptools",
        "prometheus_client",
        "broker.http",
        "broker.server.http_server",
    }
    assert not modules & served_by_http
    assert rooms(modules) & {"lark", "triggers"} == ({"triggers"} if handlers else set())


@pytest.mark.parametrize("address", ["listen", "probes"])
def test_a_daemon_loads_rest_and_the_console_for_those_who_may_ask_them(address: str, tmp_path: Path) -> None:
    modules = loaded_by_daemon(tmp_path, f'[http]\n{address} = "127.0.0.1:0"\n')
    assert "broker.http.probes" in modules
    parts = {"broker.http.console", "broker.http.jobs", "broker.http.openapi", "broker.http.rest", "htpy"}
    assert modules & parts == (parts if address == "listen" else set())


def loaded_by_daemon(folder: Path, configuration: str) -> set[str]:
    """The modules that a daemon of this configuration has loaded when it is ready."""
    (folder / "broker.toml").write_text(configuration)
    words = ["--config", "broker.toml"] if configuration else []
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "broker", "run", *words],
        stderr=subprocess.PIPE, text=True, cwd=folder, env=environment(EVERMQ_LISTENER_PORT="0"),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        modules = set()
        for line in process.stderr:
            if found := re.match(r"import time: +\d+ \| +\d+ \| +([\w.]+)$", line):
                modules.add(found[1])
            if " ready on " in line:
                break
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == 0, rest
    return modules


# The list of commands


@pytest.mark.parametrize("listed", COMMANDS, ids=[each.name for each in COMMANDS])
def test_a_command_is_listed_as_it_is(listed: ListedCommand) -> None:
    command = main.get_command(click.Context(main), listed.name)
    assert command is not None
    assert (command.name, command.get_short_help_str(limit=1000)) == (listed.name, listed.help)


@pytest.mark.parametrize("width", [50, 80, 100])
def test_the_list_is_that_of_the_commands_themselves(
    width: int,
) -> None:
    shown = click.Context(main, terminal_width=width, info_name="evermq")
    loaded = click.Group("evermq", commands={each.name: each.load() for each in COMMANDS})
    formatter, expected = shown.make_formatter(), shown.make_formatter()
    main.format_commands(shown, formatter)
    loaded.format_commands(shown, expected)
    assert formatter.getvalue() == expected.getvalue()


def test_a_command_that_is_none_is_told(evermq: Callable[..., Result]) -> None:
    assert "No such command 'putt'" in evermq("putt").output
