"""MQPUT: from a caller's descriptor and data to completed entries, one or several when the message must be cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.core.calls.options import check_put
from broker.core.calls.puts.put import PreparedPut, Put
from broker.core.message import context, logical_order, report_options
from broker.core.message.entry import MAX_PRIORITY, Entry, FullEntry
from broker.core.message.headers import transmission
from broker.core.message.headers.mqmde import take_mqmde
from broker.core.message.headers.properties import FORMAT as PROPERTIES_FORMAT
from broker.core.message.headers.properties import take_properties, with_given
from broker.core.message.segmentation import cut, piece_length
from broker.core.names import judging
from broker.core.names.resolution import reply_to
from broker.mqi import checks
from broker.mqi.constants.descriptor import MQMF, MQMT, MQPER, MQRO
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, MessageDescriptor

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.manager import Manager
    from broker.core.message.context import Context
    from broker.core.message.logical_order import LogicalPlace, Position
    from broker.core.names.routes import Route
    from broker.mqi.structures import PutMessageOptions

_SYNCPOINT = MQPMO.SYNCPOINT.value
_NEW_MSG_ID = MQPMO.NEW_MSG_ID.value
_NEW_CORREL_ID = MQPMO.NEW_CORREL_ID.value
_LOGICAL_ORDER = MQPMO.LOGICAL_ORDER.value
_MSG_TYPES = frozenset({MQMT.REQUEST.value, MQMT.REPLY.value, MQMT.REPORT.value, MQMT.DATAGRAM.value, 112, 113})
_FAIL_IF_QUIESCING = MQPMO.FAIL_IF_QUIESCING.value
_REQUEST = MQMT.REQUEST.value
_REPORT = MQMT.REPORT.value
_APPL_LAST = 999_999_999
_APPL_FIRST = 65_536
_REPORTS = (
    MQRO.EXCEPTION | MQRO.EXPIRATION | MQRO.COA | MQRO.COD | MQRO.PAN | MQRO.NAN | MQRO.ACTIVITY
).value  # fmt: skip
_MADE_REPORTS = (MQRO.EXCEPTION | MQRO.EXPIRATION | MQRO.COA | MQRO.COD).value  # by the queue manager itself
_KNOWN_FLAGS = (
    MQMF.SEGMENTATION_ALLOWED | MQMF.SEGMENT | MQMF.LAST_SEGMENT | MQMF.MSG_IN_GROUP | MQMF.LAST_MSG_IN_GROUP
).value
_UNKNOWN_FLAGS = 0x000F_FFFF & ~_KNOWN_FLAGS  # the bits above these are flags to come, which are kept and passed on
_PMO_VERSIONS = (1, 2, 3)
_PERSISTENCES = (MQPER.NOT_PERSISTENT.value, MQPER.PERSISTENT.value, MQPER.PERSISTENCE_AS_Q_DEF.value)
_PRIORITY_EXCEEDS_MAXIMUM = int(MQRC.PRIORITY_EXCEEDS_MAXIMUM)
_DEFAULTS = MessageDescriptor()


@dataclass(slots=True, eq=False)
class _PutMessage:
    """The message of a put: descriptor and data without the headers that stand for fields and properties."""

    md: MessageDescriptor
    given: MessageDescriptor
    """The descriptor that counts (`PreparedPut.md`); `md` is another where there were such headers."""
    data: bytes
    flags: int = 0
    """MsgFlags, as far as the version of the descriptor has them."""
    original_length: int = -1
    properties: bytes = b""
    warning: int = 0


def prepare(manager: Manager, put: Put, now: float) -> PreparedPut:
    """Check a message and complete it, in the order of semantics 0.3. Changes nothing but the counter of
    identifiers.
    """
    hconn, handle, route, pmo, ids = put.hconn, put.handle, put.route, put.pmo, manager.ids
    check_options(pmo, opens=handle is None)
    options = int(pmo.options)
    if pmo.records and pmo.version > 1:
        raise MQError(MQRC.RECS_PRESENT_ERROR, "put message records are for distribution lists")
    ordered, in_unit = options & _LOGICAL_ORDER != 0, options & _SYNCPOINT != 0
    if ordered and handle is None:
        raise MQError(MQRC.OPTIONS_ERROR, "MQPMO_LOGICAL_ORDER is not for MQPUT1")
    message = _described(manager, put, ordered=ordered)
    md, data, flags, warning = message.md, message.data, message.flags, message.warning
    taken = context.for_put(hconn, handle, options, pmo.context, md)
    if manager.quiescing and options & _FAIL_IF_QUIESCING:
        raise MQError(MQRC.Q_MGR_QUIESCING, f"{ids.q_mgr_name} is quiescing")
    route.check_put()
    persistence = route.persistence(md.persistence)
    position = handle.position.last_put if handle is not None else logical_order.CLOSED
    if ordered:
        item = logical_order.put_in_order(position, flags, persistence, ids.identifier, in_unit=in_unit)
    else:
        item = logical_order.put_as_given(flags, md, ids.identifier)
        if position is not logical_order.CLOSED:
            warning = logical_order.put_warning(position, item, flags, persistence, in_unit=in_unit) or warning
    route.check_persistence(persistence)
    if route.queue.transmits and not route.remote:
        transmission.check_header(data, md.encoding)
    piece = _piece_length(route, item.offset, flags, len(data), manager.max_length)
    if piece and persistence and not in_unit and hconn.unit is not None:
        raise MQError(MQRC.UOW_NOT_AVAILABLE, "a persistent message to be cut, outside syncpoint beside an open unit")
    route.queue.check_room()
    whole = _completed(put, message, item, persistence, taken, ids, now)
    if whole.priority > MAX_PRIORITY:
        warning = warning or _PRIORITY_EXCEEDS_MAXIMUM
    entries: list[Entry] = [*cut(whole, piece, ids)] if piece and isinstance(whole, FullEntry) else [whole]
    shown = entries[0]
    if route.remote:
        entries = [transmission.transmitted(entry, route, ids, now) for entry in entries]
    after: Position | None = None
    if handle is not None:
        after = logical_order.CLOSED
        if flags & logical_order.IN_PARTS:
            reach = max(message.original_length, len(data))  # of a report about a segment: that of the segment
            after = position.after(item, reach, flags, persistence, in_unit=in_unit, logical=ordered)
    return PreparedPut(entries, warning, after, shown, message.given)


def _described(manager: Manager, put: Put, *, ordered: bool) -> _PutMessage:
    """Check the descriptor, and take out of the data what stands for fields and properties."""
    if put.md is None:
        return _PutMessage(_DEFAULTS, _DEFAULTS, put.data)
    route, ids = put.route, manager.ids
    md, warning = checks.descriptor_for_put(put.md, _RULES, remote=route.remote)
    md = given = reply_to(manager.objects.definitions, md)
    caller = put.hconn.caller
    if caller is not None and md.report & _MADE_REPORTS and md.reply_to_q:
        judging.judge_reply(manager.objects, caller, md)  # reports carry its data there
    properties = b""
    md, data = take_mqmde(md, put.data, ids.coded_char_set_id)
    if md.format == PROPERTIES_FORMAT:
        may_cut = md.msg_flags & logical_order.SEGMENTATION_ALLOWED
        longest = len(data) if may_cut else min(route.queue.max_length, manager.max_length)
        md, data, properties = take_properties(md, data, longest, manager.max_properties, ids.coded_char_set_id)
    if ordered:
        logical_order.check_version(md)
    if put.properties:
        properties = with_given(properties, put.properties, manager.max_properties)
    if md is not given:  # with fields out of headers
        warning = check_descriptor(md, remote=route.remote)
    flags = int(md.msg_flags) if md.version > 1 else 0
    original_length = _check_group_fields(md, flags, len(data), ordered=ordered)
    return _PutMessage(md, given, data, flags, original_length, properties, warning)


def _completed(
    put: Put, message: _PutMessage, item: LogicalPlace, persistence: int, taken: Context, ids: Identifiers, now: float
) -> Entry:
    """The message as it will be at its destination, whole."""
    md, data, flags = message.md, message.data, message.flags
    queue, options = put.route.queue, int(put.pmo.options)
    priority = put.route.priority(md.priority)
    rank, stamp = queue.rank(priority), ids.stamp(now)
    correl_id = ids.identifier() if options & _NEW_CORREL_ID else md.correl_id
    entry: Entry
    if flags or message.properties or md.expiry > 0:
        entry = full = FullEntry(queue, ids.next(), rank, data, len(data))
        full.group_id, full.msg_seq_number, full.offset = item
        full.msg_flags = logical_order.stored_flags(flags)
        full.original_length = message.original_length
        full.deadline = now + md.expiry / 10 if md.expiry > 0 else None
        full.properties = message.properties
    else:
        entry = Entry(queue, ids.next(), rank, data, len(data))
    entry.priority, entry.persistence = priority, persistence
    if not options & _NEW_MSG_ID and md.msg_id != NO_ID:  # semantics 1.2
        entry.given_msg_id = md.msg_id
    entry.correl_id = correl_id
    entry.packed_md = context.pack(md, taken, stamp, put.hconn, ids)
    return entry


def check_options(pmo: PutMessageOptions, *, opens: bool) -> None:
    """Raise what is wrong with MQPMO by itself, given to MQPUT or to MQPUT1, which `opens`: PMO_ERROR (2173),
    OPTIONS_ERROR (2046) and others.
    """
    checks.put_options(pmo)
    if pmo.version not in _PMO_VERSIONS:
        raise MQError(MQRC.PMO_ERROR, f"version={pmo.version} of MQPMO: 1 to 3")
    check_put(int(pmo.options), opens=opens)


def check_descriptor(md: MessageDescriptor, *, remote: bool = False) -> int:
    """Raise what must not be in a descriptor given to MQPUT, whose fields can hold what they hold (semantics 1.1, 1.3,
    2); the reason of a warning, or 0. `remote`: the message is for another queue manager.
    """
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
    if md.persistence not in _PERSISTENCES:
        raise MQError(MQRC.PERSISTENCE_ERROR, f"persistence={md.persistence}: 0, 1, or 2 for the queue's default")
    warning = report_options.check(md.report, remote=remote)
    if md.version > 1 and md.msg_flags & _UNKNOWN_FLAGS:
        raise MQError(MQRC.MSG_FLAGS_ERROR, f"msg_flags={md.msg_flags:#x}: undefined bits")
    if (md.msg_type == _REQUEST or md.report & _REPORTS) and not md.reply_to_q:
        raise MQError(MQRC.MISSING_REPLY_TO_Q, "a request, or a message that asks for a report, needs reply_to_q")
    return warning


_RULES = checks.remembered_rules(check_descriptor)


def _check_group_fields(md: MessageDescriptor, flags: int, length: int, *, ordered: bool) -> int:
    """Check what the descriptor says about groups and segments, as far as the flags let it count (semantics 3.2,
    4.3). Returns OriginalLength as it is stored.

    Raises MSG_SEQ_NUMBER_ERROR (2250), OFFSET_ERROR (2251), ORIGINAL_LENGTH_ERROR (2252), SEGMENT_LENGTH_ZERO (2253).
    """
    if not ordered and flags & logical_order.GROUPED:
        logical_order.check_number(md)
    if not flags & logical_order.SEGMENTS:
        return -1
    if not ordered and not 0 <= md.offset <= logical_order.NUMBER_MAX:
        raise MQError(MQRC.OFFSET_ERROR, f"offset={md.offset}: 0 to {logical_order.NUMBER_MAX}")
    lowest = max(length, 0 if flags & logical_order.LAST_SEGMENT else 1)
    if md.msg_type == _REPORT and md.original_length < lowest:
        raise MQError(MQRC.ORIGINAL_LENGTH_ERROR, f"original_length={md.original_length}: {lowest} or more here")
    if not length and not flags & logical_order.LAST_SEGMENT:
        raise MQError(MQRC.SEGMENT_LENGTH_ZERO, "a segment that is not the last has no data")
    return md.original_length if md.msg_type == _REPORT else length


def _piece_length(route: Route, offset: int, flags: int, length: int, max_length: int) -> int:
    """The length of the pieces that the message must be cut into; 0 when it fits (semantics 4.1)."""
    may_cut = flags & logical_order.SEGMENTATION_ALLOWED
    longest = route.queue.max_length if route.group is None else route.igq_length_max()
    if offset + length > logical_order.NUMBER_MAX and may_cut:
        raise MQError(
            MQRC.OFFSET_ERROR, f"{length} bytes at offset {offset}: a message has at most {logical_order.NUMBER_MAX}"
        )
    if length <= max_length and length <= longest and offset + length <= logical_order.NUMBER_MAX:
        return 0
    of_manager = length > max_length
    if may_cut:
        piece = piece_length(min(longest, max_length))
        if piece:
            return piece
        of_manager = max_length < longest
    raise route.too_long(length, max_length, of_manager=of_manager, where=f" at {offset}")
