"""Instants as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def instant_in_words(instant: float, write: Callable[[datetime], str] = "{:%Y-%m-%dT%H:%M:%SZ}".format) -> str:
    """An instant, in seconds since 1970, as `write` has it in UTC; one that no calendar has is told as that."""
    try:
        return write(datetime.fromtimestamp(instant, UTC))
    except (ValueError, OverflowError, OSError):
        return "after the year 9999" if instant > 0 else "no instant"


def in_utc(instant: float) -> str:
    """An instant, in seconds since 1970, as people read it: `2026-05-01 09:00:00 UTC`."""
    return instant_in_words(instant, "{:%Y-%m-%d %H:%M:%S} UTC".format)
