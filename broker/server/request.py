"""A call that a client has made, from its frame to its final frame and, for a message, until the client has taken
it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from broker.engine.admin.scripts import UNREAD_BYTES, ScriptCall
from broker.engine.calls.gets import WaitingCall
from broker.engine.mistakes import mistake
from broker.interface.answers import GetAnswer
from broker.interface.batches.columns import messages_in
from broker.interface.port import dropped
from broker.mqi.errors import MQError
from broker.wire.arguments import PUT_MANY_HEAD
from broker.wire.frames import Frame, Verb
from broker.wire.results import delivery_weight
from broker.wire.verb_row import VerbKind
from broker.wire.verbs import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.interface.port import Call, Receipt
    from broker.server.replies import Replies

_CALL_WEIGHT: Final = 512
KNOWN_BYTES: Final = 1024
"""Structures of up to so many bytes weigh nothing: many calls share them, or they are short."""

_UNPACKED: Final = 16  # times as long as msgpack a small structure is as objects
_TEXT: Final = 4  # times as long as UTF-8 a text may be as an object
WAITING: Final = frozenset([row.verb.value for row in ROWS if row.kind in (VerbKind.WAIT, VerbKind.RECEIVE)])
"""The calls that may wait for another call to end their wait."""

LONG_ANSWERS: Final[dict[int, Callable[[Any], int]]] = {
    row.verb: row.result.weight for row in ROWS if row.result.weight is not None
}
"""The rough number of bytes that results hold, for calls whose answers may be long."""

_PUTS: Final = frozenset({Verb.PUT.value, Verb.PUT1.value})
_PUT_MANY: Final = Verb.PUT_MANY.value
_MQSC: Final = Verb.MQSC.value
_STAGE: Final = Verb.STAGE.value
_SETTLE: Final = Verb.SETTLE.value


class PendingCall:
    """A call of a conversation. `answered` tells that its final frame is written, or that nobody wants one any more;
    `receipt` is what then remains of it.

    Its `weight` is what it makes the line hold: its arguments, and from when it is done its answer, until that is
    written. While it waits for another call to end its wait, its `weight` counts apart, and `waits` says so.
    """

    __slots__ = (
        "_replies",
        "answer",
        "answered",
        "call",
        "conversation",
        "delivery",
        "number",
        "receipt",
        "verb",
        "waits",
        "weight",
    )

    def __init__(self, replies: Replies, verb: int, conversation: int, number: int, call: Call[Any]) -> None:
        self._replies = replies
        self.verb = verb
        self.conversation = conversation
        self.number = number
        self.call: Call[Any] = call
        self.receipt: Receipt = call
        self.answered = False
        self.weight = 0
        self.answer = 0  # of it: a long answer that is not written yet
        self.waits = False
        self.delivery = 0, 0  # of DELIVERY_CONNECT: the conversation that has taken it, and its number

    def parted(self) -> None:
        """There are command replies to write, before the answer."""
        self._replies.parted(self)

    def error(self) -> MQError:
        """Return the error of the call, for its program. Errors other than MQ's are internal, and logged."""
        if self.call.cancelled():
            return dropped()
        error = self.call.exception()
        assert error is not None
        return error if isinstance(error, MQError) else mistake(error, Verb(self.verb).name)

    @property
    def wait(self) -> WaitingCall[Any] | None:
        """The call, if it is a get that waits for a message."""
        call = self.call if not self.answered and self.verb in WAITING else None
        return call if isinstance(call, WaitingCall) and call.waiter is not None and not call.done() else None

    def withdraw(self) -> None:
        """Nobody wants the outcome any more, which may be there, come later, or never."""
        if self.answered:
            self.receipt.abandon()
        else:
            self.answered = True
            self.call.withdraw()


def weight_of(frame: Frame, length: int) -> int:
    """Return the most bytes that a call of `length` bytes makes the queue manager hold while it is not answered. For a
    call that may wait for another call to end its wait, these are the bytes of descriptors that it keeps meanwhile.
    """
    verb = frame[0]
    if verb in WAITING:
        return 0 if length <= KNOWN_BYTES else _TEXT * length
    if verb in _PUTS:
        data = frame[-1]
        rest = length - len(data) if type(data) is bytes else length
        return _CALL_WEIGHT + length + (0 if rest <= KNOWN_BYTES else _UNPACKED * rest)
    if verb == _PUT_MANY:
        data_bytes = sum(len(data) for data in frame[-1:PUT_MANY_HEAD:-2] if type(data) is bytes)
        return _CALL_WEIGHT * (len(frame) // 2) + length + _TEXT * (length - data_bytes)
    if verb == _STAGE:
        return _CALL_WEIGHT * (1 + messages_in(frame[-1])) + 2 * length
    if verb == _SETTLE:
        settlements = frame[3] if len(frame) > 3 else None
        return _CALL_WEIGHT * (1 + len(settlements) if type(settlements) is list else 1) + _TEXT * length
    if verb == _MQSC:
        return _CALL_WEIGHT + sys.getsizeof(frame[-1]) + UNREAD_BYTES
    return _CALL_WEIGHT + _UNPACKED * length


def answer_weight(verb: int, call: Call[Any]) -> int:
    """Return the rough number of bytes that the outcome of a call holds, for verbs whose answers may be long."""
    if call.cancelled():
        return 0
    error = call.exception()
    if error is None:
        return _CALL_WEIGHT + LONG_ANSWERS[verb](call.result())
    partial = getattr(error, "message", None)
    return _CALL_WEIGHT + (delivery_weight(partial) if isinstance(partial, GetAnswer) else 0)


def script_of(call: Call[Any]) -> ScriptCall | None:
    """The call as one whose answer comes in parts."""
    return call if isinstance(call, ScriptCall) else None
