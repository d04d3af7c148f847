"""REFRESH CONFIG: the configuration of the daemon is read again. A queue manager in a program has none to read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from broker.engine.jobs.awaits import Look
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.storage.store import Done

Reload: TypeAlias = "Callable[[Callable[[CommandReply], None]], None]"
"""Begins a reload of the configuration, and calls its argument with the reply, later, on the event loop."""


class Reloaded(Look[CommandReply]):
    """The configuration has been read again, or could not be used."""

    __slots__ = ("_reload",)

    def __init__(self, reload: Reload) -> None:
        self._reload = reload

    def begin(self, done: Done) -> None:
        self._reload(partial(self._answered, done))

    def _answered(self, done: Done, reply: CommandReply) -> None:
        self.answer = reply
        done(None)
