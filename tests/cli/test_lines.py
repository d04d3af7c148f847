"""Lines of an input, as bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from broker.cli.messages.lines import GroupLines, InputLine, Lines, LineSplitter

if TYPE_CHECKING:
    from pathlib import Path


def split(*chunks: bytes, limit: int = 100) -> list[bytes | None]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)] + list(splitter.end())
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    return [line.data for line in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"a\r\n b \n", [b"a\r", b" b "]),
        (b"\x00\xff\n\x0b\x0c\x1c\xe2\x80\xa8\n", [b"\x00\xff", b"\x0b\x0c\x1c\xe2\x80\xa8"]),
    ],
)
def test_only_a_newline_ends_a_line_and_bytes_stay_as_they_are(text: bytes, lines: list[bytes]) -> None:
    assert split(text) == lines
    assert split(*(text[n : n + 1] for n in range(len(text)))) == lines


def test_a_line_beyond_the_limit_is_counted_and_not_kept() -> None:
    splitter = LineSplitter(3)
    lines = [*splitter.feed(b"abc\nab"), *splitter.feed(b"cd"), *splitter.feed(b"e\nx"), *splitter.end()]
    assert lines == [InputLine(1, 3, b"abc"), InputLine(2, 5, None), InputLine(3, 1, b"x")]


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(100_000)))
    descriptor = os.open(file, os.O_RDONLY)
    try:
        assert [int(line.data or b"") async for line in Lines(descriptor)] == list(range(100_000))
    finally:
        os.close(descriptor)


async def test_a_pipe_gives_each_line_as_it_arrives() -> None:
    reading, writing = os.pipe()
    lines = Lines(reading)
    os.write(writing, b"one\ntw")
    assert await anext(lines) == InputLine(1, 3, b"one")
    os.write(writing, b"o")
    os.close(writing)
    assert await anext(lines) == InputLine(2, 3, b"two")
    with pytest.raises(StopAsyncIteration):
        await anext(lines)
    os.close(reading)


async def test_the_null_device_has_no_lines() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    assert [line async for line in Lines(descriptor)] == []
    os.close(descriptor)


@pytest.mark.parametrize("text", [b"", b"a", b"a\nb\n", b"a\nb\nc"])
async def test_the_last_line_of_a_group_is_known_when_it_is_given(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "input"
    path.write_bytes(text)
    expected = split(text)
    with path.open("rb") as file:
        lines = GroupLines(Lines(file.fileno()))
        given = [(line.data, lines.last) async for line in lines]
    last = len(expected)
    assert given == [(data, last if number == last else 0) for number, data in enumerate(expected, 1)]
