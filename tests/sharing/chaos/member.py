"""A member in a process of its own: `python -m tests.sharing.chaos.member NAME DATA GROUP DSN [--clock S] [--step X]`.

It tells its address in a line on its standard output. `--clock` is how far its wall clock is off, in seconds. `--step`
is where it dies: "before commit_unit 3" when it is about to send the third statement that calls `commit_unit`, "after
..." when that was answered. `statements` says how statements are named; "write" is one of its own store.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import anyio
import asyncpg

from broker import Clock, QueueManager, QueueSharingGroup
from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from broker.sharing.members.group import LEASE_SECONDS
from broker.storage.log_store import LogStore
from tests.sharing.chaos.statements import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_METHODS: Final = ("execute", "fetch", "fetchrow", "fetchval", "executemany")


class Steps:
    """The steps of this process, counted; it dies at the one that is named."""

    def __init__(self, named: str) -> None:
        self._when, _, rest = named.partition(" ")
        self._name, _, number = rest.rpartition(" ")
        self._number = int(number)
        self._counts: Counter[str] = Counter()

    def before(self, name: str) -> int:
        """A step is about to be made; its number among those of this name."""
        self._counts[name] += 1
        self._die("before", name, self._counts[name])
        return self._counts[name]

    def after(self, name: str, number: int) -> None:
        """The step was made."""
        self._die("after", name, number)

    def _die(self, when: str, name: str, number: int) -> None:
        if (when, name, number) == (self._when, self._name, self._number):
            os.kill(os.getpid(), signal.SIGKILL)


def watch(steps: Steps) -> None:
    """Have the steps of this process counted from now on."""

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(session: asyncpg.Connection, statement: str, *arguments: Any, **options: Any) -> Any:
            number = steps.before(name_of(statement))
            answer = await method(session, statement, *arguments, **options)
            steps.after(name_of(statement), number)
            return answer

        return call

    for name in _METHODS:
        patch.object(asyncpg.Connection, name, counted(getattr(asyncpg.Connection, name))).start()
    submit = LogStore.submit

    def submitted(store: LogStore, rows: Any, done: Callable[..., None]) -> bool:
        number = steps.before("write")

        def reported(*outcome: Any) -> None:
            steps.after("write", number)
            done(*outcome)

        return submit(store, rows, reported)

    patch.object(LogStore, "submit", submitted).start()


class ClockThatIsOff(Clock):
    """The real clock, but for how far the wall clock is off."""

    def __init__(self, offset: float) -> None:
        self.time = lambda: time.time() + offset


def tell_tasks() -> None:
    """Write on the standard error what each task waits for."""
    for task in asyncio.all_tasks():
        frames = [f"{name}:{line}" for name, line in _waits_in(task)]
        sys.stderr.write(f"task {task.get_name()}: {' > '.join(frames)}\n")


def _waits_in(task: asyncio.Task[Any]) -> Iterator[tuple[str, int]]:
    """Yield the functions and lines of the coroutines that a task is in, the outermost first."""
    coroutine: Any = task.get_coro()
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None:
            yield frame.f_code.co_qualname, frame.f_lineno
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)


async def serve(chosen: argparse.Namespace) -> None:
    """Be a member until SIGTERM."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell_tasks)
    clock = ClockThatIsOff(chosen.clock)
    group = QueueSharingGroup(chosen.group, chosen.dsn, chosen.lease)
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with (
            QueueManager.open(name=chosen.name, data=chosen.data, clock=clock, group=group) as manager,
            Server(manager, ListenerConfig(port=chosen.port), LimitsConfig()) as server,
        ):
            sys.stdout.write(f"{server.addresses[0]}\n")
            sys.stdout.flush()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop_when_it_must, manager, tasks.cancel_scope)
                async for _ in signals:
                    break
                tasks.cancel_scope.cancel()


async def _stop_when_it_must(manager: QueueManager, scope: anyio.CancelScope) -> None:
    """A member that has lost its group, or its disk, ends."""
    await manager.stopped()
    scope.cancel()


def end_with_input() -> None:
    """Wait for the end of the standard input, which is that of whoever has started this process, and end with it."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.sharing.chaos.member", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("data", type=Path)
    parser.add_argument("group")
    parser.add_argument("dsn")
    parser.add_argument("--clock", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lease", type=float, default=LEASE_SECONDS)
    parser.add_argument("--step")
    parser.add_argument("--leashed", action="store_true", help="end at once when the standard input ends")
    chosen = parser.parse_args()
    if chosen.leashed:
        Thread(target=end_with_input, daemon=True).start()
    if chosen.step:
        watch(Steps(chosen.step))
    anyio.run(serve, chosen)


if __name__ == "__main__":
    main()
