"""Backups that connections ask for: each in a task of its own, for as long as its call is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import CancelScope

from broker.engine.jobs.awaits import Look
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import BackupFailedError, StoreFailedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from broker.storage.store import Done, Store


async def back_up(store: Store, path: Path) -> None:
    """Have the store make a copy of its data. Raises STORAGE_MEDIUM_FULL (2192), FILE_SYSTEM_ERROR (2208)."""
    try:
        await store.backup(path)
    except StoreFullError as full:
        raise MQError(MQRC.STORAGE_MEDIUM_FULL, str(full)) from full
    except (BackupFailedError, StoreFailedError) as error:
        raise MQError(MQRC.FILE_SYSTEM_ERROR, str(error)) from error


class Backup(Look[None]):
    """A backup of the queue manager's data, which `back_up` makes; `start_soon` runs a task."""

    __slots__ = ("_back_up", "_scope", "_start_soon")

    answer = None

    def __init__(self, back_up: Callable[[], Awaitable[None]], start_soon: Callable[..., None]) -> None:
        self._back_up = back_up
        self._start_soon = start_soon
        self._scope = CancelScope()

    def begin(self, done: Done) -> None:
        """Start the task."""
        self._start_soon(self._make, done)

    def end(self) -> None:
        """Break it off; harmless when it is over."""
        self._scope.cancel()

    async def _make(self, done: Done) -> None:
        error: Exception | None = MQError(MQRC.CONNECTION_BROKEN, "the backup was broken off")
        with self._scope:
            try:
                await self._back_up()
            except MQError as refused:
                error = refused
            except Exception as wrong:
                error = mistake(wrong, "a backup")
            else:
                error = None
        done(error)
