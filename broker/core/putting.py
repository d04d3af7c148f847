"""MQPUT: from a caller's descriptor and data to completed entries, one or several when the message must be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core import context, logical
from broker.core.entry import MAX_PRIORITY, Entry
from broker.core.extension import take_extension
from broker.core.logical import Item, Position
from broker.core.options import check_put
from broker.core.segmentation import cut, piece_length
from broker.mqi.descriptor import MQENC, MQMF, MQMT, MQRO
from broker.mqi.errors import MQError
from broker.mqi.options import MQPMO
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, MessageDescriptor

if TYPE_CHECKING:
    from broker.core.handles import Handle, Hconn
    from broker.core.identifiers import Identifiers
    from broker.core.queue import LocalQueue
    from broker.mqi.structures import PutMessageOptions

_SYNCPOINT = MQPMO.SYNCPOINT.value
_NEW_MSG_ID = MQPMO.NEW_MSG_ID.value
_NEW_CORREL_ID = MQPMO.NEW_CORREL_ID.value
_LOGICAL_ORDER = MQPMO.LOGICAL_ORDER.value
_MSG_TYPES = frozenset({MQMT.REQUEST.value, MQMT.REPLY.value, MQMT.REPORT.value, MQMT.DATAGRAM.value, 112, 113})
_REQUEST = MQMT.REQUEST.value
_REPORT = MQMT.REPORT.value
_APPL_LAST = 999_999_999
_APPL_FIRST = 65_536
_REPORTS = (
    MQRO.EXCEPTION | MQRO.EXPIRATION | MQRO.COA | MQRO.COD | MQRO.PAN | MQRO.NAN | MQRO.ACTIVITY
).value  # fmt: skip
_KNOWN_FLAGS = (
    MQMF.SEGMENTATION_ALLOWED | MQMF.SEGMENT | MQMF.LAST_SEGMENT | MQMF.MSG_IN_GROUP | MQMF.LAST_MSG_IN_GROUP
).value
_ACCEPTED_FLAGS = 0xFFF0_0000  # bits of flags to come that are kept and passed on
_PERSISTENCE_AS_Q_DEF = 2
_PRIORITY_EXCEEDS_MAXIMUM = int(MQRC.PRIORITY_EXCEEDS_MAXIMUM)
_DEFAULTS = MessageDescriptor()


class Prepared(NamedTuple):
    """A put that has passed all checks of its own: the entries to place, a warning, and where it leaves the handle."""

    entries: list[Entry]
    reason: int
    position: Position | None
    """None for MQPUT1, which no handle remembers."""


def prepare(
    hconn: Hconn,
    handle: Handle | None,
    queue: LocalQueue,
    ids: Identifiers,
    md: MessageDescriptor | None,
    pmo: PutMessageOptions,
    data: bytes,
    max_length: int,
    now: float,
) -> Prepared:
    """Check a message and complete it. `handle` is None for MQPUT1. Changes nothing but the counter of `ids`."""
    options = int(pmo.options)
    check_put(options)
    md = md or _DEFAULTS
    if md is not _DEFAULTS:
        check_descriptor(md)
        md, data = take_extension(md, data, MQENC.NATIVE)
    taken = context.for_put(hconn, handle, options, pmo.context, md)
    if queue.put_inhibited:
        raise MQError(MQRC.PUT_INHIBITED, f"{queue.name} has PUT(DISABLED)")
    persistence = queue.default_persistence if md.persistence == _PERSISTENCE_AS_Q_DEF else md.persistence
    in_unit = bool(options & _SYNCPOINT)
    item, flags, warning = _item(handle, ids, md, options, persistence, in_unit=in_unit, length=len(data))
    piece = _piece_length(queue, md, flags, len(data), max_length)
    if piece and persistence and not in_unit and hconn.unit is not None:
        raise MQError(MQRC.UOW_NOT_AVAILABLE, "a persistent message to be cut, outside syncpoint beside an open unit")
    if queue.depth >= queue.max_depth:
        raise MQError(MQRC.Q_FULL, f"{queue.name} holds {queue.depth} messages, its MAXDEPTH is {queue.max_depth}")
    priority = md.priority if md.priority >= 0 else queue.default_priority
    rank = queue.default_priority if queue.fifo else min(priority, MAX_PRIORITY)
    if priority > MAX_PRIORITY:
        warning = warning or _PRIORITY_EXCEEDS_MAXIMUM
    stamp = ids.stamp(now)
    correl_id = ids.identifier() if options & _NEW_CORREL_ID else md.correl_id
    whole = Entry(queue, ids.next(), rank, data, len(data))
    whole.priority, whole.persistence = priority, persistence
    whole.msg_id = ids.identifier(whole.id) if options & _NEW_MSG_ID or md.msg_id == NO_ID else md.msg_id
    whole.correl_id = correl_id
    whole.group_id, whole.msg_seq_number, whole.offset = item
    whole.msg_flags = logical.stored_flags(flags)
    whole.original_length = _original_length(md, flags, len(data))
    whole.deadline = now + md.expiry / 10 if md.expiry > 0 else None
    whole.kept = context.pack(md, taken, stamp, hconn, ids)
    entries = cut(whole, piece, ids) if piece else [whole]
    if handle is None:
        return Prepared(entries, warning, None)
    reach = whole.original_length if md.msg_type == _REPORT and whole.original_length >= 0 else len(data)
    ordered = bool(options & _LOGICAL_ORDER)
    position = handle.last_put.after(item, reach, flags, persistence, in_unit=in_unit, logical=ordered)
    return Prepared(entries, warning, position)


def check_descriptor(md: MessageDescriptor) -> None:
    """Raise what is wrong with a descriptor given to MQPUT (messages.md 1.1, 1.3, 2)."""
    if md.version not in (1, 2):
        raise MQError(MQRC.MD_ERROR, f"version={md.version}: 1 or 2")
    if md.msg_type not in _MSG_TYPES and not _APPL_FIRST <= md.msg_type <= _APPL_LAST:
        raise MQError(MQRC.MSG_TYPE_ERROR, f"msg_type={md.msg_type}: not a type that MQMT defines")
    if md.expiry < 1 and md.expiry != -1:
        raise MQError(MQRC.EXPIRY_ERROR, f"expiry={md.expiry}: tenths of a second above 0, or -1 for never")
    if not 0 <= md.feedback <= _APPL_LAST:
        raise MQError(MQRC.FEEDBACK_ERROR, f"feedback={md.feedback}: 0 to 999999999")
    if md.priority < -1:
        raise MQError(MQRC.PRIORITY_ERROR, f"priority={md.priority}: 0 to 9, or -1 for the queue's default")
    if md.persistence not in (0, 1, _PERSISTENCE_AS_Q_DEF):
        raise MQError(MQRC.PERSISTENCE_ERROR, f"persistence={md.persistence}: 0, 1, or 2 for the queue's default")
    if (md.msg_type == _REQUEST or md.report & _REPORTS) and not md.reply_to_q:
        raise MQError(MQRC.MISSING_REPLY_TO_Q, "a request, or a message that asks for a report, needs reply_to_q")
    for name, value in (("msg_id", md.msg_id), ("correl_id", md.correl_id), ("group_id", md.group_id)):
        if len(value) != len(NO_ID):
            raise MQError(MQRC.MD_ERROR, f"{name} has {len(value)} bytes: an identifier has 24")
    if md.msg_flags & ~(_KNOWN_FLAGS | _ACCEPTED_FLAGS):
        raise MQError(MQRC.MSG_FLAGS_ERROR, f"msg_flags={md.msg_flags:#x}: undefined bits")


def _item(
    handle: Handle | None,
    ids: Identifiers,
    md: MessageDescriptor,
    options: int,
    persistence: int,
    *,
    in_unit: bool,
    length: int,
) -> tuple[Item, int, int]:
    """The item that the message is, its flags as given, and a warning (messages.md 3)."""
    flags = md.msg_flags if md.version > 1 else 0
    if flags & logical.SEGMENTS == logical.SEGMENT and not length:
        raise MQError(MQRC.SEGMENT_LENGTH_ZERO, "a segment that is not the last has no data")
    position = handle.last_put if handle is not None else logical.CLOSED
    if options & _LOGICAL_ORDER:
        if handle is None:
            raise MQError(MQRC.OPTIONS_ERROR, "MQPMO_LOGICAL_ORDER is not for MQPUT1")
        if md.version < 2:
            raise MQError(MQRC.WRONG_MD_VERSION, "LOGICAL_ORDER needs a version 2 descriptor")
        return logical.put_in_order(position, flags, persistence, ids.identifier, in_unit=in_unit), flags, 0
    item = logical.put_as_given(flags, Item(md.group_id, md.msg_seq_number, md.offset), ids.identifier)
    return item, flags, logical.put_warning(position, item, flags, persistence, in_unit=in_unit)


def _piece_length(queue: LocalQueue, md: MessageDescriptor, flags: int, length: int, max_length: int) -> int:
    """The length of the pieces that the message must be cut into; 0 when it fits (messages.md 4.1)."""
    if length <= max_length and length <= queue.max_length:
        return 0
    of_manager = length > max_length
    if flags & logical.SEGMENTATION_ALLOWED:
        piece = piece_length(min(queue.max_length, max_length))
        if piece and md.offset + length <= logical.NUMBER_MAX:
            return piece
        of_manager = max_length < queue.max_length
    if of_manager:
        raise MQError(MQRC.MSG_TOO_BIG_FOR_Q_MGR, f"{length} bytes, the queue manager's MAXMSGL is {max_length}")
    raise MQError(MQRC.MSG_TOO_BIG_FOR_Q, f"{length} bytes, MAXMSGL of {queue.name} is {queue.max_length}")


def _original_length(md: MessageDescriptor, flags: int, length: int) -> int:
    """OriginalLength as stored (messages.md 4.3); raises ORIGINAL_LENGTH_ERROR (2252)."""
    if not flags & logical.SEGMENTS:
        return -1
    if md.msg_type != _REPORT:
        return length
    lowest = max(length, 0 if flags & logical.LAST_SEGMENT else 1)
    if md.original_length < lowest:
        raise MQError(MQRC.ORIGINAL_LENGTH_ERROR, f"original_length={md.original_length}: {lowest} or more here")
    return md.original_length
