"""A writer to a sink, in the hand of a test: frames of columns made of plain values, and the calls of a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.interface.batches.columns import NO_MESSAGES, identifiers, offsets_of, pack, packed, unless_default
from broker.interface.claims.claims import UnitName, Winner
from broker.interface.port import answer
from broker.mqi import MessageDescriptor
from broker.mqi.layouts.packing import pack_md

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.interface.claims.claims import Publication
    from broker.interface.port import Port


@dataclass(frozen=True, slots=True)
class Row:
    """A message to stage."""

    data: bytes = b""
    q_name: str = "Q"
    md: MessageDescriptor | None = None
    properties: bytes = b""


def frame(rows: Sequence[Row]) -> bytes:
    """The frame of columns of these messages."""
    mds = [row.md or MessageDescriptor() for row in rows]
    q_names = sorted({row.q_name for row in rows})
    kept = [pack_md(md) for md in mds]
    descriptors = sorted(set(kept))
    columns = NO_MESSAGES._replace(
        messages=len(rows),
        msg_ids=identifiers([md.msg_id for md in mds]),
        correl_ids=identifiers([md.correl_id for md in mds]),
        group_ids=identifiers([md.group_id for md in mds]),
        msg_seq_numbers=unless_default([md.msg_seq_number for md in mds], 1),
        offsets=unless_default([md.offset for md in mds], 0),
        msg_flags=unless_default([md.msg_flags for md in mds], 0),
        original_lengths=unless_default([md.original_length for md in mds], -1),
        expiries=unless_default([md.expiry for md in mds], -1),
        priorities=packed([md.priority for md in mds]),
        persistences=packed([md.persistence for md in mds], "b"),
        q_names=q_names,
        queues=packed([q_names.index(row.q_name) for row in rows], "h"),
        descriptors=descriptors,
        descriptor_of=packed([descriptors.index(each) for each in kept]),
        property_offsets=offsets_of([row.properties for row in rows]) if any(row.properties for row in rows) else None,
        properties=b"".join(row.properties for row in rows),
        body_offsets=offsets_of([row.data for row in rows]),
        bodies=b"".join(row.data for row in rows),
    )
    return pack(columns)


def rows_of(bodies: Iterable[bytes | str], **fields: Any) -> list[Row]:
    """Messages with these bodies and one descriptor."""
    md = MessageDescriptor(**fields)
    return [Row(body if isinstance(body, bytes) else body.encode(), md=md) for body in bodies]


class Writer:
    """One driver or task, on a connection of its own."""

    def __init__(self, port: Port, sink: str = "S", query: str | None = "query") -> None:
        self.port = port
        self.sink = sink
        self.query = query

    def unit(self, batch: int, partition: int = 0, attempt: int = 0) -> UnitName:
        """The name of a unit; numbers stand for the random bytes of attempts."""
        return UnitName(self.sink, batch, partition, attempt.to_bytes(16, "big"))

    async def piece(
        self, unit: UnitName, rows: Sequence[Row], first: int = 0, *, last: bool = False, options: int = 0
    ) -> bool:
        """STAGE of one piece; whether the batch was published before."""
        call = self.port.stage(unit, self.query, first, frame(rows), options=int(options), last=last)
        return (await answer(call)).published

    async def stage(
        self,
        batch: int,
        rows: Iterable[bytes | str] | Sequence[Row],
        partition: int = 0,
        attempt: int = 0,
        *,
        options: int = 0,
    ) -> Winner:
        """STAGE of a whole unit in one piece: how it is to be published."""
        given = [row if isinstance(row, Row) else rows_of([row])[0] for row in rows]
        unit = self.unit(batch, partition, attempt)
        published = await self.piece(unit, given, last=True, options=options)
        return Winner(unit, 0 if published else len(given))

    async def publish(self, batch: int, *winners: Winner) -> Publication:
        """PUBLISH."""
        return await answer(self.port.publish(self.sink, batch, self.query, winners))

    async def write(self, batch: int, *bodies: bytes | str) -> Publication:
        """STAGE and PUBLISH a batch of one unit."""
        return await self.publish(batch, await self.stage(batch, bodies))

    async def discard(self, *units: UnitName) -> int:
        """DISCARD."""
        return await answer(self.port.discard(units))

    async def ledger(self) -> tuple[str, int] | None:
        """SINK."""
        return await answer(self.port.sink(self.sink))
