"""The stream of a page: its live parts as server-sent events, once a second at most, only what has changed.

An event `parts` has, for each part that changed, the keys of all its children in order and the texts of those that
changed. `away` tells why there are no figures now. A comment now and then finds out who has gone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

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


async def events(
    observatory: Observatory, parts: Callable[[], Awaitable[Parts]], caller: ConsoleCaller, version: str
) -> AsyncIterator[str]:
    """Yield the events of a page until the console ends, or its caller would be let in no more. `version` is the name
    of the script: a browser that has another one loads the page again.
    """
    sent: dict[str, dict[str, str]] = {}
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
            changed = changes(sent, await parts())
            if changed or away:
                yield _event("parts", changed)
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


def changes(sent: dict[str, dict[str, str]], parts: Parts) -> list[dict[str, Any]]:
    """Return what has to be told of these parts to somebody who has what was sent before, and note it as sent."""
    told: list[dict[str, Any]] = []
    for name, children in parts.items():
        before, now = sent.get(name), {each.key: str(each.html) for each in children}
        if before is None or before != now or list(before) != list(now):
            known = before or {}
            changed = {key: html for key, html in now.items() if known.get(key) != html}
            told.append({"part": name, "order": list(now), "changed": changed})
            sent[name] = now
    return told


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
