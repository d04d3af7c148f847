"""The progress of a group, as a program keeps it on its status queue between two units of work.

Two forms. As *one message*: each unit of work gets the old status and puts the new one, the last only gets (S2 to S5).
As *segments of one message*: each unit adds a segment, the last unit the last one, and then the whole is got in one
call (S6, S7). The first writes less, the second keeps the history of the group while it is on its way.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self, TypeAlias

from broker.mqi import MQGMO, MQMF, MQMO, MQPMO, MQRC, MQSS, GetMessageOptions, MessageDescriptor, MQError

if TYPE_CHECKING:
    from broker.interface import Message, Queue

StatusForm: TypeAlias = Literal["message", "segments"]
"""The form of the status: one message, or segments of one message."""

_FINISHED = struct.Struct("<24si")
_UNFINISHED = struct.Struct("<24siii")


class StatusInfo(NamedTuple):
    """The last item of a group that is committed.

    `length` is None when its logical message is finished, or it has no segments; otherwise it is the length in bytes of
    the last segment, and `offset` that segment's place.
    """

    group_id: bytes
    msg_seq_number: int
    offset: int = 0
    length: int | None = None

    @property
    def messages(self) -> int:
        """The number of finished logical messages."""
        return self.msg_seq_number if self.length is None else self.msg_seq_number - 1

    @property
    def bytes_of_next(self) -> int:
        """The number of bytes of the next logical message that are there already."""
        return 0 if self.length is None else self.offset + self.length

    def to_bytes(self) -> bytes:
        """GroupId and MsgSeqNumber, 28 bytes; inside a logical message with Offset and length, 36 bytes."""
        if self.length is None:
            return _FINISHED.pack(self.group_id, self.msg_seq_number)
        return _UNFINISHED.pack(self.group_id, self.msg_seq_number, self.offset, self.length)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Unpack what `to_bytes` packed; ValueError for data of another length."""
        if len(data) == _FINISHED.size:
            return cls(*_FINISHED.unpack(data))
        if len(data) == _UNFINISHED.size:
            return cls(*_UNFINISHED.unpack(data))
        raise ValueError(f"a status has 28 or 36 bytes, not {len(data)}")


class Kept(NamedTuple):
    """A status found on its queue, and the persistence of the group that it is about."""

    info: StatusInfo
    persistence: int


class GroupStatus(Protocol):
    """The keeper of the status of one group at a time."""

    async def read(self) -> Kept | None:
        """Return the status that the last commit left; None when no group is on its way. No unit of work is open."""

    async def write(self, info: StatusInfo, persistence: int, *, last: bool) -> None:
        """Replace the status in the unit of work; with the `last` of a group, none is left."""

    async def clear(self) -> None:
        """The unit of work has been committed: remove what could not be removed inside it."""


class MessageStatus:
    """The status as one message."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._kept = False

    async def read(self) -> Kept | None:
        """Browse it."""
        message = await _browsed(self._queue, MQGMO.BROWSE_FIRST)
        self._kept = message is not None
        if message is None:
            return None
        if message.segment_status != MQSS.NOT_A_SEGMENT:
            raise ValueError(f"{self._queue.name} holds a status in segments: open it with status='segments'")
        return Kept(StatusInfo.from_bytes(message.data), message.md.persistence)

    async def write(self, info: StatusInfo, persistence: int, *, last: bool) -> None:
        """Get the old one, if there is one, and put the new, which the get cannot return: nobody sees it yet."""
        if self._kept:
            await self._queue.get(
                options=GetMessageOptions(options=MQGMO.SYNCPOINT | MQGMO.FAIL_IF_QUIESCING, match_options=MQMO.NONE)
            )
        if not last:
            options = MQPMO.SYNCPOINT | MQPMO.FAIL_IF_QUIESCING
            await self._queue.put(info.to_bytes(), options=options, persistence=persistence)
        self._kept = not last

    async def clear(self) -> None:
        """Nothing is left to do."""


class SegmentedStatus:
    """The status as segments of one message, the last of which counts."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._next: tuple[bytes, int] | None = None  # group id of the status message, and the offset that comes next
        self._in_order = False  # the handle has put a segment of it, and fills in the next place itself
        self._complete: bytes | None = None  # group id of a status message whose last segment is put

    async def read(self) -> Kept | None:
        """Browse the segments to the last one there. A status with its last segment is one that was to be removed."""
        self._next, self._in_order = None, False
        found: Kept | None = None
        step = MQGMO.BROWSE_FIRST
        while message := await _browsed(self._queue, step | MQGMO.LOGICAL_ORDER):
            if message.segment_status == MQSS.NOT_A_SEGMENT:
                raise ValueError(f"{self._queue.name} holds a status as one message: open it with status='message'")
            group_id = message.md.group_id
            self._next = group_id, message.md.offset + message.length
            found = Kept(StatusInfo.from_bytes(message.data), message.md.persistence)
            step = MQGMO.BROWSE_NEXT
            if message.segment_status == MQSS.LAST_SEGMENT:
                self._next, found, self._complete = None, None, group_id
                await self.clear()
                step = MQGMO.BROWSE_FIRST
        return found

    async def write(self, info: StatusInfo, persistence: int, *, last: bool) -> None:
        """Put the next segment. A group that fits one unit of work needs none."""
        if last and self._next is None:
            return
        md = MessageDescriptor(persistence=persistence, msg_flags=MQMF.LAST_SEGMENT if last else MQMF.SEGMENT)
        options = MQPMO.SYNCPOINT | MQPMO.FAIL_IF_QUIESCING
        if self._next is not None and not self._in_order:
            md.group_id, md.offset = self._next
        else:
            options |= MQPMO.LOGICAL_ORDER
        data = info.to_bytes()
        placed = (await self._queue.put(data, md, options)).md
        self._in_order = not last
        self._next = None if last else (placed.group_id, placed.offset + len(data))
        self._complete = placed.group_id if last else None

    async def clear(self) -> None:
        """Get the whole status message, once it is complete and committed: before that its last segment is not seen."""
        if self._complete is not None:
            await self._queue.get(
                MessageDescriptor(group_id=self._complete),
                GetMessageOptions(
                    options=MQGMO.COMPLETE_MSG | MQGMO.NO_SYNCPOINT | MQGMO.FAIL_IF_QUIESCING,
                    match_options=MQMO.MATCH_GROUP_ID,
                ),
            )
            self._complete = None


def status_on(queue: Queue, form: StatusForm) -> GroupStatus:
    """The status kept in that form; ValueError for another."""
    if form == "message":
        return MessageStatus(queue)
    if form == "segments":
        return SegmentedStatus(queue)
    raise ValueError(f"status={form!r}: 'message' or 'segments'")


async def _browsed(queue: Queue, step: int) -> Message | None:
    """The message that a browse gives; None when there is none."""
    try:
        return await queue.get(options=GetMessageOptions(options=step, match_options=MQMO.NONE))
    except MQError as error:
        if error.reason == MQRC.NO_MSG_AVAILABLE:
            return None
        raise
