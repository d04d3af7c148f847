"""Rights, explained: why a user may connect or open something, or not, rule by rule, and what would allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import htpy as h

from broker.http.console.elements import badge, section, shown
from broker.http.console.forms import text_input
from broker.http.console.page import ConsolePage, Content
from broker.mqi import MQOT, MQError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from htpy import Node

    from broker.http.console.visit import Visit
    from broker.mqi import Access

_TYPES: Final = {"queue": MQOT.Q, "process": MQOT.PROCESS, "channel": MQOT.CHANNEL, "queue manager": MQOT.Q_MGR}


async def _content(visit: Visit) -> Content:
    kind = visit.query("type") if visit.query("type") in _TYPES else "queue"
    opens = [
        text_input("name", "Object", value=visit.query("name"), required=True),
        h.label[
            h.span["Kind"],
            h.select(name="type")[(h.option(value=each, selected=each == kind)[each] for each in _TYPES)],
        ],
        text_input("for", "Rights, as put,get or dsp", value=visit.query("for") or "put", required=True),
        text_input("as", "User; without one you", value=visit.query("as")),
    ]
    connects = [
        text_input("user", "User", value=visit.query("user"), required=True),
        text_input("from", "Address", value=visit.query("from") or "127.0.0.1", required=True),
        text_input("channel", "Channel; without one the usual", value=visit.query("channel")),
        h.label[
            h.span["Line"],
            h.select(name="plain")[
                h.option(value="")["with TLS"], h.option(value="1", selected=bool(visit.query("plain")))["without TLS"]
            ],
        ],
    ]
    return Content(
        "Who may do what",
        [
            section("May a user open an object?", _form(visit, "open", opens), await _opened(visit, kind)),
            section("May a user connect?", _form(visit, "connect", connects), await _connected(visit)),
        ],
        (("Objects", "/objects"),),
    )


def _form(visit: Visit, what: str, inputs: list[h.Element]) -> Node:
    """A form that asks and changes nothing."""
    return h.form(".filter", method="get", action=visit.url("objects", "access"))[
        h.input(type="hidden", name="explain", value=what), inputs, h.button(".act", type="submit")["Explain"]
    ]


async def _opened(visit: Visit, kind: str) -> Node:
    if visit.query("explain") != "open":
        return None
    name, rights, user = visit.query("name"), visit.query("for"), visit.query("as")
    line = f"evermq explain open {name} --for {rights}{f' --as {user}' if user else ''}"
    async with visit.connection() as connection:
        asked = connection.explain_open(name, for_=rights, as_user=user, object_type=_TYPES[kind])
        return await _told(visit, asked, f"{user or visit.caller.user} may {{}}open {name} for {rights}", line)


async def _connected(visit: Visit) -> Node:
    if visit.query("explain") != "connect":
        return None
    user, address, channel = visit.query("user"), visit.query("from"), visit.query("channel")
    plain = bool(visit.query("plain"))
    line = f"evermq explain connect {user} --from {address}"
    line += (f" --channel {channel}" if channel else "") + (" --plain" if plain else "")
    async with visit.connection() as connection:
        asked = connection.explain_connect(user, from_=address, channel=channel, plain=plain)
        return await _told(visit, asked, f"{user} may {{}}connect from {address}", line)


async def _told(visit: Visit, asked: Awaitable[Access], words: str, line: str) -> Node:
    """The decision, its steps, and the command that would allow it; or why that cannot be told."""
    try:
        access = await asked
    except MQError as error:
        return h.p(".notice.bad", role="status")[shown(str(error), 600)]
    verdict = badge("allowed", "good") if access.allowed else badge("refused", "bad")
    return h.div[
        h.p[verdict, " ", shown(words.replace("{}", "" if access.allowed else "not "), 300)],
        h.ol[(h.li[shown(str(step), 400)] for step in access.steps)],
        [
            h.h3["What would allow it"],
            h.pre(tabindex="0")[([shown(each, 600), "\n"] for each in access.grant.splitlines())],
            h.p[
                (
                    h.a(href=visit.url("commands", line=each))["To the commands "]
                    for each in access.grant.splitlines()[:1]
                )
            ],
        ]
        if access.grant
        else None,
        h.p[h.code(".line")[shown(line, 300)]],
    ]


ACCESS = ConsolePage(path="/objects/access", content=_content)
