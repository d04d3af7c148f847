"""The time for which another program has kept the database locked, so that nothing can be carried over."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from broker.clock import Clock
    from broker.storage.snapshot.errors import StoreBusyError

WARNING_SECONDS: Final = 10.0
SECONDS_MAX: Final = 30.0
"""The time after which the lock is named, and after which batches that wait for its end are refused."""

logger = logging.getLogger(__name__)


class BusyTime:
    """`since` is when the database of the store at `path` was first found locked; None while it is not."""

    def __init__(self, clock: Clock, path: Path) -> None:
        self._clock = clock
        self._path = path
        self.since: float | None = None

    @property
    def too_long(self) -> bool:
        """True if nobody is to wait any more."""
        return self._seconds >= SECONDS_MAX

    def found(self, busy: StoreBusyError) -> None:
        """The database is locked."""
        if self.since is None:
            self.since = self._clock.monotonic()
        if self._seconds >= WARNING_SECONDS:
            logger.warning("database busy path=%s seconds=%d: %s", self._path, self._seconds, busy)

    @property
    def _seconds(self) -> float:
        return 0.0 if self.since is None else self._clock.monotonic() - self.since
