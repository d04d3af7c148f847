"""The stream of a page: its live parts as server-sent events, once a second at most, only what has changed.

An event `parts` has, for each part that changed, the keys of all its children in order and the texts of those that
changed. `away` tells why there are no figures now. A comment now and then finds out who has gone.

What changed from one look to the next, and the event that tells it, is found once for all who have the page open.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import anyio

from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from markupsafe import Markup

    from broker.http.console.admission import ConsoleCaller
    from broker.http.console.figures.observatory import Observatory
    from broker.http.console.page import Parts

MEDIA_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 2000
"""After which a browser comes again when its line has ended."""

QUIET_LOOKS: Final = 15
"""After so many looks without a change something is said all the same."""


ADMITTED_LOOKS: Final = 5
"""After so many looks it is asked whether the caller would still be let in."""


class SharedParts:
    """The parts of a page in one look, for all who may see the same and have it open."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._children: dict[str, dict[str, Markup]] | None = None  # of each part by their keys, in order
        self._events: WeakKeyDictionary[SharedParts, str] = WeakKeyDictionary()  # by what a browser has

    async def make(self, parts: Callable[[], Awaitable[Parts]]) -> None:
        """Make the parts, if nobody has."""
        async with self._lock:
            if self._children is None:
                made = await parts()
                self._children = {name: {each.key: each.html for each in made[name]} for name in made}

    def event_since(self, before: SharedParts) -> str:
        """Return the event that tells what has changed since an earlier look; empty where nothing has."""
        if before not in self._events:
            changed = self._changes(before.children)
            self._events[before] = _event("parts", changed) if changed else ""
        return self._events[before]

    @property
    def children(self) -> dict[str, dict[str, Markup]]:
        """The children of each part by their keys, in order."""
        return self._children or {}

    def _changes(self, sent: dict[str, dict[str, Markup]]) -> list[dict[str, Any]]:
        """Return what has to be told to somebody who has what was sent before."""
        told: list[dict[str, Any]] = []
        for name, now in self.children.items():
            before = sent.get(name)
            if before is None or before != now or list(before) != list(now):
                known = before or {}
                changed = {key: html for key, html in now.items() if known.get(key) != html}
                told.append({"part": name, "order": list(now), "changed": changed})
        return told


_NOTHING: Final = SharedParts()
"""The parts that a browser has when its stream begins: none."""


async def events(
    observatory: Observatory, shared: Callable[[], Awaitable[SharedParts]], caller: ConsoleCaller, version: str
) -> AsyncIterator[str]:
    """Yield the events of a page until the console ends, or its caller would be let in no more. `version` is the name
    of the script: a browser that has another one loads the page again.
    """
    sent = _NOTHING
    yield f"retry: {RETRY_MS}\n{_event('version', version)}"
    looks = quiet = 0
    away = ""
    while not observatory.ended:
        number = observatory.number
        looks += 1
        quiet += 1
        try:
            if looks % ADMITTED_LOOKS == 0 and not await caller.still_admitted():
                return
            now = await shared()
            event, sent = now.event_since(sent), now
            if event or away:
                yield event or _event("parts", [])
                quiet, away = 0, ""
        except MQError as error:
            if away != str(error):
                away = str(error)
                yield _event("away", away)
                quiet = 0
        if quiet >= QUIET_LOOKS:
            yield ": still here\n\n"
            quiet = 0
        await observatory.next(number)


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
