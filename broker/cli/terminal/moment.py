"""Moments on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

import click


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
