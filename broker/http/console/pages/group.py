"""The queue-sharing group: its members with their leases, its structures, its shared queues, who recovers what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h

from broker.http.console.elements import PageColumn, badge, cells, count, empty, fields, section, shown, table
from broker.http.console.forms import Action, action_form
from broker.http.console.page import ConsolePage, Content, Notice
from broker.http.console.pages.queue import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from htpy import Node
    from starlette.datastructures import FormData

    from broker import Connection
    from broker.http.console.visit import Visit

ROWS_SHOWN: Final = 200
_STATES: Final = {"ACTIVE": "good", "INACTIVE": "plain", "FAILED": "bad", "RECOVERING": "warn"}

_MEMBERS: Final = (
    PageColumn("Member"),
    PageColumn("State"),
    PageColumn("Lease", figures=True, title="for how many seconds its peers let it be"),
    PageColumn("Epoch", figures=True, wide=True, title="rises with each start and each recovery"),
    PageColumn("Units of work", figures=True),
    PageColumn("Handles", figures=True, wide=True),
    PageColumn("Recovered by", wide=True),
    PageColumn("Started", wide=True),
    PageColumn("Address", wide=True),
)
_STRUCTURES: Final = (
    PageColumn("Structure"),
    PageColumn("State"),
    PageColumn("Queues", figures=True),
    PageColumn("Messages", figures=True),
    PageColumn("Backed up", wide=True),
    PageColumn("Actions"),
)
_QUEUES: Final = (PageColumn("Shared queue"), PageColumn("Depth", figures=True), PageColumn("Structure"))


async def _content(visit: Visit) -> Content:
    look = await visit.look()
    own = look.figures.get("sharing")
    if own is None:
        return Content(
            "Group",
            section(
                "No queue-sharing group",
                empty(
                    "This queue manager shares no queues. With the section [queue_sharing_group] of its configuration ",
                    "it joins others that share a PostgreSQL database, and they serve the same queues.",
                ),
            ),
        )
    async with visit.connection() as connection:
        members = await _displayed(connection, "GROUP ALL")
        structures = await _displayed(connection, "CFSTATUS(*) ALL")
        queues = await _displayed(connection, "QLOCAL(*) QSGDISP(SHARED) CURDEPTH CFSTRUCT")
    away = members if isinstance(members, str) else ""
    return Content(
        f"Group {own['group']}",
        [
            h.p(".notice.bad", role="status")["The group cannot be asked: ", shown(away, 400)] if away else None,
            section("This member", _own(own)),
            section("Members", _members(members)),
            section("Structures", await _structures(visit, structures)),
            section("Shared queues", _queues(visit, queues)),
        ],
    )


async def _displayed(connection: Connection, what: str) -> Sequence[Mapping[str, Any]] | str:
    """Return the objects that a DISPLAY shows; the text of its refusal, where it is refused."""
    [reply] = await connection.mqsc(f"DISPLAY {what}")
    nothing = reply.ok or "AMQ8147E" in reply.code
    return reply.attributes if nothing else reply.text.strip()


def _own(own: Mapping[str, Any]) -> Node:
    member = own["member"]
    state = str(member["state"])
    waits = member.get("waits_for")
    return fields(
        [
            ("State", badge(state, "good" if state == "joined" else "warn")),
            ("Epoch", f"{member['epoch']:,}"),
            ("Renewals of its lease", f"{member['renewals']:,}"),
            ("Recoveries of peers", f"{member['recoveries']:,}"),
            ("Waits for", shown(str(waits)) if waits else h.span(".none")["–"]),
            ("Units in doubt", f"{own['in_doubt']:,}"),
        ]
    )


def _members(members: Sequence[Mapping[str, Any]] | str) -> Node:
    if isinstance(members, str):
        return empty(shown(members, 300))
    if not members:
        return empty("No member has joined yet.")
    rows = []
    for each in members[:ROWS_SHOWN]:
        status = str(each["STATUS"])
        values: list[Node] = [
            shown(str(each["QMNAME"])),
            badge(status.lower(), _STATES.get(status, "warn")),
            f"{each['LEASE']} s" if each["LEASE"] else "",
            str(each["EPOCH"]),
            count(int(each["UOWS"])),
            count(int(each["HANDLES"])),
            shown(str(each["RECOVER"])),
            f"{each['STARTDA']} {each['STARTTI']}".replace(".", ":"),
            shown(str(each["ADDRESS"])),
        ]
        rows.append(h.tr({"data-key": str(each["QMNAME"])})[cells(_MEMBERS, values)])
    return table("Members", _MEMBERS, h.tbody[rows])


async def _structures(visit: Visit, structures: Sequence[Mapping[str, Any]] | str) -> Node:
    if isinstance(structures, str):
        return empty(shown(structures, 300))
    if not structures:
        return empty("No structure is defined.")
    missing = await visit.missing_on_manager("ctrl")
    rows = []
    for each in structures[:ROWS_SHOWN]:
        name, failed = str(each["CFSTATUS"]), each["STATUS"] == "FAILED"
        verb = "RECOVER" if failed else "BACKUP"
        action = Action(
            name=verb.lower(), label=f"{'Recover' if failed else 'Back up'} {name}",
            line=f"{verb} CFSTRUCT({quoted(name)})", missing=missing, fields={"name": name},
        )  # fmt: skip
        values: list[Node] = [
            shown(name),
            badge(str(each["STATUS"]).lower(), "bad" if failed else "good"),
            count(int(each["QUEUES"])),
            count(int(each["ENTSUSED"])),
            f"{each['BKUPDATE']} {each['BKUPTIME']}".replace(".", ":").strip() or h.span(".none")["never"],
            action_form(visit, action),
        ]
        rows.append(h.tr({"data-key": name})[cells(_STRUCTURES, values)])
    return table("Structures", _STRUCTURES, h.tbody[rows])


def _queues(visit: Visit, queues: Sequence[Mapping[str, Any]] | str) -> Node:
    if isinstance(queues, str):
        return empty(shown(queues, 300))
    if not queues:
        return empty("No shared queue is defined.")
    deepest = sorted(queues, key=lambda each: (-int(each["CURDEPTH"]), str(each["QUEUE"])))
    rows = (
        h.tr({"data-key": str(each["QUEUE"])})[
            cells(
                _QUEUES,
                [
                    h.a(href=visit.url("objects", "QUEUE", str(each["QUEUE"])))[shown(str(each["QUEUE"]))],
                    count(int(each["CURDEPTH"])),
                    shown(str(each["CFSTRUCT"])),
                ],
            )
        ]
        for each in deepest[:ROWS_SHOWN]
    )
    more = len(queues) - ROWS_SHOWN
    return [table("Shared queues", _QUEUES, h.tbody[rows]), h.p(".soft")[f"and {more:,} more"] if more > 0 else None]


async def _on_structure(visit: Visit, form: FormData) -> Notice:
    async with visit.connection() as connection:
        [reply] = await connection.mqsc(f"{str(form['action']).upper()} CFSTRUCT({quoted(str(form.get('name', '')))})")
    return Notice(reply.text.strip(), good=reply.ok)


GROUP = ConsolePage(
    path="/group", name="Group", content=_content, actions={"backup": _on_structure, "recover": _on_structure}
)
