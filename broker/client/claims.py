"""The calls of a remote port about claims and prepared units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from broker.client.calls import RemoteCall, RemoteRead
from broker.wire.claims import packed_units, packed_winners
from broker.wire.frames import Verb
from broker.wire.structures import sendable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.claims import (
        ConsumerState,
        Cut,
        Publication,
        QueueRange,
        Registration,
        Staged,
        UnitName,
        Wanted,
        Winner,
    )


C = TypeVar("C", bound=RemoteCall[Any])


class ClaimCalls:
    """A part of `RemotePort`. What only reads may be left at any time; the others go on without who made them."""

    def _request(self, kind: type[C], verb: int, *fields: object) -> C:
        """Make a call of this kind."""
        raise NotImplementedError

    def consumer(self, name: str, q_names: Sequence[str]) -> RemoteCall[ConsumerState]:
        return self._request(RemoteCall, Verb.CONSUMER, sendable(name), sendable(list(q_names)))

    def register(
        self, uuid: str, lineage: str | None, start: int | None, end: int | None, *, resume: bool = False
    ) -> RemoteCall[Registration]:
        return self._request(RemoteCall, Verb.REGISTER, *map(sendable, (uuid, lineage, start, end)), resume)

    def claim(
        self, uuid: str, generation: int, start: int, messages: int, size: int, *, before: int | None, whole: bool
    ) -> RemoteCall[int]:
        fields = uuid, generation, start, messages, size, before
        return self._request(RemoteCall, Verb.CLAIM, *map(sendable, fields), whole)

    def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> RemoteCall[list[Cut]]:
        fields = uuid, generation, lineage, start, end
        return self._request(RemoteCall, Verb.PIN, *map(sendable, fields))

    def read_claimed(self, uuid: str, generation: int, after: int, last: int) -> RemoteRead[bytes]:
        fields = uuid, generation, after, last
        return self._request(RemoteRead, Verb.READ_CLAIMED, *map(sendable, fields))

    def acknowledge(self, uuid: str, generation: int, to: int) -> RemoteCall[int]:
        return self._request(RemoteCall, Verb.ACKNOWLEDGE, *map(sendable, (uuid, generation, to)))

    def release(self, uuid: str, generation: int) -> RemoteCall[int]:
        return self._request(RemoteCall, Verb.RELEASE, *map(sendable, (uuid, generation)))

    def queue_ranges(self, q_names: Sequence[str]) -> RemoteRead[list[QueueRange]]:
        return self._request(RemoteRead, Verb.QUEUE_RANGES, sendable(list(q_names)))

    def browse_range(self, q_name: str, after: int, last: int, wanted: Wanted) -> RemoteRead[bytes]:
        fields = q_name, after, last, *wanted
        return self._request(RemoteRead, Verb.BROWSE_RANGE, *map(sendable, fields))

    def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> RemoteRead[list[Cut]]:
        fields = q_name, after, last, messages, size
        return self._request(RemoteRead, Verb.BROWSE_CUTS, *map(sendable, fields))

    def sink(self, name: str) -> RemoteCall[tuple[str, int] | None]:
        return self._request(RemoteCall, Verb.SINK, sendable(name))

    def stage(
        self, unit: UnitName, query: str | None, first: int, rows: bytes, *, options: int, last: bool
    ) -> RemoteCall[Staged]:
        fields = *unit, query, first, options, last
        return self._request(RemoteCall, Verb.STAGE, *map(sendable, fields), rows)

    def publish(self, sink: str, batch: int, query: str | None, winners: Sequence[Winner]) -> RemoteCall[Publication]:
        fields = sink, batch, query
        return self._request(RemoteCall, Verb.PUBLISH, *map(sendable, fields), packed_winners(winners))

    def discard(self, units: Sequence[UnitName]) -> RemoteCall[int]:
        return self._request(RemoteCall, Verb.DISCARD, *packed_units(units))
