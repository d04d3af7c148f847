"""Backups that connections ask for: each in a task of its own, for as long as its call is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import CancelScope

from broker.engine.jobs.awaits import Look
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.engine.manager import QueueManager
    from broker.storage.store import Done


class Backup(Look[None]):
    """A backup of the queue manager's data into the directory `path`."""

    __slots__ = ("_manager", "_path", "_scope")

    answer = None

    def __init__(self, manager: QueueManager, path: str) -> None:
        self._manager = manager
        self._path = path
        self._scope = CancelScope()

    def begin(self, done: Done) -> None:
        """Start the task."""
        self._manager.start_soon(self._make, done)

    def end(self) -> None:
        """Break it off; harmless when it is over."""
        self._scope.cancel()

    async def _make(self, done: Done) -> None:
        error: Exception | None = MQError(MQRC.CONNECTION_BROKEN, "the backup was broken off")
        with self._scope:
            try:
                await self._manager.backup(self._path)
            except MQError as refused:
                error = refused
            except Exception as wrong:
                error = mistake(wrong, "a backup")
            else:
                error = None
        done(error)
