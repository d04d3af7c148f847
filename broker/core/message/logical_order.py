"""Groups and segments: where a handle stands in a logical message or group, and what comes next.

A handle keeps three positions (in its `HandlePosition`), each replaced by the calls of its kind: of its last put, its
last destructive get, its last browse. With LOGICAL_ORDER the queue manager fills in GroupId, MsgSeqNumber and Offset
from the position (on a put) or looks for just the item that comes next (on a get). Without it the position is only
followed, so that a program which resumes a group in the middle can go on with LOGICAL_ORDER.

Positions are values: a unit of work remembers those from before its first put and its first get, and a backout
restores them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.mqi.constants.descriptor import MQMF
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.mqi.structures import MessageDescriptor

SEGMENTATION_ALLOWED = MQMF.SEGMENTATION_ALLOWED.value
SEGMENT = MQMF.SEGMENT.value
LAST_SEGMENT = MQMF.LAST_SEGMENT.value
MSG_IN_GROUP = MQMF.MSG_IN_GROUP.value
LAST_MSG_IN_GROUP = MQMF.LAST_MSG_IN_GROUP.value
SEGMENTS = SEGMENT | LAST_SEGMENT
GROUPED = MSG_IN_GROUP | LAST_MSG_IN_GROUP
IN_PARTS = GROUPED | SEGMENTS

NUMBER_MAX = 999_999_999
"""The highest MsgSeqNumber and Offset."""


class LogicalPlace(NamedTuple):
    """The place of a physical message: its group, its logical message in the group, its first byte in that."""

    group_id: bytes
    msg_seq_number: int
    offset: int


ALONE = LogicalPlace(NO_ID, 1, 0)
"""A message outside of groups, whole."""


class Instant(NamedTuple):
    """The instant from which a message is available: as the put gives it, on the wall clock, and on the monotonic one
    unless it follows the wall clock. All 0: at once.
    """

    said: tuple[float, float] = (0.0, 0.0)
    wall: float = 0.0
    tick: float | None = None


AT_ONCE = Instant()


class Position(NamedTuple):
    """The last item of a handle, and what it left open."""

    item: LogicalPlace = ALONE
    length: int = 0
    last_in_group: bool = False
    open_message: bool = False
    open_group: bool = False
    persistence: int = 0
    in_unit: bool = False
    logical: bool = False  # the call named LOGICAL_ORDER
    instant: Instant = AT_ONCE  # that of all that is put into what is open; last, and not kept by prepared units

    @property
    def open(self) -> bool:
        """True if a group or a logical message is unfinished."""
        return self.open_message or self.open_group

    @property
    def unfinished(self) -> int:
        """INCOMPLETE_MSG (2242) or INCOMPLETE_GROUP (2241) for what is open; 0 when nothing is."""
        if self.open_message:
            return int(MQRC.INCOMPLETE_MSG)
        return int(MQRC.INCOMPLETE_GROUP) if self.open_group else 0

    def check_unit(self, *, in_unit: bool) -> None:
        """Raise INCONSISTENT_UOW (2245) for a get that goes on with what is open, and not as it was begun."""
        if in_unit != self.in_unit:
            raise MQError(
                MQRC.INCONSISTENT_UOW, "all gets of a group or logical message are under syncpoint, or none is"
            )

    def next_item(self) -> LogicalPlace:
        """Return the item that must follow in the open group or logical message."""
        group_id, number, offset = self.item
        if self.open_message:
            return LogicalPlace(group_id, number, offset + self.length)
        return LogicalPlace(group_id, number + 1, 0)

    def after(
        self, item: LogicalPlace, length: int, flags: int, persistence: int, *, in_unit: bool, logical: bool
    ) -> Position:
        """The position after a call that put or got `item` (semantics 3.3, 6.2)."""
        open_message = flags & SEGMENTS == SEGMENT
        last = bool(flags & LAST_MSG_IN_GROUP)
        open_group = bool(flags & GROUPED) and (open_message or not last)
        return Position(item, length, last, open_message, open_group, persistence, in_unit, logical)


CLOSED = Position()


def check_version(md: MessageDescriptor) -> None:
    """Raise WRONG_MD_VERSION (2257) for a call with LOGICAL_ORDER whose descriptor has no fields for groups."""
    if md.version == 1:
        raise MQError(MQRC.WRONG_MD_VERSION, "LOGICAL_ORDER needs a version 2 descriptor")


def check_number(md: MessageDescriptor) -> None:
    """Raise MSG_SEQ_NUMBER_ERROR (2250)."""
    if not 1 <= md.msg_seq_number <= NUMBER_MAX:
        raise MQError(MQRC.MSG_SEQ_NUMBER_ERROR, f"msg_seq_number={md.msg_seq_number}: 1 to {NUMBER_MAX}")


def stored_flags(flags: int) -> int:
    """The flags as they are kept: LAST_SEGMENT implies SEGMENT, LAST_MSG_IN_GROUP implies MSG_IN_GROUP."""
    if flags & LAST_SEGMENT:
        flags |= SEGMENT
    if flags & LAST_MSG_IN_GROUP:
        flags |= MSG_IN_GROUP
    return flags


def put_in_order(
    position: Position, flags: int, persistence: int, new_group: Callable[[], bytes], *, in_unit: bool
) -> LogicalPlace:
    """The item that a put with LOGICAL_ORDER is (semantics 3.2 rows 1 to 7). `new_group` is used where the rows say
    so.

    Raises INCOMPLETE_MSG (2242), INCOMPLETE_GROUP (2241), INCONSISTENT_PERSISTENCE (2185), INCONSISTENT_UOW (2245),
    MSG_SEQ_NUMBER_ERROR (2250), OFFSET_ERROR (2251).
    """
    reason = misfit(position, flags, persistence, in_unit=in_unit)
    if reason:
        raise MQError(reason, _MISFITS[reason])
    if not position.open:
        return LogicalPlace(new_group(), 1, 0) if flags & (GROUPED | SEGMENTS | SEGMENTATION_ALLOWED) else ALONE
    item = position.next_item()
    if item.msg_seq_number > NUMBER_MAX:
        raise MQError(MQRC.MSG_SEQ_NUMBER_ERROR, "the group has its 999999999 messages")
    if item.offset > NUMBER_MAX:
        raise MQError(MQRC.OFFSET_ERROR, "the logical message has its 999999999 bytes")
    return item


def put_as_given(flags: int, md: MessageDescriptor, new_group: Callable[[], bytes]) -> LogicalPlace:
    """The item that a put without LOGICAL_ORDER is (rows 8 to 12): the descriptor's fields, where the flags need
    them, which have been checked.
    """
    if not flags & (GROUPED | SEGMENTS | SEGMENTATION_ALLOWED):
        return ALONE
    number = md.msg_seq_number if flags & GROUPED else 1
    offset = md.offset if flags & SEGMENTS else 0
    return LogicalPlace(new_group() if md.group_id == NO_ID else md.group_id, number, offset)


def put_warning(position: Position, item: LogicalPlace, flags: int, persistence: int, *, in_unit: bool) -> int:
    """The warning of a put without LOGICAL_ORDER that leaves what one with it has begun (semantics 3.4): that
    something is left incomplete comes before how it is continued.
    """
    if not (position.logical and position.open):
        return 0
    reason = misfit(position, flags, persistence, in_unit=in_unit)
    return position.unfinished if item != position.next_item() and reason not in _LEFT else reason


def misfit(position: Position, flags: int, persistence: int, *, in_unit: bool) -> int:
    """Return the reason why a put with these flags does not continue what is open; 0 when it does (semantics 3.3)."""
    grouped = bool(flags & GROUPED)
    if position.open_message:
        in_place = grouped == position.open_group and (
            not grouped or bool(flags & LAST_MSG_IN_GROUP) == position.last_in_group
        )
        if not flags & SEGMENTS or not in_place:
            return int(MQRC.INCOMPLETE_MSG)
    elif position.open_group and not grouped:
        return int(MQRC.INCOMPLETE_GROUP)
    if position.open and persistence != position.persistence:
        return int(MQRC.INCONSISTENT_PERSISTENCE)
    if position.open and in_unit != position.in_unit:
        return int(MQRC.INCONSISTENT_UOW)
    return 0


_LEFT = (int(MQRC.INCOMPLETE_MSG), int(MQRC.INCOMPLETE_GROUP))
_MISFITS = {
    int(MQRC.INCOMPLETE_MSG): "a logical message is open on this handle: its next segment must come first",
    int(MQRC.INCOMPLETE_GROUP): "a group is open on this handle: its last message must come first",
    int(MQRC.INCONSISTENT_PERSISTENCE): "the open group or logical message has the other persistence",
    int(MQRC.INCONSISTENT_UOW): "all calls for a group or logical message are under syncpoint, or none is",
}
