"""Text that somebody else chose, made fit to be shown: no character of it can move a cursor or look like another line.

Application names, descriptions and error texts come from whoever connects. `logs` uses this for each line of the log,
`terminal` for what commands print.
"""

from __future__ import annotations

import json
import re
from typing import Final

_CONTROLS: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0 (ESC, CR, LF among them), DEL, C1 (NEL and CSI among them)
    "\u2028\u2029"  # line and paragraph separators
    "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ufeff\ud800-\udfff"  # a byte order mark; surrogates, which have no form in UTF-8
    "]"
)


def escaped(text: str, keep: str = "") -> str:
    r"""The text with control characters as Python writes them (`\x1b`, `\n`, `\u2028`), but for those in `keep`."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def quoted(text: str) -> str:
    r"""The text as a string of JSON, with its control characters as JSON writes them (`\u001b`, `\n`, `\u2028`)."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
