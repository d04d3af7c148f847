"""A rate of log lines: an origin that floods the daemon does not flood its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from logging import Logger

LINES_A_SECOND: Final = 10
_ORIGINS_MAX: Final = 1000


class LogRate:
    """The lines that were logged in this second, by origin, and those that were not."""

    def __init__(self) -> None:
        self._second = 0
        self._lines: dict[str, int] = {}
        self.left_out = 0
        """The number of lines that were not logged since `collect`."""

    def allows(self, origin: str, now: float) -> bool:
        """True if a line about this origin may be logged now. It counts as logged, or as left out."""
        if int(now) != self._second or len(self._lines) >= _ORIGINS_MAX:
            self._second = int(now)
            self._lines.clear()
        lines = self._lines[origin] = self._lines.get(origin, 0) + 1
        if lines > LINES_A_SECOND:
            self.left_out += 1
        return lines <= LINES_A_SECOND

    def refused(self, logger: Logger, origin: str, now: float, why: str) -> None:
        """Log why somebody was not let in, and how many other lines of that were left out, if it may be logged."""
        if not self.allows(origin, now):
            return
        event = {"event": "connection_refused"}
        if left_out := self.collect():
            logger.info("%d more connections refused", left_out, extra=event)
        logger.info("connection_refused peer=%s: %s", origin or "local", why, extra=event)

    def collect(self) -> int:
        """Return how many lines were left out since the last call."""
        left_out, self.left_out = self.left_out, 0
        return left_out
