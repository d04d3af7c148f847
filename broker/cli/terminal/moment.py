"""Moments on the command line, and in what it prints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def moment(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """A day, or a day and a time, as ISO 8601 writes them, as the callback of an option; in UTC where no zone is
    named.
    """
    if text is None:
        return None
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no moment: write 2026-01-31, or 2026-01-31T12:00+01:00") from None
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


def instant_in_words(instant: float, write: Callable[[datetime], str] = "{:%Y-%m-%dT%H:%M:%SZ}".format) -> str:
    """An instant, in seconds since 1970, as `write` has it in UTC; one that no calendar has is told as that."""
    try:
        return write(datetime.fromtimestamp(instant, UTC))
    except (ValueError, OverflowError, OSError):
        return "after the year 9999" if instant > 0 else "no instant"


def in_utc(instant: float) -> str:
    """An instant, in seconds since 1970, as people read it: `2026-05-01 09:00:00 UTC`."""
    return instant_in_words(instant, "{:%Y-%m-%d %H:%M:%S} UTC".format)
