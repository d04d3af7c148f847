"""A screen that is written again and again: of a terminal, or as texts one below the other for who reads a pipe."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

import anyio

from broker.presentation.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_CLEAR: Final = "\x1b[H\x1b[J"
_MORE: Final = "..."
_NEWLINE: Final = "\n"


async def repeat(look: Callable[[], Awaitable[str]], seconds: float, *, in_lines: bool = False) -> None:
    """Show the text that `look` returns, again after so many seconds, for ever. `in_lines`: it is a line of data, which
    is shown as it is.
    """
    while True:
        text = await look()
        if in_lines:
            sys.stdout.write(f"{text}\n")
        elif sys.stdout.isatty():
            size = shutil.get_terminal_size()
            sys.stdout.write(_CLEAR + "\n".join(fitted(text, size.columns, size.lines)))
        else:
            sys.stdout.write(f"{escaped(text, keep=_NEWLINE)}\n\n")
        sys.stdout.flush()
        await anyio.sleep(seconds)


def fitted(text: str, columns: int, lines: int) -> list[str]:
    """Return the lines of a text that have room on a screen, each as much as has."""
    shown = [escaped(line)[:columns] for line in text.split("\n")]
    return shown if len(shown) <= lines else [*shown[: max(lines - 1, 0)], _MORE]
