"""A get on a shared queue on its way, and the terms in which the database is asked for it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID, uuid4

from broker.core.queues.shelf.selection import IF_PERSISTENT, NEVER, Request

if TYPE_CHECKING:
    from typing import Any

    from broker.core.message.entry import Entry
    from broker.core.queues.effects import Grant
    from broker.core.queues.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.interface.port import Call
    from broker.mqi.errors import MQError

UNLIMITED: Final = 1 << 62
"""Bytes of data that no answer comes to."""

_FIELDS: Final = attrgetter(
    "item", "token", "group_id", "msg_seq_number", "offset", "selector", "unmarked_by", "start", "whole", "after"
)
_NO_FIELDS: Final = _FIELDS(Request())
"""All by which a get may choose beside MsgId and CorrelId, and the values of one that does not."""


class GetKey(NamedTuple):
    """A get that the database can serve without a look at messages here: it asks for the first of all, or of those with
    an identifier. Gets with the same key are served by one statement.
    """

    q_name: str
    msg_id: bytes | None
    correl_id: bytes | None


class UnitJoin(NamedTuple):
    """The unit of work that a get joins in the database: None outside syncpoint. `begins`: it has no row yet."""

    id: UUID | None
    begins: bool
    if_persistent: bool


OUTSIDE: Final = UnitJoin(None, begins=False, if_persistent=False)


class GetRequest:
    """A get that is looking for messages: up to `count`, together no more than one beyond `bytes_max`."""

    __slots__ = (
        "bytes_max", "call", "conversation", "count", "error", "grants", "handle", "patient", "request",
    )  # fmt: skip

    def __init__(
        self, conversation: Conversation, call: Call[Any], handle: Handle, request: Request, *, patient: bool
    ) -> None:
        self.conversation = conversation
        self.call = call
        self.handle = handle
        self.request = request
        self.patient = patient  # it will be told that there is nothing, so it waits for rivals who are at it
        self.count = 1
        self.bytes_max = UNLIMITED
        self.grants: list[Grant] = []
        self.error: MQError | None = None

    @property
    def abandoned(self) -> bool:
        """True if nobody would take an answer any more."""
        return self.call.done() or self.conversation.broken

    @property
    def key(self) -> GetKey | None:
        """Its key, if the database can serve it alone; None where the core must judge messages."""
        request = self.request
        queue = self.handle.queue
        assert queue is not None
        removes = not (request.browse or request.under_cursor or request.delayed)
        one_id = request.msg_id is None or request.correl_id is None
        takes_the_first = request.anything or (one_id and _FIELDS(request) == _NO_FIELDS)
        takes_any_length = request.max_length is None or request.accept_truncated
        if removes and takes_the_first and takes_any_length and not self.handle.position.locked:
            return GetKey(queue.name, request.msg_id, request.correl_id)
        return None

    def held(self) -> list[Entry]:
        """Return what its unit of work has got from shared queues before."""
        unit = self.handle.hconn.unit
        return [] if unit is None else [entry for entry in unit.gets if entry.queue.shared]

    def joined(self) -> UnitJoin:
        """The unit of work that its messages come into."""
        syncpoint = self.request.syncpoint
        if syncpoint == NEVER:
            return OUTSIDE
        unit = self.handle.hconn.unit
        known = None if unit is None or unit.shared is None else unit.shared.id
        return UnitJoin(known or uuid4(), begins=known is None, if_persistent=syncpoint == IF_PERSISTENT)
