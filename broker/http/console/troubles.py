"""Troubles of the queue manager as a whole: each page says above its content what is not ready, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h
from markupsafe import Markup

from broker.http.console.elements import shown
from broker.http.console.page import Keyed

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS: Final = {"quiescing": "warn", "starting": "warn"}


def told_by(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return the checks of health that the figures of a queue manager tell to fail, each with its reason: so they are
    known of one in another process, too.
    """
    name, store = figures["name"], figures.get("store", {})
    member = figures.get("sharing", {}).get("member", {})
    joined = member.get("state", "joined") == "joined"
    found = {
        "quiescing": f"{name} is quiescing" if figures["quiescing"] else "",
        "store_full": "there is no room: what grows is refused, what removes goes through" if store.get("full") else "",
        "group": "" if joined else f"{name} is not in its queue-sharing group now: {member['state']}",
    }
    return {check: why for check, why in found.items() if why}


def troubles(failing: Mapping[str, str]) -> list[Keyed]:
    """Return the lines of the frame about these checks."""
    return [
        Keyed(
            name,
            Markup(
                h.p({"data-key": name}, class_=f"notice {_KINDS.get(name, 'bad')}", role="status")[
                    f"Not ready, {name.replace('_', ' ')}: ", shown(why, 400)
                ]
            ),
        )
        for name, why in failing.items()
    ]
