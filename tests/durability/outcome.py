"""The outcome of a scenario, in words for the report, or why it cannot be run here."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """A fault that was brought about, and how it ended."""

    fault: str
    ended: str


class UnavailableError(Exception):
    """The scenario needs what this system does not offer; the text says what."""
