"""Make findings, and walk over messages in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from broker.core.message.entry import GONE
from broker.mqi.explanations import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.core.message.entry import Entry
    from broker.mqi.explanations import Cause

LOOKS_AT_ONCE = 100  # at messages, in one step

Steps: TypeAlias = "Iterator[Finding | None]"
"""Findings, and None where the work can be left for a while."""


def in_steps(entries: Sequence[Entry]) -> Iterator[Entry | None]:
    """Yield the messages that are still there when their turn comes, and None between two steps."""
    for number, entry in enumerate(entries, 1):
        if entry.state != GONE:
            yield entry
        if number % LOOKS_AT_ONCE == 0:
            yield None


def finding(code: Cause, text: str, **figures: Any) -> Finding:
    return Finding(code=code.value, text=text, figures=figures)


_OF_PROGRAMS = ("appl_name", "user", "connection", "consumer", "sink", "handler", "process", "first", "held")


def without_programs(found: Finding) -> Finding:
    """A finding for a user who may not know who else uses the queue manager: what it counts, and no names."""
    if not any(name in found.figures for name in _OF_PROGRAMS):
        return found
    figures = {name: value for name, value in found.figures.items() if name not in _OF_PROGRAMS}
    return Finding(
        code=found.code, text=f"{found.code}: to see whose they are needs DSP on the queue manager", figures=figures
    )


def are(count: int) -> str:
    return "1 message is" if count == 1 else f"{count} messages are"
