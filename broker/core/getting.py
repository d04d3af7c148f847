"""MQGET: from options and a descriptor to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.handles import CO_OPERATING
from broker.core.logical import CLOSED, Item
from broker.core.options import check_get
from broker.core.selection import ALWAYS, IF_PERSISTENT, Request
from broker.core.views import GROUP_START, MESSAGE_START, WHOLE_GROUP, WHOLE_MESSAGE
from broker.mqi.errors import MQError
from broker.mqi.options import MQGMO, MQMO, MQOO
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, NO_TOKEN

if TYPE_CHECKING:
    from broker.core.handles import Handle
    from broker.core.logical import Position
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor

_WAIT = MQGMO.WAIT.value
_SYNCPOINT = MQGMO.SYNCPOINT.value
_SYNCPOINT_IF_PERSISTENT = MQGMO.SYNCPOINT_IF_PERSISTENT.value
_BROWSE_FIRST = MQGMO.BROWSE_FIRST.value
_BROWSE_NEXT = MQGMO.BROWSE_NEXT.value
_BROWSE_UNDER_CURSOR = MQGMO.BROWSE_MSG_UNDER_CURSOR.value
_GET_UNDER_CURSOR = MQGMO.MSG_UNDER_CURSOR.value
_BROWSES = _BROWSE_FIRST | _BROWSE_NEXT | _BROWSE_UNDER_CURSOR
UNDER_CURSOR = _BROWSE_UNDER_CURSOR | _GET_UNDER_CURSOR
UNLOCK = MQGMO.UNLOCK.value
_LOCK = MQGMO.LOCK.value
_ACCEPT_TRUNCATED = MQGMO.ACCEPT_TRUNCATED_MSG.value
_FAIL_IF_QUIESCING = MQGMO.FAIL_IF_QUIESCING.value
_LOGICAL_ORDER = MQGMO.LOGICAL_ORDER.value
_COMPLETE_MSG = MQGMO.COMPLETE_MSG.value
_ALL_MSGS = MQGMO.ALL_MSGS_AVAILABLE.value
_ALL_SEGMENTS = MQGMO.ALL_SEGMENTS_AVAILABLE.value
_GROUPING = _LOGICAL_ORDER | _COMPLETE_MSG | _ALL_MSGS | _ALL_SEGMENTS
_MARK_HANDLE = MQGMO.MARK_BROWSE_HANDLE.value
_MARK_CO_OP = MQGMO.MARK_BROWSE_CO_OP.value
_UNMARK_HANDLE = MQGMO.UNMARK_BROWSE_HANDLE.value
_UNMARK_CO_OP = MQGMO.UNMARK_BROWSE_CO_OP.value
_UNMARKED = MQGMO.UNMARKED_BROWSE_MSG.value
_MARKING = _MARK_HANDLE | _MARK_CO_OP | _UNMARK_HANDLE | _UNMARK_CO_OP | _UNMARKED
_FOR_CO_OP = MQOO.CO_OP.value

_MATCH_MSG_ID = MQMO.MATCH_MSG_ID.value
_MATCH_CORREL_ID = MQMO.MATCH_CORREL_ID.value
_MATCH_GROUP_ID = MQMO.MATCH_GROUP_ID.value
_MATCH_SEQ_NUMBER = MQMO.MATCH_MSG_SEQ_NUMBER.value
_MATCH_OFFSET = MQMO.MATCH_OFFSET.value
_MATCH_TOKEN = MQMO.MATCH_MSG_TOKEN.value
_MATCH_IDS = _MATCH_MSG_ID | _MATCH_CORREL_ID
_MATCH_ITEM = _MATCH_GROUP_ID | _MATCH_SEQ_NUMBER | _MATCH_OFFSET
_MATCH_KNOWN = _MATCH_IDS | _MATCH_ITEM | _MATCH_TOKEN


def make_request(
    handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None
) -> Request:
    """What this call looks for; raises whatever is wrong with its options (checks in the order of messages.md 0.3)."""
    options = int(gmo.options)
    check_get(options)
    if options & _GROUPING or options & _MARKING:
        _check_versions(handle, md, gmo, options)
    request = Request()
    request.browse = bool(options & _BROWSES)
    _check_open_options(handle, options, browse=request.browse)
    if max_length is not None and max_length < 0:
        raise MQError(MQRC.BUFFER_LENGTH_ERROR, f"max_length={max_length}: a length is 0 or more")
    if options & _WAIT and gmo.wait_interval < -1:
        raise MQError(MQRC.WAIT_INTERVAL_ERROR, f"wait_interval={gmo.wait_interval} ms: 0 or more, or -1 for ever")
    request.browse_first = bool(options & _BROWSE_FIRST)
    request.max_length = max_length
    request.accept_truncated = bool(options & _ACCEPT_TRUNCATED)
    request.fail_if_quiescing = bool(options & _FAIL_IF_QUIESCING)
    if options & _SYNCPOINT:
        request.syncpoint = ALWAYS
    elif options & _SYNCPOINT_IF_PERSISTENT:
        request.syncpoint = IF_PERSISTENT
    if options & _MARKING:
        _marking(request, handle, options)
    request.lock = bool(options & _LOCK)
    request.logical = bool(options & _LOGICAL_ORDER)
    request.complete_message = bool(options & _COMPLETE_MSG)
    if not options & UNDER_CURSOR:
        _select(request, handle, md, gmo, options)
    return request


def _check_versions(handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, options: int) -> None:
    if options & _GROUPING and gmo.version < 2:
        raise MQError(MQRC.WRONG_GMO_VERSION, "options about groups and segments need version 2 of MQGMO")
    if options & _LOGICAL_ORDER and md is not None and md.version < 2:
        raise MQError(MQRC.WRONG_MD_VERSION, "LOGICAL_ORDER needs a version 2 descriptor")
    if options & _COMPLETE_MSG and int(gmo.match_options) & _MATCH_OFFSET:
        raise MQError(MQRC.OPTIONS_ERROR, "MQGMO_COMPLETE_MSG with MQMO_MATCH_OFFSET: these do not go together")
    if options & (_MARK_CO_OP | _UNMARK_CO_OP) and not handle.options & _FOR_CO_OP:
        raise MQError(MQRC.OPTIONS_ERROR, f"{handle.name} was opened without MQOO_CO_OP")


def _check_open_options(handle: Handle, options: int, *, browse: bool) -> None:
    if options & UNLOCK:
        return
    if (browse or options & _GET_UNDER_CURSOR) and not handle.browses:
        raise MQError(MQRC.NOT_OPEN_FOR_BROWSE, f"{handle.name} was opened without MQOO_BROWSE")
    if not browse and not handle.removes:
        raise MQError(MQRC.NOT_OPEN_FOR_INPUT, f"{handle.name} was opened without MQOO_INPUT_*")


def _marking(request: Request, handle: Handle, options: int) -> None:
    if options & _MARK_HANDLE:
        request.marks = handle.marker
    elif options & _MARK_CO_OP:
        request.marks = CO_OPERATING
    if options & _UNMARK_HANDLE:
        request.unmarks = handle.marker
    elif options & _UNMARK_CO_OP:
        request.unmarks = CO_OPERATING
    if options & _UNMARKED:
        request.unmarked_by = CO_OPERATING if handle.options & _FOR_CO_OP else handle.marker


def _select(
    request: Request, handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, options: int
) -> None:
    """Which messages qualify, and from where on the queue."""
    position = CLOSED
    if request.browse:
        if options & _BROWSE_NEXT:
            position = _go_on(request, handle)
    elif request.logical:
        position = handle.last_get
        under_syncpoint = bool(options & _SYNCPOINT)
        if position.open and not options & _SYNCPOINT_IF_PERSISTENT and position.in_unit != under_syncpoint:
            raise MQError(
                MQRC.INCONSISTENT_UOW, "all gets of a group or logical message are under syncpoint, or none is"
            )
    if request.logical and position.open:
        request.item = position.next_item()
        request.start = MESSAGE_START if request.complete_message else 0
        request.whole = _whole_inside(position, options)
    else:
        request.start = GROUP_START if request.logical else MESSAGE_START if request.complete_message else 0
        request.whole = _whole(options)
    _match(request, md, gmo)


def _go_on(request: Request, handle: Handle) -> Position:
    """BROWSE_NEXT: after the cursor; in logical order in the open group, or after the anchor of the last one."""
    if handle.browsed_logically is None:
        return CLOSED
    if handle.browsed_logically != request.logical:
        raise MQError(MQRC.INCONSISTENT_BROWSE, "the last browse had the other order: BROWSE_FIRST starts a new one")
    if not request.logical:
        request.after = handle.cursor
        return CLOSED
    if not handle.last_browse.open:
        request.after = handle.anchor
    return handle.last_browse


def _whole(options: int) -> int:
    if options & _ALL_MSGS:
        return WHOLE_GROUP
    return WHOLE_MESSAGE if options & (_ALL_SEGMENTS | _COMPLETE_MSG) else 0


def _whole_inside(position: Position, options: int) -> int:
    """In an open group ALL_MSGS_AVAILABLE no longer counts, in an open logical message ALL_SEGMENTS_AVAILABLE neither
    (messages.md 5.7).
    """
    if options & _COMPLETE_MSG:
        return WHOLE_MESSAGE
    segments = options & (_ALL_SEGMENTS | _ALL_MSGS)
    return WHOLE_MESSAGE if segments & _ALL_SEGMENTS and not position.open_message else 0


def _match(request: Request, md: MessageDescriptor | None, gmo: GetMessageOptions) -> None:
    matching = int(gmo.match_options) if gmo.version > 1 else _MATCH_IDS
    if matching & ~_MATCH_KNOWN:
        raise MQError(MQRC.MATCH_OPTIONS_ERROR, f"match_options={matching:#x}: undefined bits")
    if matching & _MATCH_TOKEN and gmo.msg_token != NO_TOKEN:
        request.token = gmo.msg_token
    if md is None:
        return
    if matching & _MATCH_ITEM:
        _match_item(request, md, matching)
    if matching & _MATCH_MSG_ID and md.msg_id != NO_ID:
        request.msg_id = md.msg_id
    if matching & _MATCH_CORREL_ID and md.correl_id != NO_ID:
        request.correl_id = md.correl_id


def _match_item(request: Request, md: MessageDescriptor, matching: int) -> None:
    if md.version < 2:
        raise MQError(MQRC.WRONG_MD_VERSION, "matching group fields needs a version 2 descriptor")
    if matching & _MATCH_SEQ_NUMBER and not 1 <= md.msg_seq_number <= 999_999_999:
        raise MQError(MQRC.MSG_SEQ_NUMBER_ERROR, f"msg_seq_number={md.msg_seq_number}: 1 to 999999999")
    if matching & _MATCH_GROUP_ID and md.group_id != NO_ID:
        request.group_id = md.group_id
    if matching & _MATCH_SEQ_NUMBER:
        request.msg_seq_number = md.msg_seq_number
    if matching & _MATCH_OFFSET:
        request.offset = md.offset
    if request.logical:
        _check_fits(request)


def _check_fits(request: Request) -> None:
    """In logical order match options cannot choose another item than the next (messages.md 6.3)."""
    item = request.item or Item(request.group_id or NO_ID, 1, 0)
    for asked, next_is in (
        (request.group_id, item.group_id),
        (request.msg_seq_number, item.msg_seq_number),
        (request.offset, item.offset),
    ):
        if asked is not None and asked != next_is:
            raise MQError(MQRC.MATCH_OPTIONS_ERROR, f"{asked!r} is not in the message that comes next: {next_is!r}")


def waits(gmo: GetMessageOptions) -> bool:
    """Whether the call may wait. Gets under the cursor never do (messages.md 5.3)."""
    return bool(gmo.options & _WAIT) and gmo.wait_interval != 0 and not gmo.options & UNDER_CURSOR
