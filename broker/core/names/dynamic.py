"""Dynamic queues: their names, their definitions, and when a close deletes them (semantics 9.5).

A temporary dynamic queue ends with the handle that created it and is never written; a permanent one is a queue like any
other that MQCLOSE may delete. The steps that create and delete them are in `broker.core.names.opening` and
`broker.core.calls.defining`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from broker.core.names.definitions import OWN, SHARED, Definition
from broker.core.security.authority import NotAuthorizedError, RefusedCall
from broker.core.security.rights import Right
from broker.mqi.constants.objects import MQOT, MQQDT
from broker.mqi.constants.options import MQCO
from broker.mqi.errors import MQError
from broker.mqi.names import is_name
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue

TEMPORARY = MQQDT.TEMPORARY_DYNAMIC.value
PERMANENT = MQQDT.PERMANENT_DYNAMIC.value
SHARED_DYNAMIC = MQQDT.SHARED_DYNAMIC.value

_GENERIC_LENGTH = 32  # of what stands before the asterisk

_QUEUE = MQOT.Q.value
_DELETE = MQCO.DELETE.value
_PURGE = MQCO.DELETE_PURGE.value


def name_for(pattern: str, ids: Identifiers) -> str:
    """The name of a new queue: DynamicQName itself, or with 16 hexadecimal digits that are never given twice for the
    asterisk at its end. Raises DYNAMIC_Q_NAME_ERROR (2011).
    """
    wanted = pattern.rstrip(" ")
    if is_name(wanted):
        return wanted
    stem = wanted.removesuffix("*")
    if stem == wanted or (stem and not is_name(stem, _GENERIC_LENGTH)):
        raise MQError(
            MQRC.DYNAMIC_Q_NAME_ERROR, f"{pattern!r} is neither a name nor up to 32 characters of one and an asterisk"
        )
    return f"{stem}{ids.next():016X}"


def definition_of(model: Definition, name: str, now: float) -> Definition:
    """The definition of a dynamic queue with the attributes of its model, created `now` (wall-clock seconds). A shared
    one is of the group, any other of the queue manager alone, wherever its model comes from.
    """
    moment = datetime.fromtimestamp(now, UTC)
    day, time = moment.strftime("%Y-%m-%d"), moment.strftime("%H.%M.%S")
    stamps: dict[str, int | str] = {"CRDATE": day, "CRTIME": time, "ALTDATE": day, "ALTTIME": time}
    disposition = SHARED if model.attributes["DEFTYPE"] == SHARED_DYNAMIC else OWN
    return Definition("QLOCAL", name, model.attributes | stamps | {"QSGDISP": disposition})


def is_temporary(definition: Definition) -> bool:
    """True if this is a temporary dynamic queue."""
    return definition.kind == "QLOCAL" and definition.attributes["DEFTYPE"] == TEMPORARY


def close_deletes(handle: Handle, options: int) -> bool:
    """True if MQCLOSE with these options is to delete a permanent dynamic queue. Temporary ones go by themselves.

    Raises OPTIONS_ERROR (2046), OPTION_NOT_VALID_FOR_TYPE (2045) for what a close cannot delete, NOT_AUTHORIZED (2035).
    """
    if options & ~(_DELETE | _PURGE) or options == _DELETE | _PURGE:
        raise MQError(MQRC.OPTIONS_ERROR, f"close options {options:#x}: NONE, DELETE or DELETE_PURGE")
    queue = handle.queue
    if not options or (queue is not None and (queue.deleted or queue.creator is handle)):
        return False
    if queue is None or handle.name != queue.name or queue.definition_type not in (PERMANENT, SHARED_DYNAMIC):
        raise MQError(
            MQRC.OPTION_NOT_VALID_FOR_TYPE,
            f"{handle.name} is no permanent dynamic queue, nor a temporary one that this handle created",
        )
    try:
        handle.hconn.require(Right.DLT, queue.name)
    except NotAuthorizedError as error:
        error.of(RefusedCall("close", handle.hconn.appl_type, handle.hconn.appl_name, _QUEUE, queue.name))
        raise
    return True


def check_deletable(queue: LocalQueue, options: int, held: str) -> None:
    """Refuse to delete a queue that holds messages, unless they are to be purged, or that units of work are unfinished
    on, or of which somebody has messages, as `held` says: Q_NOT_EMPTY (2055).
    """
    if held:
        raise MQError(MQRC.Q_NOT_EMPTY, f"{queue.name}: {held}")
    if queue.uncommitted or (queue.depth and not options & _PURGE):
        raise MQError(
            MQRC.Q_NOT_EMPTY, f"{queue.name} holds {queue.depth} messages, {queue.uncommitted} are uncommitted"
        )
