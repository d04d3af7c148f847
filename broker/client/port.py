"""The remote port: the calls of one conversation, as frames on a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.client.calls import (
    RemoteCall,
    RemoteConnect,
    RemoteDisconnect,
    RemoteGet,
    RemoteOpen,
    RemotePutMany,
    RemoteScript,
    RemoteTake,
    RemoteWait,
)
from broker.client.claims import C, ClaimCalls
from broker.client.handling import HandlingCalls, put_fields
from broker.interface.port import ENDED
from broker.mqi.errors import MQError
from broker.mqi.handling import NO_TERMS, PutTerms
from broker.mqi.reasons import MQRC
from broker.wire import answers
from broker.wire.arguments import AS_BEFORE
from broker.wire.frames import HEAD_BYTES, IDS_MAX, Verb
from broker.wire.structures import (
    DescriptorPacker,
    object_fields,
    packed_get_options,
    packed_put_options,
    sendable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from broker.client.line import Line
    from broker.interface.port import Call, Delivery, Opened, PendingStarts, Placed, PlacedMany
    from broker.mqi.explanations import Explanation
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

_PUT: Final = Verb.PUT.value
_GET: Final = Verb.GET.value


class RemotePort(ClaimCalls, HandlingCalls):
    """One conversation. It implements `broker.interface.Port`; the queue manager answers.

    Each method sends its frame with all others of the same turn of the event loop. The queue manager checks what is in
    it, as it does for programs in its own process.
    """

    def __init__(self, line: Line, conversation: int, appl_name: str, user: str) -> None:
        self.line = line
        self.conversation = conversation
        self.appl_name = appl_name
        self.user = user
        self.tagging: tuple[int, bytes] | None = None
        self.q_mgr_name = ""  # until the answer to CONNECT
        self.ended = False
        self.stopped = ""  # why the queue manager has ended it, when it stops
        self.end_reported = False  # a call has failed because it ended, or that has undone nothing
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
        """Whether the conversation has ended, or its line is broken."""
        return self.ended or self.line.broken

    def end(self) -> None:
        """The queue manager knows this conversation no more."""
        if not self.ended:
            self.ended = True
            self.line.ended(self)
            for port in list(self.of_deliveries.values()):
                port.end()

    def _request(self, kind: type[C], verb: int, *fields: object) -> C:
        return self.line.request(kind, self, verb, *fields)

    def open(self, descriptor: ObjectDescriptor, options: int) -> RemoteCall[Opened]:
        return self.line.request(RemoteOpen, self, Verb.OPEN, object_fields(descriptor), sendable(options))

    def close(self, hobj: int, options: int) -> RemoteCall[int]:
        return self.line.request(RemoteCall[int], self, Verb.CLOSE, hobj, sendable(options))

    def put(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        terms: PutTerms = NO_TERMS,
    ) -> RemoteCall[Placed]:
        if terms is not NO_TERMS:
            fields = hobj, self._packed(md), packed_put_options(options), *put_fields(terms), data
            return self.line.request(RemoteCall, self, _PUT, *fields)
        return self.line.request(RemoteCall, self, _PUT, hobj, self._packed(md), packed_put_options(options), data)

    def put1(
        self,
        descriptor: ObjectDescriptor,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        terms: PutTerms = NO_TERMS,
    ) -> RemoteCall[Placed]:
        fields = object_fields(descriptor), self._packed(md), packed_put_options(options), *put_fields(terms), data
        return self.line.request(RemoteCall, self, Verb.PUT1, *fields)

    def get(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
        waiting: bool = False,
    ) -> RemoteGet[Delivery]:
        fields = hobj, self._packed(md), packed_get_options(options), max_length and sendable(max_length)
        return self.line.request(RemoteGet, self, _GET, *fields, *([True] if waiting else []))

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

    def get_many(
        self, hobj: int, md: MessageDescriptor | None, options: GetMessageOptions, count: int
    ) -> RemoteGet[list[Delivery]]:
        fields = hobj, self._packed(md), packed_get_options(options), sendable(count)
        return self.line.request(RemoteGet, self, Verb.GET_MANY, *fields)

    def give_back(self, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
        self.line.tell(self, Verb.GIVE_BACK, hobj, list(tokens), last)

    def serialize(self, options: int, tag: bytes) -> RemoteCall[int]:
        self.tagging = options, tag
        return self.line.request(RemoteCall, self, Verb.SERIALIZE, sendable(options), tag)

    def begin(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.BEGIN)

    def commit(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.COMMIT)

    def backout(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.BACKOUT)

    def inquire(self, hobj: int, selectors: Sequence[int]) -> RemoteCall[dict[int, int | str]]:
        return self.line.request(RemoteCall, self, Verb.INQUIRE, hobj, sendable(list(selectors)))

    def set(self, hobj: int, values: Mapping[int, int | str]) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.SET, hobj, sendable(answers.pairs(values)))

    def mqsc(self, text: str, check: bool = False) -> RemoteScript:
        return self.line.request(RemoteScript, self, Verb.MQSC, *([True] if check else []), text)

    def status(self) -> RemoteCall[dict[str, Any]]:
        return self.line.request(RemoteCall, self, Verb.STATUS)

    def explain(
        self, q_name: str, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None
    ) -> RemoteCall[Explanation]:
        return self.line.request(RemoteCall, self, Verb.EXPLAIN, *map(sendable, (q_name, msg_id, correl_id, group_id)))

    def backup(self, path: str) -> RemoteWait:
        return self.line.request(RemoteWait, self, Verb.BACKUP, sendable(path))

    def trigger_pending(self) -> RemoteCall[PendingStarts]:
        return self.line.request(RemoteCall, self, Verb.TRIGGER_PENDING)

    def trigger_wait(self, posts: int) -> RemoteWait:
        return self.line.request(RemoteWait, self, Verb.TRIGGER_WAIT, posts)

    def trigger_take(self, q_name: str, limit: int) -> RemoteTake:
        return self.line.request(RemoteTake, self, Verb.TRIGGER_TAKE, q_name, limit)

    def trigger_done(self, leases: Sequence[int]) -> None:
        self._tell_leases(Verb.TRIGGER_DONE, leases)

    def trigger_return(self, leases: Sequence[int]) -> None:
        self._tell_leases(Verb.TRIGGER_RETURN, leases)

    def trigger_sweep(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.TRIGGER_SWEEP)

    def connect(self, appl_name: str) -> RemoteConnect:
        if self.ended:
            return self.line.request(RemoteConnect, self, Verb.CONNECT)  # which fails
        return self.line.converse(self.q_mgr_name, appl_name or self.appl_name, self.user)

    def disconnect(self, *, commit: bool) -> RemoteDisconnect:
        return self.line.request(RemoteDisconnect, self, Verb.DISCONNECT, commit)

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
