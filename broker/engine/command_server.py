"""The command server: runs MQSC and ZMQSC scripts, and what calls change of definitions (MQSET, dynamic queues), one
change at a time over all connections.

A command is judged by what is in force, so the next one is not looked at before the changes of the last are durable and
applied.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.commands.interpreter import interpret
from broker.commands.script import commands_of
from broker.mqi.errors import MQError
from broker.mqi.replies import CommandReply
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from broker.core.definitions import Change
    from broker.engine.manager import QueueManager

Job: TypeAlias = "Generator[Sequence[Change], Exception | None]"
"""Yields changes to make, and is told the error that kept the store from taking them, or None."""


class CommandServer:
    """The jobs that wait, and the one that runs."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._jobs: deque[Job] = deque()
        self._busy = False

    def run(self, text: str, done: Callable[[list[CommandReply]], None], *, check: bool = False) -> None:
        """Run the commands of `text` in their turn, then call `done` with a reply to each; with `check` up to the first
        that fails.
        """
        self._add(self._script(text, done, check=check))

    def submit(self, make: Callable[[], Change | None], done: Callable[[Exception | None], None]) -> None:
        """Make the change, if any, that `make` makes of what is then in force, then call `done`: with the MQError that
        `make` raised, the error of the store, or None.
        """
        self._add(_single(make, done))

    def _script(self, text: str, done: Callable[[list[CommandReply]], None], *, check: bool) -> Job:
        replies = []
        warned: set[str] = set()
        for command in commands_of(text):
            now = datetime.fromtimestamp(self._manager.clock.time(), UTC)
            outcome = interpret(command, self._manager.catalog, now, warned)
            error = (yield outcome.changes) if outcome.changes else None
            replies.append(outcome.reply if error is None else _failed(error))
            if check and not replies[-1].ok:
                break
        done(replies)

    def _add(self, job: Job) -> None:
        self._jobs.append(job)
        if not self._busy:
            self._continue(None)

    def _continue(self, error: Exception | None) -> None:
        """Go on with the job that runs, and with those behind it, up to the next change."""
        self._busy = True
        while self._jobs:
            try:
                changes = self._jobs[0].send(error)
            except StopIteration:
                self._jobs.popleft()
                error = None
            else:
                self._change(changes)
                return
        self._busy = False

    def _change(self, changes: Sequence[Change]) -> None:
        self._manager.change(changes[0], partial(self._changed, changes[1:]))

    def _changed(self, rest: Sequence[Change], error: Exception | None) -> None:
        if error is None and rest:
            self._change(rest)
        else:
            self._continue(error)


def _single(make: Callable[[], Change | None], done: Callable[[Exception | None], None]) -> Job:
    try:
        change = make()
    except MQError as error:
        done(error)
    else:
        done(None if change is None else (yield (change,)))


def _failed(error: Exception) -> CommandReply:
    why = "the store is full" if isinstance(error, StoreFullError) else "the store failed, the outcome is unknown"
    return CommandReply(code="AMQ8101S", text=f"AMQ8101S: IBM MQ error: {why}: {error}.", ok=False)
