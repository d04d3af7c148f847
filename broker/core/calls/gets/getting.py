"""MQGET: from options and a descriptor to a request (semantics 5.1, 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls.options import check_get
from broker.core.message import logical_order
from broker.core.message.headers.properties import HOWS as PROPERTIES
from broker.core.message.logical_order import CLOSED, LogicalPlace
from broker.core.queues.handles import CO_OPERATING, FOR_CO_OP
from broker.core.queues.shelf.selection import ALWAYS, IF_PERSISTENT, Request, unmarked
from broker.core.queues.shelf.views import GROUP_START, MESSAGE_START, WHOLE_GROUP, WHOLE_MESSAGE
from broker.mqi import checks
from broker.mqi.constants.options import MQGMO, MQMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID, NO_TOKEN

if TYPE_CHECKING:
    from broker.core.manager import Manager
    from broker.core.message.logical_order import Position
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.shelf import Shelf
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
_UNLOCK = MQGMO.UNLOCK.value
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
_NOT_FOR_DELAYED = _GROUPING | _MARKING | _LOCK | _UNLOCK | _WAIT
_GMO_VERSIONS = (1, 2, 3, 4)

_MATCH_MSG_ID = MQMO.MATCH_MSG_ID.value
_MATCH_CORREL_ID = MQMO.MATCH_CORREL_ID.value
_MATCH_GROUP_ID = MQMO.MATCH_GROUP_ID.value
_MATCH_SEQ_NUMBER = MQMO.MATCH_MSG_SEQ_NUMBER.value
_MATCH_OFFSET = MQMO.MATCH_OFFSET.value
_MATCH_TOKEN = MQMO.MATCH_MSG_TOKEN.value
_MATCH_IDS = _MATCH_MSG_ID | _MATCH_CORREL_ID
_MATCH_ITEM = _MATCH_GROUP_ID | _MATCH_SEQ_NUMBER | _MATCH_OFFSET
_MATCH_KNOWN = _MATCH_IDS | _MATCH_ITEM | _MATCH_TOKEN


def request_for(
    manager: Manager,
    handle: Handle,
    md: MessageDescriptor | None,
    gmo: GetMessageOptions,
    max_length: int | None,
    now: float,
    *,
    delayed: bool = False,
) -> Request:
    """The first step of a get: a request that has passed all checks and says all that the other steps need. These
    choose a message for it (`choosing.select`), which need not be at once, and give that to the getter
    (`granting.grant`).
    """
    request = None if delayed else remembered(handle, md, gmo, max_length)
    again = request is not None
    if request is None:
        md, gmo = checks.for_get(md, gmo)
        request = make_request(handle, md, gmo, max_length)
        if delayed:
            _see_delayed(request, int(gmo.options))
    if manager.quiescing and request.fail_if_quiescing:
        raise MQError(MQRC.Q_MGR_QUIESCING, f"{manager.name} is quiescing")
    if request.unlock:
        return request
    inhibited = handle.route.get_inhibited() if handle.route is not None else ""
    if inhibited:
        manager.events.refused(handle.usable_queue(), handle.name, int(MQRC.GET_INHIBITED), handle.hconn, now)
        raise MQError(MQRC.GET_INHIBITED, f"{inhibited} has GET(DISABLED)")
    if not (again or request.under_cursor):
        select(request, handle, md, gmo)
        if not delayed:
            remember(request, handle, md, gmo, max_length)
    return request


def _see_delayed(request: Request, options: int) -> None:
    """Let the request see delayed messages: one by one, as they are there."""
    wrong = options & _NOT_FOR_DELAYED
    if wrong:
        raise MQError(MQRC.OPTIONS_ERROR, f"{MQGMO(wrong)!r} and delayed messages: these do not go together")
    request.delayed = True


def make_request(
    handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None
) -> Request:
    """The request of a call, but for which message it looks for (`select`). Raises what is wrong with the options, in
    the order of semantics 0.3; the structures have been checked by themselves.
    """
    options = int(gmo.options)
    if gmo.version not in _GMO_VERSIONS:
        raise MQError(MQRC.GMO_ERROR, f"version={gmo.version} of MQGMO: 1 to 4")
    check_get(options)
    _check_versions(handle, md, gmo, options)
    request = Request()
    request.browse = bool(options & _BROWSES)
    _check_open_options(handle, options, browse=request.browse)
    max_length = checks.buffer_length(max_length)
    if options & _WAIT and gmo.wait_interval < -1:
        raise MQError(MQRC.WAIT_INTERVAL_ERROR, f"wait_interval={gmo.wait_interval} ms: 0 or more, or -1 for ever")
    request.browse_first = bool(options & _BROWSE_FIRST)
    if options & (_UNDER_CURSOR | _UNLOCK):
        request.under_cursor = bool(options & _UNDER_CURSOR)
        request.unlock = bool(options & _UNLOCK)
    elif options & _WAIT:
        request.may_wait = gmo.wait_interval != 0  # semantics 5.3
    request.max_length = max_length
    request.accept_truncated = bool(options & _ACCEPT_TRUNCATED)
    request.fail_if_quiescing = bool(options & _FAIL_IF_QUIESCING)
    request.with_mqmde = md is not None and md.version == 1
    if options & _SYNCPOINT:
        request.syncpoint = ALWAYS
    elif options & _SYNCPOINT_IF_PERSISTENT:
        request.syncpoint = IF_PERSISTENT
    if options & _MARKING:
        _marking(request, handle, options)
    request.lock = bool(options & _LOCK)
    request.logical = bool(options & _LOGICAL_ORDER)
    request.complete_message = bool(options & _COMPLETE_MSG)
    request.properties = options & PROPERTIES
    request.selector = handle.selector
    return request


def _check_versions(handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, options: int) -> None:
    if md is not None and md.version != 2:
        if md.version != 1:
            raise MQError(MQRC.MD_ERROR, f"version={md.version}: 1 or 2")
        if options & _LOGICAL_ORDER:
            logical_order.check_version(md)
        if _matching(gmo) & _MATCH_ITEM and not options & _UNDER_CURSOR:
            raise MQError(MQRC.WRONG_MD_VERSION, "matching group fields needs a version 2 descriptor")
    if options & _GROUPING and gmo.version < 2:
        raise MQError(MQRC.WRONG_GMO_VERSION, "options about groups and segments need version 2 of MQGMO")
    if options & _COMPLETE_MSG and _matching(gmo) & _MATCH_OFFSET:
        raise MQError(MQRC.OPTIONS_ERROR, "MQGMO_COMPLETE_MSG with MQMO_MATCH_OFFSET: these do not go together")
    if options & (_MARK_CO_OP | _UNMARK_CO_OP) and not handle.options & FOR_CO_OP:
        raise MQError(MQRC.OPTIONS_ERROR, f"{handle.name} was opened without MQOO_CO_OP")


def _matching(gmo: GetMessageOptions) -> int:
    """The match options; version 1 of MQGMO has none and matches MsgId and CorrelId."""
    return int(gmo.match_options) if gmo.version > 1 else _MATCH_IDS


def _check_open_options(handle: Handle, options: int, *, browse: bool) -> None:
    if options & _UNLOCK:
        return
    if (browse or options & _GET_UNDER_CURSOR) and not handle.browses:
        raise MQError(MQRC.NOT_OPEN_FOR_BROWSE, f"{handle.name} was opened without MQOO_BROWSE")
    if not browse and not handle.removes:
        raise MQError(MQRC.NOT_OPEN_FOR_INPUT, f"{handle.name} was opened without MQOO_INPUT_*")


def _marking(request: Request, handle: Handle, options: int) -> None:
    own, together = handle.marker, CO_OPERATING
    request.marks = [
        marker for marker, option in ((own, _MARK_HANDLE), (together, _MARK_CO_OP)) if options & option
    ]  # fmt: skip
    request.unmarks = [
        marker for marker, option in ((own, _UNMARK_HANDLE), (together, _UNMARK_CO_OP)) if options & option
    ]  # fmt: skip
    if options & _UNMARKED and handle.options & FOR_CO_OP:
        request.unmarked_by = (own, together) if handle.marked else (together,)
    elif options & _UNMARKED:
        request.unmarked_by = (own,)


def select(request: Request, handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions) -> None:
    """Complete a request with what it looks for, and from where on the queue. Not one for the message under the cursor:
    that looks for nothing.

    Raises MSG_SEQ_NUMBER_ERROR (2250), INCONSISTENT_BROWSE (2259), INCONSISTENT_UOW (2245), MATCH_OPTIONS_ERROR (2247).
    """
    options, matching = int(gmo.options), _matching(gmo)
    if md is not None and matching & _MATCH_SEQ_NUMBER:
        logical_order.check_number(md)
    position = CLOSED
    if request.browse:
        if options & _BROWSE_NEXT:
            position = _go_on(request, handle)
    elif request.logical:
        position = handle.position.last_get
        if position.open and not options & _SYNCPOINT_IF_PERSISTENT:
            position.check_unit(in_unit=bool(options & _SYNCPOINT))
    if request.logical and position.open:
        request.item = position.next_item()
        request.start = MESSAGE_START if request.complete_message else 0
        request.whole = _whole_inside(position, options)
    else:
        request.start = GROUP_START if request.logical else MESSAGE_START if request.complete_message else 0
        request.whole = _whole(options)
    _match(request, md, gmo.msg_token, matching)
    request.anything = request.accepts_anything()


def remembered(
    handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None
) -> Request | None:
    """The request that this handle made last with the same arguments, if it depended on nothing else."""
    if md is not None:
        return None
    last = handle.last_calls
    given = gmo.options, gmo.match_options, gmo.wait_interval, gmo.msg_token, gmo.version, max_length
    return last.request if last.request_of == given else None


def remember(
    request: Request, handle: Handle, md: MessageDescriptor | None, gmo: GetMessageOptions, max_length: int | None
) -> None:
    """A request that has passed all checks: keep it for the next call, if it only takes what comes first."""
    if md is None and request.anything and not (request.browse or request.logical):
        last = handle.last_calls
        given = gmo.options, gmo.match_options, gmo.wait_interval, gmo.msg_token, gmo.version, max_length
        last.request, last.request_of = request, given


def _go_on(request: Request, handle: Handle) -> Position:
    """BROWSE_NEXT: after the cursor; in logical order in the open group, or after the anchor of the last one."""
    position = handle.position
    if position.browsed_logically is None:
        return CLOSED
    if position.browsed_logically != request.logical:
        raise MQError(MQRC.INCONSISTENT_BROWSE, "the last browse had the other order: BROWSE_FIRST starts a new one")
    if not request.logical:
        request.after = position.cursor
        return CLOSED
    if not position.last_browse.open:
        request.after = position.anchor
    return position.last_browse


def _whole(options: int) -> int:
    if options & _ALL_MSGS:
        return WHOLE_GROUP
    return WHOLE_MESSAGE if options & (_ALL_SEGMENTS | _COMPLETE_MSG) else 0


def _whole_inside(position: Position, options: int) -> int:
    """In an open group ALL_MSGS_AVAILABLE no longer counts, in an open logical message ALL_SEGMENTS_AVAILABLE neither
    (semantics 5.7).
    """
    if options & _COMPLETE_MSG:
        return WHOLE_MESSAGE
    segments = options & (_ALL_SEGMENTS | _ALL_MSGS)
    return WHOLE_MESSAGE if segments & _ALL_SEGMENTS and not position.open_message else 0


def _match(request: Request, md: MessageDescriptor | None, token: bytes, matching: int) -> None:
    if matching & ~_MATCH_KNOWN:
        raise MQError(MQRC.MATCH_OPTIONS_ERROR, f"match_options={matching:#x}: undefined bits")
    if matching & _MATCH_TOKEN and token != NO_TOKEN:
        request.token = token
        matching &= _MATCH_IDS  # a token says which message it is: of the others only the identifiers still count
    if md is None:
        return
    if matching & _MATCH_ITEM:
        _match_item(request, md, matching)
    if matching & _MATCH_MSG_ID and md.msg_id != NO_ID:
        request.msg_id = md.msg_id
    if matching & _MATCH_CORREL_ID and md.correl_id != NO_ID:
        request.correl_id = md.correl_id


def _match_item(request: Request, md: MessageDescriptor, matching: int) -> None:
    if matching & _MATCH_GROUP_ID and md.group_id != NO_ID:
        request.group_id = md.group_id
    if matching & _MATCH_SEQ_NUMBER:
        request.msg_seq_number = md.msg_seq_number
    if matching & _MATCH_OFFSET:
        request.offset = md.offset
    if request.logical:
        _check_fits(request)


def _check_fits(request: Request) -> None:
    """In logical order match options cannot choose another item than the next (semantics 6.3)."""
    item = request.item or LogicalPlace(request.group_id or NO_ID, 1, 0)
    for asked, next_is in (
        (request.group_id, item.group_id),
        (request.msg_seq_number, item.msg_seq_number),
        (request.offset, item.offset),
    ):
        if asked is not None and asked != next_is:
            raise MQError(MQRC.MATCH_OPTIONS_ERROR, f"{asked!r} is not in the message that comes next: {next_is!r}")


def nothing_found(queue: LocalQueue) -> MQError:
    """NO_MSG_AVAILABLE (2033) for a get that does not wait."""
    return MQError(MQRC.NO_MSG_AVAILABLE, f"no suitable message on {queue.name}")


def explain_none(shelf: Shelf, request: Request) -> None:
    """No message was chosen: raise MATCH_OPTIONS_ERROR (2247) where the one that comes next in logical order has other
    identifiers, MSG_MARKED_BROWSE_CO_OP (2200) where the one asked for by its token is marked.
    """
    if request.item is not None:
        comes_next = shelf.groups.first(request.item)
        if comes_next is not None and not request.matches(shelf.entries[comes_next]):
            raise MQError(MQRC.MATCH_OPTIONS_ERROR, "the message that comes next has other identifiers")
    if request.token is not None and request.unmarked_by is not None:
        marked = shelf.entries.get(int.from_bytes(request.token, "big"))
        if marked is not None and not unmarked(marked, request.unmarked_by):
            raise MQError(MQRC.MSG_MARKED_BROWSE_CO_OP, "the message of this token is marked")
