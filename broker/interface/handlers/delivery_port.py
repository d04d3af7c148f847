"""The calls of a port about deliveries and about delayed messages (`docs/rules/handlers.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.interface.forwarding import Forwarding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.handlers.delivery_answers import ServeAnswer, TakeAnswer
    from broker.interface.port import Call, Port
    from broker.mqi.delivery_fields import ServiceOptions, Settled, Settlement


class DeliveryPort(Forwarding):
    """A part of `Port`."""

    def serve(self, q_name: str, options: ServiceOptions) -> Call[ServeAnswer]:
        """Be one of those who take deliveries of a queue, until the connection ends or `stop_serving`. The `order_by`
        of all of them is the same; of `total`, `rate` and what else they want, the latest holds.

        UNKNOWN_OBJECT_NAME (2085); OPTION_NOT_VALID_FOR_TYPE (2045) for a queue that is not a local one with TRIGTYPE
        EVERY, a process that exists and no initiation queue; OBJECT_IN_USE (2042) for another `order_by`; Q_DELETED.
        """
        return self.forward("serve", q_name, options)

    def stop_serving(self, service: int) -> Call[int]:
        """Take no more. What was taken is settled as ever."""
        return self.forward("stop_serving", service)

    def take_deliveries(self, service: int, count: int) -> Call[TakeAnswer]:
        """Up to `count` deliveries, as soon as there is one: those who wait are served in the order in which they wait.
        `abandon` returns them. Q_DELETED (2052), Q_MGR_QUIESCING (2161).
        """
        return self.forward("take_deliveries", service, count)

    def settle_deliveries(self, settlements: Sequence[Settlement]) -> Call[list[Settled]]:
        """End these deliveries of this connection, each in a unit of work of its own, committed with all that was put
        and got through its own connection before this call.
        """
        return self.forward("settle_deliveries", settlements)

    def step(self, delivery: int, name: str, value: bytes) -> Call[int]:
        """Keep a step that a handler has finished with the message of this delivery: answered when that is durable.

        HCONN_ERROR (2018) for a delivery that has ended; OPTION_NOT_VALID_FOR_TYPE (2045) for one of a batch, a group
        or a shared queue; OBJECT_ALREADY_EXISTS (2100) for a step that is kept; DATA_LENGTH_ERROR (2010) beyond what
        one message may have, RESOURCE_PROBLEM (2102) beyond what all may; STORAGE_MEDIUM_FULL (2192).
        """
        return self.forward("step", delivery, name, value)

    def delivery_connection(self, delivery: int, appl_name: str) -> Call[Port]:
        """The connection of a delivery, whose unit of work is that of the delivery: MQBEGIN, MQCMIT and MQBACK are
        ENVIRONMENT_ERROR (2012). It ends with the delivery: HCONN_ERROR (2018) from then on.
        """
        return self.forward("delivery_connection", delivery, appl_name)

    def release_delayed(self, q_name: str, msg_id: bytes | None) -> Call[int]:
        """Let delayed messages of a queue be available now: the one with this MsgId, or all. How many
        there were.
        """
        return self.forward("release_delayed", q_name, msg_id)
