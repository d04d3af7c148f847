"""Puts that are made together: in the core, and in one statement in the database.

An attempt makes each in the core, one after the other, and writes what they have put. If the statement fails all is as
before: where the handles stand among groups and segments, and the unit of work. Then they are made again, so that the
numbers of a logical order have no hole (queue-sharing rule 10.2.7).

Where a queue would hold too many messages the database tells how many it holds. In the next attempt the core
judges by that, put by put: each is answered by itself, and exactly MAXDEPTH fit (queue-sharing rule 10.2.5).
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import asyncpg

from broker.core.calls.savepoint import Savepoint
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import FULL
from broker.sharing.database.rows import alike, put_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.engine.conversation import Conversation
    from broker.engine.shared_queues import PutStep
    from broker.interface.port import Call
    from broker.sharing.database.sessions import DatabaseSession, Lane

PUT_MESSAGES: Final = f"SELECT * FROM put_messages({', '.join(f'${number}' for number in range(1, 25))})"


class QueueFullError(Exception):
    """A queue would hold too many messages; it holds `depth` now, without those of the call."""

    def __init__(self, q_name: str, depth: int) -> None:
        super().__init__(q_name, depth)
        self.q_name = q_name
        self.depth = depth

    def refusal(self) -> MQError:
        """Q_FULL (2053), for the program."""
        return MQError(MQRC.Q_FULL, f"{self.q_name} holds {self.depth} messages")


class GatheredPut:
    """A put that is to be made, and what has become of it in the last attempt: `answer`, and the implicit unit of one
    outside syncpoint; or an `error` of its own.
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
        tag: bytes | None,
    ) -> None:
        self._conversation = conversation
        self._tag = tag
        self._puts = puts
        self.depths = depths
        hconn = conversation.hconn
        self._saved = Savepoint(hconn, [handle for handle in hconn.handles.values() if handle.puts])
        self.made: list[GatheredPut] = []
        self.mixed: GatheredPut | None = None
        self._placed: list[Entry] = []
        self._beyond: dict[MessageQueue, int] = {}

    async def write(self, lane: Lane) -> int:
        """One attempt, as a transaction by itself. The place of the first message. Raises QueueFullError, and what the
        database does.
        """
        place = await self.write_in(lane.session, (lane.number, lane.sequence))
        lane.lasting = any(entry.persistence for entry in self._placed)
        return place

    async def write_in(self, session: DatabaseSession, transaction: tuple[int, int] | tuple[None, None]) -> int:
        """One attempt, without a turn as part of the transaction under way."""
        if self._conversation.call_order.ended is not None:
            raise MQError(self._conversation.call_order.ended, "the connection ended before the put was made")
        self._make()
        joined = self._conversation.hconn.unit
        if joined is not None and joined.shared is not None:
            joined.shared.id = joined.shared.id or uuid4()
        if not self._placed:
            return 0
        now = self._conversation.context.clock.time()
        return await put_messages(session, transaction, self._placed, (joined, self._tag), now, self._beyond)

    def restore(self) -> None:
        """Take back what the attempt has changed in memory."""
        for put in reversed(self.made):
            self._undo(put)
        self.made = []
        self._saved.restore()

    def _make(self) -> None:
        """Make the puts in the core."""
        self.made, self.mixed = [], None
        self._placed = []
        self._beyond = {}
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

    def _add(self, placed: Sequence[Entry]) -> None:
        self._placed += placed
        if len(placed) > 1:
            self._beyond.update(_beyond(placed))
        elif placed:
            self._beyond.pop(placed[0].queue, None)

    def _make_one(self, put: GatheredPut) -> None:
        put.error = put.unit = None
        try:
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


def _beyond(placed: Sequence[Entry]) -> dict[MessageQueue, int]:
    """Return the number of messages that each queue may hold beyond its MAXDEPTH: for the segments of the last message
    of a put there is room if there is for the first of them (semantics 4.2).
    """
    beyond: dict[MessageQueue, int] = {}
    for before, entry in pairwise((None, *placed)):
        assert entry is not None
        cut = before is not None and before.queue is entry.queue and 0 < entry.offset == before.offset + before.length
        beyond[entry.queue] = beyond[entry.queue] + 1 if cut else 0
    return beyond


@contextmanager
def limited(depths: Mapping[SharedQueue, int]) -> Iterator[None]:
    """Let puts in the block find so many messages on these queues."""
    with ExitStack() as stack:
        for queue, depth in depths.items():
            stack.enter_context(queue.limited(depth))
        yield


def placed_by(unit: Unit | None) -> list[Entry]:
    """Return what a unit has put on shared queues and nobody has written yet. It is to be written now."""
    part = None if unit is None else unit.shared
    if part is None:
        return []
    placed, part.placed = part.placed, []
    return placed


async def put_messages(
    session: DatabaseSession,
    transaction: tuple[int, int] | tuple[None, None],
    entries: Sequence[Entry],
    of: tuple[Unit | None, bytes | None],
    now: float,
    beyond: Mapping[MessageQueue, int] | None = None,
    prepared: UUID | None = None,
) -> int:
    """Write messages that have been put on shared queues; those `of` a unit of work, of a connection with this tag, are
    not committed with it; those of a `prepared` unit are of none. A queue may hold so many messages `beyond` its
    MAXDEPTH. With
    the turn of a lane that is a transaction by itself, else part of the one under way. The place of the first message.
    Raises QueueFullError, and what the database does.
    """
    queues: dict[Any, int] = {}
    numbers = [queues.setdefault(entry.queue, len(queues) + 1) for entry in entries]
    joined, tag = of
    part = None if joined is None else joined.shared
    try:
        row = await session.fetchrow(
            PUT_MESSAGES,
            *transaction,
            prepared if part is None else part.id,
            tag,
            [queue.name for queue in queues],
            [queue.version for queue in queues],
            [queue.max_depth + (beyond or {}).get(queue, 0) for queue in queues],
            alike(numbers),
            alike([entry.unit is joined for entry in entries]),
            *put_arguments(entries, now),
            prepared is not None,
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate == FULL and error.detail:
            q_name, depth = error.detail.split()
            raise QueueFullError(q_name, int(depth)) from error
        raise
    for queue, depth in zip(queues, row["depths"], strict=True):
        queue.depth = depth
    return int(row["first_place"])
