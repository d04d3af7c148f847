"""Decide if the other end of a line is still there, from what was heard between the ticks of a timer.

It counts ticks and reads no clock: a process that was suspended for an hour wakes to one tick, not to a dead line.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

TICKS_AN_INTERVAL: Final = 2
_SILENT_TICKS_MAX: Final = 2 * TICKS_AN_INTERVAL + 1  # two intervals and a margin of half of one


class Beat(Enum):
    """The action at a tick."""

    NOTHING = "nothing"
    SEND = "send"
    DROP = "drop"


class Liveness:
    """The watch over one line. The owner sets `heard` and `said` as bytes pass, and calls `tick` twice an interval.

    An end that said nothing since the last tick sends a heartbeat, so it is never silent for more than an interval. An
    end that is silent for two intervals and a half is gone.
    """

    __slots__ = ("_silent", "heard", "said")

    def __init__(self) -> None:
        self.heard = True
        self.said = False
        self._silent = 0

    def tick(self) -> Beat:
        """Half an interval has passed."""
        self._silent = 0 if self.heard else self._silent + 1
        self.heard = False
        if self._silent >= _SILENT_TICKS_MAX:
            return Beat.DROP
        said, self.said = self.said, False
        return Beat.NOTHING if said else Beat.SEND
