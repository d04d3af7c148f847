"""A line whose client is bound by nothing: it writes what it is given, and reads only when it is told to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.benchmarks.child import MeasurementError
from broker.mqi import MQGMO, MQOO, MQWI, GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions
from broker.wire import Endpoint, Role, Verb, structures
from broker.wire.frames import FRAME_BYTES, PRODUCT, VERSION, WireError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from anyio.abc import ByteStream

    from broker.wire import Frame

HUNG_UP: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, WireError)
"""What reading and writing raise once the queue manager has ended the line. (WireError: it said why, and more came.)"""

STALL_SECONDS: Final = 0.5
"""A peer that takes nothing for so long has stopped to read."""

_WRITE_BYTES: Final = 256 * 1024
_HEARTBEAT_MS: Final = 30_000
_FINAL: Final = frozenset({Verb.ANSWER, Verb.FAILED, Verb.CANCELLED})


class RawLine:
    """A line to a queue manager. `calls` is the number of its last call."""

    def __init__(self, stream: ByteStream) -> None:
        self.calls = 0
        self._stream = stream
        self._endpoint = Endpoint(Role.CLIENT)
        self._received: list[Frame] = []

    async def greet(self) -> None:
        """The handshake."""
        await self.write(self.said(Verb.HELLO, 0, 0, PRODUCT, VERSION, VERSION, _HEARTBEAT_MS, FRAME_BYTES))
        await self._next()

    # Frames, made and not written.

    def said(self, *frame: object) -> bytes:
        """Any frame: verb, conversation, call and its items."""
        return self._endpoint.send(*frame)

    def frame(self, verb: Verb, *items: object, conversation: int = 1) -> bytes:
        """The frame of a new call."""
        self.calls += 1
        return self.said(verb, conversation, self.calls, *items)

    def connect(self, conversation: int) -> bytes:
        """The frame that begins a conversation."""
        return self.frame(Verb.CONNECT, "", "stranger", "", conversation=conversation)

    # Writing.

    async def write(self, data: bytes) -> None:
        """Write all of it, however long it takes."""
        await self._stream.send(data)

    async def pour(self, data: Iterable[bytes]) -> int:
        """Write as much as the queue manager takes, until it has taken nothing for a while; how many bytes."""
        taken = 0
        for each in data:
            for start in range(0, len(each), _WRITE_BYTES):
                piece = each[start : start + _WRITE_BYTES]
                with anyio.move_on_after(STALL_SECONDS) as stall:
                    await self._stream.send(piece)
                if stall.cancelled_caught:
                    return taken
                taken += len(piece)
        return taken

    # Calls that are waited for.

    async def call(self, verb: Verb, *items: object, conversation: int = 1) -> Frame:
        """Make a call; its final frame. Frames that come before it are dropped."""
        await self.write(self.frame(verb, *items, conversation=conversation))
        return await self.final(self.calls)

    async def final(self, number: int) -> Frame:
        """The final frame of a call; those before it are dropped."""
        while True:
            frame = await self._next()
            if frame[2] == number and frame[0] in _FINAL:
                return frame

    async def finals(self, *numbers: int) -> None:
        """Wait for the final frames of these calls, in any order."""
        awaited = set(numbers)
        while awaited:
            frame = await self._next()
            if frame[0] in _FINAL:
                awaited.discard(frame[2])

    async def answer(self, verb: Verb, *items: object, conversation: int = 1) -> list[Any]:
        """Make a call; the items of its answer. Raises MeasurementError when it fails."""
        kind, _, _, *found = await self.call(verb, *items, conversation=conversation)
        if kind != Verb.ANSWER:
            raise MeasurementError(f"{verb.name} failed: {found}")
        return found

    async def open(self, name: str, options: int = MQOO.INPUT_SHARED, selector: str = "", conversation: int = 1) -> int:
        """Open a queue; its handle."""
        found = await self.answer(Verb.OPEN, *opened(name, options, selector), conversation=conversation)
        return int(found[0])

    async def ended(self) -> None:
        """Read to the end of the line."""
        try:
            while True:
                await self._next()
        except HUNG_UP:
            pass

    async def _next(self) -> Frame:
        while not self._received:
            self._received = self._endpoint.receive(await self._stream.receive(1024 * 1024))[::-1]
        frame = self._received.pop()
        if frame[0] == Verb.REFUSED:
            raise anyio.EndOfStream
        return frame


@asynccontextmanager
async def stream_to(url: str) -> AsyncIterator[ByteStream]:
    """A socket to the queue manager at `mq://host:port`, cut at the end."""
    host, _, port = url.removeprefix("mq://").rpartition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        yield stream


@asynccontextmanager
async def raw_line(url: str) -> AsyncIterator[RawLine]:
    """A line past its handshake, and past the connect of conversation 1."""
    async with stream_to(url) as stream:
        line = RawLine(stream)
        await line.greet()
        await line.write(line.connect(1))
        await line.final(line.calls)
        yield line


# The items of calls.


def opened(name: str, options: int, selector: str = "") -> tuple[object, ...]:
    """Those of an OPEN."""
    return structures.object_fields(ObjectDescriptor(object_name=name, selection_string=selector)), int(options)


def packed(md: MessageDescriptor | None) -> bytes | None:
    """A descriptor as a call carries it."""
    return structures.DescriptorPacker().pack(md)


def waiting(md: MessageDescriptor | None = None, match: int | None = None, token: bytes = bytes(16)) -> tuple[Any, Any]:
    """The descriptor and the options of a get that waits for ever."""
    options = GetMessageOptions(options=MQGMO.WAIT | MQGMO.NO_SYNCPOINT, wait_interval=MQWI.UNLIMITED, msg_token=token)
    if match is not None:
        options.match_options = match
    return packed(md), structures.packed_get_options(options)


def getting(options: int) -> bytes:
    """The options of a get with these flags."""
    return structures.packed_get_options(GetMessageOptions(options=options))


def putting(options: int = 0) -> bytes:
    """The options of a put with these flags."""
    return structures.packed_put_options(PutMessageOptions(options=options))
