"""The command server: runs MQSC and ZMQSC scripts, one command at a time over all connections.

A command is judged by what is in force, so the next one is not looked at before the changes of the last are durable and
applied.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from broker.commands.interpreter import Outcome, interpret
from broker.commands.script import commands_of
from broker.mqi.replies import CommandReply
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from broker.engine.manager import QueueManager
    from broker.interface.port import Call


class CommandServer:
    """The scripts that wait, and the one that runs."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._scripts: deque[_Script] = deque()
        self._busy = False

    def run(self, call: Call[list[CommandReply]], text: str) -> None:
        """Run the commands of `text` in their turn; the answer to `call` is a reply to each."""
        self._scripts.append(_Script(call, commands_of(text)))
        self._continue()

    def _continue(self) -> None:
        while self._scripts and not self._busy:
            script = self._scripts[0]
            if not script.commands:
                self._scripts.popleft()
                if not script.call.done():
                    script.call.set_result(script.replies)
                continue
            self._start(script, script.commands.popleft())

    def _start(self, script: _Script, text: str) -> None:
        manager = self._manager
        outcome = interpret(text, manager.catalog, datetime.fromtimestamp(manager.clock.time(), UTC))
        if not outcome.changes:
            script.replies.append(outcome.reply)
            return
        self._busy = True
        manager.change(outcome.changes[0], partial(self._changed, script, outcome, 1))

    def _changed(self, script: _Script, outcome: Outcome, done: int, error: Exception | None) -> None:
        if error is None and done < len(outcome.changes):
            self._manager.change(outcome.changes[done], partial(self._changed, script, outcome, done + 1))
            return
        script.replies.append(outcome.reply if error is None else _failed(error))
        self._busy = False
        self._continue()


class _Script:
    __slots__ = ("call", "commands", "replies")

    def __init__(self, call: Call[list[CommandReply]], commands: list[str]) -> None:
        self.call = call
        self.commands = deque(commands)
        self.replies: list[CommandReply] = []


def _failed(error: Exception) -> CommandReply:
    why = "the store is full" if isinstance(error, StoreFullError) else "the store failed, the outcome is unknown"
    return CommandReply(code="AMQ8101S", text=f"AMQ8101S: IBM MQ error: {why}: {error}.", ok=False)
