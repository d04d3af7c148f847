"""Every mistake of a newcomer ends in one clear line and the right exit code."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from broker.cli.terminal.terminal import show_traceback
from broker.presentation.escaping import escaped
from tests.cli.conftest import ROOT, command, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Evermq = Callable[..., Result]


def the_line(result: Result, code: int) -> str:
    """The one line on standard error of a command that failed with this exit code."""
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("evermq: ")
    return lines[0].removeprefix("evermq: ")


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody listens who is no queue manager."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def dead_url() -> Iterator[str]:
    """A URL on which nobody listens: its port is taken, but refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"mq://127.0.0.1:{bound.getsockname()[1]}"


def test_without_a_command_there_is_help(evermq: Evermq) -> None:
    result = evermq()
    assert result.exit_code == 0
    for name in ("run", "mqsc", "put", "get", "browse", "status", "explain", "demo", "bench"):
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'. (see evermq --help)"),
        (["put"], "Missing argument 'QUEUE'. (see evermq put --help)"),
        (["put", "Q", "text", "--lines"], "--lines reads standard input: leave TEXT out"),
        (["put", "Q", "text", "--ack"], "--ack goes with --lines"),
        (["put", "Q", "text", "--group"], "--group goes with --lines"),
        (["explain", "Q", "--group-id", "xyz"], "'xyz' is not hexadecimal digits, two a byte"),
        (["put", "Q", "text", "--priority", "10"], "Invalid value for '--priority': 10 is not in the range 0<=x<=9."),
        (["put", "Q", "text", "--correl-id", "xyz"], "'xyz' is not hexadecimal digits, two a byte"),
        (["put", "Q", "text", "--correl-id", "00" * 25], "an identifier has at most 24 bytes, 48 digits"),
        (["get", "Q", "--wait", "-1"], "Invalid value for '--wait': -1.0 is not in the range x>=0."),
        (
            ["get", "Q", "--wait", "nan"],
            "Invalid value for '--wait': nan is not a number of seconds up to 2147483, or inf.",
        ),
        (
            ["get", "Q", "--wait", "1e9"],
            "Invalid value for '--wait': 1e9 is not a number of seconds up to 2147483, or inf.",
        ),
        (["mqsc", "no-such-file"], "File 'no-such-file' does not exist"),
        (["demo", "no-such-file"], "File 'no-such-file' does not exist"),
        (["bench", "--only", "nonsense"], "no benchmark has the name 'nonsense': there are put-pipelined, "),
        (["run", "--config", "no-such-file"], "no-such-file: no such file or directory"),
    ],
)
def test_a_usage_error_is_one_line(evermq: Evermq, words: list[str], message: str) -> None:
    assert message in the_line(evermq(*words), 20)


@pytest.mark.parametrize("words", [["put", "Q", "text"], ["get", "Q"], ["browse", "Q"], ["status"], ["explain", "Q"]])
def test_without_a_daemon_the_line_says_how_to_start_one(evermq: Evermq, dead_url: str, words: list[str]) -> None:
    line = the_line(evermq(*words, "--url", dead_url), 20)
    assert line.startswith(f"no queue manager at {dead_url}: MQRC_")
    assert line.endswith("start one with: evermq run")


def test_a_script_without_a_daemon_reports_like_runmqsc(evermq: Evermq, dead_url: str) -> None:
    result = evermq("mqsc", "--url", dead_url, input=b"DEFINE QLOCAL(A)\n")
    assert "start one with: evermq run" in the_line(result, 20)
    assert "AMQ8146E: IBM MQ queue manager not available." in result.stdout
    assert "No MQSC commands read." in result.stdout


@pytest.mark.parametrize("url", ["http://127.0.0.1:1414", "nonsense", "mq://127.0.0.1:port", "mqs://127.0.0.1"])
def test_a_url_that_is_none_is_one_line(evermq: Evermq, url: str) -> None:
    assert the_line(evermq("status", "--url", url), 20)


def test_the_url_may_come_from_the_environment(evermq: Evermq, dead_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERMQ_URL", dead_url)
    assert f"no queue manager at {dead_url}" in the_line(evermq("status"), 20)


def test_a_wrong_key_of_the_configuration_is_one_line(evermq: Evermq, tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("[listener]\nprot = 1\n", "utf-8")
    line = the_line(evermq("run", "--config", str(file)), 20)
    assert line == f"{file}: [listener] prot: unknown key; did you mean port?"


@pytest.fixture
def no_garbage() -> None:
    """Nothing that earlier tests left is finalized, and complains of it, where the stack is at its end."""
    gc.collect()


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "{a = " * 5000], ids=["arrays", "tables"])
def test_a_configuration_nested_without_end_is_one_line(evermq: Evermq, tmp_path: Path, text: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text, "utf-8")
    line = the_line(evermq("run", "--config", str(file)), 20)
    assert line == f"{file}: not a configuration: its values are nested too deep"


INTERRUPTS_ITSELF = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "broker.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("ignored", [False, True], ids=["at a terminal", "in the background"])
def test_ctrl_c_while_it_loads_is_quiet(tmp_path: Path, ignored: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS_ITSELF, "utf-8")
    done = subprocess.run(
        command("--version"),
        capture_output=True,
        env=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL),
        check=False,
    )
    assert done.stderr == b""
    assert done.returncode == (0 if ignored else -signal.SIGINT)


def test_a_port_in_use_is_one_line(evermq: Evermq, tmp_path: Path, taken_port: int) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f"[listener]\nport = {taken_port}\n[logging]\nlevel = 'ERROR'\n", "utf-8")
    assert f"cannot listen on 127.0.0.1:{taken_port}: " in the_line(evermq("run", "--config", str(file)), 20)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("listener", "Other machines are served by a listener with TLS"),
        ("tls", "[tls] host is set, and there is no certificate"),
    ],
)
def test_x1_2_a_listener_for_others_that_is_not_safe_is_refused_with_the_lines_to_write(
    evermq: Evermq, tmp_path: Path, section: str, said: str
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(f'[{section}]\nport = 0\nhost = "0.0.0.0"\n[logging]\nlevel = "ERROR"\n', "utf-8")
    result = evermq("run", "--config", str(file))
    assert result.exit_code == 20
    first, *lines = result.stderr.splitlines()
    assert said in first
    assert lines == ["[tls]", 'host = "0.0.0.0"', 'certificate = "server.pem"', 'key = "server.key"']


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "ModuleNotFoundError: No module named 'handlers_missing'"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:\n", "SyntaxError"),
    ],
)
def test_handlers_that_do_not_import_are_one_line(
    evermq: Evermq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, reason: str
) -> None:
    name = "handlers_missing" if source is None else f"handlers_{len(source)}"
    if source is not None:
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
    file = tmp_path / "broker.toml"
    file.write_text(
        f"[listener]\nport = 0\n[trigger_monitor]\nhandlers = ['{name}']\n[logging]\nlevel = 'ERROR'\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    line = the_line(evermq("run", "--config", str(file)), 20)
    assert name in line
    assert reason in line


_RAISED = {
    "an exception": "raise RuntimeError({text!r})\n",
    "an exit": "raise SystemExit({text!r})\n",
    "a bare one": "class Bare(BaseException): pass\nraise Bare({text!r})\n",
    "one without a text": "class Mute(Exception):\n    def __str__(self): raise ValueError({text!r})\nraise Mute\n",
    "one whose text exits": "class Mute(Exception):\n    def __str__(self): raise SystemExit({text!r})\nraise Mute\n",
}


@pytest.mark.parametrize("kind", _RAISED)
@pytest.mark.parametrize("words", [("run", "--config", "broker.toml"), ("worker", "bad", "--url", "mq://127.0.0.1:1")])
def test_what_a_module_raises_at_its_import_is_one_line_without_control_characters(
    tmp_path: Path, words: tuple[str, ...], kind: str
) -> None:
    (tmp_path / "bad.py").write_text(_RAISED[kind].format(text="\x1b[31mred\x07\r\u202e"), "utf-8")
    (tmp_path / "broker.toml").write_text(
        "[listener]\nport = 0\n[trigger_monitor]\nhandlers = ['bad']\n[logging]\nlevel = 'ERROR'\n", "utf-8"
    )
    done = subprocess.run(
        command(*words), capture_output=True, cwd=tmp_path, env=environment(), timeout=60, check=False
    )
    reported = done.stderr.decode()
    assert (done.returncode, reported.count("\n")) == (20, 1)
    assert "does not import: " in reported
    assert escaped(reported, keep="\n") == reported


def test_a_mistake_of_our_own_has_a_traceback_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise RuntimeError("\x1b[31mred\n")
    except RuntimeError as error:
        show_traceback(type(error), error, error.__traceback__)
    reported = capsys.readouterr().err
    assert reported.startswith("Traceback (most recent call last):\n")
    assert reported.endswith("RuntimeError: \\x1b[31mred\n\n")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom broker.__main__ import main\nfrom broker.cli.terminal import terminal\n"
            "sys.argv[1:] = ['--version']\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
            "assert sys.excepthook is terminal.show_traceback",
        ],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
