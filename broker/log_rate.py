"""The rate of log lines: an origin that floods the daemon does not flood its log. The security log and the log of the
process both ask it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

LINES_A_SECOND: Final = 10
_ORIGINS_MAX: Final = 1000


class LogRate:
    """The instants at which the last lines were logged, by origin: ten lie in no second of an origin's."""

    def __init__(self) -> None:
        self._logged: dict[Hashable, deque[float]] = {}  # the origin that was logged last is the last
        self.left_out = 0
        """The number of lines that were not logged since `collect`."""

    def allows(self, origin: Hashable, now: float) -> bool:
        """True if a line about this origin may be logged now. It counts as logged, or as left out."""
        logged = self._logged.pop(origin, None)
        if logged is None:
            logged = deque(maxlen=LINES_A_SECOND)
            if len(self._logged) >= _ORIGINS_MAX:
                del self._logged[next(iter(self._logged))]
        self._logged[origin] = logged
        if len(logged) == LINES_A_SECOND and now - logged[0] < 1:
            self.left_out += 1
            return False
        logged.append(now)
        return True

    def collect(self) -> int:
        """Return how many lines were left out since the last call."""
        left_out, self.left_out = self.left_out, 0
        return left_out
