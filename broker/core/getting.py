"""MQGET: from options and a descriptor to a request, and from a chosen message to a grant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.effects import Grant
from broker.core.entry import AVAILABLE
from broker.core.options import check_get
from broker.core.selection import ALWAYS, IF_PERSISTENT, NEVER, START, Request
from broker.core.unit import Unit
from broker.mqi.errors import MQError
from broker.mqi.options import MQGMO, MQMO
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, NO_TOKEN

if TYPE_CHECKING:
    from broker.core.entry import Entry
    from broker.core.handles import Handle
    from broker.core.queue import LocalQueue
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor

_WAIT = MQGMO.WAIT.value
_SYNCPOINT = MQGMO.SYNCPOINT.value
_SYNCPOINT_IF_PERSISTENT = MQGMO.SYNCPOINT_IF_PERSISTENT.value
_BROWSE_FIRST = MQGMO.BROWSE_FIRST.value
_BROWSE_NEXT = MQGMO.BROWSE_NEXT.value
_BROWSE_UNDER_CURSOR = MQGMO.BROWSE_MSG_UNDER_CURSOR.value
_GET_UNDER_CURSOR = MQGMO.MSG_UNDER_CURSOR.value
_BROWSES = _BROWSE_FIRST | _BROWSE_NEXT | _BROWSE_UNDER_CURSOR
_UNDER_CURSOR = _BROWSE_UNDER_CURSOR | _GET_UNDER_CURSOR
_ACCEPT_TRUNCATED = MQGMO.ACCEPT_TRUNCATED_MSG.value
_FAIL_IF_QUIESCING = MQGMO.FAIL_IF_QUIESCING.value

_MATCH_MSG_ID = MQMO.MATCH_MSG_ID.value
_MATCH_CORREL_ID = MQMO.MATCH_CORREL_ID.value
_MATCH_GROUP_ID = MQMO.MATCH_GROUP_ID.value
_MATCH_SEQ_NUMBER = MQMO.MATCH_MSG_SEQ_NUMBER.value
_MATCH_OFFSET = MQMO.MATCH_OFFSET.value
_MATCH_TOKEN = MQMO.MATCH_MSG_TOKEN.value
_MATCH_KNOWN = (
    _MATCH_MSG_ID | _MATCH_CORREL_ID | _MATCH_GROUP_ID | _MATCH_SEQ_NUMBER | _MATCH_OFFSET | _MATCH_TOKEN
)  # fmt: skip
_NARROW = _MATCH_GROUP_ID | _MATCH_SEQ_NUMBER | _MATCH_OFFSET

_TRUNCATED_ACCEPTED = int(MQRC.TRUNCATED_MSG_ACCEPTED)
_TRUNCATED_FAILED = int(MQRC.TRUNCATED_MSG_FAILED)


def make_request(
    handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None
) -> Request:
    """What this call looks for; raises whatever is wrong with its options (checks in the order of messages.md 0.3)."""
    options = int(gmo.options)
    check_get(options)
    browse = bool(options & _BROWSES)
    _check_open_options(handle, options, browse=browse)
    if max_length is not None and max_length < 0:
        raise MQError(MQRC.BUFFER_LENGTH_ERROR, f"max_length={max_length}: a length is 0 or more")
    if options & _WAIT and gmo.wait_interval < -1:
        raise MQError(MQRC.WAIT_INTERVAL_ERROR, f"wait_interval={gmo.wait_interval} ms: 0 or more, or -1 for ever")
    request = Request()
    request.browse = browse
    request.browse_first = bool(options & _BROWSE_FIRST)
    request.max_length = max_length
    request.accept_truncated = bool(options & _ACCEPT_TRUNCATED)
    request.fail_if_quiescing = bool(options & _FAIL_IF_QUIESCING)
    if options & _SYNCPOINT:
        request.syncpoint = ALWAYS
    elif options & _SYNCPOINT_IF_PERSISTENT:
        request.syncpoint = IF_PERSISTENT
    if options & _BROWSE_NEXT:
        request.after = handle.cursor
    if not options & _UNDER_CURSOR:
        _match(request, md, gmo)
    return request


def _check_open_options(handle: Handle, options: int, *, browse: bool) -> None:
    if (browse or options & _GET_UNDER_CURSOR) and not handle.browses:
        raise MQError(MQRC.NOT_OPEN_FOR_BROWSE, f"{handle.name} was opened without MQOO_BROWSE")
    if not browse and not handle.removes:
        raise MQError(MQRC.NOT_OPEN_FOR_INPUT, f"{handle.name} was opened without MQOO_INPUT_*")


def _match(request: Request, md: MessageDescriptor | None, gmo: GetMessageOptions) -> None:
    matching = int(gmo.match_options) if gmo.version > 1 else _MATCH_MSG_ID | _MATCH_CORREL_ID
    if matching & ~_MATCH_KNOWN:
        raise MQError(MQRC.MATCH_OPTIONS_ERROR, f"match_options={matching:#x}: undefined bits")
    if matching & _MATCH_TOKEN and gmo.msg_token != NO_TOKEN:
        request.token = gmo.msg_token
    if md is None:
        return
    if matching & _NARROW and md.version < 2:
        raise MQError(MQRC.WRONG_MD_VERSION, "matching group fields needs a version 2 descriptor")
    if matching & _MATCH_MSG_ID and md.msg_id != NO_ID:
        request.msg_id = md.msg_id
    if matching & _MATCH_CORREL_ID and md.correl_id != NO_ID:
        request.correl_id = md.correl_id
    if matching & _MATCH_GROUP_ID and md.group_id != NO_ID:
        request.group_id = md.group_id
    if matching & _MATCH_SEQ_NUMBER:
        if not 1 <= md.msg_seq_number <= 999_999_999:
            raise MQError(MQRC.MSG_SEQ_NUMBER_ERROR, f"msg_seq_number={md.msg_seq_number}: 1 to 999999999")
        request.msg_seq_number = md.msg_seq_number
    if matching & _MATCH_OFFSET:
        request.offset = md.offset


def waits(gmo: GetMessageOptions) -> bool:
    """Whether the call may wait. Gets under the cursor never do (messages.md 5.3)."""
    return bool(gmo.options & _WAIT) and gmo.wait_interval != 0 and not gmo.options & _UNDER_CURSOR


def under_cursor(handle: Handle, queue: LocalQueue, gmo: GetMessageOptions, now: float) -> Entry | None:
    """The message under the browse cursor for a call that asks for it; None for other calls. Raises
    NO_MSG_UNDER_CURSOR (2034).
    """
    if not gmo.options & _UNDER_CURSOR:
        return None
    entry = queue.entries.get(handle.cursor) if handle.cursor != START else None
    if entry is None or entry.state != AVAILABLE or entry.expired(now):
        raise MQError(MQRC.NO_MSG_UNDER_CURSOR, f"no message of {queue.name} is under the browse cursor of this handle")
    return entry


def grant(handle: Handle, queue: LocalQueue, request: Request, entry: Entry, max_calls: int) -> Grant:
    """Give `entry` to the getter: move its cursor, or take the message into its unit of work or an implicit one.

    Raises SYNCPOINT_LIMIT_REACHED (2024), having changed nothing.
    """
    reason = 0
    if request.max_length is not None and entry.length > request.max_length:
        if not request.accept_truncated:
            if request.browse_first:
                handle.cursor = START  # the cursor stands before the first message (RC 2080)
            return Grant(entry, _TRUNCATED_FAILED)
        reason = _TRUNCATED_ACCEPTED
    if request.browse:
        handle.cursor = entry.key
        return Grant(entry, reason)
    if request.syncpoint == NEVER or (request.syncpoint == IF_PERSISTENT and not entry.persistence):
        unit = Unit()
        queue.take(entry, unit)
        unit.gets[entry] = None
        return Grant(entry, reason, destructive=True, unit=unit)
    join(handle, entry, max_calls)
    return Grant(entry, reason, destructive=True)


def join(handle: Handle, entry: Entry, max_calls: int) -> None:
    """Take an available message into the unit of work of the handle's connection, begun if there is none."""
    hconn = handle.hconn
    unit = hconn.unit or Unit()
    check_room(unit, max_calls)
    hconn.unit = unit
    entry.queue.take(entry, unit)
    unit.gets[entry] = None


def check_room(unit: Unit, max_calls: int) -> None:
    """Raise SYNCPOINT_LIMIT_REACHED (2024) when the unit of work cannot take another message."""
    if unit.calls >= max_calls:
        raise MQError(
            MQRC.SYNCPOINT_LIMIT_REACHED,
            f"the unit of work holds {unit.calls} messages, the queue manager's MAXUMSGS: commit or back out first",
        )
