"""Write messages that the core has put on shared queues: one statement inserts them and counts depths.

Where a queue would hold too many messages the database tells how many it holds. The puts are made again, and the core
judges by that (`limited`), put by put: exactly MAXDEPTH fit (queue-sharing rule 10.2.5).
"""

from __future__ import annotations

from contextlib import ExitStack
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

import asyncpg

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import FULL
from broker.sharing.database.rows import alike, plain_arguments, put_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import SharedPart, Unit
    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession, Lane

_PUT_MESSAGES: Final = f"SELECT * FROM put_messages({', '.join(f'${number}' for number in range(1, 25))})"
_PUT_ALIKE: Final = f"CALL put_alike({', '.join(f'${number}' for number in range(1, 10))}, NULL)"
_PERSISTENCE: Final = attrgetter("persistence")
_NONE: Final[Mapping[MessageQueue, int]] = {}


class QueueFullError(Exception):
    """A queue would hold too many messages; it holds `depth` now, without those of the call."""

    def __init__(self, q_name: str, depth: int) -> None:
        super().__init__(q_name, depth)
        self.q_name = q_name
        self.depth = depth

    def refusal(self) -> MQError:
        """Q_FULL (2053), for the program."""
        return MQError(MQRC.Q_FULL, f"{self.q_name} holds {self.depth} messages")


def limited(depths: Mapping[SharedQueue, int]) -> ExitStack:
    """Let puts find so many messages on these queues, until the stack is closed."""
    stack = ExitStack()
    for queue, depth in depths.items():
        stack.enter_context(queue.limited(depth))
    return stack


def placed_by(unit: Unit | None) -> list[Entry]:
    """Take the messages that a unit has put on shared queues and nobody has written yet: write them now."""
    part = None if unit is None else unit.shared
    if part is None:
        return []
    placed, part.placed = part.placed, []
    return placed


async def put_messages(
    session: DatabaseSession,
    entries: Sequence[Entry],
    now: float,
    *,
    lane: Lane | None = None,
    joined: Unit | None = None,
    prepared: UUID | None = None,
    beyond: Mapping[MessageQueue, int] = _NONE,
) -> int:
    """Write messages that have been put on shared queues, if there are any. Return the place of the first, 0 where
    nothing is with it.

    With the `lane` of the session this is a transaction by itself, else part of the one under way. Messages of the unit
    `joined` stay invisible until that is committed, all those of a `prepared` unit until it is published; others are
    visible with the transaction. A queue may hold so many messages `beyond` its MAXDEPTH.

    Raises QueueFullError, and what the database does.
    """
    if lane is not None:
        lane.lasting = any(map(_PERSISTENCE, entries))
    if not entries:
        return 0
    if lane is not None:
        lane.q_name = entries[0].queue.name
    plain = None if joined is not None or any(beyond.values()) else plain_arguments(entries)
    try:
        if lane is not None and plain is not None:
            lane.arrived = len(entries)
            await _put_alike(session, lane, entries[0].queue, plain)
            return 0
        return await _put_all(session, entries, now, lane, joined, prepared, beyond)
    except asyncpg.PostgresError as error:
        if error.sqlstate == FULL and error.detail:
            q_name, depth = error.detail.split()
            raise QueueFullError(q_name, int(depth)) from error
        raise


async def _put_alike(session: DatabaseSession, lane: Lane, queue: Any, plain: tuple[Any, ...]) -> None:
    """Write messages of one queue that differ in their identifiers and data alone, and wait for the disk."""
    queue.depth = await session.fetchval(_PUT_ALIKE, lane.sequence, queue.name, queue.version, queue.max_depth, *plain)
    lane.waited()


async def _put_all(
    session: DatabaseSession,
    entries: Sequence[Entry],
    now: float,
    lane: Lane | None,
    joined: Unit | None,
    prepared: UUID | None,
    beyond: Mapping[MessageQueue, int],
) -> int:
    """Write messages of whatever kind."""
    queues: dict[Any, int] = {}
    numbers = [queues.setdefault(entry.queue, len(queues) + 1) for entry in entries]
    part = None if joined is None else joined.shared
    row = await session.fetchrow(
        _PUT_MESSAGES,
        None if lane is None else lane.sequence,
        prepared if part is None else part.id,
        None if joined is None else tag_of(joined),
        [queue.name for queue in queues],
        [queue.version for queue in queues],
        [queue.max_depth for queue in queues],
        [beyond.get(queue, 0) for queue in queues],
        alike(numbers),
        [True] if prepared is not None else alike([entry.unit is joined for entry in entries]),
        *put_arguments(entries, now),
        prepared is not None,
    )
    for queue, depth in zip(queues, row["depths"], strict=True):
        queue.depth = depth
    return int(row["first_place"])


async def write_puts(database: Database, session: DatabaseSession, unit: Unit, now: float, *, joined: bool) -> None:
    """Write what a unit has put on shared queues since the last time, in the transaction under way. `joined`: it is
    under syncpoint, and goes on. Raises QueueFullError.
    """
    entries = placed_by(unit)
    if not entries:
        return
    part = unit.shared
    assert part is not None
    if joined:
        enter_unit(part, database.epoch)
    await put_messages(session, entries, now, joined=unit if joined else None)


async def begin_unit(database: Database, session: DatabaseSession, unit: Unit, id: UUID) -> None:
    """Give a unit under syncpoint its row, at its first call on a shared queue."""
    await session.execute("SELECT join_unit($1, $2, $3, $4)", database.member, database.epoch, id, tag_of(unit))


def enter_unit(part: SharedPart, life: int) -> None:
    """A put joins a unit under syncpoint, which may begin with it. Raises BACKED_OUT (2003) for one of an earlier life:
    it has been backed out, and its row may have gone.
    """
    if part.id is None:
        part.id, part.life = uuid4(), life
    elif part.life != life:
        raise MQError(MQRC.BACKED_OUT, "the unit of work was backed out when the queue manager lost its group")


def tag_of(unit: Unit) -> bytes | None:
    """The tag of the connection whose unit of work it is."""
    return None if unit.owner is None else unit.owner.tag
