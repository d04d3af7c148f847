"""The judgement of commands: each is carried out as its caller (security 7).

An object is judged by its name, whether there is one or not, so that nobody learns of objects that he may not display.
What is no object with records of its own is judged by the rights on the queue manager. A definition that leads
elsewhere needs CHG on that too: who may define an alias must not reach every queue by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.commands.requests import (
    AlterRequest,
    BackUpRequest,
    ClearRequest,
    DefineRequest,
    DeleteRecordsRequest,
    DeleteRequest,
    DisplayRequest,
    EntityRightsRequest,
    FailRequest,
    MembersRequest,
    MoveRequest,
    PeerUnitsRequest,
    RecoverRequest,
    RefreshConfigRequest,
    RefreshSecurityRequest,
    ResetRequest,
    ResolveConsumerRequest,
    ResolvePeerUnitRequest,
    ResolveUnitRequest,
    RunCheckRequest,
    SetRecordsRequest,
    SetRuleRequest,
    StartChannelRequest,
    StatusRequest,
    StopChannelRequest,
)
from broker.commands.security.records import are_shared
from broker.commands.security.rules import changes_shared
from broker.commands.table.authority_records import TYPE_OF_SPACE
from broker.commands.table.dispositions import meant, of_name, place_of
from broker.commands.table.kinds import KINDS, SHOWN
from broker.core.names.definitions import COPY, GROUP, SHARED
from broker.core.names.sharing_group import TRANSMISSION_QUEUE, uses_igq
from broker.core.security.rights import Q, Right
from broker.mqi.constants.attribute_values import MQUS
from broker.mqi.constants.objects import MQOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker.commands.catalog import Catalog
    from broker.commands.requests import Request
    from broker.core.names.definitions import Attributes, Definition
    from broker.core.security.caller import Caller

COMMAND_STEP: Final = "command"
"""The step that the refusal of a command names."""

_CHANNEL: Final = MQOT.CHANNEL.value
_PROCESS: Final = MQOT.PROCESS.value
_TRANSMISSION: Final = MQUS.TRANSMISSION.value

_BY_ADMINISTRATION: Final = {
    ("DEFINE", "AUTHINFO"), ("ALTER", "AUTHINFO"), ("DELETE", "AUTHINFO"), ("DEFINE", "CHANNEL"), ("ALTER", "CHANNEL"),
    ("DEFINE", "CLNTCONN"), ("ALTER", "CLNTCONN"),
}  # fmt: skip
"""Commands about objects with records that need CHG on the queue manager too: they decide who comes in."""

_OF_MANAGER: Final = {
    BackUpRequest: Right.CTRL,
    DeleteRecordsRequest: Right.CHG,
    EntityRightsRequest: Right.DSP,
    FailRequest: Right.CTRL,
    MembersRequest: Right.DSP,
    PeerUnitsRequest: Right.CTRL,
    RecoverRequest: Right.CTRL,
    RefreshConfigRequest: Right.CHG,
    RefreshSecurityRequest: Right.CHG,
    ResolvePeerUnitRequest: Right.CTRL,
    ResolveUnitRequest: Right.CTRL,
    RunCheckRequest: Right.DSP,
    SetRecordsRequest: Right.CHG,
    SetRuleRequest: Right.CHG,
}
"""Requests that are about no object with records, and the right on the queue manager."""

_ON_MANAGER: Final = {"CFSTRUCT": Right.CTRL, "QMGR": Right.CHG, "USER": Right.CHG}
"""The right on the queue manager to change what has no authority records of its own."""

_LED_BY_NAME: Final = {"TARGET": Q, "BOQNAME": Q, "INITQ": Q, "XMITQ": Q, "PROCESS": _PROCESS}
"""Attributes that name what an object leads to, and of which type that is."""


def judge(request: Request, catalog: Catalog, caller: Caller | None) -> None:
    """Raise NOT_AUTHORIZED (2035) for a request that this user may not make. Where a definition leads is judged when it
    is known (`judge_directions`), the queues of consumers and sinks by who carries out the decision.
    """
    if caller is None:
        return
    caller.require_enabled(COMMAND_STEP)
    if catalog.group_name and _is_of_group(request, catalog):
        caller = caller.of_group
    wanted = _OF_MANAGER.get(type(request))
    if wanted is not None:
        caller.require_manager(wanted, COMMAND_STEP)
        return
    match request:
        case DefineRequest():
            _judge_define(request, catalog, caller)
        case AlterRequest(kind, name):
            _require(caller, "ALTER", kind, name, Right.CHG)
        case DeleteRequest(kind, name):
            _require(caller, "DELETE", kind, name, Right.DLT)
        case ClearRequest(name):
            caller.require(Right.CLR, name, step=COMMAND_STEP)
        case MoveRequest(name, target):
            caller.require(Right.GET, name, step=COMMAND_STEP)
            caller.require(Right.PUT, target, step=COMMAND_STEP)
        case StartChannelRequest(name) | StopChannelRequest(name):
            caller.require(Right.CTRL, name, _CHANNEL, COMMAND_STEP)
        case DisplayRequest() | StatusRequest():
            _judge_display(request, caller)
        case ResolveConsumerRequest() | ResetRequest():
            pass  # `broker.engine.admin.decisions`
        case _:
            raise AssertionError(f"{type(request).__name__} is judged by nothing")


def _is_of_group(request: Request, catalog: Catalog) -> bool:
    """True if a request changes what belongs to the group: what the group shares alone says who may do that."""
    match request:
        case SetRecordsRequest() | DeleteRecordsRequest():
            return are_shared(request, catalog)
        case SetRuleRequest():
            return changes_shared(request, catalog)
        case BackUpRequest() | FailRequest() | RecoverRequest():
            return True
        case DefineRequest(kind, _, disposition=disposition):
            return place_of(kind, disposition) in (SHARED, GROUP)
        case AlterRequest(kind, name, disposition=asked) | DeleteRequest(kind, name, disposition=asked):
            return kind != "QMGR" and meant(kind, name, asked, catalog) in (SHARED, GROUP)
    return False


def judge_directions(
    caller: Caller | None, kind: str, before: Mapping[str, int | str], after: Attributes, catalog: Catalog
) -> None:
    """Raise NOT_AUTHORIZED (2035) for a user who lacks CHG on what an object leads to with these attributes, as far as
    it did not lead there `before`.
    """
    if caller is None:
        return
    changed = {word for word, value in after.items() if before.get(word) != value}
    for word in _LED_BY_NAME.keys() & changed:
        if after[word]:
            caller.require(Right.CHG, str(after[word]), _LED_BY_NAME[word], COMMAND_STEP)
    if "USAGE" in changed and after["USAGE"] == _TRANSMISSION:
        caller.require_manager(Right.CHG, COMMAND_STEP)
    if kind == "QREMOTE" and changed & {"RNAME", "RQMNAME", "XMITQ"}:
        for name in _led_remotely(after, catalog):
            caller.require(Right.CHG, name, step=COMMAND_STEP)


def may_see(caller: Caller | None, definition: Definition) -> bool:
    """True if DISPLAY shows this user the object."""
    object_type = TYPE_OF_SPACE.get(definition.space)
    return caller is None or object_type is None or caller.may(Right.DSP, definition.name, object_type)


def may_see_row(caller: Caller | None, figures: Mapping[str, int | str]) -> bool:
    """True if DISPLAY shows this user a row of a status: it may display each queue that the row names."""
    return caller is None or all(caller.may(Right.DSP, name) for name in _queues_of(figures))


def _judge_define(request: DefineRequest, catalog: Catalog, caller: Caller) -> None:
    kind = KINDS[request.kind]
    object_type = TYPE_OF_SPACE.get(kind.space)
    if object_type is None:
        caller.require_manager(_ON_MANAGER[request.kind], COMMAND_STEP)
        return
    if ("DEFINE", request.kind) in _BY_ADMINISTRATION:
        caller.require_manager(Right.CHG, COMMAND_STEP)
    there = catalog.find(kind.space, request.name, place_of(request.kind, request.disposition)) is not None
    replaced = there and request.replace
    if not replaced:
        caller.require_creation(request.name, object_type, COMMAND_STEP)
    another = not there and any(of_name(kind.space, request.name, catalog))
    if replaced or another:  # records are by name: who creates a second one of a name is given rights on the first
        caller.require(Right.CHG, request.name, object_type, COMMAND_STEP)
    model = request.name if request.disposition == COPY else request.like or kind.template
    if model:
        caller.require(Right.DSP, model, object_type, COMMAND_STEP)


def _require(caller: Caller, verb: str, kind: str, name: str, wanted: Right) -> None:
    """Insist on a right on an object, or of what has no records on the queue manager."""
    object_type = TYPE_OF_SPACE.get(KINDS[kind].space)
    if object_type is None:
        caller.require_manager(_ON_MANAGER[kind], COMMAND_STEP)
        return
    caller.require(wanted, name, object_type, COMMAND_STEP)
    if (verb, kind) in _BY_ADMINISTRATION:
        caller.require_manager(Right.CHG, COMMAND_STEP)


def _judge_display(request: DisplayRequest | StatusRequest, caller: Caller) -> None:
    """Judge a DISPLAY of one name; of a pattern the rows are left out (`may_see`, `may_see_row`)."""
    if isinstance(request, StatusRequest):
        types = [Q] if request.noun == "QSTATUS" else []
    else:
        types = [TYPE_OF_SPACE[space] for space in SHOWN[request.noun].spaces if space in TYPE_OF_SPACE]
    if not types:
        caller.require_manager(Right.DSP, COMMAND_STEP)
    elif not request.pattern.endswith("*") and not any(caller.may(Right.DSP, request.pattern, each) for each in types):
        caller.require(Right.DSP, request.pattern, types[0], COMMAND_STEP)


def _led_remotely(attributes: Attributes, catalog: Catalog) -> Iterator[str]:
    """Yield the queues that the local definition of a remote queue leads to: one here, or that of transmission."""
    q_name, member = str(attributes["RNAME"]), str(attributes["RQMNAME"])
    here = member in ("", catalog.queue_manager.name, catalog.group_name)
    shared = bool(catalog.group_name) and catalog.find("QUEUE", q_name, SHARED) is not None
    if q_name and (here or shared):
        yield q_name
    if here or attributes["XMITQ"]:  # that is judged by its name
        return
    own = catalog.find("QUEUE", member)
    transmits = own is not None and own.attributes.get("USAGE") == _TRANSMISSION
    yield member if transmits else str(catalog.queue_manager.attributes["DEFXMITQ"]) or member
    if catalog.group_name and uses_igq(catalog.queue_manager):
        yield TRANSMISSION_QUEUE


def _queues_of(figures: Mapping[str, int | str]) -> Iterable[str]:
    """The queues that a row of a status names: `QUEUES` has each with how many messages are for it."""
    if "QUEUE" in figures:
        return (str(figures["QUEUE"]),)
    counted = str(figures["QUEUES"]) if "THREAD" in figures else ""
    return (each.rpartition(" ")[0] for each in filter(None, counted.split(", ")))
