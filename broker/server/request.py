"""A call that a client has made, from its frame to its final frame and, for a message, until the client has taken
it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.interface.port import Port
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.wire.arguments import PUT_MANY_HEAD
from broker.wire.frames import Frame, Verb

if TYPE_CHECKING:
    import asyncio

    from broker.interface.port import Call
    from broker.server.session import Session

logger = logging.getLogger(__name__)

_CALL_WEIGHT: Final = 512
_WAITING: Final = frozenset({Verb.GET.value, Verb.GET_MANY.value, Verb.TRIGGER_WAIT.value})
_PUT_MANY: Final = Verb.PUT_MANY.value
_HEAVY: Final = frozenset({Verb.PUT.value, Verb.PUT1.value, Verb.MQSC.value})


class ServedPort(Port, Protocol):
    """What a session asks of a conversation: the calls, and to be told that the line is cut."""

    def break_(self) -> None:
        """End all calls, close all handles, back out the unit of work, return the leases."""


class Request:
    """A call of a conversation. `answered` tells that its final frame is written, or that nobody wants one any more.

    Its `weight` is what it counts for among the bytes in flight while it is not answered: nothing, where it may wait
    for another call to end its wait.
    """

    __slots__ = ("answered", "call", "conversation", "number", "session", "verb", "weight")

    def __init__(self, session: Session, frame: Frame, call: Call[Any]) -> None:
        self.session = session
        self.verb: int = frame[0]
        self.conversation: int = frame[1]
        self.number: int = frame[2]
        self.call = call
        self.answered = False
        self.weight = _weight(frame)

    def finished(self, call: asyncio.Future[Any]) -> None:
        """The callback of the call."""
        self.session.finished(self)

    def error(self) -> MQError:
        """Why the call failed, for its program. An error that is none of MQ's is a mistake of ours, and logged."""
        if self.call.cancelled():
            return MQError(MQRC.CONNECTION_BROKEN, "the queue manager has dropped the call")
        error = self.call.exception()
        if isinstance(error, MQError):
            return error
        logger.error("%s failed by a mistake of the queue manager", Verb(self.verb).name, exc_info=error)
        return MQError(MQRC.UNEXPECTED_ERROR, f"{type(error).__name__} in the queue manager, see its log")

    def withdraw(self) -> None:
        """Nobody wants the outcome any more, which may be there, come later, or never."""
        self.answered = True
        self.call.withdraw()


def _weight(frame: Frame) -> int:
    verb = frame[0]
    if verb in _HEAVY:
        return _CALL_WEIGHT + len(frame[-1])
    if verb in _WAITING:
        return 0
    if verb == _PUT_MANY:
        return sum(_CALL_WEIGHT + len(data) for data in frame[-1:PUT_MANY_HEAD:-2] if type(data) is bytes)
    return _CALL_WEIGHT
