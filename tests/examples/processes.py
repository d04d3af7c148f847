"""Real processes, as a newcomer starts them in a shell: the daemon, and commands beside it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import FileIO

    from tests.security.network.namespaces import Host

ROOT = Path(__file__).parents[2]


class Shell:
    """A folder to run commands in, with `evermq` and `python` on the path and none of the tester's settings. The
    commands run on `host` if there is one.
    """

    def __init__(self, folder: Path, programs: Path, host: Host | None = None, **variables: str) -> None:
        self.folder = folder
        self._host = host
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), kept["PATH"]])
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "EVERMQ_LISTENER_PORT": "0"}
        self.environment = {**kept, **own, **variables}

    def run(self, script: str) -> str:
        """Run a script, which must succeed; its standard output."""
        done = subprocess.run(
            self.command(script), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run_on_terminal(self, script: str, typed: Mapping[str, str]) -> None:
        """Run a script, which must succeed, on a terminal: what it asks for, in its order, and what is typed then."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self.command(script),
            cwd=self.folder, env=self.environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        shown = b""
        asked = list(typed)
        with process, os.fdopen(ours, "r+b", buffering=0) as terminal:
            while piece := _read(terminal):
                shown += piece
                if asked and shown.endswith(asked[0].encode()):
                    terminal.write(f"{typed[asked.pop(0)]}\n".encode())
        assert process.returncode == 0, shown.decode()
        assert not asked, shown.decode()

    def command(self, script: str) -> list[str]:
        """The command that runs a script."""
        inside = () if self._host is None else self._host.inside(self.folder)
        return [*inside, "bash", "-euo", "pipefail", "-c", script]

    def daemon(self, command: str) -> Daemon:
        """Start a daemon, and return when it is ready; from then on it is the one that commands are for."""
        daemon = Daemon(command, self)
        self.environment["EVERMQ_URL"] = f"mq://{daemon.address}"
        return daemon


def _read(terminal: FileIO) -> bytes:
    """Return text that a program writes to its terminal; nothing once it has ended."""
    try:
        return terminal.read(1) or b""
    except OSError:
        return b""


class Running:
    """A command that goes on, behind others that prepare it; leaving its context ends it as Ctrl-C does."""

    def __init__(self, script: str, shell: Shell) -> None:
        self._lines: list[str] = []
        *before, command = script.strip().splitlines()
        self._process = subprocess.Popen(
            shell.command("\n".join([*before, f"exec env {command}"])),
            cwd=shell.folder, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def wait_for(self, wanted: Callable[[str], bool]) -> str:
        """The first line that it has said, or says from now on, on either stream, that is wanted."""
        for line in self._lines:
            if wanted(line):
                return line
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            if wanted(self._lines[-1]):
                return self._lines[-1]
        raise AssertionError("it has ended:\n" + "\n".join(self._lines))

    def stop(self) -> None:
        """End it in order."""
        self._process.send_signal(signal.SIGINT)
        rest = self._process.communicate(timeout=60)[0]
        assert self._process.returncode == 0, "\n".join([*self._lines, rest])

    def kill(self) -> None:
        """End it at once, however it is."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()


class Daemon(Running):
    """A daemon, which listens on `address`."""

    def __init__(self, command: str, shell: Shell) -> None:
        super().__init__(command, shell)
        try:
            self.address = _address(self.wait_for(lambda line: _address(line) != ""))
        except BaseException:
            self.kill()
            raise


def _address(line: str) -> str:
    """The address in the ready line; "" in any other."""
    found = re.search(r' ready on ([^\s,"]+)', line)
    return found[1] if found else ""
