"""Deliveries: messages with their trigger starts, taken as leases and settled one by one (`docs/rules/handlers.md`).

What is above it, `triggers.App` and the trigger monitor, calls handlers with them; a program may as well take and
settle deliveries itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from broker.interface.answers import Opened
from broker.interface.message import Message
from broker.interface.port import Call, answer
from broker.mqi.delivery_fields import FAILURES_MAX, NO_FAILURE, PREPARE_ENDS, SETTLE_MAX, check_feedback
from broker.mqi.errors import MQError
from broker.mqi.layouts.layouts import MQTMC2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from broker.interface.connection import Connection
    from broker.interface.handlers.delivery_answers import DeliveryAnswer
    from broker.interface.handlers.delivery_connection import DeliveryConnection
    from broker.interface.port import Port
    from broker.mqi.delivery_fields import ServiceOptions, Settled, Settlement
    from broker.mqi.external_units import PreparedDelivery


T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Delivered:
    """A delivery that was taken.

    `attempt` is the BackoutCount of its first message plus one, `limit` the number of the last attempt (0: there is
    none). `messages` has one message, but for batches and groups. `trigger` is the trigger message of its queue.
    `waited` are the seconds for which the first message could have been had.
    """

    id: int
    attempt: int
    limit: int
    waited: float
    messages: tuple[Message, ...]
    trigger: MQTMC2


class Deliveries:
    """`async with connection.deliveries("ORDERS") as deliveries:` takes messages together with the trigger starts that
    they count, in a unit of work each.

    The queue is a local one of trigger type EVERY that names a process and no initiation queue. What was taken and not
    settled when the connection ends comes again, as the rules of crashes have it.
    """

    def __init__(self, port: Port, q_name: str, options: ServiceOptions) -> None:
        self._port = port
        self._options = options
        self._service = 0
        self._opened = Opened(0, q_name, q_name, port.q_mgr_name, 0)
        self._trigger = MQTMC2(q_name=q_name)
        self._connections: dict[int, DeliveryConnection] = {}  # of deliveries that are not settled

    @property
    def q_name(self) -> str:
        """The name of the queue."""
        return self._opened.name

    async def __aenter__(self) -> Self:
        """Raises what `Port.serve` does, among others UNKNOWN_OBJECT_NAME (2085), OPTION_NOT_VALID_FOR_TYPE (2045)."""
        self._service = (await answer(self._port.serve(self.q_name, self._options))).service
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._port.broken:
            return
        try:
            await answer(self._port.stop_serving(self._service))
        except MQError:
            if kind is None and not self._port.broken:
                raise

    async def take(self, count: int = 1) -> list[Delivered]:
        """Up to `count` deliveries, as soon as there is one; those who wait are served in the order in which they wait.
        Cancelled, it takes none. Raises Q_DELETED (2052), Q_MGR_QUIESCING (2161).
        """
        received = await answer(self._port.take_deliveries(self._service, count))
        if received.trigger:
            self._trigger = MQTMC2.from_bytes(received.trigger)
        return [self._delivered(each) for each in received.deliveries]

    async def wait(self) -> None:
        """Return when a start of the queue is pending, at once if one is. That another may take first, and an order, a
        total or a rate may hold it back: `take` waits by itself, and needs no `wait` before it. Of a shared queue only
        starts count that are pending at this queue manager, while `take` is given messages wherever they were put.
        """
        while True:
            now = await answer(self._port.trigger_pending())
            if any(each.q_name == self.q_name for each in now.queues):
                return
            await answer(self._port.trigger_wait(now.posts))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End deliveries, each in a unit of work of its own, with all that was put and got through its own connection
        before. Return an answer for each, in their order. The texts of failures are cut to what is kept of them.
        Cancelled, it settles all the same. Raises OPTIONS_ERROR (2046) for a feedback out of its range, and settles
        none.
        """
        for each in settlements:
            if each.feedback:
                check_feedback(each.feedback)
        for each in settlements if self._connections else ():
            connection = self._connections.pop(each.id, None)
            if connection is not None:
                connection.delivery_ends()
        return await answers_of(deque([self._port.settle_deliveries(part) for part in settlement_parts(settlements)]))

    async def prepare(self, database: bytes, prepared: Sequence[PreparedDelivery], name: str = "") -> list[int]:
        """Prepare deliveries that end DONE, each with all that was put and got through its own connection before: they
        are durable then, and have no effect before the database has decided (`Connection.decide`). Return for each 0 or
        a reason. HOBJ_ERROR (2019): it is not in this connection's hands. BACKED_OUT (2003): it has ended otherwise,
        as a settlement would have. With any other it is to be settled still, as for `Connection.prepare`.
        """
        for each in prepared if self._connections else ():
            connection = self._connections.get(each.settlement.id)
            if connection is not None:
                connection.delivery_ends()
        rest, calls = iter(prepared), deque[Call[list[int]]]()
        for part in settlement_parts([each.settlement for each in prepared]):
            sent = [next(rest)._replace(settlement=each) for each in part]
            calls.append(self._port.prepare_deliveries(database, name, sent))
        answers = await answers_of(calls)
        for each, reason in zip(prepared, answers, strict=True):
            if reason in PREPARE_ENDS:
                self._connections.pop(each.settlement.id, None)
        return answers

    async def connect(self, delivery: Delivered, appl_name: str = "") -> Connection:
        """The connection whose unit of work is that of the delivery, made when it is first asked for and ended with the
        delivery: a `DeliveryConnection`. Raises HOBJ_ERROR (2019) for one that is settled.
        """
        from broker.interface.handlers.delivery_connection import (
            DeliveryConnection,  # a Connection, and these make Deliveries
        )

        connection = self._connections.get(delivery.id)
        if connection is None:
            port = await answer(self._port.delivery_connection(delivery.id, appl_name))
            connection = DeliveryConnection(port)
            if not port.broken:
                self._connections[delivery.id] = connection
        return connection

    def _delivered(self, received: DeliveryAnswer) -> Delivered:
        messages = tuple([Message(each, self._opened) for each in received.messages])
        return Delivered(received.id, received.attempt, received.limit, received.waited, messages, self._trigger)


async def answers_of(calls: deque[Call[list[T]]]) -> list[T]:
    """Return the answers of calls about the parts of a list."""
    found: list[T] = []
    try:
        while calls:
            answered: list[T] = await answer(calls.popleft())
            found += answered
    finally:
        for call in calls:
            call.withdraw()
    return found


def settlement_parts(settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Settlements in parts that make one call each, with what is kept of their failures."""
    part: list[Settlement] = []
    failures = 0
    for each in settlements:
        count = (each.failure is not NO_FAILURE) + len(each.failed)
        if part and (len(part) == SETTLE_MAX or failures + count > FAILURES_MAX):
            yield part
            part, failures = [], 0
        part.append(_kept(each) if count else each)
        failures += count
    if part:
        yield part


def _kept(settlement: Settlement) -> Settlement:
    failed = tuple([(place, failure.kept) for place, failure in settlement.failed])
    return settlement._replace(failure=settlement.failure.kept, failed=failed)
