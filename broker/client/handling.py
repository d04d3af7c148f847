"""The calls of a remote port about deliveries, and about messages that wait for an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client.calls import RemoteCall, RemoteServe, RemoteSettle, RemoteTakeDeliveries
from broker.mqi.handling import NO_TERMS
from broker.wire.frames import Verb
from broker.wire.handling import packed_settlements
from broker.wire.structures import sendable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.client.calls import RemoteDeliveryConnect
    from broker.client.claims import C
    from broker.client.line import Line
    from broker.client.port import RemotePort
    from broker.mqi.handling import HandlingTerms, PutTerms, Settlement


def put_fields(terms: PutTerms) -> list[object]:
    """The terms of a put as an item of its frame, or none where it has none."""
    return [] if terms == NO_TERMS else [list(map(sendable, terms))]


class HandlingCalls:
    """A part of `RemotePort`. A take that is given up takes nothing; what has been taken is settled by its number."""

    line: Line
    appl_name: str
    of_deliveries: dict[int, RemotePort]
    base: int

    def _request(self, kind: type[C], verb: int, *fields: object) -> C:
        """Make a call of this kind."""
        raise NotImplementedError

    def own(self, number: int) -> int:
        """A number as the queue manager knows it; 0, which is none, for one of a former line."""
        return number - self.base if number >= self.base else 0

    def serve(self, q_name: str, terms: HandlingTerms) -> RemoteServe:
        return self._request(RemoteServe, Verb.SERVE, sendable(q_name), list(map(sendable, terms)))

    def stop_serving(self, service: int) -> RemoteCall[int]:
        return self._request(RemoteCall, Verb.STOP_SERVING, sendable(service))

    def take_deliveries(self, service: int, count: int) -> RemoteTakeDeliveries:
        return self._request(RemoteTakeDeliveries, Verb.TAKE, sendable(service), sendable(count))

    def settle_deliveries(self, settlements: Sequence[Settlement]) -> RemoteSettle:
        sent = [each._replace(id=self.own(each.id)) for each in settlements] if self.base else settlements
        call = self._request(RemoteSettle, Verb.SETTLE, *packed_settlements(sent))
        call.ids = [each.id for each in settlements]
        if self.of_deliveries:
            for each in settlements:
                port = self.of_deliveries.pop(each.id, None)
                if port is not None:
                    port.end()
        return call

    def delivery_connection(self, delivery: int, appl_name: str) -> RemoteDeliveryConnect:
        call = self.line.converse_for(self, self.own(delivery), appl_name or self.appl_name)  # type: ignore[arg-type]  # one whole
        if not call.port.ended:
            self.of_deliveries[delivery] = call.port
        return call

    def release_waiting(self, q_name: str, msg_id: bytes | None) -> RemoteCall[int]:
        return self._request(RemoteCall, Verb.RELEASE_WAITING, sendable(q_name), sendable(msg_id))
