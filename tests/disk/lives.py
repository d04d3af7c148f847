"""One life of a process on a simulated disk: from its start to its end, be it a crash in the middle of a callback."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker.clock import Clock
from tests.disk.faults import Crash
from tests.disk.loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.clock import Timer
    from tests.disk.machine import Machine
    from tests.disk.simulated import SimulatedDisk

_SECONDS_MAX = 1000.0
_TURNS_AFTER = 20


class VirtualClock(Clock):
    """The clock of a virtual loop. The disk's steps take some of its time, too: `step_seconds` each."""

    def __init__(self, machine: Machine, step_seconds: float) -> None:
        self._machine = machine
        self._step_seconds = step_seconds

    def monotonic(self) -> float:
        """Seconds since the process started."""
        return asyncio.get_running_loop().time() + self._machine.steps * self._step_seconds

    def time(self) -> float:
        """Seconds since 1970."""
        return 1.6e9 + self.monotonic()

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call it after so many seconds."""
        return asyncio.get_running_loop().call_later(delay, callback)


def live(disk: SimulatedDisk, work: Coroutine[Any, Any, None]) -> bool:
    """Let a process do its work: whether it came to its end. Otherwise it has crashed, wherever it was.

    Raises what the work raises, Hang when it waits for ever, and what a callback raised that nobody waits for.
    """
    loop = VirtualLoop(_SECONDS_MAX)
    astray: list[BaseException] = []

    def note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if disk.alive and error is not None and not isinstance(error, Crash):
            astray.append(error)

    loop.set_exception_handler(note)
    disk.at_end(loop.stop)
    task = loop.create_task(work)
    try:
        loop.run_until_complete(task)
    except (Crash, RuntimeError):
        if disk.alive:
            raise
    else:
        if disk.alive and astray:
            raise astray[0]
        return disk.alive
    finally:
        _clear(loop)
    return False


def _clear(loop: VirtualLoop) -> None:
    """Let go of what still waits. Nothing of it reaches the disk, if the process has crashed."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    for _ in range(_TURNS_AFTER if tasks else 0):
        loop.call_soon(loop.stop)
        with suppress(Crash):
            loop.run_forever()
        if all(task.done() for task in tasks):
            break
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
    loop.close()
