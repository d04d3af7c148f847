"""The layout of DISPLAY replies: the tokens of an object two on a line, the first padded to 40 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from broker.commands.table.forms import Flag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.commands.table.forms import Value
    from broker.commands.table.row import Attribute
    from broker.commands.table.statuses import StatusFigure

INDENT = "   "
COLUMN_WIDTH = 40
UNLIMITED_DEPTH = 999999999

Shown: TypeAlias = "tuple[Attribute | StatusFigure, Value]"


def mqsc_token(row: Attribute | StatusFigure, value: Value) -> str:
    """KEYWORD(value), a blank value as KEYWORD( ), a flag as itself or with NO before it. Text is printed bare (L6)."""
    if isinstance(row.form, Flag):
        return row.keyword if value else f"NO{row.keyword}"
    return f"{row.keyword}({_written(row, value) or ' '})"


def zmqsc_token(row: Attribute | StatusFigure, value: Value) -> str:
    """KEYWORD-value as TPF writes it; a maximum depth of 0 means none there."""
    if isinstance(row.form, Flag):
        return row.keyword if value else f"NO{row.keyword}"
    if row.keyword == "MAXDEPTH" and value == UNLIMITED_DEPTH:
        value = 0
    return f"{row.keyword}-{_written(row, value)}"


def _written(row: Attribute | StatusFigure, value: Value) -> str:
    return str(row.form.plain(value))


def layout(heading: str, tokens: Iterable[str]) -> str:
    """The heading and the lines below it. A token of 40 characters or more stands alone on its line."""
    lines = [heading]
    first = ""
    for token in tokens:
        if first:
            lines.append(f"{INDENT}{first.ljust(COLUMN_WIDTH)}{token}")
            first = ""
        elif len(token) >= COLUMN_WIDTH:
            lines.append(INDENT + token)
        else:
            first = token
    if first:
        lines.append(INDENT + first)
    return "\n".join(lines)


def dictionary(shown: Iterable[Shown]) -> dict[str, int | str | bool]:
    """The attributes of one object for a program: words and texts as str, numbers as int, flags as bool."""
    return {row.keyword: row.form.plain(value) for row, value in shown}
