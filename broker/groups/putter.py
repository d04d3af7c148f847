"""Putting a group over several units of work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.groups.resumable import Resumable
from broker.groups.status import StatusInfo
from broker.interface.data import prepared
from broker.mqi import MQMF, MQOO, MQPER, MQPMO, MQRC, MessageDescriptor, MQError

if TYPE_CHECKING:
    from broker.groups.status import Kept, StatusForm
    from broker.interface import Connection, PutResult
    from broker.interface.data import Data


class GroupPutter(Resumable):
    """Puts message groups on a queue, each over as many units of work as it takes.

    Use it in `async with`. Each unit of work holds `messages_per_unit` messages (segments count as messages) and the
    status that goes with them; the last message of a group ends its unit. When the program ends in between, however it
    ends, a new putter on the same queues goes on with the group: `resumed_at` tells behind which message.

    - `status_q_name` is a queue that nobody else uses: it is opened for exclusive input, so that a second putter gets
      OBJECT_IN_USE (2042). `status` is the form of the status there, "message" or "segments".
    - The units of work are those of the connection: what else is put or got on it under syncpoint is committed with the
      messages of the group. So the input from which a program makes them is taken exactly once too.
    - All messages of a group have the same persistence, and the status with them. A group that was begun with another
      is INCONSISTENT_PERSISTENCE (2185) at entry.
    - Leaving the block cleanly commits, and a group that has not had its last message is gone on with by the next
      putter. Leaving it by an exception backs out the last unit of work.

    Entering raises UOW_IN_PROGRESS (2128) where the connection has a unit of work, and ValueError where the status
    queue holds something else.
    """

    def __init__(
        self,
        connection: Connection,
        q_name: str,
        status_q_name: str,
        *,
        messages_per_unit: int,
        status: StatusForm = "message",
        persistence: int = MQPER.PERSISTENT,
    ) -> None:
        super().__init__(
            connection,
            q_name,
            status_q_name,
            messages_per_unit=messages_per_unit,
            status=status,
            open_options=MQOO.OUTPUT,
        )
        if persistence not in (MQPER.PERSISTENT, MQPER.NOT_PERSISTENT):
            raise ValueError(f"persistence={persistence}: a group and its status need one that both queues agree on")
        self._persistence = int(persistence)

    async def put(
        self, data: Data, md: MessageDescriptor | None = None, *, last: bool = False, more_segments: bool = False
    ) -> PutResult:
        """Put the next message of the group; the `last` one ends it, and the next put begins another.

        With `more_segments` the data is a segment of a message that is not finished with it; `last` is then given with
        each segment of the last message. One call at a time: the next one begins when this has returned.

        Raises what MQPUT raises, having put nothing. BACKED_OUT (2003) means that the unit of work is undone: call
        `backout`, and go on behind `resumed_at`.
        """
        if self._interrupted:
            await self.backout()
            raise MQError(MQRC.BACKED_OUT, f"a call for the group was cut short: it goes on behind {self.resumed_at}")
        given, body = prepared(data, md, self._persistence)
        assert given is not None
        md = replace(given)
        options = self._place(md, last=last, more_segments=more_segments)
        with self._interruptible():
            result = await self._queue.put(body, md, options)
        self._pending += 1
        self._in_order = True
        placed = result.md
        self._info = StatusInfo(placed.group_id, placed.msg_seq_number)
        if more_segments:
            self._info = self._info._replace(offset=placed.offset, length=len(body))
        self._ended = last and not more_segments
        if self._ended or self._pending >= self._messages_per_unit:
            await self._commit()
        return result

    def _place(self, md: MessageDescriptor, *, last: bool, more_segments: bool) -> int:
        """Mark the descriptor as the next item of the group; the options to put it with.

        The first put of a resumed group names its place and leaves LOGICAL_ORDER out, which would begin a new group
        (S3). From then on the queue manager fills it in.
        """
        segmented = self._info is not None and self._info.length is not None
        md.msg_flags |= MQMF.LAST_MSG_IN_GROUP if last else MQMF.MSG_IN_GROUP
        if more_segments:
            md.msg_flags |= MQMF.SEGMENT
        elif segmented:
            md.msg_flags |= MQMF.LAST_SEGMENT
        options = MQPMO.SYNCPOINT | MQPMO.FAIL_IF_QUIESCING
        if self._info is None or self._in_order:
            return options | MQPMO.LOGICAL_ORDER
        md.group_id = self._info.group_id
        md.msg_seq_number = self._info.messages + 1
        md.offset = self._info.bytes_of_next
        return options

    def _check(self, kept: Kept | None) -> None:
        if kept is not None and kept.persistence != self._persistence:
            raise MQError(
                MQRC.INCONSISTENT_PERSISTENCE,
                f"the group that {self._status_q_name} tells of was begun with persistence {kept.persistence}",
            )
