"""Objects that were opened and never closed: where, and the warning that says so."""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple


class SourceLine(NamedTuple):
    """A line of a program."""

    file: str
    line: int


def caller(depth: int = 1) -> SourceLine:
    """The line that has called the function which asks, or one so many calls further out."""
    frame = sys._getframe(depth + 1)
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)


def warn_unclosed(what: str, place: SourceLine, source: object) -> None:
    """Warn of an object that was opened at this line and never closed (ResourceWarning)."""
    text = f"{what} was opened here and never closed: await its close(), or enter it with async with"
    warnings.warn_explicit(text, ResourceWarning, *place, source=source)
