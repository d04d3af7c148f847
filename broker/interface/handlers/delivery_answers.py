"""The answers of the calls about deliveries (`docs/rules/handlers.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.interface.answers import GetAnswer


class ServeAnswer(NamedTuple):
    """The answer to `serve`: the number of the service on this connection."""

    service: int


class DeliveryAnswer(NamedTuple):
    """A delivery that has been taken. `attempt` is the BackoutCount of its first message plus one, `limit` the attempt
    that is the last one (0: there is none), `waited` for how many seconds its first message could have been had.
    `steps` are those that were finished for it before, by name, in their order; None: there are none.
    """

    id: int
    attempt: int
    limit: int
    waited: float
    messages: list[GetAnswer]
    steps: dict[str, bytes] | None = None


class TakeAnswer(NamedTuple):
    """The answer to `take_deliveries`: `trigger` is the MQTMC2 of the queue, where it is another than at the last time;
    else empty.
    """

    trigger: bytes
    deliveries: list[DeliveryAnswer]
