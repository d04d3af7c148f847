"""Getting a group over several units of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.resumable import Resumable
from broker.groups.status import StatusInfo
from broker.interface.options import milliseconds
from broker.mqi import MQGMO, MQGS, MQMO, MQOO, MQRC, MQSS, GetMessageOptions, MessageDescriptor, MQError

if TYPE_CHECKING:
    from broker.groups.status import StatusForm
    from broker.interface import Connection, Message

FOREVER = float("inf")
_DIFFERING_SEGMENTS = frozenset({MQRC.INCONSISTENT_CCSIDS, MQRC.INCONSISTENT_ENCODINGS})


class GroupGetter(Resumable):
    """Gets message groups from a queue, each over as many units of work as it takes.

    Use it in `async with`, and iterate: `async for message in getter` gives the messages of one group in their order,
    or what is left of a group that was begun before, and ends behind its last message. Iterating again gives the next
    group. A message that is in no group comes as a group of its own.

    A message counts as dealt with when the next one is asked for, or when the block is left cleanly. After
    `messages_per_unit` of them the unit of work is committed, with a status that tells how far the group has come; at
    the end of the group it is committed without one. When the program ends in between, however it ends, a new getter on
    the same queues goes on with the group: `resumed_at` tells behind which message.

    - `status_q_name` is a queue that nobody else uses: it is opened for exclusive input, so that a second getter gets
      OBJECT_IN_USE (2042). Several getters may share the queue itself: a group is got by the one that got its first
      message, or by its successor. `status` is the form of the status, "message" or "segments".
    - The units of work are those of the connection: what is put on it under syncpoint is committed with the messages of
      the group that it comes from.
    - `wait` is how many seconds to wait for a message, for ever by default; then NO_MSG_AVAILABLE (2033) is raised, and
      iterating again goes on.
    - `complete_groups` leaves a group alone until all of it is on the queue. `by_segment` gives the segments of a
      logical message one by one; otherwise it comes put together.
    - Leaving the block cleanly commits, leaving it by an exception backs out the last unit of work. So does cancelling
      a call: the messages of the unit come again.

    Entering raises UOW_IN_PROGRESS (2128) where the connection has a unit of work, and ValueError where the status
    queue holds something else.
    """

    def __init__(  # noqa: PLR0913  # each a choice of the caller
        self,
        connection: Connection,
        q_name: str,
        status_q_name: str,
        *,
        messages_per_unit: int,
        status: StatusForm = "message",
        wait: float = FOREVER,
        complete_groups: bool = False,
        by_segment: bool = False,
    ) -> None:
        super().__init__(
            connection,
            q_name,
            status_q_name,
            messages_per_unit=messages_per_unit,
            status=status,
            open_options=MQOO.INPUT_SHARED,
        )
        self._by_segment = by_segment
        self._complete_groups = complete_groups
        self._wait_interval = milliseconds(wait)

    def __aiter__(self) -> GroupGetter:
        return self

    async def __anext__(self) -> Message:
        """The next message of the group. Raises what MQGET raises, having got nothing."""
        if self._interrupted:
            await self.backout()
        if self._ended:
            await self._commit()
            raise StopAsyncIteration
        if self._pending >= self._messages_per_unit:
            await self._commit()
        md, options = self._next()
        with self._interruptible():
            message = await self._queue.get(md, options)
        self._pending += 1
        self._in_order = True
        self._follow(message)
        return message

    def _next(self) -> tuple[MessageDescriptor | None, GetMessageOptions]:
        """Return arguments of the next get: in logical order, but for the first of a resumed group, which names the
        message (S5).
        """
        options = MQGMO.SYNCPOINT | MQGMO.WAIT | MQGMO.FAIL_IF_QUIESCING
        if not self._by_segment:
            options |= MQGMO.COMPLETE_MSG
        gmo = GetMessageOptions(options=options, wait_interval=self._wait_interval, match_options=MQMO.NONE)
        info = self._info
        if info is None or self._in_order:
            gmo.options |= MQGMO.LOGICAL_ORDER
            if self._complete_groups:
                gmo.options |= MQGMO.ALL_MSGS_AVAILABLE
            return None, gmo
        gmo.match_options = MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER
        if self._by_segment:
            gmo.match_options |= MQMO.MATCH_OFFSET
        elif info.length is not None:
            raise ValueError(f"{self._status_q_name} tells of a message that is got by segment: give by_segment=True")
        place = info.group_id, info.messages + 1, info.bytes_of_next
        return MessageDescriptor(group_id=place[0], msg_seq_number=place[1], offset=place[2]), gmo

    def _follow(self, message: Message) -> None:
        """Note how far the group has come with this message."""
        md = message.md
        if message.reason in _DIFFERING_SEGMENTS:
            self._interrupted = True
            raise MQError(message.reason, "the segments of a message differ: get them with by_segment=True")
        self._info = StatusInfo(md.group_id, md.msg_seq_number)
        self._persistence = md.persistence
        unfinished = message.segment_status == MQSS.SEGMENT
        if unfinished:
            self._info = self._info._replace(offset=md.offset, length=max(message.length, md.original_length))
        self._ended = message.group_status != MQGS.MSG_IN_GROUP and not unfinished
