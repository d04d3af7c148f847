"""The exposition of figures: their text in pieces, in Prometheus' format 0.0.4 or as OpenMetrics has it.

A text of very many queues is as long as a film's script a hundred times over: it is sent in pieces, so that no step of
the event loop is long.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_CHARACTERS: Final = 64 * 1024

PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ABOUT: Final = re.compile(r"^# (HELP|TYPE) (\S+) (.*)$", re.MULTILINE)
_NO_QUALITY: Final = re.compile(r"q=0(\.0*)?")


def accepts(header: str, media_type: str) -> bool:
    """True if an Accept header names this type, and not to refuse it."""
    for each in header.lower().split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        if kind == media_type and not any(_NO_QUALITY.fullmatch(part) for part in parameters):
            return True
    return False


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces of whole lines."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + PIECE_CHARACTERS) + 1 or len(text)
        yield text[start:end]
        start = end


def open_metrics(piece: str) -> str:
    """Return whole lines of format 0.0.4 as OpenMetrics has them: there `_total` belongs to the samples of a counter,
    not to its name. One whose samples have no such name is of unknown type.
    """
    return _ABOUT.sub(_renamed, piece) if "# " in piece else piece


END_OF_OPEN_METRICS: Final = "# EOF\n"


def _renamed(found: re.Match[str]) -> str:
    word, name, rest = found.groups()
    if word == "TYPE" and rest == "counter" and not name.endswith("_total"):
        rest = "unknown"
    if word == "HELP":
        rest = rest.replace('"', r"\"")
    return f"# {word} {name.removesuffix('_total')} {rest}"
