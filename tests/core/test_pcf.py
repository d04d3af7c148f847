"""Conversion of PCF: every kind of parameter, both byte orders, strings that change their length, and damage."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.message.conversion.coding import Coding
from broker.core.message.conversion.conversion import convert
from broker.mqi import MQRC
from tests.core.effort import Effort
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Iterable

UTF_8 = Coding(1208, 0x222)
EBCDIC = Coding(500, 0x111)
LATIN_1 = Coding(819, 0x222)
CODECS = {1208: "utf_8", 819: "latin_1", 500: "cp500", 1200: "utf_16_be"}


class Writer:
    """Writes structures of PCF in one coding."""

    def __init__(self, coding: Coding) -> None:
        self.order = "<" if coding.encoding == 0x222 else ">"
        self.codec = CODECS[coding.ccsid]

    def longs(self, *numbers: int) -> bytes:
        return struct.pack(f"{self.order}{len(numbers)}i", *numbers)

    def header(self, count: int, kind: int = 1) -> bytes:
        """MQCFH."""
        return self.longs(kind, 36, 3, 46, 1, 1, 0, 0, count)

    def integer(self, parameter: int, value: int) -> bytes:
        """MQCFIN."""
        return self.longs(3, 16, parameter, value)

    def integers(self, parameter: int, *values: int) -> bytes:
        """MQCFIL."""
        return self.longs(5, 16 + 4 * len(values), parameter, len(values), *values)

    def string(self, parameter: int, text: str, ccsid: int = 0) -> bytes:
        """MQCFST."""
        data = text.encode(self.codec)
        room = len(data) + -len(data) % 4
        return self.longs(4, 20 + room, parameter, ccsid, len(data)) + data.ljust(room, b"\0")

    def strings(self, parameter: int, *texts: str, ccsid: int = 0) -> bytes:
        """MQCFSL; the texts have one length."""
        data = b"".join(text.encode(self.codec) for text in texts)
        room = len(data) + -len(data) % 4
        size = len(data) // len(texts)
        return self.longs(6, 24 + room, parameter, ccsid, len(texts), size) + data.ljust(room, b"\0")

    def byte_string(self, parameter: int, data: bytes) -> bytes:
        """MQCFBS."""
        room = len(data) + -len(data) % 4
        return self.longs(9, 16 + room, parameter, len(data)) + data.ljust(room, b"\0")

    def integer_filter(self, parameter: int, operator: int, value: int) -> bytes:
        """MQCFIF."""
        return self.longs(13, 20, parameter, operator, value)

    def string_filter(self, parameter: int, operator: int, text: str) -> bytes:
        """MQCFSF."""
        data = text.encode(self.codec)
        return self.longs(14, 24 + len(data), parameter, operator, 0, len(data)) + data

    def bytes_filter(self, parameter: int, operator: int, data: bytes) -> bytes:
        """MQCFBF."""
        return self.longs(15, 20 + len(data), parameter, operator, len(data)) + data

    def group(self, parameter: int, count: int) -> bytes:
        """MQCFGR, which its `count` parameters follow."""
        return self.longs(20, 16, parameter, count)

    def integer64(self, parameter: int, value: int) -> bytes:
        """MQCFIN64."""
        return self.longs(23, 24, parameter, 0) + struct.pack(f"{self.order}q", value)

    def integers64(self, parameter: int, *values: int) -> bytes:
        """MQCFIL64."""
        head = self.longs(25, 16 + 8 * len(values), parameter, len(values))
        return head + struct.pack(f"{self.order}{len(values)}q", *values)


def message(coding: Coding) -> bytes:
    """A message with a parameter of every kind."""
    write = Writer(coding)
    parameters = [
        write.integer(1, 5),
        write.integers(2, 1, -2, 2**31 - 1),
        write.integers(3),
        write.string(2016, "A.QUEUE".ljust(48)),
        write.string(2017, ""),
        write.string(2018, "five!"),
        write.strings(2019, "ONE  ", "TWO  ", "THREE"),
        write.byte_string(7001, b"\x00\xc1\xff"),
        write.integer_filter(4, 2, 100),
        write.string_filter(5, 18, "APP*"),
        write.bytes_filter(6, 18, b"\x01\x02\x03\x04"),
        write.group(8001, 2),
        write.integer(7, 7),
        write.group(8002, 1),
        write.string(2020, "deep"),
        write.integer64(8, 2**40),
        write.integers64(9, -1, 2**62),
    ]
    return write.header(14) + b"".join(parameters)


def made(coding: Coding, *parameters: bytes) -> bytes:
    return Writer(coding).header(len(parameters)) + b"".join(parameters)


@pytest.mark.parametrize("format", ["MQADMIN", "MQEVENT", "MQPCF"])
@pytest.mark.parametrize(("source", "target"), [(UTF_8, EBCDIC), (EBCDIC, UTF_8), (LATIN_1, EBCDIC), (EBCDIC, LATIN_1)])
def test_every_kind_of_parameter_is_converted(format: str, source: Coding, target: Coding) -> None:
    assert convert(message(source), format, source, target) == (message(target), target, 0)


def test_the_byte_order_alone_may_change() -> None:
    target = Coding(1208, 0x111)
    assert convert(message(UTF_8), "MQPCF", UTF_8, target) == (message(target), target, 0)


def test_a_string_keeps_its_length_where_its_blanks_have_room_for_more_bytes() -> None:
    before, after = Writer(LATIN_1), Writer(UTF_8)
    data = made(LATIN_1, before.string(1, "Grüße   "), before.strings(2, "ä   ", "abcd"))
    expected = made(UTF_8, after.string(1, "Grüße "), after.strings(2, "ä  ", "abcd"))
    assert convert(data, "MQPCF", LATIN_1, UTF_8) == (expected, UTF_8, 0)
    assert len(expected) == len(data)


def test_a_string_that_needs_more_bytes_makes_its_parameter_longer() -> None:
    before, after = Writer(LATIN_1), Writer(UTF_8)
    data = made(LATIN_1, before.string(1, "äöüß"), before.strings(2, "äöü ", "abc "), before.integer(3, 3))
    expected = made(UTF_8, after.string(1, "äöüß"), after.strings(2, "äöü", "abc   "), after.integer(3, 3))
    assert convert(data, "MQPCF", LATIN_1, UTF_8) == (expected, UTF_8, 0)


def test_strings_may_become_two_bytes_a_character() -> None:
    target = Coding(1200, 0x111)
    before, after = Writer(UTF_8), Writer(target)
    data = made(UTF_8, before.string(1, "ABCD"), before.strings(2, "ab", "c "))
    expected = made(target, after.string(1, "ABCD"), after.strings(2, "ab", "c "))
    assert convert(data, "MQPCF", UTF_8, target) == (expected, target, 0)


def test_strings_of_odd_length_have_an_even_one_then() -> None:
    target = Coding(1200, 0x111)
    before, after = Writer(UTF_8), Writer(target)
    data = made(UTF_8, before.strings(1, "A    ", "BC   "), before.string(2, "D    "))
    expected = made(target, after.strings(1, "A  ", "BC "), after.string(2, "D  "))
    assert convert(data, "MQPCF", UTF_8, target) == (expected, target, 0)


def test_a_string_may_have_a_character_set_of_its_own() -> None:
    before, after = Writer(EBCDIC), Writer(UTF_8)
    own = Writer(Coding(819, 0x111)).string(1, "Grüße  ", ccsid=819)
    assert convert(made(EBCDIC, own, before.integer(2, 2)), "MQPCF", EBCDIC, UTF_8) == (
        made(UTF_8, after.string(1, "Grüße", ccsid=1208), after.integer(2, 2)),
        UTF_8,
        0,
    )


def test_what_pads_a_parameter_stays() -> None:
    write = Writer(UTF_8)
    padded = write.longs(4, 28, 1, 0, 5) + b"five!\x01\x02\x03"
    found = convert(made(UTF_8, padded), "MQPCF", UTF_8, LATIN_1)
    assert found == (made(LATIN_1, padded), LATIN_1, 0)


def test_pcf_may_stand_behind_a_header() -> None:
    head = struct.pack("<4siiii8sii", b"RFH ", 2, 36, 0x222, 1208, b"MQADMIN ", 0, 1208)
    expected = struct.pack(
        ">4siiii8sii", "RFH ".encode("cp500"), 2, 36, 0x111, 500, "MQADMIN ".encode("cp500"), 0, 1208
    )
    assert convert(head + message(UTF_8), "MQHRF2", UTF_8, EBCDIC) == (expected + message(EBCDIC), EBCDIC, 0)


W = Writer(UTF_8)
DAMAGED = {
    "empty": b"",
    "no header": W.header(0)[:35],
    "header of another length": W.longs(1, 40, 3, 46, 1, 1, 0, 0, 0) + bytes(4),
    "less than no parameters": W.header(-1),
    "fewer parameters than it says": W.header(2) + W.integer(1, 1),
    "more than it says": W.header(1) + W.integer(1, 1) * 2,
    "a type that is none": made(UTF_8, W.longs(99, 16, 1, 1)),
    "shorter than its type": made(UTF_8, W.longs(3, 12, 1)),
    "no multiple of four": made(UTF_8, W.longs(9, 18, 1, 1) + b"ab"),
    "a negative length": made(UTF_8, W.longs(3, -16, 1, 1)),
    "beyond the end": made(UTF_8, W.longs(3, 20, 1, 1)),
    "a longer string than its parameter": made(UTF_8, W.longs(4, 24, 1, 0, 5) + b"ABCD"),
    "a negative string": made(UTF_8, W.longs(4, 24, 1, 0, -1) + b"ABCD"),
    "more strings than there are": made(UTF_8, W.longs(6, 32, 1, 0, 3, 4) + b"ABCDEFGH"),
    "less than no strings": made(UTF_8, W.longs(6, 32, 1, 0, -1, 4) + b"ABCDEFGH"),
    "strings of less than nothing": made(UTF_8, W.longs(6, 32, 1, 0, -2, -4) + b"ABCDEFGH"),
    "more integers than there are": made(UTF_8, W.longs(5, 20, 1, 2, 1)),
    "less than no integers": made(UTF_8, W.longs(5, 20, 1, -1, 1)),
    "bytes beyond the end": made(UTF_8, W.longs(9, 20, 1, 5) + b"ABCD"),
    "half of a long integer": made(UTF_8, W.longs(23, 20, 1, 0, 1)),
    "a group of less than nothing": made(UTF_8, W.group(1, -1)),
    "a group without its members": made(UTF_8, W.group(1, 1)),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_is_damaged_stays_as_it_is(what: str) -> None:
    data = DAMAGED[what]
    assert convert(data, "MQPCF", UTF_8, EBCDIC) == (data, UTF_8, MQRC.FORMAT_ERROR)


def test_text_that_is_not_in_its_character_set_leaves_all_as_it_is() -> None:
    data = made(UTF_8, W.integer(1, 1), W.longs(4, 24, 1, 0, 4) + b"AB\xff\xfe")
    assert convert(data, "MQPCF", UTF_8, EBCDIC) == (data, UTF_8, MQRC.NOT_CONVERTED)


def test_twice_as_many_parameters_are_twice_the_work() -> None:
    def effort(count: int) -> Effort:
        write = Writer(UTF_8)
        pairs = [write.integer(1, 1), write.string(2, "TEXT")] * count
        return Effort.of(lambda data: convert(data, "MQPCF", UTF_8, EBCDIC), made(UTF_8, *pairs))

    assert effort(800).at_most(2.5, effort(400))


def test_many_strings_of_no_length_cost_nothing() -> None:
    data = made(UTF_8, W.longs(6, 24, 1, 0, 2**31 - 1, 0))
    target = Writer(EBCDIC).longs(6, 24, 1, 0, 2**31 - 1, 0)
    assert convert(data, "MQPCF", UTF_8, EBCDIC) == (made(EBCDIC, target), EBCDIC, 0)


CHANGES = st.lists(st.tuples(st.integers(0, len(message(UTF_8)) - 1), st.binary(min_size=1, max_size=4)), max_size=4)
CODINGS = st.builds(
    Coding, st.sampled_from([1208, 819, 500, 1200, 37, 932, 1141, 99]), st.sampled_from([0x111, 0x222, 0])
)


@tries(300)
@given(CHANGES, CODINGS, CODINGS)
def test_no_bytes_do_harm(changes: Iterable[tuple[int, bytes]], source: Coding, target: Coding) -> None:
    data = bytearray(message(UTF_8))
    for where, change in changes:
        data[where : where + len(change)] = change
    found = convert(bytes(data), "MQPCF", source, target)
    if found.reason:
        assert (found.data, found.coding) == (bytes(data), source)
    else:
        assert found.coding == target
        assert len(found.data) <= 4 * len(data)
