"""Processes that have a data directory, and that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDS_THE_DIRECTORY = """
import sys
from pathlib import Path
from broker.storage.disk.directory import DataDirectory

DataDirectory(Path(sys.argv[1])).claim()
print("claimed", flush=True)
sys.stdin.read()
"""

WRITES_A_MESSAGE = """
import asyncio, os, signal, sys
from pathlib import Path
from broker.storage.store import MessageRow, Rows
from tests.stores import log_store

async def main() -> None:
    store = log_store(Path(sys.argv[1]))
    await store.open()
    await store.write(Rows(inserts=[MessageRow(1, 7, 4, 1, b"descriptor of 1", 5, b"hello")]))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def run_until_killed(program: str, directory: Path) -> None:
    """Run a program that is given the directory, and that kills itself in the end."""
    ended = subprocess.run([sys.executable, "-c", program, str(directory)], env=environment(), check=False)
    assert ended.returncode == -signal.SIGKILL


@contextmanager
def running(program: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of a program that is given the directory and has printed a line; it is killed in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
