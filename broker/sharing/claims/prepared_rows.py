"""Sinks of the group and their prepared units as rows, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from broker.core.message.generated import reports
from broker.core.message.rows import ObjectRow
from broker.core.prepared.sink import Ledger, Sink
from broker.core.prepared.sinks import Sinks
from broker.core.prepared.unit import SPACE, PreparedUnit, UnitName
from broker.sharing.database.rows import OF_NO_MEMBER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.message.entry import Entry
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember


def sink_of(name: str, row: Any) -> Sink:
    """The sink of a row, or of none."""
    sink = Sink(name)
    if row is not None and row["query"] is not None:
        sink.ledger = Ledger(row["query"], row["batch"], row["messages"], row["bytes"], row["decided"])
    return sink


def sinks_of(sink: Sink, published: Iterable[UnitName]) -> Sinks:
    """Return the sinks as they are known for one call: a sink, and units that it has published lately."""
    sinks = Sinks(shared=True)
    sinks.by_name[sink.name] = sink
    sinks.remember(published)
    return sinks


def name_of(row: Any) -> UnitName:
    """The name of a unit's row."""
    return UnitName(row["sink"], row["batch"], row["partition"], row["attempt"])


async def units_of(member: GroupMember, rows: Sequence[Any], session: DatabaseSession | None) -> list[PreparedUnit]:
    """The units of these rows; each has its id for a number. With a session their messages are counted, by queue: a
    unit that does not have all of them can only be discarded.
    """
    units = {}
    for row in rows:
        name = name_of(row)
        unit, _ = PreparedUnit.from_row(ObjectRow(SPACE, name.text, row["id"].int, SPACE, row["attributes"]))
        unit.bytes = row["bytes"]
        units[row["id"]] = unit
    if session is not None and units:
        counted = await session.fetch(
            "SELECT unit, queue, count(*) AS messages FROM held "
            f"WHERE {OF_NO_MEMBER} AND unit = ANY ($1) GROUP BY unit, queue",
            list(units),
        )
        for found in counted:
            queue = member.shared(found["queue"])
            if queue is not None:
                units[found["unit"]].counts[queue] = found["messages"]
        for row in rows:
            units[row["id"]].lacks = units[row["id"]].messages != row["messages"]
    return list(units.values())


async def begin_unit(session: DatabaseSession, name: UnitName, query: str | None, now: float) -> UUID:
    """See to it that there is a row of this unit, and lock it. Its id."""
    new = PreparedUnit(name, 0, query, now)
    await session.execute(
        "INSERT INTO prepared_unit (id, sink, batch, partition, attempt, since, touched, attributes) "
        "VALUES ($1, $2, $3, $4, $5, $6, $6, $7) ON CONFLICT DO NOTHING",
        uuid4(), *name, now, new.row().attributes,
    )  # fmt: skip
    id: UUID = await session.fetchval(
        "SELECT id FROM prepared_unit WHERE sink = $1 AND batch = $2 AND partition = $3 AND attempt = $4 FOR UPDATE",
        *name,
    )
    return id


async def keep_piece(session: DatabaseSession, unit: PreparedUnit, entries: Sequence[Entry]) -> None:
    """A piece with these messages has joined the unit."""
    await session.execute(
        "UPDATE prepared_unit SET attributes = $2, touched = $3, messages = messages + $4, bytes = $5, "
        "confirmed = confirmed OR $6 WHERE id = $1",
        UUID(int=unit.number),
        unit.row().attributes,
        unit.touched,
        len(entries),
        unit.bytes,
        any(reports.asked(entry, reports.COA) for entry in entries),
    )
