"""The remote port: the calls of one conversation, as frames on a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.client.calls import (
    KINDS,
    RemoteCall,
    RemoteConnect,
    RemoteGet,
    RemotePrepareDeliveries,
    RemotePutMany,
    RemoteSettle,
)
from broker.interface.port import ENDED, Port
from broker.mqi.delivery_fields import NO_EXTRAS, PutExtras
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.wire import external_wire
from broker.wire.arguments import AS_BEFORE
from broker.wire.delivery_wire import packed_settlements
from broker.wire.frames import HEAD_BYTES, IDS_MAX, Verb
from broker.wire.structures import DescriptorPacker, packed_get_options, packed_put_options, sendable
from broker.wire.verbs import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from broker.client.calls import RemoteDeliveryConnect
    from broker.client.line import Line
    from broker.interface.answers import GetAnswer, Placed, PlacedMany
    from broker.interface.port import Call
    from broker.mqi.delivery_fields import Settlement
    from broker.mqi.external_units import PreparedDelivery
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, PutMessageOptions

_PUT: Final = Verb.PUT.value
_GET: Final = Verb.GET.value


class RemotePort(Port):
    """One conversation, whose calls the queue manager answers.

    Each call sends its frame with all others of the same turn of the event loop. The queue manager checks what is in
    it, as it does for programs in its own process. Here are the calls whose frames no row of `broker.wire.verbs` can
    tell, those that are to cost little, and those that change what the port knows.
    """

    q_mgr_instance = ""
    q_mgr_name = ""  # until the answer to CONNECT the one that was asked for
    end_reported = False  # a call has failed because it ended, or that has undone nothing

    def __init__(self, line: Line, conversation: int, appl_name: str, user: str) -> None:
        self.line = line
        self.conversation = conversation
        self.appl_name = appl_name
        self.user = user
        self.tagging: tuple[int, bytes] | None = None
        self.ended = False
        self.stopped = ""  # why the queue manager has ended it, when it stops
        self._stop_reported = False
        self.base = 0  # what numbers of this line have above those of the queue manager
        self.works = False  # a call that joins the unit of work, and says so, has succeeded
        self.lost: Callable[[bool, MQError], None] | None = None
        """Told when the line breaks or the conversation is ended, and whether a call of its unit has failed by that."""
        self.of_deliveries: dict[int, RemotePort] = {}
        """The connections of deliveries that this one has taken, until these are settled."""
        self._packed = DescriptorPacker().pack

    def end_error(self) -> MQError:
        """Return why a call is not made after the end: Q_MGR_STOPPING (2162) for the first after a stop of the queue
        manager, HCONN_ERROR (2018) for others.
        """
        first = bool(self.stopped) and not self._stop_reported
        self._stop_reported = self.end_reported = True
        why = f": {self.stopped}" if self.stopped else ""
        return MQError(MQRC.Q_MGR_STOPPING if first else MQRC.HCONN_ERROR, f"{ENDED}{why}")

    @property
    def frame_bytes(self) -> int:
        """The longest frame of columns that the line takes."""
        return self.line.frame_bytes - HEAD_BYTES

    def break_(self) -> None:
        """Cut the line, with all conversations on it: for the queue manager this program has crashed."""
        self.line.abort("its program has broken it off")

    @property
    def broken(self) -> bool:
        """True if the conversation has ended, or its line is broken."""
        return self.ended or self.line.broken

    def end(self) -> None:
        """The queue manager knows this conversation no more."""
        if not self.ended:
            self.ended = True
            self.line.ended(self)
            for port in list(self.of_deliveries.values()):
                port.end()

    def forward(self, name: str, *values: Any) -> RemoteCall[Any]:
        row = BY_NAME[name]
        items = values if row.plain else row.items(values)
        try:
            return self.line.request(KINDS[name], self, row.verb, *items)
        except (TypeError, ValueError, OverflowError):  # msgpack has no form for one of them
            return self.line.request(KINDS[name], self, row.verb, *row.sendable(items))

    def put(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> RemoteCall[Placed]:
        packed_md = None if md is None else self._packed(md)
        if extras is NO_EXTRAS or extras == NO_EXTRAS:
            return self.line.request(RemoteCall, self, _PUT, hobj, packed_md, packed_put_options(options), data)
        fields = hobj, packed_md, packed_put_options(options), sendable(extras), data
        return self.line.request(RemoteCall, self, _PUT, *fields)

    def get(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
        delayed: bool = False,
    ) -> RemoteGet[GetAnswer]:
        fields = hobj, self._packed(md), packed_get_options(options), max_length and sendable(max_length)
        return self.line.request(RemoteGet, self, _GET, *fields, *([True] if delayed else []))

    def put_many(
        self,
        hobj: int,
        messages: Iterable[tuple[MessageDescriptor | None, bytes]],
        options: PutMessageOptions,
        after: Call[PlacedMany] | None,
    ) -> RemotePutMany:
        number = after.number if isinstance(after, RemotePutMany) else 0
        fields = hobj, packed_put_options(options), number, *self._fields(messages)
        return self.line.request(RemotePutMany, self, Verb.PUT_MANY, *fields)

    def give_back(self, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
        self.line.tell(self, Verb.GIVE_BACK, hobj, list(tokens), last)

    def serialize(self, options: int, tag: bytes) -> RemoteCall[int]:
        self.tagging = options, tag
        return self.forward("serialize", options, tag)

    def begin(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.BEGIN)

    def commit(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.COMMIT)

    def backout(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.BACKOUT)

    def trigger_done(self, leases: Sequence[int]) -> None:
        self._tell_leases(Verb.TRIGGER_DONE, leases)

    def trigger_return(self, leases: Sequence[int]) -> None:
        self._tell_leases(Verb.TRIGGER_RETURN, leases)

    def settle_deliveries(self, settlements: Sequence[Settlement]) -> RemoteSettle:
        sent = self._known(settlements)
        call = self.line.request(RemoteSettle, self, Verb.SETTLE, *packed_settlements(sent))
        call.ids = [each.id for each in settlements]
        if self.of_deliveries:
            for each in settlements:
                port = self.of_deliveries.pop(each.id, None)
                if port is not None:
                    port.end()
        return call

    def step(self, delivery: int, name: str, value: bytes) -> RemoteCall[int]:
        return self.forward("step", self._own(delivery), name, value)

    def prepare_deliveries(
        self, database: bytes, name: str, prepared: Sequence[PreparedDelivery]
    ) -> RemotePrepareDeliveries:
        sent = self._known([each.settlement for each in prepared])
        items = external_wire.packed_deliveries(database, name, prepared, sent)
        call = self.line.request(RemotePrepareDeliveries, self, Verb.PREPARE_DELIVERIES, *items)
        call.ids = [each.settlement.id for each in prepared]
        return call

    def delivery_connection(self, delivery: int, appl_name: str) -> RemoteDeliveryConnect:
        call = self.line.converse_for(self, self._own(delivery), appl_name or self.appl_name)
        call.port.q_mgr_instance = self.q_mgr_instance
        if not call.port.ended:
            self.of_deliveries[delivery] = call.port
        return call

    def connect(self, appl_name: str) -> RemoteConnect:
        if self.ended:
            return self.line.request(RemoteConnect, self, Verb.CONNECT)  # which fails
        return self.line.converse(self.q_mgr_name, appl_name or self.appl_name, self.user)

    def _known(self, settlements: Sequence[Settlement]) -> Sequence[Settlement]:
        """Return settlements that name the deliveries as the queue manager knows them."""
        return [each._replace(id=self._own(each.id)) for each in settlements] if self.base else settlements

    def _own(self, number: int) -> int:
        """A number as the queue manager knows it; 0, which is none, for one of a former line."""
        return number - self.base if number >= self.base else 0

    def _tell_leases(self, verb: Verb, leases: Sequence[int]) -> None:
        if self.base:
            leases = [lease - self.base for lease in leases if lease >= self.base]
        for start in range(0, len(leases), IDS_MAX):
            self.line.tell(self, verb, list(leases[start : start + IDS_MAX]))

    def _fields(self, messages: Iterable[tuple[MessageDescriptor | None, bytes]]) -> Iterator[bytes | bool | None]:
        """The messages of a batch, item by item; a descriptor that is the one before it is not said again. None changes
        while the batch is made.
        """
        before: bytes | None = b""
        last: object = self  # no descriptor
        for md, data in messages:
            if md is last:
                yield AS_BEFORE
            else:
                packed = self._packed(md)
                yield AS_BEFORE if packed == before else packed
                before, last = packed, md
            yield data
