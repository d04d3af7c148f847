"""One line on standard error that says how far a command is."""

from __future__ import annotations

import sys


def show(text: str) -> None:
    """Write the line over the last one, where somebody is looking; without a text, wipe it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
