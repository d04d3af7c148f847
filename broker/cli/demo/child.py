"""The child processes of the demonstration: its daemon and its workers. What they log is read as it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.text import TextReceiveStream

import broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import Process

STOP_SECONDS_MAX: Final = 20.0


async def child(*words: str, folder: Path | None = None) -> Process:
    """Start `evermq` with these words. A session of its own keeps the terminal's Ctrl-C for the parent, who then stops
    the child.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    packages = str(Path(broker.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [packages, environment.get("PYTHONPATH")]))
    return await anyio.open_process(
        [sys.executable, "-m", "broker", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )


async def lines(process: Process) -> AsyncIterator[str]:
    """The lines of its log, to the end."""
    assert process.stderr is not None
    rest = ""
    async for text in TextReceiveStream(process.stderr, errors="replace"):
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield line


async def stop(process: Process) -> None:
    """End it in order; at once, if it does not."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_SECONDS_MAX):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.wait()
    await process.aclose()
