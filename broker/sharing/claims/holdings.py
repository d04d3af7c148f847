"""Consumers and prepared units of the group in figures, as commands, the status and the log tell of them (claims
rules 2.9 to 2.11, and 3.10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker.core.claims.group_consumer import Claimed, GroupConsumer
from broker.core.message.put_time import put_at
from broker.core.queues.shared_queue import ConsumerLag, SharedQueue
from broker.sharing.claims.prepared_rows import units_of
from broker.sharing.database.rows import ARRIVAL, COLUMNS, OF_NO_MEMBER, entry_of

if TYPE_CHECKING:
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

FIELDS: Final = ("generation", "lineage", "base", "acknowledged", "pinned", "next", "since", "turn")
"""The columns of a consumer's row beside its name and its queues."""

_CLAIMS: Final = (
    "SELECT consumer.uuid, queue, count(*) AS messages, sum(length) AS bytes,"
    " count(*) FILTER (WHERE sequence <= pinned) AS pinned"
    f" FROM consumer JOIN held ON {OF_NO_MEMBER} AND unit = consumer.uuid GROUP BY consumer.uuid, queue"
)
_AVAILABLE: Final = "state = 1 AND (deadline IS NULL OR deadline > now_seconds())"


class Holdings:
    """The consumers of the group, and its prepared units, as one member knows them."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def refresh(self, *, lag: bool) -> None:
        """Ask the group. `lag`: what is available on their queues is counted too, message by message."""
        consumers = self._member.core.consumers
        async with self._member.database.look() as session:
            rows = await session.fetch("SELECT * FROM consumer")
            claims = await session.fetch(_CLAIMS) if rows else []
            found = {}
            for row in rows:
                found[row["uuid"]] = consumer = GroupConsumer(row["name"], row["uuid"].hex, row["q_names"])
                consumer.change(**{field: row[field] for field in FIELDS})
            for row in claims:
                queue = self._member.shared(row["queue"])
                if queue is not None:
                    found[row["uuid"]].hold(queue, Claimed(row["messages"], row["pinned"], row["bytes"]))
            for named in consumers.queues_of([name for each in found.values() for name in each.q_names]):
                if lag and isinstance(named, SharedQueue):
                    named.lag = await _lag(session, named)
            units = await units_of(self._member, await session.fetch("SELECT * FROM prepared_unit"), session)
        consumers.of_group = {each.name: each for each in found.values()}
        self._member.core.sinks.of_group = {UUID(int=unit.number): unit for unit in units}
        for queue in self._member.shared_queues():
            queue.prepared = 0
        for unit in units:
            for counted, count in unit.counts.items():
                counted.prepared += count  # type: ignore[attr-defined]  # of shared queues alone


async def _lag(session: DatabaseSession, queue: SharedQueue) -> ConsumerLag:
    row = await session.fetchrow(
        "SELECT count(*) AS messages, coalesce(sum(length), 0) AS bytes FROM message "
        f"WHERE queue = $1 AND {_AVAILABLE}",
        queue.name,
    )
    first = await session.fetchrow(
        f"SELECT {COLUMNS.replace('body', 'NULL::bytea AS body')} FROM message WHERE queue = $1 AND {_AVAILABLE} "
        f"ORDER BY {ARRIVAL} LIMIT 1",
        queue.name,
    )
    since = 0.0 if first is None else put_at(entry_of(queue, first).packed_md)
    return ConsumerLag(row["messages"], row["bytes"], since)
