"""Shared queues read by arrival number (claims rule 4): what Spark's browsing streams stand on.

A queue that is read by number is read once, so what has a number already when its range is told must be in it, or be
known not to be there yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.claims.cutting import Cutting
from broker.engine.calls.column_frames import fitting, frame
from broker.interface.batches.columns import SHORT_MESSAGES_MAX
from broker.interface.claims.claims import Cut, QueueRange
from broker.sharing.database.rows import ARRIVAL, COLUMNS, entry_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry
    from broker.interface.claims.claims import BrowseSelection
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

_READABLE: Final = "state = ANY ('{1,2,3}')"
"""Of messages that are read by number: what somebody has got, or locked, may be back a moment later."""


_WANTED: Final = (
    "AND ($5::bytea IS NULL OR msg_id = $5) AND ($6::bytea IS NULL OR correl_id = $6) "
    "AND ($7::bytea IS NULL OR group_id = $7) AND (deadline IS NULL OR deadline > now_seconds())"
)


class Ranges:
    """Queues read by number through one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database

    async def queue_ranges(self, q_names: Sequence[str]) -> list[QueueRange]:
        """Return the ranges of shared queues that can be read now. What is on its way when this is asked for is waited
        for: it has a number already, which must not come into the range later.
        """
        queues = self._member.core.consumers.queues_of(q_names)
        return [await self._database.transact(_RangeOf(queue.name)) for queue in queues]

    async def browse_range(self, q_name: str, after: int, last: int, selection: BrowseSelection, longest: int) -> bytes:
        """The messages of a queue behind the number `after`, as many as go into a frame of `longest` bytes."""
        entries = await self._between(
            q_name, after, last, SHORT_MESSAGES_MAX, _WANTED, selection.msg_id, selection.correl_id, selection.group_id
        )
        return frame(fitting(entries, longest), self._member.manager.clock.time(), 0, keys=True)

    async def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> list[Cut]:
        """Return the cuts of the range of a queue, up to so many messages of so many bytes."""
        cutting = Cutting()
        for entry in await self._between(q_name, after, last, messages, ""):
            if size <= 0:
                break
            cutting.add(entry.place, entry)
            size -= entry.length
        return [Cut(*piece) for piece in cutting.pieces]

    async def _between(
        self, q_name: str, after: int, last: int, count: int, condition: str, *values: bytes | None
    ) -> list[Entry]:
        """The first messages with arrival numbers behind `after`, up to `last`, in order of arrival: of each effective
        priority the first, and of those the first. They have bodies where there is a condition.
        """
        queue = self._member.shared(q_name)
        assert queue is not None
        columns = COLUMNS if condition else COLUMNS.replace("body", "NULL::bytea AS body")
        async with self._database.look() as session:
            rows = await session.fetch(
                f"SELECT found.* FROM generate_series(0, 9) AS rank, LATERAL (SELECT {columns} FROM all_messages "
                "WHERE queue = $1 AND place > (rank::bigint << 56 | $2) AND place <= (rank::bigint << 56 | $3) "
                f"AND {_READABLE} {condition} ORDER BY place LIMIT $4) AS found ORDER BY {ARRIVAL} LIMIT $4",
                queue.name,
                after,
                last,
                count,
                *values,
            )
        return [entry_of(queue, row) for row in rows]


class _RangeOf:
    """The transaction that finds the range of one queue."""

    def __init__(self, q_name: str) -> None:
        self._q_name = q_name

    async def __call__(self, session: DatabaseSession) -> QueueRange:
        await session.execute(  # puts hold it FOR KEY SHARE until they are over
            "SELECT 1 FROM object WHERE disposition = 'SHARED' AND space = 'QUEUE' AND name = $1 FOR UPDATE",
            self._q_name,
        )
        row = await session.fetchrow(
            f"SELECT min({ARRIVAL}) FILTER (WHERE {_READABLE}) AS first,"
            " count(*) FILTER (WHERE state = 1) AS messages,"
            f" coalesce(sum(length) FILTER (WHERE {_READABLE}), 0) AS bytes,"
            f" min({ARRIVAL}) FILTER (WHERE state = 0) AS missing,"
            " (SELECT last_value FROM arrival) AS arrived FROM all_messages WHERE queue = $1",
            self._q_name,
        )
        last = row["arrived"] if row["missing"] is None else min(row["arrived"], row["missing"] - 1)
        return QueueRange(self._q_name, max((row["first"] or 0) - 1, 0), last, row["messages"], row["bytes"])
