"""Processes of their own for the ends of a measurement: each runs one coroutine function.

A child prepares, says on a line that it is ready, goes when it is told to on its standard input, and says what it
measured. Lines are JSON. The function gets the keywords it was started with, and `ready`: awaited, it says that all is
prepared, and returns what the parent says with its order to go.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from anyio.abc import Process

Ready: TypeAlias = "Callable[..., Awaitable[Any]]"
Told: TypeAlias = dict[str, Any]
"""The figures of a child: names and values that JSON knows."""

ROOT: Final = Path(__file__).parents[2]
"""The folder from which `broker` is imported, and `triggers` too."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

_LINE_BYTES_MAX: Final = 1024 * 1024


class MeasurementError(Exception):
    """A measurement did not come to its end; the message says why."""


class Child:
    """The parent's end of a child process."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._went = False

    async def prepared(self) -> Told:
        """Wait until all is prepared; what the child says of it. Raises MeasurementError, as `result` does."""
        return await self._said("ready")

    async def go(self, order: Any = None) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._went = True
        await self._process.stdin.send(json.dumps(order).encode() + b"\n")

    async def result(self) -> Told:
        """Wait until it has ended; what it measured."""
        return await self._said("result")

    async def measured(self) -> Told:
        """All of it, for a child that nobody else waits for."""
        await self.prepared()
        await self.go()
        return await self.result()

    async def _said(self, kind: str) -> Told:
        try:
            line = json.loads(await self._lines.receive_until(b"\n", _LINE_BYTES_MAX))
        except (anyio.EndOfStream, anyio.IncompleteRead):
            raise MeasurementError(await self._last_words()) from None
        assert line.pop("kind") == kind, line
        return line  # type: ignore[no-any-return]  # json knows only Any

    async def _last_words(self) -> str:
        assert self._process.stderr is not None
        text = b"".join([chunk async for chunk in self._process.stderr]).decode(errors="replace")
        return text.strip().rpartition("\n")[2] or f"exit code {await self._process.wait()}"


@asynccontextmanager
async def child(
    function: Callable[..., Awaitable[Told]],
    settings: Mapping[str, str] = NO_SETTINGS,
    /,
    *,
    prefix: Sequence[str] = (),
    **keywords: Any,
) -> AsyncIterator[Child]:
    """Run a coroutine function of a module in a process of its own, for as long as the context is entered. `settings`
    are those variables of its environment that EverMQ reads, `prefix` is a command that starts it.
    """
    order = json.dumps([function.__module__, function.__name__, keywords])
    async with await anyio.open_process(
        [*prefix, sys.executable, "-m", __name__, order],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**settings),
    ) as process:
        try:
            yield Child(process)
        finally:
            if process.returncode is None:
                process.kill()


def environment(**settings: str) -> dict[str, str]:
    """The environment of a child: it finds `broker`, and has no settings but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, **settings}


async def _run(function: Callable[..., Awaitable[Told]], keywords: Told) -> None:
    async def ready(**facts: Any) -> Any:
        gc.collect()
        gc.freeze()  # what is prepared is not walked again while it is measured
        _say("ready", facts)
        return json.loads(await anyio.to_thread.run_sync(sys.stdin.readline))

    _say("result", await function(ready, **keywords))


def _say(kind: str, facts: Told) -> None:
    sys.stdout.write(json.dumps({"kind": kind, **facts}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _module, _name, _keywords = json.loads(sys.argv[1])
    _function = getattr(importlib.import_module(_module), _name)
    anyio.run(_run, _function, _keywords, backend_options={"use_uvloop": True})
