"""One dead letter: what it died of in words, its traceback, and the ways out: back, back with other data, or away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import htpy as h

from broker.dead_letters import read_letter
from broker.http.console.browsing.body import BODY_BYTES, coded, text_of
from broker.http.console.browsing.search import read_id
from broker.http.console.elements import empty, section, shown
from broker.http.console.forms import Action, action_form, text_input
from broker.http.console.letters.acting import LetterAction
from broker.http.console.letters.deaths import in_words
from broker.http.console.page import ConsolePage, Content, Notice
from broker.http.console.pages.message import browsed, letter_fields
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from htpy import Node
    from starlette.datastructures import FormData

    from broker.dead_letters import DeadLetter
    from broker.http.console.visit import Visit

EDITED_BYTES: Final = 32 * 1024
"""So much data can be edited: it comes back in a form, of which each byte may take three."""

_DEAD_LETTERS: Final = ("Dead letters", "/dead-letters")


async def _content(visit: Visit) -> Content:
    q_name, msg_id = _named(visit)
    async with visit.connection() as connection:
        found = await browsed(connection, q_name, msg_id, BODY_BYTES)
        q_mgr_name = connection.q_mgr_name
    title = f"Dead letter …{msg_id.hex()[-12:]}"
    if found is None:
        gone = h.p(".notice.warn", role="status")[
            "It is not on ", shown(q_name), " any more: somebody has put it back, or removed it; or somebody holds it."
        ]
        return Content(title, gone, (_DEAD_LETTERS,), 404)
    letter = read_letter(found, q_mgr_name)
    crumbs = (
        _DEAD_LETTERS,
        (
            letter.why or "unknown",
            visit.url("dead-letters", "letters", why=letter.why, handler=letter.handler).removeprefix(visit.base),
        ),
    )
    return Content(
        title,
        [
            h.p[in_words(letter.why), " ", _came_back(letter)],
            letter_fields(visit, letter),
            section("Actions", h.div(".actions")[await _forms(visit, q_name, msg_id, letter)]),
            section("Edit and retry", await _editing(visit, q_name, letter)),
            h.p[
                h.a(href=visit.url("queues", q_name, "messages", msg_id.hex()))[
                    "All of the message: descriptor, properties, data"
                ]
            ],
        ],
        crumbs,
    )


def _came_back(letter: DeadLetter) -> str:
    match letter.replays:
        case 0:
            return "It was not put back before."
        case 1:
            return "It was put back once, and came back."
        case times:
            return f"It came back {times} times."


async def _rights(visit: Visit, q_name: str, origin: str) -> tuple[str, str]:
    get = await visit.missing(q_name, "get,browse")
    return get, get or (await visit.missing(origin, "put,setall") if origin else "")


async def _forms(visit: Visit, q_name: str, msg_id: bytes, letter: DeadLetter) -> list[Node]:
    get, put = await _rights(visit, q_name, letter.q_name)
    line = f"evermq dead-letters retry {q_name} --id {msg_id.hex()}"
    inputs = [
        text_input("to", "To the queue", value="" if letter.q_mgr_name else letter.q_name, required=True),
        h.label(".check")[h.input(type="checkbox", name="force", value="yes"), " Also when it came back three times"],
    ]
    forms = [
        Action(name="retry", label="Retry", line=f"{line} --to the queue", missing=put, inputs=inputs),
        Action(
            name="remove", label="Remove", line=f"evermq dead-letters purge {q_name} --id {msg_id.hex()}", missing=get,
            danger=True, confirm=f"Remove letter {msg_id.hex()} of {q_name} for good?",
        ),
    ]  # fmt: skip
    return [action_form(visit, each) for each in forms]


async def _editing(visit: Visit, q_name: str, letter: DeadLetter) -> Node:
    ccsid = letter.md.coded_char_set_id
    if letter.length > EDITED_BYTES:
        return empty(f"Its {letter.length:,} bytes are too many to be edited here: at most {EDITED_BYTES:,}.")
    text = text_of(letter.data, ccsid)
    if coded(text, ccsid) != letter.data or "\0" in text or "\r" in text:
        return empty("Its data is no text that a form gives back as it was.")
    _, put = await _rights(visit, q_name, letter.q_name)
    inputs = [
        h.label(".wide-field")[
            h.span["Data"],
            h.textarea(name="data", rows=str(min(24, max(4, text.count("\n") + 2))), spellcheck="false")["\n", text],
        ],
        text_input("to", "To the queue", value="" if letter.q_mgr_name else letter.q_name, required=True),
    ]
    line = f"one unit of work: MQPUT(the queue) of the copy with this data, MQGET({q_name}) of the letter"
    return action_form(
        visit, Action(name="edit", label="Put the copy, remove the letter", line=line, missing=put, inputs=inputs)
    )


async def _act(visit: Visit, form: FormData) -> Notice:
    q_name, msg_id = _named(visit)
    name, to = str(form["action"]), str(form.get("to", "")).strip()
    if name != "remove" and not to:
        return Notice("Nothing was done: name the queue to put it to.", good=False)
    edited = None
    if name == "edit":
        try:
            edited = await _edited(visit, q_name, msg_id, str(form.get("data", "")))
        except UnicodeEncodeError as error:
            missing = ascii(error.object[error.start : error.end])
            return Notice(f"Nothing was done: the character set of the message has no {missing}.", good=False)
    key = f"{msg_id.hex()} {q_name}"
    async with visit.connection() as connection:
        force = form.get("force") == "yes" or name == "edit"
        action = LetterAction(connection, visit.caller.user, retry=name != "remove", to=to, force=force)
        named = await action.on_chosen([key], edited=edited)
    return action.notice(named, back=_DEAD_LETTERS[1] if action.moved and not action.stayed else "")


async def _edited(visit: Visit, q_name: str, msg_id: bytes, text: str) -> bytes:
    """The data in the character set of the letter. A form has CR LF for each end of a line, whatever it was."""
    async with visit.connection() as connection:
        found = await browsed(connection, q_name, msg_id, BODY_BYTES)
        if found is None:
            raise MQError(MQRC.NO_MSG_AVAILABLE, f"the letter is not on {q_name} any more: somebody was faster")
        letter = read_letter(found, connection.q_mgr_name)
    return coded(text.replace("\r\n", "\n"), letter.md.coded_char_set_id)


def _named(visit: Visit) -> tuple[str, bytes]:
    return visit.param("queue"), read_id(visit.param("id"), "MsgId")


DEAD_LETTER = ConsolePage(
    path="/dead-letters/{queue:segment}/{id:segment}",
    content=_content,
    actions={"retry": _act, "remove": _act, "edit": _act},
)
