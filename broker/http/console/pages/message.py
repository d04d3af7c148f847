"""One message: its descriptor, its properties, its headers, its data, why it waits; and what to do about it.

It is named by its MsgId, never by its place: what is done is done to this message or to none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import htpy as h
from starlette.responses import Response

from broker.dead_letters import DeadLetterQueue, Wanted, read_letter
from broker.http.console.answers import HEADERS
from broker.http.console.browsing.body import BODY_BYTES, FORMS, body, usual_form
from broker.http.console.browsing.descriptor import descriptor_fields, mq_name
from broker.http.console.browsing.history import history_of
from broker.http.console.browsing.moving import copied, moved, removed
from broker.http.console.browsing.search import MessageSearch, read_id
from broker.http.console.elements import badge, empty, fields, octets, section, shown, when
from broker.http.console.forms import Action, action_form, text_input
from broker.http.console.page import ConsolePage, Content, Notice
from broker.http.console.pages.queue import EXPLAINED_MAX, findings
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.presentation.headers import headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from htpy import Node
    from starlette.datastructures import FormData

    from broker import Connection, Message
    from broker.dead_letters import DeadLetter
    from broker.http.console.visit import Visit

_TRACEBACK: Final = 20_000
_VALUE: Final = 1000
_OF_HANDLERS: Final = "evermq."


async def _content(visit: Visit) -> Content:
    name, msg_id = visit.param("name"), read_id(visit.param("id"), "MsgId")
    crumbs = _crumbs(visit, name)
    async with visit.connection() as connection:
        found = await browsed(connection, name, msg_id, BODY_BYTES)
        history = await history_of(connection, name, msg_id, visit.now)
        q_mgr_name = connection.q_mgr_name
    title = f"Message …{msg_id.hex()[-12:]}"
    if found is None:
        words = "No browse sees this message on ", shown(name), ": it has gone, or somebody holds it."
        gone = h.p(".notice.warn")[words]
        why = section("Where it is", await _why(visit, name, msg_id))
        return Content(title, [gone, why, history], crumbs, 404)
    letter = read_letter(found, q_mgr_name)
    dead = letter if not letter.foreign else None
    return Content(
        title,
        [
            h.p[_state(visit, found), " ", f"{octets(found.length)} · put ", _put(found, visit)],
            letter_fields(visit, dead),
            h.p[h.a(href=visit.url("dead-letters", name, msg_id.hex()))["Edit and retry"]] if dead else None,
            section("Actions", h.div(".actions")[[await _forms(visit, name, msg_id, found, dead)]]),
            section("Data", _data(visit, name, msg_id, found)),
            section("Why it waits", await _why(visit, name, msg_id)),
            h.div(".columns")[
                section("Descriptor", fields(descriptor_fields(found.md, visit.now))),
                h.div[_properties(found, told=dead is not None), [*_headers(found)], history],
            ],
        ],
        crumbs,
    )


def _crumbs(visit: Visit, name: str) -> tuple[tuple[str, str], ...]:
    return (
        ("Queues", "/queues"),
        (name, visit.url("queues", name).removeprefix(visit.base)),
        ("Messages", visit.url("queues", name, "messages").removeprefix(visit.base)),
    )


async def browsed(connection: Connection, name: str, msg_id: bytes, size: int | None) -> Message | None:
    """The message, if a browse sees it: delayed ones are seen too."""
    search = MessageSearch(msg_id=msg_id)
    async with connection.open(name, MQOO.BROWSE | MQOO.FAIL_IF_QUIESCING) as queue:
        try:
            options = search.options(MQGMO.BROWSE_FIRST)
            return await queue.get(search.descriptor, options, max_length=size, delayed=True)
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
            return None


def _state(visit: Visit, message: Message) -> Node:
    if message.deliver_at > visit.now:
        return [badge("delayed", "warn"), " ", when(message.deliver_at, visit.now)]
    return badge("available", "good")


def _put(message: Message, visit: Visit) -> Node:
    letter = read_letter(message, "")
    by = message.md.put_appl_name.strip()
    return [when(letter.failed_at, visit.now), [" by ", shown(by)] if by else None]


def letter_fields(visit: Visit, letter: DeadLetter | None) -> Node:
    """The words of a dead letter about its death."""
    if letter is None:
        return None
    said: dict[str, Node] = {
        "Why": badge(letter.why or "unknown", "bad"),
        "Came from": shown(f"{letter.q_name}@{letter.q_mgr_name}" if letter.q_mgr_name else letter.q_name or "–"),
        "Handler": shown(letter.handler),
        "Worker": shown(letter.worker),
        "Attempts": str(letter.attempts or ""),
        "Crashes": str(letter.crashes or ""),
        "Came back": f"{letter.replays} times" if letter.replays else "",
        "First failed": when(letter.first_failed, visit.now) if letter.first_failed else "",
        "Failed": when(letter.failed_at, visit.now) if letter.failed_at else "",
        "Steps done": ", ".join(letter.steps),
        "Error": shown(letter.failure, _VALUE),
    }
    plain = {"Handler": letter.handler, "Worker": letter.worker, "Error": letter.failure}
    pairs = [(name, value) for name, value in said.items() if value and plain.get(name, "x")]
    traceback = h.details[
        h.summary["Traceback"], h.pre(tabindex="0")[_lines(letter.traceback)]
    ] if letter.traceback else None  # fmt: skip
    return section("Dead letter", fields(pairs), traceback)


def _lines(text: str) -> Node:
    return [[shown(line, 500), "\n"] for line in text[:_TRACEBACK].splitlines()]


def _properties(message: Message, *, told: bool) -> Node:
    """The properties; those that say of a dead letter how it died are `told` already."""
    try:
        properties: Mapping[str, Any] = message.properties
    except MQError as error:
        return section("Properties", h.p(".notice.bad")[shown(str(error), 300)])
    if told:
        properties = {name: value for name, value in properties.items() if not name.startswith(_OF_HANDLERS)}
    if not properties:
        return None
    pairs = [
        (h.code[shown(name, 120)], [_shown_value(value), " ", h.span(".soft")[type(value).__name__]])
        for name, value in list(properties.items())[:200]
    ]
    return section("Properties", fields(pairs))


def _shown_value(value: Any) -> Node:
    return h.code[value[:64].hex()] if isinstance(value, bytes) else shown(str(value), _VALUE)


def _headers(message: Message) -> Iterator[Node]:
    for number, header in enumerate(headers(message.md, message.data)):
        if number == 10:
            return
        pairs = [(h.code[mq_name(name)], _shown_value(value)) for name, value in header.fields.items()]
        yield section(header.name, fields(pairs[:100]))


def _data(visit: Visit, name: str, msg_id: bytes, message: Message) -> Node:
    md, data = message.md, message.data
    length = sum(each.size for each in headers(md, data))
    plain = data[length:]
    form = visit.query("as") if visit.query("as") in FORMS else usual_form(plain, md.coded_char_set_id)
    own = ("queues", name, "messages", msg_id.hex())
    ways = h.nav(".tabs", aria_label="Form of the data")[
        (
            h.a(href=visit.url(*own, **{"as": key}), aria_current="page" if key == form else None)[word]
            for key, word in FORMS.items()
        )
    ]
    cut = message.length > len(data)
    more = h.p(".soft")[
        f"The first {octets(len(data))} of {octets(message.length)}. " if cut else None,
        h.a(href=visit.url(*own, "data"))["Download all of it"],
    ]
    return [ways, body(plain, md.coded_char_set_id, form), more]


async def _why(visit: Visit, name: str, msg_id: bytes) -> Node:
    try:
        queue = (await visit.look()).queue(name)
    except MQError as error:
        if error.reason != MQRC.NOT_AUTHORIZED:
            raise
        queue = None
    if queue is not None and queue["depth"] > EXPLAINED_MAX and not visit.query("explain"):
        url = visit.url("queues", name, "messages", msg_id.hex(), explain=1)
        return h.p[f"To tell, all {queue['depth']:,} messages are looked at. ", h.a(href=url)["Explain"]]
    try:
        async with visit.connection() as connection:
            return findings(await connection.explain(name, msg_id=msg_id))
    except MQError as error:
        return empty(shown(str(error), 300))


async def _forms(visit: Visit, name: str, msg_id: bytes, message: Message, letter: DeadLetter | None) -> list[Node]:
    """The buttons, in the order of how often they are wanted."""
    hex_id, forms = msg_id.hex(), []
    get = await visit.missing(name, "get")
    if message.deliver_at > visit.now:
        line = f"release_delayed({name!r}, {hex_id})"
        forms.append(Action(name="release", label="Release now", line=line, missing=get))
    if letter is not None and letter.q_name:
        line = f"evermq dead-letters retry {name} --id {hex_id}"
        missing = get or await visit.missing(letter.q_name, "put,setall")
        forms.append(Action(name="retry", label=f"Retry on {letter.q_name[:48]}", line=line, missing=missing))
    target = text_input("to", "Queue", placeholder="ORDERS", required=True)
    line = f"MQGET({name}, MsgId {hex_id[-12:]}) and MQPUT(the queue), one unit of work"
    forms += [
        Action(name="move", label="Move", line=line, missing=get, inputs=target),
        Action(
            name="copy", label="Copy", line=f"MQGET({name}, browse, MsgId {hex_id[-12:]}), MQPUT1(the queue)",
            missing=await visit.missing(name, "browse"), inputs=target,
        ),
        Action(
            name="remove", label="Remove", line=f"MQGET({name}, MsgId {hex_id})", missing=get, danger=True,
            confirm=f"Remove message {hex_id} of {name} for good?",
        ),
    ]  # fmt: skip
    return [action_form(visit, each) for each in forms]


async def _release(visit: Visit, form: FormData) -> Notice:
    name, msg_id = _named(visit)
    async with visit.connection() as connection:
        count = await connection.release_delayed(name, msg_id)
    return Notice("It is available now.") if count else Notice("It was delayed no more.", good=False)


async def _retry(visit: Visit, form: FormData) -> Notice:
    name, msg_id = _named(visit)
    wanted = Wanted(msg_ids=frozenset((msg_id,)))
    async with visit.connection() as connection, DeadLetterQueue(connection, name, visit.caller.user) as letters:
        outcomes = [each async for each in letters.retry(wanted)]
    if not outcomes:
        return Notice(f"It is not on {name} any more: somebody was faster.", good=False)
    [outcome] = outcomes
    if outcome.problem:
        return Notice(outcome.problem, good=False)
    moved_with = f", with {len(outcome.msg_ids) - 1} others of its group" if len(outcome.msg_ids) > 1 else ""
    return Notice(f"Put back to {outcome.to}{moved_with}.", back=_list(visit, name))


async def _move(visit: Visit, form: FormData) -> Notice:
    name, msg_id = _named(visit)
    to = str(form.get("to", "")).strip()
    if not to:
        return Notice("Name the queue to move it to.", good=False)
    async with visit.connection() as connection:
        done = await moved(connection, name, msg_id, to)
    return Notice(f"Moved to {to}.", back=_list(visit, name)) if done else _gone(name)


async def _copy(visit: Visit, form: FormData) -> Notice:
    name, msg_id = _named(visit)
    to = str(form.get("to", "")).strip()
    if not to:
        return Notice("Name the queue to copy it to.", good=False)
    async with visit.connection() as connection:
        done = await copied(connection, name, msg_id, to)
    return Notice(f"Copied to {to}.") if done else _gone(name)


async def _remove(visit: Visit, form: FormData) -> Notice:
    name, msg_id = _named(visit)
    async with visit.connection() as connection:
        done = await removed(connection, name, msg_id)
    return Notice("Removed.", back=_list(visit, name)) if done else _gone(name)


def _gone(name: str) -> Notice:
    return Notice(f"It is not on {name} any more, or somebody holds it: nothing was done.", good=False)


def _named(visit: Visit) -> tuple[str, bytes]:
    return visit.param("name"), read_id(visit.param("id"), "MsgId")


def _list(visit: Visit, name: str) -> str:
    return visit.url("queues", name, "messages").removeprefix(visit.base)


async def _download(visit: Visit) -> Response:
    name, msg_id = _named(visit)
    async with visit.connection() as connection:
        found = await browsed(connection, name, msg_id, None)
    if found is None:
        raise MQError(MQRC.NO_MSG_AVAILABLE, f"no browse sees message {msg_id.hex()} on {name}")
    disposition = {"Content-Disposition": f'attachment; filename="{msg_id.hex()}.bin"'}
    return Response(found.data, media_type="application/octet-stream", headers={**HEADERS, **disposition})


MESSAGE = ConsolePage(
    path="/queues/{name:segment}/messages/{id:segment}",
    content=_content,
    actions={"release": _release, "retry": _retry, "move": _move, "copy": _copy, "remove": _remove},
)
DATA = ConsolePage(path="/queues/{name:segment}/messages/{id:segment}/data", content=_download)
