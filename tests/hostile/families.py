"""All attacks, by what they attack with."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.hostile import calls, handlers, lines, messages, scripts, walks
from tests.hostile.scene import queues

FAMILIES: Final = {
    "scripts": scripts.ATTACKS,
    "messages": messages.ATTACKS,
    "calls": calls.ATTACKS,
    "walks": walks.ATTACKS,
    "lines": lines.ATTACKS,
    "handlers": handlers.ATTACKS,
}

LARGER: Final = (
    replace(scripts.DISPLAY, name="larger display", count=10_000, definitions=queues(10_000)),
    replace(messages.SELECTORS, name="larger selectors", count=200),
    replace(calls.UNFINISHED, name="larger unfinished frames", count=200),
    *(replace(each, name=f"larger {each.name}", count=300_000) for each in (*walks.MANY_MESSAGES, walks.GOT_UNIT)),
)
"""Versions that take longer, with more of what they are about."""
