"""A put on its way: the call as it was made, and what it is when it has passed its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.mqi.delivery_fields import NO_EXTRAS, PutExtras

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.message.logical_order import Position
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Handle, Hconn, LastCalls
    from broker.mqi.structures import MessageDescriptor, PutMessageOptions


@dataclass(slots=True, eq=False)
class Put:
    """A call of MQPUT, or of MQPUT1 where `handle` is None: who makes it, where the message goes, and the arguments as
    the program gave them. Nothing of it is changed.
    """

    hconn: Hconn
    handle: Handle | None
    route: Route
    md: MessageDescriptor | None
    pmo: PutMessageOptions
    data: bytes
    properties: bytes = b""
    """Properties that are given packed (`broker.mqi.layouts.rfh2`), beside those that stand before the data."""
    extras: PutExtras = NO_EXTRAS
    """The options of the put beyond those of the MQI."""
    last_calls: LastCalls | None = None
    """Of MQPUT1: what the last ones by the same name have left. MQPUT has it in its handle."""


@dataclass(slots=True, eq=False)
class PreparedPut:
    """A put that has passed all checks of its own: the entries to place, a warning, where it leaves the handle, and the
    descriptor that counts: the caller's without padding, its reply-to queue resolved.
    """

    entries: list[Entry]
    reason: int
    position: Position | None
    """None for MQPUT1, which no handle remembers."""
    shown: Entry
    """The entry that completes the caller's descriptor: the first one, as it will be at its destination."""
    md: MessageDescriptor
