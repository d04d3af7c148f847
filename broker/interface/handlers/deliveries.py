"""Deliveries: messages with their trigger starts, taken as leases and settled one by one (`docs/rules/handlers.md`).

What is above it, `triggers.App` and the trigger monitor, calls handlers with them; a program may as well take and
settle deliveries itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self, TypeVar

from broker.interface.answers import Opened
from broker.interface.message import Message
from broker.interface.port import Call, answer
from broker.mqi.delivery_fields import (
    FAILURES_MAX,
    HISTORY_VALUE_MAX,
    NO_FAILURE,
    NOT_RETURNED,
    PREPARE_ENDS,
    SETTLE_MAX,
    TYPE_BYTES,
    Returned,
    check_feedback,
)
from broker.mqi.errors import MQError
from broker.mqi.exception_text import head
from broker.mqi.layouts.layouts import MQTMC2
from broker.mqi.step_fields import check_step_name, check_step_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from broker.interface.connection import Connection
    from broker.interface.handlers.delivery_answers import DeliveryAnswer
    from broker.interface.handlers.delivery_connection import DeliveryConnection
    from broker.interface.port import Port
    from broker.mqi.delivery_fields import ServiceOptions, Settled, Settlement
    from broker.mqi.external_units import PreparedDelivery


T = TypeVar("T")

VALUES_BYTES: Final = 1024 * 1024
"""So many bytes of what handlers have returned are settled in one call, or one value alone."""


@dataclass(slots=True, frozen=True)
class Delivered:
    """A delivery that was taken.

    `attempt` is the BackoutCount of its first message plus one, `limit` the number of the last attempt (0: there is
    none). `messages` has one message, but for batches and groups. `trigger` is the trigger message of its queue.
    `waited` are the seconds for which the first message could have been had. `steps` are those that were finished for
    its message before, by name, in their order; None: there are none.
    """

    id: int
    attempt: int
    limit: int
    waited: float
    messages: tuple[Message, ...]
    trigger: MQTMC2
    steps: Mapping[str, bytes] | None = None


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
        self._ahead: dict[int, Call[Port]] = {}  # connections of deliveries for a `connect` to come

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
        calls = deque([self._port.settle_deliveries(part) for part in settlement_parts(settlements)])
        return await (answer(calls[0]) if len(calls) == 1 else answers_of(calls))

    async def step(self, delivery: Delivered, name: str, value: bytes) -> None:
        """Keep a step that was finished for the message of a delivery; return when it is durable. The next delivery of
        the message, to whoever it is, brings it in `Delivered.steps`.

        Raises ValueError for a name or a value that cannot be kept; HCONN_ERROR (2018) for a delivery that has ended,
        OPTION_NOT_VALID_FOR_TYPE (2045) for one of a batch, a group or a shared queue, OBJECT_ALREADY_EXISTS (2100) for
        a step that is kept, DATA_LENGTH_ERROR (2010) and RESOURCE_PROBLEM (2102) where there is no more room for them
        with the message, and with all, STORAGE_MEDIUM_FULL (2192).
        """
        check_step_name(name)
        check_step_value(name, value)
        await answer(self._port.step(delivery.id, name, value))

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
            pairs = zip(part, rest, strict=False)  # in this order: where the part ends, nothing of the rest is taken
            sent = [each if each.settlement is kept else each._replace(settlement=kept) for kept, each in pairs]
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
            ahead = self._ahead.pop(delivery.id, None)
            port = await answer(ahead or self._port.delivery_connection(delivery.id, appl_name))
            connection = DeliveryConnection(port)
            if not port.broken:
                self._connections[delivery.id] = connection
        return connection

    def connect_ahead(self, delivery: Delivered, appl_name: str = "") -> None:
        """Begin to make the connection of a delivery, for a `connect` to come; `forget_ahead` where none comes."""
        self._ahead[delivery.id] = self._port.delivery_connection(delivery.id, appl_name)

    def forget_ahead(self, delivery: Delivered) -> None:
        """Nobody will ask for the connection of a delivery."""
        if (ahead := self._ahead.pop(delivery.id, None)) is not None:
            ahead.withdraw()

    def _delivered(self, received: DeliveryAnswer) -> Delivered:
        messages = tuple([Message(each, self._opened) for each in received.messages])
        return Delivered(
            received.id, received.attempt, received.limit, received.waited, messages, self._trigger, received.steps
        )


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
    """Settlements in parts that make one call each, with what is kept of their failures and values."""
    part: list[Settlement] = []
    failures = values = 0
    for each in settlements:
        count = (each.failure is not NO_FAILURE) + len(each.failed)
        size = 0
        if each.value is not NOT_RETURNED:
            count, size = count + 1, len(each.value.json)
        if part and (len(part) == SETTLE_MAX or failures + count > FAILURES_MAX or values + size > VALUES_BYTES):
            yield part
            part, failures, values = [], 0, 0
        long = size > HISTORY_VALUE_MAX or len(each.value.type) > TYPE_BYTES // 4
        part.append(_kept(each) if long or count > (each.value is not NOT_RETURNED) else each)
        failures += count
        values += size
    if part:
        yield part


def _kept(settlement: Settlement) -> Settlement:
    failed = tuple([(place, failure.kept) for place, failure in settlement.failed])
    value = settlement.value
    if len(value.json) > HISTORY_VALUE_MAX:
        value = Returned(b"", value.type, len(value.json))
    if len(value.type) > TYPE_BYTES // 4:
        value = value._replace(type=head(value.type, TYPE_BYTES))
    return settlement._replace(failure=settlement.failure.kept, failed=failed, value=value)
