"""Dead letters: those of all queues in one list, by what they died of; those of one death, put back or removed.

A letter is named by its queue and its MsgId, never by its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import htpy as h
from markupsafe import Markup

from broker.dead_letters import dead_letter_queues
from broker.http.console.elements import (
    PageColumn,
    cells,
    count,
    empty,
    identifier,
    instant_as,
    live,
    relative,
    section,
    shown,
    table,
    when,
)
from broker.http.console.forms import Action, action_form, hidden
from broker.http.console.letters.acting import LetterAction
from broker.http.console.letters.deaths import SameDeath, in_words
from broker.http.console.letters.gathering import (
    LETTERS_READ,
    PAGE_LETTERS,
    LetterPage,
    error_of,
    gathered,
    key_of,
)
from broker.http.console.page import ConsolePage, Content, Keyed, Notice
from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from htpy import Element, Node
    from starlette.datastructures import FormData

    from broker.http.console.letters.gathering import DeathGroup, FoundLetter, GatheredLetters
    from broker.http.console.page import Parts
    from broker.http.console.visit import Visit

_GROUPS_SHOWN: Final = 200
_ORIGINS_ASKED: Final = 5
_CRUMB: Final = ("Dead letters", "/dead-letters")
_GROUPS: Final = (
    PageColumn("Died of"),
    PageColumn("Handler"),
    PageColumn("Letters", figures=True),
    PageColumn("First", wide=True),
    PageColumn("Last"),
    PageColumn(
        "Came back", figures=True, wide=True, title="how often the letter of them that did so most was put back"
    ),
    PageColumn("For example", wide=True),
    PageColumn("On", wide=True),
)
_LETTERS: Final = (
    PageColumn(""),
    PageColumn("Letter"),
    PageColumn("Failed"),
    PageColumn("Came from"),
    PageColumn("Attempts", figures=True, wide=True),
    PageColumn("Came back", figures=True, wide=True),
    PageColumn("Error", wide=True),
    PageColumn("On", wide=True),
)
_QUEUES: Final = (
    PageColumn("Dead-letter queue"),
    PageColumn("Letters", figures=True),
    PageColumn("Oldest", figures=True),
    PageColumn("In/s", figures=True),
)


async def _content(visit: Visit) -> Content:
    async with visit.connection() as connection:
        found = await gathered(connection)
    visit.request.state.dead_letter_queues = found.q_names
    parts = await _parts(visit)
    groups = found.by_last()
    body = h.tbody[(_group(visit, each) for each in groups[:_GROUPS_SHOWN])]
    return Content(
        "Dead letters",
        [
            _refused(found),
            h.section[
                h.h2["By what they died of"],
                table("Dead letters by what they died of", _GROUPS, body) if groups else _nothing(found),
                h.p(".soft")[f"These are the first {LETTERS_READ:,}; there are more."] if found.cut else None,
            ],
            section(
                "Queues", table("Dead-letter queues", _QUEUES, live("queues", parts, h.tbody)), live("none", parts)
            ),
        ],
    )


async def _parts(visit: Visit) -> Parts:
    """The queues with letters; their names are found once for each page."""
    names = getattr(visit.request.state, "dead_letter_queues", None)
    if names is None:
        async with visit.connection() as connection:
            names = visit.request.state.dead_letter_queues = await dead_letter_queues(connection)
    look = await visit.look()
    queues = [queue for name in names if (queue := look.queue(name)) is not None and queue["depth"]]
    rows = []
    for each in queues:
        oldest = look.oldest.get(each["name"], 0.0)
        values: list[Node] = [
            h.a(href=visit.url("queues", each["name"], "messages"))[shown(each["name"])],
            count(each["depth"]),
            instant_as(oldest, relative(oldest - look.at)) if oldest else "",
            count(round(look.rates.of_queue(each, "puts"), 1)),
        ]
        rows.append(Keyed(each["name"], Markup(h.tr({"data-key": each["name"]})[cells(_QUEUES, values)])))
    words = f"All {len(names):,} queues that take dead letters are empty." if names else "No queue takes dead letters."
    none = Keyed("none", Markup(h.div({"data-key": "none"})[empty(words)]))
    return {"queues": rows, "none": [] if rows else [none]}


def _nothing(found: GatheredLetters) -> Node:
    return empty(
        "No dead letter", " on the queues that you may browse." if found.refused else ". Nothing has failed for good."
    )


def _refused(found: GatheredLetters) -> Node:
    if not found.refused:
        return None
    return h.div(".notice.warn")[
        "Not shown: ",
        h.ul(".plain")[(h.li[shown(name), ": ", shown(why, 300)] for name, why in list(found.refused.items())[:10])],
    ]


def _group(visit: Visit, group: DeathGroup) -> Element:
    url = visit.url("dead-letters", "letters", why=group.why, handler=group.handler)
    values: list[Node] = [
        h.a(href=url)[h.span(".badge.bad")[shown(group.why or "unknown", 60)]],
        shown(group.handler, 80) if group.handler else h.span(".none")["–"],
        h.a(href=url)[f"{group.count:,}"],
        when(group.first, visit.now),
        when(group.last, visit.now),
        count(group.replays),
        h.span(".first-line")[shown(group.example)],
        [[h.br if number else None, shown(name)] for number, name in enumerate(sorted(group.q_names)[:3])],
    ]
    return h.tr({"data-key": f"{group.why} {group.handler}"})[cells(_GROUPS, values)]


async def _letters_content(visit: Visit) -> Content:
    why, handler = visit.query("why"), visit.query("handler")
    async with visit.connection() as connection:
        page = LetterPage(why, handler, visit.query("after"))
        found = await gathered(connection, page)
    group = found.groups.get((why, handler))
    title = f"Died of: {why or 'unknown'}"
    if group is None or not page.letters:
        gone = h.p(".notice.warn", role="status")[
            "No letter of this death is there any more: they were put back, or removed."
        ]
        return Content(title, [_refused(found), gone], (_CRUMB,))
    missing = await _missing(visit, group)
    return Content(
        title,
        [
            h.p[in_words(why), " ", ["Handler: ", shown(handler)] if handler else None],
            _refused(found),
            section(f"All {group.count:,} of them", _all_of_them(visit, group, missing, cut=found.cut)),
            section("Letters", _chosen_form(visit, page.letters, missing), _pager(visit, page.letters, more=page.more)),
        ],
        (_CRUMB,),
    )


async def _missing(visit: Visit, group: DeathGroup) -> tuple[str, str]:
    """Return what the visitor lacks to put letters back, and to remove them."""
    get = ""
    for name in sorted(group.q_names):
        get = get or await visit.missing(name, "get,browse")
    put = get
    for name in sorted(filter(None, group.origins))[:_ORIGINS_ASKED]:
        put = put or await visit.missing(name, "put,setall")
    return put, get


def _all_of_them(visit: Visit, group: DeathGroup, missing: tuple[str, str], *, cut: bool) -> Node:
    """The forms for all letters that died of this up to now; each wants to be told how many are meant."""
    said = {"until": repr(visit.now)}
    number = f"{group.count:,}{' or more' if cut else ''}"
    options = " ".join(
        f"{option} '{value}'" for option, value in (("--why", group.why), ("--handler", group.handler)) if value
    )
    queues = " ".join(sorted(group.q_names))
    forms = [
        Action(
            name="retry-all", label=f"Retry all {number}", line=f"evermq dead-letters retry {queues} {options}",
            missing=missing[0], fields=said, inputs=_sure(number),
        ),
        Action(
            name="remove-all", label=f"Remove all {number}", line=f"evermq dead-letters purge {queues} {options}",
            missing=missing[1], fields=said, inputs=_sure(number), danger=True,
            confirm=f"Remove all {number} letters for good?",
        ),
    ]  # fmt: skip
    return h.div(".actions")[(action_form(visit, each) for each in forms)]


def _sure(number: str) -> Element:
    return h.label(".check")[h.input(type="checkbox", name="sure", value="yes", required=True), f" I mean all {number}"]


def _chosen_form(visit: Visit, page: Sequence[FoundLetter], missing: tuple[str, str]) -> Element:
    """The letters with a box each, and what is done with those that are chosen."""
    body = h.tbody[(_letter(visit, each) for each in page)]
    buttons = (
        (
            "retry",
            ".act",
            "Retry the chosen",
            missing[0],
            None,
            "MQGET by token and MQPUT to the queue that each came from",
        ),
        ("remove", ".danger", "Remove the chosen", missing[1], "Remove the chosen letters for good?", "MQGET by token"),
    )
    return h.form(".chosen", method="post", action=visit.here)[
        hidden("form_token", visit.form_token),
        h.label(".check")[h.input(type="checkbox", data_all="letter"), " All of this page"],
        table("Letters", _LETTERS, body),
        h.div(".actions")[
            (
                h.div(".action")[
                    h.button(
                        look, type="submit", name="action", value=name, disabled=bool(lacks), data_confirm=confirm
                    )[label],
                    h.code(".line")[line, ", a unit of work for each"],
                    h.p(".missing")["needs ", shown(lacks)] if lacks else None,
                ]
                for name, look, label, lacks, confirm, line in buttons
            )
        ],
    ]


def _letter(visit: Visit, found: FoundLetter) -> Element:
    q_name, letter = found
    msg_id = letter.md.msg_id
    origin = f"{letter.q_name}@{letter.q_mgr_name}" if letter.q_mgr_name else letter.q_name
    values: list[Node] = [
        h.input(type="checkbox", name="letter", value=key_of(*found), aria_label=f"Letter {msg_id.hex()}"),
        h.a(href=visit.url("dead-letters", q_name, msg_id.hex()))[identifier(msg_id)],
        when(letter.failed_at, visit.now),
        shown(origin) if origin else h.span(".none")["–"],
        count(letter.attempts),
        count(letter.replays),
        h.span(".first-line")[shown(error_of(letter))],
        shown(q_name),
    ]
    return h.tr({"data-key": key_of(*found)})[cells(_LETTERS, values)]


def _pager(visit: Visit, page: Sequence[FoundLetter], *, more: bool) -> Node:
    query = {"why": visit.query("why"), "handler": visit.query("handler")}
    if not more and not visit.query("after"):
        return None
    return h.nav(".pager", aria_label="More")[
        h.a(href=visit.url("dead-letters", "letters", **query))["From the first"] if visit.query("after") else None,
        h.a(href=visit.url("dead-letters", "letters", **query, after=key_of(*page[-1])))[f"Next {PAGE_LETTERS}"]
        if more
        else None,
    ]


async def _on_all(visit: Visit, form: FormData) -> Notice:
    if form.get("sure") != "yes":
        return Notice("Nothing was done: say by the box how many are meant.", good=False)
    try:
        until = float(str(form.get("until", "")))
    except ValueError:
        return Notice("Nothing was done: the form does not say up to when.", good=False)
    meant = SameDeath(visit.query("why"), visit.query("handler"), until)
    problems = []
    async with visit.connection() as connection:
        action = LetterAction(connection, visit.caller.user, retry=form["action"] == "retry-all")
        for q_name in await dead_letter_queues(connection):
            try:
                await action.on(q_name, meant)
            except MQError as error:
                if not connection.works:
                    raise
                problems.append(f"{q_name}: {error}")
            if action.cut:
                break
    notice = action.notice(back=_CRUMB[1] if action.moved and not action.stayed and not action.cut else "")
    if action.moved + action.stayed == 0 and problems:
        return Notice("; ".join(problems[:3]), good=False)
    return notice


async def _on_chosen(visit: Visit, form: FormData) -> Notice:
    keys = [str(each) for each in form.getlist("letter")]
    if not keys:
        return Notice("Nothing was done: no letter is chosen.", good=False)
    async with visit.connection() as connection:
        action = LetterAction(connection, visit.caller.user, retry=form["action"] == "retry")
        named = await action.on_chosen(keys)
    return action.notice(named)


DEAD_LETTERS = ConsolePage(path="/dead-letters", name="Dead letters", content=_content, parts=_parts)
LETTERS = ConsolePage(
    path="/dead-letters/letters",
    content=_letters_content,
    actions={"retry-all": _on_all, "remove-all": _on_all, "retry": _on_chosen, "remove": _on_chosen},
)
