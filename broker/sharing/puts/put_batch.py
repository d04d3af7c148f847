"""Puts that are made together: in the core, and in one statement in the database.

An attempt makes each in the core, one after the other, and writes what they have put. If the statement fails all is as
before: where the handles stand among groups and segments, and the unit of work. Then they are made again, so that the
numbers of a logical order have no hole (queue-sharing rule 10.2.7).
"""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from broker.core.calls.savepoint import Savepoint
from broker.core.message.generated.reports import asks_any
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.sharing.puts.writing import enter_unit, limited, placed_by, put_messages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.engine.conversation import Conversation
    from broker.engine.shared_queues import PutStep
    from broker.interface.port import Call
    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession, Lane

_OFFSET: Final = attrgetter("offset")
_QUEUE: Final = attrgetter("queue")
_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_FEW, _LITTLE = 10, 32 * 1024  # calls, and bytes of data, of a batch that is written with others


class GatheredPut:
    """A put that is to be made, and its outcome in the last attempt: an `answer`, with the implicit `unit` of a put
    outside syncpoint, or an `error` of its own.
    """

    __slots__ = ("answer", "call", "error", "step", "unit")

    def __init__(self, call: Call[Any], step: PutStep) -> None:
        self.call = call
        self.step = step
        self.answer: Any = None
        self.error: MQError | None = None
        self.unit: Unit | None = None


class PutBatch:
    """Puts of one connection, in order. `made` are those of them that the last attempt has made: all, or those before
    one whose implicit unit has messages on private queues too. That is `mixed`, and has been taken back. `depths`: how
    many messages are on queues that were found full.
    """

    def __init__(
        self,
        conversation: Conversation,
        puts: Sequence[GatheredPut],
        depths: Mapping[SharedQueue, int],
        check_security: Callable[[DatabaseSession], Awaitable[None]],
        epoch: Callable[[], int],
    ) -> None:
        self._conversation = conversation
        self._check_security = check_security
        self._epoch = epoch
        self._puts = puts
        self.depths = depths
        hconn = conversation.hconn
        self._saved = Savepoint(hconn, [handle for handle in hconn.handles.values() if handle.puts])
        self.made: list[GatheredPut] = []
        self.mixed: GatheredPut | None = None
        self._placed: list[Entry] = []
        self._beyond: dict[MessageQueue, int] = {}

    @property
    def goes_together(self) -> bool:
        """True if it may be written with puts of other connections: it is small, outside syncpoint and in no unit."""
        if len(self._puts) > _FEW or self.depths or self._conversation.hconn.unit is not None:
            return False
        if any(int(put.step.options.options) & _SYNCPOINT for put in self._puts):
            return False
        return sum(_LITTLE + 1 if put.step.length is None else put.step.length for put in self._puts) <= _LITTLE

    async def write(self, lane: Lane) -> int:
        """Make an attempt, as a transaction by itself. Return the place of the first message. Raises QueueFullError,
        and what the database does.
        """
        return await self.write_in(lane.session, lane)

    async def write_in(self, session: DatabaseSession, lane: Lane | None = None) -> int:
        """Make an attempt; without a `lane` as part of the transaction under way."""
        await self.make(session)
        joined = self._conversation.hconn.unit
        if joined is not None and joined.shared is not None:
            enter_unit(joined.shared, self._epoch())
        now = self._conversation.context.clock.time()
        return await put_messages(session, self._placed, now, lane=lane, joined=joined, beyond=self._beyond)

    async def make(self, session: DatabaseSession) -> list[Entry]:
        """Make an attempt in the core: return what is to be written."""
        if self._conversation.call_order.ended is not None:
            raise MQError(self._conversation.call_order.ended, "the connection ended before the put was made")
        self._make()
        await self.check_rights(session)
        return self._placed

    async def check_rights(self, session: DatabaseSession) -> None:
        """Raise StaleError where the puts were judged, and rights have changed in the group since: those of MQPUT1, and
        those that ask for reports.
        """
        judged = any(put.step.judge is not None for put in self._puts)
        if judged or (self._conversation.hconn.caller is not None and any(map(asks_any, self._placed))):
            await self._check_security(session)

    def restore(self) -> None:
        """Take back what the attempt has changed in memory."""
        for put in reversed(self.made):
            self._undo(put)
        self.made = []
        self._saved.restore()

    def _make(self) -> None:
        """Make the puts in the core, up to a mixed one."""
        self.made, self.mixed = [], None
        self._placed, self._beyond = [], {}
        with limited(self.depths):
            for put in self._puts:
                self._make_one(put)
                if put.unit is not None and not all(entry.queue.shared for entry in put.unit.puts):
                    self._undo(put)
                    self.mixed = put
                    break
                self.made.append(put)
                if put.error is None:
                    self._add(placed_by(put.unit or self._conversation.hconn.unit))

    def _make_one(self, put: GatheredPut) -> None:
        put.error = put.unit = None
        try:
            if put.step.judge is not None:
                put.step.judge()
            if put.step.handle is not None:
                put.step.handle.output_route()
            put.answer, put.unit = put.step.make()
        except MQError as error:
            put.error = error.with_traceback(None)
        else:
            if put.unit is not None:
                self._conversation.core.commit(put.unit, self._conversation.context.moment())

    def _undo(self, put: GatheredPut) -> None:
        unit, put.unit = put.unit, None
        if unit is not None:
            self._conversation.context.settle(unit, committed=False)

    def _add(self, placed: Sequence[Entry]) -> None:
        """Add the messages of a put to those that are written."""
        self._placed += placed
        if len(placed) > 1:
            in_parts = any(map(_OFFSET, placed))
            self._beyond.update(_beyond(placed) if in_parts else dict.fromkeys(map(_QUEUE, placed), 0))
        elif placed:
            self._beyond.pop(placed[0].queue, None)


def _beyond(placed: Sequence[Entry]) -> dict[MessageQueue, int]:
    """Return the number of messages that each queue may hold beyond its MAXDEPTH: for the segments of the last message
    of a put there is room if there is for the first of them (semantics 4.2).
    """
    beyond: dict[MessageQueue, int] = dict.fromkeys((entry.queue for entry in placed), 0)
    for before, entry in pairwise(placed):
        continues = before.queue is entry.queue and 0 < entry.offset == before.offset + before.length
        beyond[entry.queue] = beyond[entry.queue] + 1 if continues else 0
    return beyond


async def write_together(database: Database, batches: Sequence[PutBatch], now: float) -> None:
    """Make and write the puts of many connections, all or none, as one transaction. No queue may hold more than its
    MAXDEPTH then, whatever a put by itself may be allowed. Raises QueueFullError, StaleError, and what the database
    does.
    """

    async def work(lane: Lane) -> None:
        placed = [entry for batch in batches for entry in await batch.make(lane.session)]
        await put_messages(lane.session, placed, now, lane=lane)

    def restore() -> None:
        for batch in reversed(batches):
            batch.restore()

    await database.transact_at_once(work, restore)
