"""Lines of an input, as bytes, however long: what `put --lines` and the demonstration put as messages.

A line is what stands before a newline, kept as it is; what follows the last newline is a line if it is not empty. A
line beyond the limit is counted and not kept, so that a file without newlines cannot fill the memory.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LINE_BYTES_MAX: Final = 100 * 1024 * 1024
"""The longest message that MQ knows: MAXMSGL ends there."""

_CHUNK_BYTES: Final = 256 * 1024


class InputLine(NamedTuple):
    """One line: its number from 1, its length in bytes, and its bytes, or None when it is too long to keep."""

    number: int
    length: int
    data: bytes | None


class LineSplitter:
    """Cuts chunks of bytes into lines. Pure: it reads nothing."""

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._number = 0
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[InputLine]:
        """The lines that end in this chunk."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            yield self._line()
        self._keep(rest)

    def end(self) -> Iterator[InputLine]:
        """The last line, if the input did not end in a newline."""
        if self._length:
            yield self._line()

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._limit:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _line(self) -> InputLine:
        self._number += 1
        data = None if self._length > self._limit else b"".join(self._parts)
        line = InputLine(self._number, self._length, data)
        self._parts.clear()
        self._length = 0
        return line


class Lines:
    """The lines of an open file, pipe or terminal, one at a time, without blocking the event loop."""

    def __init__(self, descriptor: int, limit: int = LINE_BYTES_MAX) -> None:
        self._descriptor = descriptor
        self._splitter = LineSplitter(limit)
        self._lines: deque[InputLine] = deque()
        self._ended = False
        # Files and devices are always readable, and the event loop refuses to watch them.
        mode = os.fstat(descriptor).st_mode
        self._waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InputLine:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._lines.popleft()

    async def _read(self) -> None:
        if self._waits:
            await anyio.wait_readable(self._descriptor)
        chunk = os.read(self._descriptor, _CHUNK_BYTES)
        self._ended = not chunk
        self._lines.extend(self._splitter.feed(chunk) if chunk else self._splitter.end())


class GroupLines:
    """Lines, one of them read ahead: `last` is the number of the last one when that is given, and 0 before."""

    def __init__(self, lines: AsyncIterator[InputLine]) -> None:
        self.last = 0
        self._lines = lines
        self._ahead: InputLine | None = None
        self._begun = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InputLine:
        line = self._ahead if self._begun else await anext(self._lines, None)
        self._begun = True
        if line is None:
            raise StopAsyncIteration
        self._ahead = await anext(self._lines, None)
        if self._ahead is None:
            self.last = line.number
        return line
