"""A queue manager that can fail: it is gone at once, and starts again on what had been written by then."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.conformance.system import System
from tests.stores import log_store

if TYPE_CHECKING:
    from pathlib import Path

    from broker.storage.log_store import LogStore


class DurableSystem(System):
    """A system whose store is on disk, under `path`."""

    def __init__(self, path: Path, way: str) -> None:
        self._path = path
        self._lives = 0
        super().__init__(self._open_store, way)

    def _open_store(self) -> LogStore:
        return log_store(self._directory)

    @property
    def _directory(self) -> Path:
        return self._path / f"life {self._lives}"

    async def crash(self) -> None:
        """Crash: the next queue manager has what is on disk at this moment. All connections are gone.

        The files are copied while the queue manager runs; what its orderly end writes then goes to files that nobody
        reads again. (The index of the write-ahead log is shared memory: a crash leaves none.)
        """
        left = self._directory
        self._lives += 1
        shutil.copytree(left, self._directory, ignore=shutil.ignore_patterns("*-shm"))
        await self._end()
        self._store = self._open_store()
        await self._start()
