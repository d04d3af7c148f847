"""The calls of a remote port: what becomes of an answer, and of one that nobody waits for any more.

A call that is given up while it waits stays known to its line until its final frame has come. What that frame brings is
then undone: a handle is closed, a conversation ended, leases are returned. A message is not the client's before TAKEN,
so there CANCEL is all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.interface.answers import Opened, PlacedMany, StartLease
from broker.interface.handlers.delivery_answers import ServeAnswer, TakeAnswer
from broker.interface.port import Call, Port, T, drop
from broker.mqi.delivery_fields import PREPARE_ENDS, Settled
from broker.mqi.reasons import MQRC
from broker.mqi.replies import CommandReply, ReplyPart, replies_of
from broker.wire import answers, verbs
from broker.wire.frames import Verb
from broker.wire.verbs import VerbKind

if TYPE_CHECKING:
    from broker.client.line import Line
    from broker.client.port import RemotePort
    from broker.mqi.errors import MQError
    from broker.wire.frames import Frame


LINE: Final = 1 << 40
"""Numbers of the queue manager are below it. What is above it in one that a program has is that of the line which it is
of, where its connection has had others (`broker.client.reconnecting`).
"""


class RemoteCall(Call[T]):
    """A call that a frame has asked for."""

    __slots__ = ("line", "number", "port", "verb")

    of_unit = False
    """True if it joins the unit of work, where somebody has to know."""

    def __init__(self, line: Line, verb: int, number: int, port: RemotePort) -> None:
        Call.__init__(self, loop=line.loop)  # super() would cost as much as all of the rest
        self.line = line
        self.verb = verb
        self.number = number
        self.port = port

    def result_of(self, frame: Frame) -> Any:
        """Return the result of the call, from its ANSWER. Raises WireError."""
        return verbs.result(self.verb, frame)

    def answered(self, result: T) -> None:
        """ANSWER has come."""
        if self.of_unit:
            self.port.works = True
        if self.done():
            self.unclaimed(result)
        else:
            self.set_result(result)

    def failed(self, error: MQError) -> None:
        """FAILED has come, or the line is broken."""
        if not self.done():
            self.set_exception(error)

    def abandon(self) -> None:
        self.cancel()
        super().abandon()


class RemoteRead(RemoteCall[T]):
    """A call that ends when nobody waits for it."""

    __slots__ = ()

    def abandon(self) -> None:
        if not self.done() or self.cancelled():
            self.line.cancel(self)
        super().abandon()


class RemoteGet(RemoteCall[T]):
    """GET, GET_MANY and TAKE. The messages are the queue manager's until TAKEN has told it otherwise."""

    __slots__ = ()
    receives = True

    def take(self) -> None:
        self.line.taken(self.number)

    def abandon(self) -> None:
        if not self.done() or self.cancelled() or self.exception() is None:
            self.line.cancel(self)
        super().abandon()


class RemotePutMany(RemoteCall[PlacedMany]):
    """PUT_MANY. Of one that failed the queue manager remembers that it puts nothing after it, until CANCEL."""

    __slots__ = ()

    def answered(self, result: PlacedMany) -> None:
        if result.error is not None:
            self.line.cancel(self)
        super().answered(result)

    def failed(self, error: MQError) -> None:
        self.line.cancel(self)
        super().failed(error)


class RemoteOpen(RemoteCall[Opened]):
    """OPEN, which leaves a handle."""

    __slots__ = ()

    def result_of(self, frame: Frame) -> Opened:
        opened: Opened = verbs.result(self.verb, frame)
        return opened._replace(hobj=opened.hobj + self.port.base) if self.port.base else opened

    def unclaimed(self, result: Opened) -> None:
        if not self.port.broken:
            self.port.close(result.hobj - self.port.base, 0).withdraw()


class RemoteTake(RemoteCall[list[StartLease]]):
    """TRIGGER_TAKE, which leaves leases."""

    __slots__ = ()

    def result_of(self, frame: Frame) -> list[StartLease]:
        base = self.port.base
        return [StartLease(lease.id + base, lease.trigger) for lease in verbs.result(self.verb, frame)]

    def unclaimed(self, result: list[StartLease]) -> None:
        self.port.trigger_return([lease.id for lease in result])


class RemoteServe(RemoteCall[ServeAnswer]):
    """SERVE, which leaves a service."""

    __slots__ = ()

    def result_of(self, frame: Frame) -> ServeAnswer:
        serving: ServeAnswer = verbs.result(self.verb, frame)
        return ServeAnswer(serving.service + self.port.base)

    def unclaimed(self, result: ServeAnswer) -> None:
        if not self.port.broken:
            self.port.stop_serving(result.service - self.port.base).withdraw()


class RemoteTakeDeliveries(RemoteGet[TakeAnswer]):
    """TAKE, whose deliveries bear the number of their line."""

    __slots__ = ()

    def result_of(self, frame: Frame) -> TakeAnswer:
        taken: TakeAnswer = verbs.result(self.verb, frame)
        base = self.port.base
        if not base:
            return taken
        return TakeAnswer(taken.trigger, [each._replace(id=each.id + base) for each in taken.deliveries])


class RemoteSettle(RemoteCall[list[Settled]]):
    """SETTLE: `ids` are the deliveries as the program has them."""

    __slots__ = ("ids",)

    ids: list[int]

    def result_of(self, frame: Frame) -> list[Settled]:
        settled: list[Settled] = verbs.result(self.verb, frame)
        if not self.port.base:
            return settled
        return [each._replace(id=id) for id, each in zip(self.ids, settled, strict=True)]


class RemotePrepareDeliveries(RemoteCall[list[int]]):
    """PREPARE_DELIVERIES: `ids` are the deliveries as the program has them."""

    __slots__ = ("ids",)

    ids: list[int]

    def answered(self, result: list[int]) -> None:
        of_deliveries = self.port.of_deliveries
        if of_deliveries:
            for id, reason in zip(self.ids, result, strict=True):
                if reason in PREPARE_ENDS and id in of_deliveries:
                    of_deliveries.pop(id).end()
        super().answered(result)


class RemoteScript(RemoteCall[list[CommandReply]]):
    """MQSC, whose replies come in `parts`, the last of them with the answer."""

    __slots__ = ("parts",)

    def __init__(self, line: Line, verb: int, number: int, port: RemotePort) -> None:
        super().__init__(line, verb, number, port)
        self.parts: list[ReplyPart] = []

    def result_of(self, frame: Frame) -> list[CommandReply]:
        return replies_of(self.parts + answers.replies(frame))


class RemoteConnect(RemoteCall[Port]):
    """CONNECT and DELIVERY_CONNECT, which leave a conversation: `port` is the one that they open."""

    __slots__ = ()

    def result_of(self, frame: Frame) -> RemotePort:
        self.port.q_mgr_name, seconds_left, self.port.q_mgr_instance = verbs.result(self.verb, frame)
        self.line.expires(seconds_left)
        return self.port

    def failed(self, error: MQError) -> None:
        self.port.end()
        super().failed(error)

    def unclaimed(self, result: Port) -> None:
        drop(result)


class RemoteFurtherConnect(RemoteConnect):
    """CONNECT on a line that has conversations. Where it takes no more of them (2025), another line may."""

    __slots__ = ()

    def failed(self, error: MQError) -> None:
        full = error.reason == MQRC.MAX_CONNS_LIMIT_REACHED and self.line.dial_another is not None
        if not full or self.done():
            super().failed(error)
            return
        self.port.end()
        self.line.make_elsewhere(self)


class RemoteDeliveryConnect(RemoteConnect):
    """DELIVERY_CONNECT. Its conversation ends with its delivery, and not before."""

    __slots__ = ()

    def result_of(self, frame: Frame) -> RemotePort:
        self.port.q_mgr_name = verbs.result(self.verb, frame)
        return self.port

    def unclaimed(self, result: Port) -> None:
        """It stays, for who asks for it again."""


class RemoteDisconnect(RemoteCall[int]):
    """DISCONNECT. Its conversation is over with the final frame, whatever that says."""

    __slots__ = ()

    def answered(self, result: int) -> None:
        self.port.end()
        super().answered(result)

    def failed(self, error: MQError) -> None:
        self.port.end()
        super().failed(error)

    def abandon(self) -> None:
        super().abandon()
        self.line.leave(self.port)


_OF_KIND: Final[dict[VerbKind, type[RemoteCall[Any]]]] = {
    VerbKind.CALL: RemoteCall,
    VerbKind.READ: RemoteRead,
    VerbKind.WAIT: RemoteRead,
    VerbKind.RECEIVE: RemoteGet,
}
_OF_VERB: Final[dict[int, type[RemoteCall[Any]]]] = {
    Verb.OPEN: RemoteOpen,
    Verb.TRIGGER_TAKE: RemoteTake,
    Verb.SERVE: RemoteServe,
    Verb.TAKE: RemoteTakeDeliveries,
    Verb.MQSC: RemoteScript,
    Verb.DISCONNECT: RemoteDisconnect,
}
KINDS: Final = {row.name: _OF_VERB.get(row.verb, _OF_KIND[row.kind]) for row in verbs.ROWS}
"""The calls that the methods of a port make, by name."""
