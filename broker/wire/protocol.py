"""One end of a line: bytes to frames and frames to bytes, by the rules of the handshake. It never touches a socket.

The same class serves both ends. `TRANSITIONS` is the life of a line, which both ends see alike; `_SENDS` says who may
say what. What breaks a rule, or is not a frame at all, is a `WireError` and nothing else, whatever the bytes. What a
line can make its reader hold is bounded: a length is checked before the bytes that it announces are kept, against 4 KiB
until the handshake is done, then against the limit that this end has announced. What the bytes become is bounded by
`unpacking`.
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Any, Final

import msgpack

from broker.wire.frames import CALL_MAX, CALLS, CONVERSATION_MAX, FRAME_BYTES, Frame, Verb, WireError
from broker.wire.unpacking import unpack, unpack_careful

_LENGTH: Final = Struct(">I")
_HANDSHAKE_BYTES_MAX: Final = 4096


class Role(Enum):
    """Which end of a line this is."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Role:
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class State(Enum):
    """Where a line is in its life."""

    NEW = "new"
    OFFERED = "offered"
    OPEN = "open"
    CLOSED = "closed"


_TALK: Final = CALLS | {Verb.HEARTBEAT, Verb.TAKEN, Verb.CANCEL, Verb.ANSWER, Verb.FAILED, Verb.CANCELLED, Verb.ENDED}

TRANSITIONS: Final[dict[State, dict[int, State]]] = {
    State.NEW: {Verb.HELLO: State.OFFERED, Verb.REFUSED: State.CLOSED},
    State.OFFERED: {Verb.WELCOME: State.OPEN, Verb.REFUSED: State.CLOSED},
    State.OPEN: {Verb.REFUSED: State.CLOSED, **dict.fromkeys(_TALK, State.OPEN)},
    State.CLOSED: {},
}
"""What may be said in each state of a line, and the state that it leads to."""

_SENDS: Final[dict[Role, frozenset[int]]] = {
    Role.CLIENT: CALLS | {Verb.HELLO, Verb.HEARTBEAT, Verb.TAKEN, Verb.CANCEL},
    Role.SERVER: frozenset(
        {Verb.WELCOME, Verb.REFUSED, Verb.HEARTBEAT, Verb.ANSWER, Verb.FAILED, Verb.CANCELLED, Verb.ENDED}
    ),
}


class Endpoint:
    """One end of a line.

    `receive` takes what came in, in pieces of any size; `send` gives the bytes to write. `state` tells where the line
    is in its life. After a WireError there is nothing more to receive.
    """

    def __init__(self, role: Role, frame_bytes: int = FRAME_BYTES) -> None:
        self.role = role
        self.state = State.NEW
        self._heard = _SENDS[role.other] & _TALK
        self._said = _SENDS[role] & _TALK
        self._frame_bytes = frame_bytes
        self._limit = min(_HANDSHAKE_BYTES_MAX, frame_bytes)
        self._unpack = unpack if role is Role.CLIENT else unpack_careful
        self._packer = msgpack.Packer()
        self._kept = bytearray()
        self._wanted = 0

    def receive(self, data: bytes) -> list[Frame]:
        """The frames that are complete with `data`, in order. Raises WireError, and then none of them counts."""
        whole: bytes | bytearray = data
        if self._kept:
            self._kept += data
            if len(self._kept) < self._wanted:
                return []
            whole, self._kept = self._kept, bytearray()
        frames = []
        position, end = 0, len(whole)
        while end - position >= 4:
            length: int = _LENGTH.unpack_from(whole, position)[0]
            if length > self._limit:
                raise _over(length, self._limit)
            start = position + 4
            position = start + length
            if position > end:
                position = start - 4
                break
            frames.append(self._frame(whole[start:position]))
        if position < end:
            self._keep(whole, position)
        return frames

    @property
    def ended(self) -> bool:
        """Whether nothing can be said any more."""
        return self.state is State.CLOSED

    def send(self, *frame: object) -> bytes:
        """The bytes of a frame: verb, conversation, call and the verb's own items.

        A verb that this end may not send now is an AssertionError. Items that msgpack has no form for are a TypeError,
        numbers beyond 64 bits an OverflowError; nothing has been said then.
        """
        packed: bytes = self._packer.pack(frame)
        verb: Any = frame[0]
        if self.state is not State.OPEN or verb not in self._said:
            assert verb in _SENDS[self.role], f"{_name(verb)} from the {self.role.value}"
            assert verb in TRANSITIONS[self.state], f"{_name(verb)} on a line that is {self.state.value}"
            self._step(verb)
        return _LENGTH.pack(len(packed)) + packed

    def _keep(self, data: bytes | bytearray, position: int) -> None:
        """Keep what is left for the next time, and remember how much must be there before it is worth a look."""
        self._kept += data[position:]
        self._wanted = 4
        if len(self._kept) >= 4:
            length: int = _LENGTH.unpack_from(self._kept)[0]
            if length > self._limit:
                raise _over(length, self._limit)
            self._wanted += length

    def _frame(self, payload: bytes | bytearray) -> Frame:
        try:
            frame = self._unpack(payload)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise WireError(f"not a frame: {error}") from error
        if type(frame) is not list or len(frame) < 3:
            raise WireError("not a frame: it is no array of at least three items")
        verb, conversation, call = frame[0], frame[1], frame[2]
        if type(verb) is not int or type(conversation) is not int or type(call) is not int:
            raise WireError("not a frame: verb, conversation and call are not all integers")
        if not (0 <= conversation <= CONVERSATION_MAX and 0 <= call <= CALL_MAX):
            raise WireError(f"conversation {conversation}, call {call}: a number is out of range")
        if self.state is not State.OPEN or verb not in self._heard:
            self._heed(verb)
        return frame

    def _heed(self, verb: int) -> None:
        """Take a step of the line's life, or refuse a verb that has no place in it now."""
        other = self.role.other
        if verb not in _SENDS[other] or verb not in TRANSITIONS[self.state]:
            raise WireError(f"{_name(verb)} from the {other.value} on a line that is {self.state.value}")
        self._step(verb)

    def _step(self, verb: int) -> None:
        self.state = TRANSITIONS[self.state][verb]
        if self.state is State.OPEN:
            self._limit = self._frame_bytes


def _over(length: int, limit: int) -> WireError:
    return WireError(f"a frame of {length} bytes is over the limit of {limit}")


def _name(verb: int) -> str:
    return Verb(verb).name if verb in Verb.__members__.values() else f"verb {verb}"
