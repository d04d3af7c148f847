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
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.wire.foreign import foreign
from broker.wire.frames import ANSWERS, CALL_MAX, CONVERSATION_MAX, FRAME_BYTES, Frame, Verb, WireError
from broker.wire.unpacking import PARTS_BYTES_MAX, Payload, unpack, unpack_careful, unpack_short
from broker.wire.verbs import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH: Final = Struct(">I")
_HANDSHAKE_BYTES_MAX: Final = 4096
_SHORT_BYTES_MAX: Final = PARTS_BYTES_MAX  # to copy such a frame is cheaper than to look at it where it is


class Role(Enum):
    """The end of a line: client or server."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Role:
        return Role.SERVER if self is Role.CLIENT else Role.CLIENT


class State(Enum):
    """The state of a line in its life."""

    NEW = "new"
    OFFERED = "offered"
    OPEN = "open"
    CLOSED = "closed"


_OPEN: Final = State.OPEN  # asked for each frame: see `DONE` of `broker.mqi.delivery_fields`

_TALK: Final = CALLS | ANSWERS | {Verb.HEARTBEAT, Verb.TAKEN, Verb.CANCEL}

TRANSITIONS: Final[dict[State, dict[int, State]]] = {
    State.NEW: {Verb.HELLO: State.OFFERED, Verb.REFUSED: State.CLOSED},
    State.OFFERED: {Verb.WELCOME: State.OPEN, Verb.REFUSED: State.CLOSED},
    State.OPEN: {Verb.REFUSED: State.CLOSED, **dict.fromkeys(_TALK, State.OPEN)},
    State.CLOSED: {},
}
"""The verbs allowed in each state of a line, and the state that each leads to."""

_SENDS: Final[dict[Role, frozenset[int]]] = {
    Role.CLIENT: CALLS | {Verb.HELLO, Verb.HEARTBEAT, Verb.TAKEN, Verb.CANCEL},
    Role.SERVER: ANSWERS | {Verb.WELCOME, Verb.REFUSED, Verb.HEARTBEAT},
}


_UNPACK: Final = {Role.CLIENT: (unpack, unpack), Role.SERVER: (unpack_short, unpack_careful)}
"""By the end that reads: for short frames, and for long ones."""


class Endpoint:
    """One end of a line.

    `receive` takes what came in, in pieces of any size, and gives the frames that are complete; `feed` and `next` do
    the same in two steps, for who cannot take all frames at once. `send` gives the bytes to write. `state` tells where
    the line is in its life. After a WireError there is nothing more to receive.
    """

    def __init__(self, role: Role, frame_bytes: int = FRAME_BYTES) -> None:
        self.role = role
        self.state = State.NEW
        self.ended = False
        """True if nothing can be said any more."""
        self._heard = _SENDS[role.other] & _TALK
        self._said = _SENDS[role] & _TALK
        self._frame_bytes = frame_bytes
        self._limit = min(_HANDSHAKE_BYTES_MAX, frame_bytes)
        self._unpack_short, self._unpack_long = _UNPACK[role]
        self._packer = msgpack.Packer()
        self.unread: bytes | bytearray = b""
        """The bytes that came in and are not all handled; empty when there is nothing more to handle."""
        self._position = 0  # in it: what is before has become frames
        self.length = 0
        """The number of bytes of the frame that `next` gave last."""

    def receive(self, data: bytes) -> list[Frame]:
        """The frames that are complete with `data`, in order. Raises WireError, and then none of them counts."""
        frames: list[Frame] = []
        if self.unread:
            self.feed(data)
        else:
            position, there = 0, len(data)
            while there - position >= 4:  # `next`, for short frames one after the other
                length: int = _LENGTH.unpack_from(data, position)[0]
                start = position + 4
                end = start + length
                if end > there or length > self._limit or length > _SHORT_BYTES_MAX:
                    break
                frames.append(self._frame(data[start:end], self._unpack_short))
                position = end
            if position == there:
                return frames
            self.unread, self._position = data, position
        while (frame := self.next()) is not None:
            frames.append(frame)
        return frames

    def feed(self, data: bytes) -> None:
        """Keep what came in, for `next`."""
        if not self.unread:
            self.unread = data
            return
        if not isinstance(self.unread, bytearray):
            self.unread = bytearray(self.unread[self._position :])
        elif self._position:
            del self.unread[: self._position]
        self._position = 0
        self.unread += data

    def next(self) -> Frame | None:
        """The next frame, if it is complete. Raises WireError."""
        kept = self.unread
        if not kept:
            return None
        position, there = self._position, len(kept)
        start = position + 4
        if start > there:
            return None
        length: int = _LENGTH.unpack_from(kept, position)[0]
        if length > self._limit:
            raise self._over(length)
        end = start + length
        if end > there:
            return None
        self.length = length
        if length <= _SHORT_BYTES_MAX:
            frame = self._frame(kept[start:end], self._unpack_short)
        else:
            with memoryview(kept) as view, view[start:end] as payload:
                frame = self._frame(payload, self._unpack_long)
        if end == there:
            self.unread, self._position = b"", 0
        else:
            self._position = end
        return frame

    def let_go(self) -> None:
        """Forget what has come in and is no frame yet."""
        self.unread, self._position = b"", 0

    @property
    def kept(self) -> int:
        """The number of bytes that have not become frames."""
        return len(self.unread) - self._position

    @property
    def wanted(self) -> int:
        """The number of bytes of the next frame; 0 when none has begun. No more than is `kept`: it is complete."""
        if self.kept < 4:
            return 4 if self.kept else 0
        length: int = _LENGTH.unpack_from(self.unread, self._position)[0]
        return 4 + length

    def send(self, *frame: object) -> bytes:
        """The bytes of a frame: verb, conversation, call and the verb's own items.

        A verb that this end may not send now is an AssertionError. Items that msgpack has no form for are a TypeError,
        numbers beyond 64 bits an OverflowError; nothing has been said then.
        """
        packed: bytes = self._packer.pack(frame)
        verb: Any = frame[0]
        if self.state is not _OPEN or verb not in self._said:
            assert verb in _SENDS[self.role], f"{_name(verb)} from the {self.role.value}"
            assert verb in TRANSITIONS[self.state], f"{_name(verb)} on a line that is {self.state.value}"
            self._step(verb)
        return _LENGTH.pack(len(packed)) + packed

    def _over(self, length: int) -> WireError:
        """Too long, or the first words of another protocol."""
        stranger = foreign(bytes(self.unread[:4])) if self.state is State.NEW and self.role is Role.SERVER else None
        if stranger is None:
            return WireError(f"a frame of {length} bytes is over the limit of {self._limit}")
        text = f"a client of {stranger.name} has come to the port of an EverMQ queue manager{stranger.advice}"
        error = WireError(text)
        error.answer = stranger.answer
        return error

    def _frame(self, payload: Payload, unpack: Callable[[Payload], Any]) -> Frame:
        try:
            frame = unpack(payload)
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise WireError(f"not a frame: {error}") from error
        if type(frame) is not list or len(frame) < 3:
            raise WireError("not a frame: it is no array of at least three items")
        verb, conversation, call = frame[0], frame[1], frame[2]
        if type(verb) is not int or type(conversation) is not int or type(call) is not int:
            raise WireError("not a frame: verb, conversation and call are not all integers")
        if not (0 <= conversation <= CONVERSATION_MAX and 0 <= call <= CALL_MAX):
            raise WireError(f"conversation {conversation}, call {call}: a number is out of range")
        if self.state is not _OPEN or verb not in self._heard:
            self._handle(verb)
        return frame

    def _handle(self, verb: int) -> None:
        """Take a step of the line's life, or refuse a verb that has no place in it now."""
        other = self.role.other
        if verb not in _SENDS[other] or verb not in TRANSITIONS[self.state]:
            raise WireError(f"{_name(verb)} from the {other.value} on a line that is {self.state.value}")
        self._step(verb)

    def _step(self, verb: int) -> None:
        self.state = TRANSITIONS[self.state][verb]
        self.ended = self.state is State.CLOSED
        if self.state is State.OPEN:
            self._limit = self._frame_bytes


def _name(verb: int) -> str:
    return Verb(verb).name if verb in Verb.__members__.values() else f"verb {verb}"
