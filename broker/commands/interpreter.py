"""One command against the objects of a queue manager: the reply, and the changes that make it true.

Nothing is changed here. The engine makes the changes durable and applies them, and only then shows a reply of success.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from broker.commands import errors
from broker.commands.attributes import TABLE, altered, create, not_acted_on
from broker.commands.binder import read
from broker.commands.inquiry import display, display_status
from broker.commands.kinds import KINDS
from broker.commands.requests import (
    DECISIONS,
    AlterRequest,
    ClearRequest,
    DefineRequest,
    DeleteRequest,
    DisplayRequest,
    StatusRequest,
)
from broker.commands.row import Origin
from broker.core.names.definitions import Clear, Define, Definition, Delete
from broker.core.names.resolution import DIRECTIONS
from broker.mqi.replies import CommandReply, joined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from broker.commands.catalog import Catalog
    from broker.commands.requests import Decision
    from broker.core.names.definitions import Attributes, Change


@dataclass(frozen=True, slots=True)
class Outcome:
    """The reply to a command, true once the changes are made. A command that failed changes nothing."""

    reply: CommandReply
    changes: tuple[Change, ...] = ()


Parts: TypeAlias = "Iterator[CommandReply | None]"
"""The reply to a DISPLAY, object by object; None where an object was looked at that is not shown."""


def interpret(text: str, catalog: Catalog, now: datetime, warned: set[str] | None = None) -> Outcome | Decision:
    """Carry out one complete command, MQSC or ZMQSC; whatever its text, the answer is a reply, or an administrator's
    decision about claims or prepared units, which the engine carries out.

    `now` becomes the time of creation and alteration, in the zone that it carries. `warned` has the warnings that
    replies to earlier commands of the script bore: they are not repeated, and new ones are added.
    """
    begun = begin(text, catalog, now, warned)
    if isinstance(begun, (Outcome, *DECISIONS)):
        return begun
    return Outcome(joined([part for part in begun if part is not None]))


def begin(text: str, catalog: Catalog, now: datetime, warned: set[str] | None = None) -> Outcome | Decision | Parts:
    """As `interpret`, but for a DISPLAY, which may show very many objects: its reply comes in parts."""
    try:
        request = read(text)
        match request:
            case DefineRequest():
                return _warned(request, _define(request, catalog, now), warned)
            case AlterRequest():
                return _warned(request, _alter(request, catalog, now), warned)
            case DeleteRequest():
                return _delete(request, catalog)
            case ClearRequest():
                return _clear(request, catalog)
            case DisplayRequest():
                return _displayed(display(request, catalog))
            case StatusRequest():
                return _displayed(display_status(request, catalog))
            case _:
                return request
    except errors.CommandError as error:
        return Outcome(refused(error))


def _displayed(parts: Parts) -> Parts:
    try:
        yield from parts
    except errors.CommandError as error:
        yield refused(error)


def refused(error: errors.CommandError) -> CommandReply:
    """The reply to a command that is not carried out."""
    return CommandReply(code=error.code, text=error.text, ok=False, syntax_error=error.syntax_error)


def _warned(request: DefineRequest | AlterRequest, outcome: Outcome, warned: set[str] | None) -> Outcome:
    """The outcome, its reply with a further line for each attribute that is given and not acted on."""
    warnings = [line for line in not_acted_on(request.kind, request.given) if warned is None or line not in warned]
    if not warnings:
        return outcome
    if warned is not None:
        warned.update(warnings)
    text = "\n".join([outcome.reply.text, *warnings])
    return replace(outcome, reply=replace(outcome.reply, text=text, warnings=tuple(warnings)))


def _done(code: str, what: str, *changes: Change) -> Outcome:
    return Outcome(CommandReply(code=code, text=f"{code}: IBM MQ {what}."), changes)


def _define(request: DefineRequest, catalog: Catalog, now: datetime) -> Outcome:
    kind = KINDS[request.kind]
    existing = catalog.find(kind.space, request.name)
    if existing is not None and not request.replace:
        raise errors.already_exists()
    if existing is not None and existing.kind != request.kind:
        raise errors.different_type()
    inherited = _inherited(request, catalog)
    _check_queue(request, inherited | request.given)
    _check_trigger(request, inherited | request.given)
    if existing is None:
        definition = create(request.kind, request.name, now, **inherited | request.given)
    else:
        _check_handles(existing, inherited | request.given, catalog)
        definition = altered(existing, inherited | request.given, now)
    return _done(kind.created, f"{kind.title} created", Define(definition))


def _inherited(request: DefineRequest, catalog: Catalog) -> Attributes:
    """The attributes that a new definition takes from LIKE, or else from the default object or its factory settings."""
    kind = KINDS[request.kind]
    rows = [row for row in TABLE[request.kind].values() if row.origin is Origin.GIVEN]
    model = catalog.find(kind.space, kind.template if request.like is None else request.like)
    if model is None and request.like is not None:
        raise errors.not_found(request.like)
    if model is not None and model.kind != request.kind:
        raise errors.different_type()
    source = {} if model is None else model.attributes
    return {row.keyword: source.get(row.keyword, row.default) for row in rows}


def _alter(request: AlterRequest, catalog: Catalog, now: datetime) -> Outcome:
    kind = KINDS[request.kind]
    definition = catalog.queue_manager if request.kind == "QMGR" else _existing(request.kind, request.name, catalog)
    result = definition.attributes | request.given
    _check_queue(request, result)
    _check_trigger(request, result)
    if not request.force:
        _check_handles(definition, request.given, catalog)
    return _done(kind.changed, f"{kind.title} changed", Define(altered(definition, request.given, now)))


def _delete(request: DeleteRequest, catalog: Catalog) -> Outcome:
    kind = KINDS[request.kind]
    reply = (kind.deleted, f"{kind.title} deleted")
    if request.ignore_state and catalog.find(kind.space, request.name) is None:
        return _done(*reply)
    definition = _existing(request.kind, request.name, catalog)
    _check_unused(definition, catalog)
    if not request.purge and catalog.status(kind.space, request.name).get("CURDEPTH"):
        raise errors.not_empty()
    return _done(*reply, Delete(kind.space, request.name))


def _clear(request: ClearRequest, catalog: Catalog) -> Outcome:
    definition = _existing("QLOCAL", request.name, catalog)
    _check_unused(definition, catalog)
    return _done("AMQ8022I", "queue cleared", Clear(request.name))


def _existing(kind: str, name: str, catalog: Catalog) -> Definition:
    definition = catalog.find(KINDS[kind].space, name)
    if definition is None:
        raise errors.not_found(name)
    if definition.kind != kind:
        raise errors.different_type()
    return definition


def _check_unused(definition: Definition, catalog: Catalog) -> None:
    """Refuse what needs the object for itself while handles are open, units of work on it unfinished, or messages of it
    claimed or prepared.
    """
    held = catalog.held(definition.name) if definition.space == "QUEUE" else ""
    if held:
        raise errors.in_use(held)
    status = catalog.status(definition.space, definition.name)
    if status.get("HANDLES") or status.get("UNCOM"):
        raise errors.in_use()


def _check_handles(definition: Definition, changed: Attributes, catalog: Catalog) -> None:
    """Refuse a change that open handles depend on: of where a name leads while it is open, of USAGE while there are
    handles or messages, from SHARE to NOSHARE while more than one handle is open for input.
    """
    before = definition.attributes
    status = catalog.status(definition.space, definition.name)
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
