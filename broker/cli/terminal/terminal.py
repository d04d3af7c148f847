"""Print for people. The data of messages is written as it is (`messages`), all other text from here.

It is escaped whether a terminal reads it or a pipe: a pipe often ends at a terminal.
"""

from __future__ import annotations

import sys
from traceback import format_exception
from typing import TYPE_CHECKING, Final

from broker.presentation.escaping import escaped

if TYPE_CHECKING:
    from types import TracebackType

_LAYOUT: Final = "\n\t"


def say(text: str) -> None:
    """Print text and a newline on standard output. Its lines and tabs stay, other control characters are escaped."""
    print(escaped(text, keep=_LAYOUT))


def write(text: str) -> None:
    """Write text as `say` does, with no newline behind it, and see it off."""
    sys.stdout.write(escaped(text, keep=_LAYOUT))
    sys.stdout.flush()


def warn(text: str) -> None:
    """Print text as one line on standard error."""
    print(escaped(" ".join(text.split())), file=sys.stderr, flush=True)


def warn_lines(text: str) -> None:
    """Print lines on standard error, to be copied."""
    print(escaped(text, keep=_LAYOUT), file=sys.stderr, flush=True)


def show_traceback(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print an exception that nobody has caught, as `sys.excepthook`. Its text may be anybody's."""
    print(escaped("".join(format_exception(kind, error, traceback)), keep=_LAYOUT), end="", file=sys.stderr, flush=True)
