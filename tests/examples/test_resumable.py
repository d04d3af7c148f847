"""The resumable examples, killed at chosen points and run again: one complete group, each line of it once."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Self

import pytest

from tests.examples.processes import ROOT, Shell

LINES = [f"line {number}" for number in range(1, 10)]


class Program:
    """An example in a process of its own. Leaving its context kills it, if it is still there."""

    def __init__(self, shell: Shell, name: str, *arguments: str) -> None:
        self.said: list[str] = []
        self._process = subprocess.Popen(
            ["python", str(ROOT / "examples" / name), *arguments],
            cwd=shell.folder, env=shell.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def says(self, wanted: str) -> None:
        """Read what it says up to this line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.rstrip("\n"))
            if self.said[-1] == wanted:
                return
        raise AssertionError("\n".join(self.said))

    def ends(self) -> list[str]:
        """It comes to its end; all that it said."""
        rest = self._process.communicate(timeout=60)[0]
        self.said += rest.splitlines()
        assert self._process.returncode == 0, "\n".join(self.said)
        return self.said

    def kill(self) -> None:
        """SIGKILL."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Fed:
    """A putter whose file is a pipe, so that the test decides how far it comes: a line is put when it is known whether
    another one follows.
    """

    def __init__(self, shell: Shell) -> None:
        path = shell.folder / "lines"
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        self.program = Program(shell, "resumable_putter.py", str(path))
        try:
            self._pipe = path.open("w", encoding="utf-8")
        except BaseException:
            self.program.kill()
            raise

    def feed(self, count: int) -> None:
        """Let it put so many lines."""
        self._pipe.write("".join(f"{line}\n" for line in LINES[: count + 1]))
        self._pipe.flush()

    def __enter__(self) -> Program:
        return self.program

    def __exit__(self, *_: object) -> None:
        self.program.kill()
        self._pipe.close()


def put_to_the_end(shell: Shell) -> list[str]:
    (shell.folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    with Program(shell, "resumable_putter.py", "lines.txt") as putter:
        return putter.ends()


def the_group(shell: Shell) -> list[str]:
    """Return what a browse in logical order shows, which must be one whole group."""
    return shell.run("evermq browse LINES --logical").splitlines()


@pytest.mark.parametrize(("killed_after", "kept"), [(3, 3), (5, 3), (8, 6)])
def test_a_putter_that_was_killed_completes_its_group(shell: Shell, killed_after: int, kept: int) -> None:
    with shell.daemon("evermq run"):
        fed = Fed(shell)
        with fed as putter:
            fed.feed(killed_after)
            putter.says(f"put line {killed_after}")
        assert put_to_the_end(shell) == [
            f"goes on behind line {kept}",
            *(f"put line {number}" for number in range(kept + 1, 10)),
        ]
        assert the_group(shell) == LINES
        assert shell.run("evermq browse LINES.PUT") == ""


def test_both_are_killed_again_and_again_and_the_group_arrives_once(shell: Shell) -> None:
    with shell.daemon("evermq run"):
        for put, got in ((4, 3), (7, 6)):
            fed = Fed(shell)
            with fed as putter, Program(shell, "resumable_getter.py") as getter:
                fed.feed(put)
                putter.says(f"put line {put}")
                getter.says(f"got line {got}")  # and waits for the next, which is not committed
            assert getter.said[0] == "goes on behind line 0"
        assert put_to_the_end(shell)[0] == "goes on behind line 6"
        with Program(shell, "resumable_getter.py") as getter:
            assert getter.ends() == [
                "goes on behind line 4",
                *(f"got line {number}" for number in range(5, 10)),
                "got the whole group",
            ]
        assert shell.run("evermq get CAPITALS --all").splitlines() == [line.upper() for line in LINES]
        for name in ("LINES", "LINES.PUT", "LINES.GOT"):
            assert shell.run(f"evermq browse {name}") == ""
