"""Deliveries and those who take them (handlers, the words at the head)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.deliveries.service import Service
    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Hconn
    from broker.core.queues.unit import Unit


class DeliveryWorker:
    """A connection that takes deliveries. `exclusive` is the delivery beside which it is given nothing else;
    `draining_for` the service that waits for it to run empty (handlers rule 1.4).
    """

    __slots__ = ("deliveries", "draining_for", "exclusive", "hconn", "name", "quarantined", "services")

    def __init__(self, hconn: Hconn) -> None:
        self.hconn = hconn
        self.name = f"{hconn.appl_name} {hconn.channel}".strip()
        """The name of the worker, for people."""
        self.deliveries: dict[int, Delivery] = {}
        self.services: dict[int, Service] = {}
        self.quarantined = 0  # deliveries of quarantined messages
        self.exclusive: Delivery | None = None
        self.draining_for: Service | None = None


class Delivery:
    """Messages under a handler, in a unit of work of their own. `entries` are in delivery order.

    `parts` is how many of the messages each piece of them has that the handler sees as one: None where that is one
    each; a logical message in segments is one piece.
    """

    __slots__ = (
        "entries",
        "id",
        "order_value",
        "parts",
        "pending",
        "quarantined",
        "service",
        "since",
        "unit",
        "worker",
    )

    def __init__(
        self, id: int, service: Service, worker: DeliveryWorker, pieces: list[list[Entry]], unit: Unit
    ) -> None:
        self.id = id
        self.service = service
        self.worker = worker
        self.entries = [entry for piece in pieces for entry in piece]
        self.parts = None if len(self.entries) == len(pieces) else [len(piece) for piece in pieces]
        self.unit = unit
        self.since = 0.0  # taken, monotonic seconds
        self.quarantined = False
        self.order_value: object = None
        self.pending = 0  # units that are to settle before it is over; 0 while its handler runs

    @property
    def in_flight(self) -> bool:
        """True if it has not ended."""
        return self.service.in_flight.get(self.id) is self

    def leads(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return those of these messages of it by whose MsgIds they are known: the first of a group, and of a logical
        message its first segment.
        """
        if self.service.options.groups:
            first = self.entries[0]
            return [first] if first in entries else []
        if self.parts is None:
            return entries
        heads = {id(piece[0]) for piece in self.pieces()}
        return [entry for entry in entries if id(entry) in heads]

    def leave_worker(self) -> None:
        """Its worker has it no more: what may not be given to that beside it may be."""
        self.worker.quarantined -= self.quarantined
        if self.service.exclusive is self:
            self.service.exclusive = None
        if self.worker.exclusive is self:
            self.worker.exclusive = None

    def pieces(self) -> list[list[Entry]]:
        """The messages as the handler sees them, each with its segments."""
        if self.parts is None:
            return [[entry] for entry in self.entries]
        pieces, start = [], 0
        for length in self.parts:
            pieces.append(self.entries[start : start + length])
            start += length
        return pieces
