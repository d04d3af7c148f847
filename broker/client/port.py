"""The remote port: the calls of one conversation, as frames on a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.client.calls import (
    RemoteCall,
    RemoteConnect,
    RemoteDisconnect,
    RemoteGet,
    RemoteOpen,
    RemoteTake,
    RemoteWait,
)
from broker.wire import answers
from broker.wire.arguments import descriptor_fields, get_fields, object_fields, put_fields
from broker.wire.frames import Verb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.client.line import Line
    from broker.interface.port import Opened, PendingStarts, Placed
    from broker.mqi.explanations import Explanation
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

_PUT: Final = Verb.PUT.value
_GET: Final = Verb.GET.value


class RemotePort:
    """One conversation. It implements `broker.interface.Port`; the queue manager answers.

    Each method sends its frame with all others of the same turn of the event loop. A structure with a value that has no
    form in a frame is a TypeError, an integer of more than 64 bits an OverflowError; then no call has been made.
    """

    def __init__(self, line: Line, conversation: int, appl_name: str, user: str) -> None:
        self.line = line
        self.conversation = conversation
        self.appl_name = appl_name
        self.user = user
        self.q_mgr_name = ""  # until the answer to CONNECT
        self.ended = False

    @property
    def broken(self) -> bool:
        """Whether the conversation has ended, or its line is broken."""
        return self.ended or self.line.broken

    def end(self) -> None:
        """The queue manager knows this conversation no more."""
        if not self.ended:
            self.ended = True
            self.line.ended(self)

    def open(self, descriptor: ObjectDescriptor, options: int) -> RemoteCall[Opened]:
        return self.line.request(RemoteOpen, self, Verb.OPEN, object_fields(descriptor), options)

    def close(self, hobj: int, options: int) -> RemoteCall[int]:
        return self.line.request(RemoteCall[int], self, Verb.CLOSE, hobj, options)

    def put(
        self, hobj: int, md: MessageDescriptor | None, options: PutMessageOptions, data: bytes
    ) -> RemoteCall[Placed]:
        return self.line.request(RemoteCall, self, _PUT, hobj, descriptor_fields(md), put_fields(options), data)

    def put1(
        self, descriptor: ObjectDescriptor, md: MessageDescriptor | None, options: PutMessageOptions, data: bytes
    ) -> RemoteCall[Placed]:
        fields = object_fields(descriptor), descriptor_fields(md), put_fields(options), data
        return self.line.request(RemoteCall, self, Verb.PUT1, *fields)

    def get(
        self, hobj: int, md: MessageDescriptor | None, options: GetMessageOptions, max_length: int | None
    ) -> RemoteGet:
        return self.line.request(RemoteGet, self, _GET, hobj, descriptor_fields(md), get_fields(options), max_length)

    def begin(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.BEGIN)

    def commit(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.COMMIT)

    def backout(self) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.BACKOUT)

    def inquire(self, hobj: int, selectors: Sequence[int]) -> RemoteCall[dict[int, int | str]]:
        return self.line.request(RemoteCall, self, Verb.INQUIRE, hobj, list(selectors))

    def set(self, hobj: int, values: Mapping[int, int | str]) -> RemoteCall[int]:
        return self.line.request(RemoteCall, self, Verb.SET, hobj, answers.pairs(values))

    def mqsc(self, text: str) -> RemoteCall[list[CommandReply]]:
        return self.line.request(RemoteCall, self, Verb.MQSC, text)

    def status(self) -> RemoteCall[dict[str, Any]]:
        return self.line.request(RemoteCall, self, Verb.STATUS)

    def explain(
        self, q_name: str, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None
    ) -> RemoteCall[Explanation]:
        return self.line.request(RemoteCall, self, Verb.EXPLAIN, q_name, msg_id, correl_id, group_id)

    def trigger_pending(self) -> RemoteCall[PendingStarts]:
        return self.line.request(RemoteCall, self, Verb.TRIGGER_PENDING)

    def trigger_wait(self, posts: int) -> RemoteWait:
        return self.line.request(RemoteWait, self, Verb.TRIGGER_WAIT, posts)

    def trigger_take(self, q_name: str, limit: int) -> RemoteTake:
        return self.line.request(RemoteTake, self, Verb.TRIGGER_TAKE, q_name, limit)

    def trigger_done(self, leases: Sequence[int]) -> None:
        self.line.tell(self, Verb.TRIGGER_DONE, leases)

    def trigger_return(self, leases: Sequence[int]) -> None:
        self.line.tell(self, Verb.TRIGGER_RETURN, leases)

    def connect(self, appl_name: str) -> RemoteConnect:
        return self.line.converse(self.q_mgr_name, appl_name or self.appl_name, self.user)

    def disconnect(self, *, commit: bool) -> RemoteDisconnect:
        return self.line.request(RemoteDisconnect, self, Verb.DISCONNECT, commit)
