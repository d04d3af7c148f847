"""The retries of intra-group queuing: first often, then for good and seldom (queue-sharing 9.8)."""

from __future__ import annotations

from typing import Final

SHORT_COUNT: Final = 10
SHORT_SECONDS: Final = 60.0
LONG_COUNT: Final = 999_999_999
LONG_SECONDS: Final = 1200.0


class Attempts:
    """The attempts since the last success. `made`: how many times it has been tried again."""

    def __init__(self) -> None:
        self.made = 0

    def succeeded(self) -> None:
        """The counts begin anew."""
        self.made = 0

    def next(self) -> float | None:
        """After a failure: the seconds to wait before the next attempt, which is counted; None when it was the last."""
        if self.made >= SHORT_COUNT + LONG_COUNT:
            return None
        self.made += 1
        return SHORT_SECONDS if self.made <= SHORT_COUNT else LONG_SECONDS
