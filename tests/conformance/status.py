"""The programs of semantics 15: groups put and got over several units of work, with their progress on a status queue.

They are written as the pattern says, by hand, so that each call is one line of a scenario.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from broker import MQError
from broker.mqi import MQMO, MQPMO, MQRC
from tests.conformance.expect import ALL
from tests.conformance.grouping import COMPLETE, LMIG, LO, MIG, SYNC, add, place, take

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from broker.mqi import MessageDescriptor

_FORM = struct.Struct(">24sI")


class Status(NamedTuple):
    """The progress of a group: StatusInfo."""

    group_id: bytes
    number: int

    def __bytes__(self) -> bytes:
        return _FORM.pack(*self)


def status_in(data: bytes) -> Status:
    return Status(*_FORM.unpack(data))


def status_of(md: MessageDescriptor) -> Status:
    return Status(md.group_id, md.msg_seq_number)


@dataclass
class Program:
    """A program with the queue Q and the status queue ST open."""

    connection: Connection
    queue: Queue
    statuses: Queue

    @classmethod
    async def start(cls, connection: Connection) -> Program:
        return cls(connection, await connection.open("Q", ALL), await connection.open("ST", ALL))

    async def old_status(self) -> Status | None:
        """Get the status of the last unit of work, in this one."""
        try:
            return status_in((await take(self.statuses, SYNC)).data)
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return None

    async def new_status(self, status: Status) -> None:
        await self.statuses.put(bytes(status), options=MQPMO.SYNCPOINT)

    async def put_group(self, total: int, per_unit: int, *, dies_in: int = 0) -> None:
        """Put a group, or the rest of the one that the status tells of; all but the commit of one unit of work."""
        old = await self.old_status()
        number = old.number if old else 0
        resumed = old
        while number < total:
            for _ in range(per_unit):
                number += 1
                flags = LMIG if number == total else MIG
                if resumed:
                    options = MQPMO.SYNCPOINT
                    put = await place(self.queue, b"%d" % number, flags, resumed.group_id, number, options=options)
                    resumed = None
                else:
                    put = await add(self.queue, flags, b"%d" % number)
            if number < total:
                await self.new_status(status_of(put.md))
            if number == dies_in * per_unit:
                return
            await self.connection.commit()
            await self.old_status()

    async def get_group(self, per_unit: int, *, dies_in: int = 0) -> list[Message]:
        """Get a group, or the rest of the one that the status tells of; all but the commit of one unit of work."""
        old = await self.old_status()
        units = old.number // per_unit if old else 0
        found: list[Message] = []
        message = None
        while message is None or message.group_status == "G":
            for _ in range(per_unit):
                message = await self._next(old)
                old = None
                found.append(message)
                if message.group_status != "G":
                    break
            if message is not None and message.group_status == "G":
                await self.new_status(status_of(message.md))
            units += 1
            if units == dies_in:
                return found
            await self.connection.commit()
            await self.old_status()
        await self.connection.commit()
        return found

    async def _next(self, resumed: Status | None) -> Message:
        if resumed is None:
            return await take(self.queue, LO | COMPLETE | SYNC)
        item = MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER
        wanted: dict[str, Any] = {"group_id": resumed.group_id, "msg_seq_number": resumed.number + 1}
        return await take(self.queue, COMPLETE | SYNC, item, **wanted)
