"""One command against the objects of a queue manager: the reply, and the changes that make it true.

Nothing is changed here. The engine makes the changes durable and applies them, and only then shows a reply of success.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from broker.commands import errors, judging
from broker.commands.inquiry import display, display_status
from broker.commands.language.binder import read
from broker.commands.requests import (
    GROUP_REQUESTS,
    AlterRequest,
    ClearRequest,
    DefineRequest,
    DeleteRecordsRequest,
    DeleteRequest,
    DisplayRequest,
    ScopedRequest,
    SetRecordsRequest,
    SetRuleRequest,
    StatusRequest,
)
from broker.commands.security import entities, records, rules
from broker.commands.security.creation import created
from broker.commands.table.attributes import TABLE, altered, create, not_acted_on, rows_of, type_of
from broker.commands.table.dispositions import (
    OF_OBJECT,
    PRIVATE,
    UNSAID,
    check_group,
    existing,
    occupant,
    of_name,
    place_of,
)
from broker.commands.table.kinds import KINDS
from broker.commands.table.row import Origin
from broker.commands.table.structures import DEFAULT
from broker.core.names.definitions import COPY, GROUP, GROUP_VERSION, OWN, SHARED, Clear, Define, Definition, Delete
from broker.core.names.resolution import DIRECTIONS
from broker.core.security.authority import NotAuthorizedError
from broker.mqi.constants.objects import MQQDT
from broker.mqi.replies import CommandReply, joined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from broker.commands.catalog import Catalog
    from broker.commands.requests import Decision, GroupRequest, RefreshConfigRequest, Request, SecurityRequest
    from broker.core.names.definitions import Attributes, Change
    from broker.core.security.caller import Caller


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The reply to a command, true once the changes are made. A command that failed changes nothing."""

    reply: CommandReply
    changes: tuple[Change, ...] = ()


ForEngine: TypeAlias = "Decision | GroupRequest | RefreshConfigRequest | SecurityRequest | ScopedRequest"
"""Requests that take more steps than changes of definitions."""


class Parts:
    """The reply to a DISPLAY, object by object; None where an object was looked at that is not shown. `held`: it tells
    who has messages of queues.
    """

    def __init__(self, parts: Iterator[CommandReply | None], *, held: bool = False) -> None:
        self._parts = parts
        self.held = held

    def __iter__(self) -> Iterator[CommandReply | None]:
        return self._parts


def interpret(
    text: str, catalog: Catalog, now: datetime, warned: set[str] | None = None, caller: Caller | None = None
) -> CommandOutcome | ForEngine:
    """Carry out one complete command, MQSC or ZMQSC; whatever its text, the answer is a reply, or what the engine
    carries out: an administrator's decision about claims or prepared units, a request to the group, a command for other
    members of it.

    `now` becomes the time of creation and alteration, in the zone that it carries. `warned` has the warnings that
    replies to earlier commands of the script bore: they are not repeated, and new ones are added. `caller` is the user
    whose command this is; None, its owner, may do everything.
    """
    try:
        begun = begin(text, catalog, now, warned, caller)
        if isinstance(begun, Parts):
            return CommandOutcome(joined([part for part in begun if part is not None]))
        return begun
    except NotAuthorizedError:
        return CommandOutcome(refused(errors.not_authorized()))


def begin(
    text: str,
    catalog: Catalog,
    now: datetime,
    warned: set[str] | None = None,
    caller: Caller | None = None,
    *,
    here: bool = False,
) -> CommandOutcome | ForEngine | Parts:
    """As `interpret`, but for a DISPLAY, which may show very many objects: its reply comes in parts. `here`: another
    member of the group has sent the command, which is not sent on. Raises NOT_AUTHORIZED (2035) for what the caller may
    not do.
    """
    try:
        request = read(text)
        if isinstance(request, ScopedRequest):
            if not here and _is_sent(request, catalog):
                return request
            request = _own_of(request.request) if here else request.request
        judging.judge(request, catalog, caller)
        return _begin(request, catalog, now, warned, caller)
    except errors.CommandError as error:
        return CommandOutcome(refused(error))


def _begin(
    request: Request, catalog: Catalog, now: datetime, warned: set[str] | None, caller: Caller | None
) -> CommandOutcome | ForEngine | Parts:
    match request:
        case DefineRequest():
            return _warned(request, _define(request, catalog, now, caller), warned)
        case AlterRequest():
            return _warned(request, _alter(request, catalog, now, caller), warned)
        case DeleteRequest():
            return _delete(request, catalog)
        case SetRecordsRequest():
            changes, doubts = records.set_records(request, catalog)
            return _told(_done("AMQ8862I", "authority record set", *changes), doubts, warned)
        case DeleteRecordsRequest():
            return _done("AMQ8863I", "authority record deleted", *records.delete_records(request, catalog))
        case SetRuleRequest():
            done = _done("AMQ8877I", "channel authentication record set", *rules.set_rule(request, catalog, now))
            return _told(done, not_acted_on("CHLAUTH", request.given), warned)
        case ClearRequest():
            return _clear(request, catalog)
        case DisplayRequest():
            return Parts(_displayed(display(request, catalog, caller)))
        case StatusRequest():
            return Parts(
                _displayed(display_status(request, catalog, caller)), held=request.type in ("CLAIM", "INDOUBT")
            )
        case _:
            return request


def _own_of(request: Request) -> Request:
    """Restrict a command that another member has sent to this queue manager's own objects."""
    if isinstance(request, AlterRequest | DeleteRequest | ClearRequest) and request.disposition == UNSAID:
        return replace(request, disposition=PRIVATE if isinstance(request, ClearRequest) else OWN)
    return request


def _is_sent(request: ScopedRequest, catalog: Catalog) -> bool:
    """True if a command with CMDSCOPE goes to other members of the group. What belongs to the group is changed by the
    member that is asked.
    """
    if request.scope == catalog.queue_manager.name:
        return False
    if not catalog.group_name:
        raise errors.conflict(
            f"CMDSCOPE({request.scope}) needs a queue-sharing group, and {catalog.queue_manager.name} is in none"
        )
    meant = request.request
    if isinstance(meant, GROUP_REQUESTS) or getattr(meant, "disposition", OWN) in (SHARED, GROUP):
        raise errors.conflict(f"CMDSCOPE({request.scope}) is not for what the members have together: leave it out")
    return True


def _displayed(parts: Iterator[CommandReply | None]) -> Iterator[CommandReply | None]:
    try:
        yield from parts
    except errors.CommandError as error:
        yield refused(error)


def refused(error: errors.CommandError) -> CommandReply:
    """The reply to a command that is not carried out."""
    return CommandReply(code=error.code, text=error.text, ok=False, syntax_error=error.syntax_error)


def _warned(request: DefineRequest | AlterRequest, outcome: CommandOutcome, warned: set[str] | None) -> CommandOutcome:
    """The outcome, its reply with a further line for each attribute that is given and not acted on."""
    return _told(outcome, not_acted_on(request.kind, request.given), warned)


def _told(outcome: CommandOutcome, lines: list[str], warned: set[str] | None) -> CommandOutcome:
    """The outcome, its reply with these further lines, but for those that replies before it bore."""
    warnings = [line for line in lines if warned is None or line not in warned]
    if not warnings:
        return outcome
    if warned is not None:
        warned.update(warnings)
    text = "\n".join([outcome.reply.text, *warnings])
    return replace(outcome, reply=replace(outcome.reply, text=text, warnings=tuple(warnings)))


def _done(code: str, what: str, *changes: Change) -> CommandOutcome:
    return CommandOutcome(CommandReply(code=code, text=f"{code}: IBM MQ {what}."), changes)


def _define(request: DefineRequest, catalog: Catalog, now: datetime, caller: Caller | None) -> CommandOutcome:
    kind, disposition = KINDS[request.kind], request.disposition
    check_group(request.kind, disposition, catalog)
    there = occupant(request.kind, request.name, disposition, catalog)
    other = there is not None and "QSGDISP" in TABLE[request.kind] and there.disposition != disposition
    if there is not None and (other or not request.replace):
        raise errors.already_exists(f"It has QSGDISP({_word(there.disposition)})" if other else "")
    if there is not None and there.kind != request.kind:
        raise errors.different_type()
    type = _type(request)
    if there is not None and type_of(request.kind, there.attributes) != type:
        raise errors.different_type()
    result = _inherited(request, type, catalog) | _own(there) | request.given
    judging.judge_directions(caller, request.kind, {} if there is None else there.attributes, result, catalog)
    _complete(request.kind, disposition, result, catalog)
    _check_queue(request, result)
    _check_trigger(request, result)
    if there is None:
        kept: Attributes = {"QSGDISP": disposition} if "QSGDISP" in TABLE[request.kind] else {}
        if disposition == COPY:
            kept[GROUP_VERSION] = existing(request.kind, request.name, GROUP, catalog).attributes[GROUP_VERSION]
        definition = create(request.kind, request.name, now, **result | kept)
    else:
        _check_handles(there, result, catalog)
        definition = altered(there, result, now)
    if there is not None:
        return _done(kind.created, f"{kind.title} created", Define(definition))
    done = _done(kind.created, f"{kind.title} created", *created(Define(definition), catalog, caller))
    return _told(done, entities.others_of_new_user(request.name, catalog), None) if request.kind == "USER" else done


def _own(there: Definition | None) -> Attributes:
    """Return the attributes that an object keeps when another definition replaces its own."""
    rows = () if there is None else TABLE[there.kind].values()
    return {row.keyword: there.attributes[row.keyword] for row in rows if row.own and there is not None}


def _type(request: DefineRequest | AlterRequest, there: Definition | None = None) -> int:
    """The type of the object that a command is about, of a kind that has types. Raises CommandError for an attribute
    that such objects do not have, and where a new object would have none.
    """
    keyword = KINDS[request.kind].type
    if not keyword:
        return 0
    if there is None and keyword not in request.given:
        raise errors.missing_keyword(f"DEFINE {request.kind} needs {keyword}")
    type = type_of(request.kind, request.given if there is None else there.attributes)
    if request.given.get(keyword, type) != type:
        raise errors.different_type()
    rows = TABLE[request.kind]
    wrong = next((each for each in request.given if not rows[each].is_of(type)), None)
    if wrong is not None:
        raise errors.conflict(f"{wrong} is not for {keyword}({rows[keyword].form.plain(type)})", syntax_error=True)
    return type


def _inherited(request: DefineRequest, type: int, catalog: Catalog) -> Attributes:
    """The attributes that a new definition takes from LIKE, or else from the default object or its factory settings; a
    copy takes them from what it is a copy of.
    """
    kind = KINDS[request.kind]
    rows = [row for row in rows_of(request.kind, type) if row.origin is Origin.GIVEN]
    if request.disposition == COPY:
        model: Definition | None = existing(request.kind, request.name, GROUP, catalog)
    elif request.like is not None:
        model = next(of_name(kind.space, request.like, catalog), None)
        if model is None:
            raise errors.not_found(request.like)
    else:
        model = catalog.find(kind.space, kind.template) if kind.template else None
        if model is not None and type_of(model.kind, model.attributes) != type:
            model = None
    if model is not None and (model.kind != request.kind or type_of(model.kind, model.attributes) != type):
        raise errors.different_type()
    source = {} if model is None else model.attributes
    return {
        row.keyword: row.default_of(type) if row.own else source.get(row.keyword, row.default_of(type)) for row in rows
    }


def _alter(request: AlterRequest, catalog: Catalog, now: datetime, caller: Caller | None) -> CommandOutcome:
    kind = KINDS[request.kind]
    if request.kind == "QMGR":
        definition = catalog.queue_manager
    else:
        definition = existing(request.kind, request.name, request.disposition, catalog)
    _type(request, definition)
    result = definition.attributes | request.given
    judging.judge_directions(caller, request.kind, definition.attributes, result, catalog)
    _complete(request.kind, definition.disposition, result, catalog)
    _check_queue(request, result)
    _check_trigger(request, result)
    if not request.force:
        _check_handles(definition, result, catalog)
    done = _done(kind.changed, f"{kind.title} changed", Define(altered(definition, result, now), force=request.force))
    if request.kind == "QMGR" and request.given.get("CONNAUTH"):
        return _told(done, entities.doubts_about_check(str(request.given["CONNAUTH"]), catalog), None)
    return done


def _complete(kind: str, disposition: int, result: Attributes, catalog: Catalog) -> None:
    """A shared queue, or a model of some, is in the default structure unless another is named, which must exist."""
    if disposition != SHARED and not (kind == "QMODEL" and result.get("DEFTYPE") == MQQDT.SHARED_DYNAMIC):
        return
    result["CFSTRUCT"] = result.get("CFSTRUCT") or DEFAULT
    named = str(result["CFSTRUCT"])
    if named != DEFAULT and catalog.group_name and catalog.find("CFSTRUCT", named, GROUP) is None:
        raise errors.not_found(str(result["CFSTRUCT"]), "It is to be a structure of the group")


def _word(disposition: int) -> str:
    return str(OF_OBJECT.plain(disposition))


def _delete(request: DeleteRequest, catalog: Catalog) -> CommandOutcome:
    kind = KINDS[request.kind]
    reply = (kind.deleted, f"{kind.title} deleted")
    try:
        definition = existing(request.kind, request.name, request.disposition, catalog)
    except errors.CommandError as error:
        if request.ignore_state and error.code == "AMQ8147E":
            return _done(*reply)
        raise
    place = place_of(request.kind, definition.disposition)
    if place != GROUP:
        _check_unused(definition, catalog)
        if place != SHARED and not request.purge and catalog.status(definition).get("CURDEPTH"):
            raise errors.not_empty()
    gone = Delete(kind.space, request.name, place, request.purge)
    return _done(*reply, *(records.with_records(gone, catalog) if request.records and place != GROUP else (gone,)))


def _clear(request: ClearRequest, catalog: Catalog) -> CommandOutcome:
    definition = existing("QLOCAL", request.name, request.disposition, catalog)
    _check_unused(definition, catalog)
    return _done("AMQ8022I", "queue cleared", Clear(request.name, definition.disposition))


def _check_unused(definition: Definition, catalog: Catalog) -> None:
    """Refuse what needs the object for itself while handles are open, units of work on it unfinished, or messages of it
    claimed or prepared.
    """
    held = catalog.held(definition.name) if definition.space == "QUEUE" and not definition.shared else ""
    if held:
        raise errors.in_use(held)
    status = catalog.status(definition)
    if status.get("HANDLES") or status.get("UNCOM"):
        raise errors.in_use()


def _check_handles(definition: Definition, changed: Attributes, catalog: Catalog) -> None:
    """Refuse a change that open handles depend on: of where a name leads while it is open, of USAGE while there are
    handles or messages, from SHARE to NOSHARE while more than one handle is open for input.
    """
    before = definition.attributes
    status = catalog.status(definition)
    directions = DIRECTIONS.get(definition.kind, ())
    if status.get("HANDLES") and any(changed.get(word, before.get(word)) != before.get(word) for word in directions):
        raise errors.in_use()
    if changed.get("USAGE", before.get("USAGE")) != before.get("USAGE") and (
        status.get("HANDLES") or status.get("CURDEPTH") or status.get("UNCOM")
    ):
        raise errors.in_use()
    if before.get("SHARE") and changed.get("SHARE") == 0 and int(status.get("IPPROCS", 0)) > 1:
        raise errors.in_use()


def _check_queue(request: DefineRequest | AlterRequest, result: Attributes) -> None:
    """Rules between attributes of one queue. (Its MAXMSGL may be above the queue manager's: the smaller one counts.)"""
    if KINDS[request.kind].space != "QUEUE":
        return
    if result.get("CLUSTER") and result.get("CLUSNL"):
        raise errors.conflict("only one of CLUSTER and CLUSNL can have a value")


def _check_trigger(request: DefineRequest | AlterRequest, result: Attributes) -> None:
    """TPF's language refuses trigger EVERY for a queue without a process: nothing would be started."""
    if not request.tpf or not request.given.keys() & {"TRIGGER", "TRIGTYPE", "PROCESS"}:
        return
    every = TABLE["QLOCAL"]["TRIGTYPE"].form.read("TRIGTYPE", "EVERY")
    if result.get("TRIGGER") and result.get("TRIGTYPE") == every and not result.get("PROCESS"):
        raise errors.conflict("TRIGTYPE-EVERY with TRIGGER needs a PROCESS")
