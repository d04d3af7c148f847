"""Decide if a record may be written on the event loop: while the disk answers faster than a thread could be asked.

It saves two changes of thread a batch, and holds the loop for as long as the disk takes. So it stops at once when the
disk becomes slow, and long records never go this way (log rule 4.6).
"""

from __future__ import annotations

from typing import Final

INLINE_BYTES_MAX: Final = 256 * 1024
"""The longest record that is written on the loop."""

_FAST: Final = 0.0005
_SLOW: Final = 0.002
_PAUSE: Final = 1.0
_SMOOTHING: Final = 1 / 8


class Pace:
    """The pace of recent writes, in seconds. Without `adaptive` every record goes to the thread."""

    def __init__(self, *, adaptive: bool) -> None:
        self._adaptive = adaptive
        self._mean = _FAST  # until some have been measured, on the thread
        self._paused_until = 0.0

    def inline(self, size: int, now: float) -> bool:
        """True if a record of `size` bytes may be written on the loop at the moment `now`."""
        return self._adaptive and self._mean < _FAST and size <= INLINE_BYTES_MAX and now >= self._paused_until

    def took(self, seconds: float, now: float) -> None:
        """A write took so long, and ended at the moment `now`."""
        self._mean += (seconds - self._mean) * _SMOOTHING
        if seconds > _SLOW:
            self._paused_until = now + _PAUSE
