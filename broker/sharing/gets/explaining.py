"""Explain why a shared queue gives a message, or does not: the look of the core, on the rows that there are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.core.explain.explaining import explain
from broker.core.message.entry import AVAILABLE, CLAIMED, DELAYED, LOCKED, PREPARED, PreparedEntry
from broker.core.queues.handles import Hconn
from broker.core.queues.shared_queue import SharedQueue
from broker.core.queues.unit import Unit
from broker.mqi.explanations import Cause, Explanation
from broker.sharing.database.rows import COLUMNS, entry_of

if TYPE_CHECKING:
    from uuid import UUID

    from broker.core.explain.explaining import ExplainSelection
    from broker.core.message.entry import Entry
    from broker.core.names.routes import Route
    from broker.sharing.members.group_member import GroupMember

ROWS_MAX: Final = 10_000
"""More messages are not looked at: those that come first."""

_ROWS: Final = (
    f"SELECT {COLUMNS.replace('body', 'NULL::bytea AS body').replace('state', 'm.state')}, "
    "m.unit, m.member, m.sequence, extract(epoch FROM started)::double precision AS since "
    "FROM all_messages AS m LEFT JOIN unit_of_work ON unit_of_work.id = m.unit WHERE queue = $1 ORDER BY place LIMIT $2"
)


class Explaining:
    """Explains what becomes of messages of shared queues, for the programs of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def explain(self, route: Route, selection: ExplainSelection) -> Explanation:
        """Return the causes that keep the wanted messages from those who get by this route. Where a program of
        another member has them, it is told which member that is, not which program. Gets that wait at other members
        are not told.
        """
        member, queue = self._member, route.queue
        assert isinstance(queue, SharedQueue)
        await member.holdings.refresh(lag=False)
        async with member.database.look() as session:
            rows = await session.fetch(_ROWS, queue.name, ROWS_MAX)
            has_input = await session.fetchval(
                "SELECT EXISTS (SELECT FROM handle WHERE queue = $1 AND input)", queue.name
            )
        entries, states = [entry_of(queue, row) for row in rows], [row["state"] for row in rows]
        there = [entry for entry, state in zip(entries, states, strict=True) if state == AVAILABLE]
        own = member.manager.conversations.units()
        units: dict[UUID | str, Unit] = {
            unit.shared.id: unit for unit in own if unit.shared is not None and unit.shared.id
        }
        locked = {each.key: each for handle in queue.handles for each in handle.position.locked}
        with queue.page(there) as shelf:
            for entry, row in zip(entries, rows, strict=True):
                if row["state"] == PREPARED:
                    self._note_prepared(row, entry)
                elif row["state"] != AVAILABLE:
                    entry.state = row["state"]
                    if row["state"] == CLAIMED:
                        self._note_claim(row, entry)
                    shelf.entries[entry.key] = locked.get(entry.key, entry)
                    entry.unit = _unit(row, units, member.manager.name)
                    if entry.state == DELAYED:
                        shelf.postpone(entry)
            most = member.manager.config.limits.claim_bytes
            looking = explain(route, shelf, selection, member.now(), member.core, most)
            findings = [found for found in looking if found is not None]
        if has_input:  # at another member, if not here
            findings = [found for found in findings if found.code != Cause.NOT_OPEN_FOR_INPUT]
        return Explanation(q_name=queue.name, findings=tuple(findings))

    def _note_claim(self, row: Any, entry: Entry) -> None:
        """Note the consumer that has claimed a message."""
        for consumer in self._member.core.consumers.of_group.values():
            if consumer.uuid == row["unit"].hex:
                consumer.seen[entry] = row["sequence"] <= consumer.pinned

    def _note_prepared(self, row: Any, entry: Entry) -> None:
        """Note the prepared unit that has a message."""
        unit = self._member.core.sinks.of_group.get(row["unit"])
        if unit is not None:
            unit.entries.append(PreparedEntry.of(entry))


def _unit(row: Any, units: dict[UUID | str, Unit], here: str) -> Unit | None:
    """The unit of work in which a message is, or that stands for those who have locked it at another member: one of
    these, or a new one. Who has locked it here are handles, if they have not gone.
    """
    if row["state"] in (DELAYED, CLAIMED) or (row["state"] == LOCKED and row["member"] == here):
        return None
    known = row["member"] if row["state"] == LOCKED else row["unit"]
    if known is None:
        return None
    if known not in units:
        units[known] = unit = Unit()
        unit.owner = Hconn(f"a program of {row['member']}")
        unit.since = row["since"] or 0.0
    return units[known]
