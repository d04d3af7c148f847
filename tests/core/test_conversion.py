"""Conversion of data: text, and headers down to the text behind them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.message.conversion.coding import Coding
from broker.core.message.conversion.conversion import convert
from broker.mqi import MQFMT, MQRC, MQRFH2
from broker.mqi.layouts.layouts import MQTM, MQTMC2
from tests.core.effort import Effort
from tests.tries import tries

if TYPE_CHECKING:
    from collections.abc import Callable

UTF_8, LATIN_1, EBCDIC = Coding(1208, 0x222), Coding(819, 0x222), Coding(500, 0x111)
CODECS = {1208: "utf_8", 819: "latin_1", 500: "cp500"}


def dead_letter(coding: Coding, behind: Coding, format: str = "MQSTR") -> bytes:
    """An MQDLH in one coding that says that what follows is in another."""
    codec, order = CODECS[coding.ccsid], "<" if coding.encoding == 0x222 else ">"

    def text(value: str, size: int) -> bytes:
        return value.ljust(size).encode(codec)

    return struct.pack(
        f"{order}4sii48s48sii8si28s8s8s",
        text("DLH ", 4), 1, 2053, text("Q", 48), text("QM1", 48), behind.encoding, behind.ccsid, text(format, 8), 6,
        text("program", 28), text("20260101", 8), text("00000000", 8),
    )  # fmt: skip


def rules(order: str, behind: Coding, format: bytes, folders: list[bytes]) -> bytes:
    body = b"".join(struct.pack(f"{order}i", len(folder)) + folder for folder in folders)
    return (
        struct.pack(f"{order}4siiii8sii", b"RFH ", 2, 36 + len(body), behind.encoding, behind.ccsid, format, 0, 1208)
        + body
    )


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_text_keeps_its_characters(source: int, target: int) -> None:
    text = "Ärger, 1 £"
    converted = convert(text.encode(CODECS[source]), "MQSTR", Coding(source, 0x222), Coding(target, 0x222))
    assert converted == (text.encode(CODECS[target]), Coding(target, 0x222), 0)


def test_a_character_that_the_target_does_not_have_is_a_question_mark() -> None:
    assert convert("5 €".encode(), "MQSTR", UTF_8, LATIN_1).data == b"5 ?"


@pytest.mark.parametrize("target", [LATIN_1, EBCDIC, Coding(1208, 0x111)], ids=repr)
def test_a_header_and_the_text_behind_it_are_converted(target: Coding) -> None:
    data = dead_letter(UTF_8, LATIN_1) + "Grüße".encode("latin_1")
    converted = convert(data, MQFMT.DEAD_LETTER_HEADER, UTF_8, target)
    assert converted == (dead_letter(target, target) + "Grüße".encode(CODECS[target.ccsid]), target, 0)


def test_bytes_of_no_format_behind_a_header_stay_and_are_said_to_be_what_they_are() -> None:
    converted = convert(dead_letter(UTF_8, UTF_8, "") + b"\xff\xfe", MQFMT.DEAD_LETTER_HEADER, UTF_8, EBCDIC)
    assert converted == (dead_letter(EBCDIC, UTF_8, "") + b"\xff\xfe", EBCDIC, 0)


def test_a_format_that_nobody_knows_behind_a_header_leaves_all_as_it_is() -> None:
    data = dead_letter(UTF_8, UTF_8, "MYFORMAT") + b"A"
    assert convert(data, MQFMT.DEAD_LETTER_HEADER, UTF_8, EBCDIC) == (data, UTF_8, MQRC.FORMAT_ERROR)


def test_folders_keep_their_text_and_change_their_lengths() -> None:
    inherit = Coding(-2, 0x222)
    folders = [b"<usr><a>1</a></usr> ", b"<jms/>  "]
    data = rules("<", inherit, b"MQSTR   ", folders) + "ü".encode()
    target = Coding(819, 0x111)
    expected = rules(">", target, b"MQSTR   ", folders) + b"\xfc"
    assert convert(data, MQFMT.RF_HEADER_2, UTF_8, target) == (expected, target, 0)


def test_headers_follow_each_other() -> None:
    chain = dead_letter(UTF_8, UTF_8, "MQHRF2") + rules("<", UTF_8, b"MQSTR   ", []) + b"A"
    target = Coding(819, 0x111)
    expected = dead_letter(target, target, "MQHRF2") + rules(">", target, b"MQSTR   ", []) + b"A"
    assert convert(chain, MQFMT.DEAD_LETTER_HEADER, UTF_8, target) == (expected, target, 0)


def test_a_chain_may_be_long() -> None:
    data = rules("<", UTF_8, b"MQHRF2  ", []) * 5000 + rules("<", UTF_8, b"        ", [])
    converted = convert(data, MQFMT.RF_HEADER_2, UTF_8, Coding(1208, 0x111))
    assert (converted.reason, len(converted.data)) == (0, len(data))


def test_twice_the_chain_is_twice_the_work() -> None:
    def effort(count: int) -> Effort:
        data = rules("<", UTF_8, b"MQHRF2  ", [b"<usr/>  "]) * count + rules("<", UTF_8, b"        ", [])
        return Effort.of(lambda data: convert(data, MQFMT.RF_HEADER_2, UTF_8, LATIN_1), data)

    assert effort(800).at_most(2.5, effort(400))


def test_a_trigger_message_is_converted() -> None:
    trigger = MQTM(q_name="Q", process_name="P", appl_type=6)
    converted = convert(trigger.to_bytes(), MQFMT.TRIGGER, UTF_8, Coding(819, 0x111))
    assert converted.data == trigger.to_bytes("big")


WRONG = [
    dead_letter(UTF_8, UTF_8)[:171],
    b"DLX " + dead_letter(UTF_8, UTF_8)[4:],
    rules("<", UTF_8, b"MQSTR   ", [])[:8] + struct.pack("<i", 35) + rules("<", UTF_8, b"MQSTR   ", [])[12:],
    rules("<", UTF_8, b"MQSTR   ", [])[:8] + struct.pack("<i", 400) + rules("<", UTF_8, b"MQSTR   ", [])[12:],
    rules("<", UTF_8, b"MQSTR   ", [b"<usr/>  "])[:-9] + b"\x7f" + b"<usr/>  ",
    rules("<", UTF_8, b"MQSTR   ", [b"<usr/>  "])[:-12] + struct.pack("<i", -1) + b"<usr/>  ",
]


@pytest.mark.parametrize("data", WRONG)
def test_a_header_that_is_wrong_is_a_format_error(data: bytes) -> None:
    format = MQFMT.RF_HEADER_2 if data.startswith(b"RFH") else MQFMT.DEAD_LETTER_HEADER
    assert convert(data, format, UTF_8, EBCDIC) == (data, UTF_8, MQRC.FORMAT_ERROR)


def test_headers_are_not_written_in_characters_of_two_bytes() -> None:
    data = dead_letter(UTF_8, UTF_8)
    assert convert(data, MQFMT.DEAD_LETTER_HEADER, UTF_8, Coding(1200, 0x222)).reason == MQRC.NOT_CONVERTED


def test_a_name_that_does_not_fit_its_field_is_not_cut() -> None:
    data = dead_letter(LATIN_1, LATIN_1).replace(b"program".ljust(28), b"\xfc" * 28)
    assert convert(data, MQFMT.DEAD_LETTER_HEADER, LATIN_1, UTF_8) == (data, LATIN_1, MQRC.NOT_CONVERTED)


def rmh(coding: Coding, behind: Coding, format: str = "MQSTR") -> bytes:
    """An MQRMH with a source name and a destination environment behind its fixed part."""
    codec, order = CODECS[coding.ccsid], "<" if coding.encoding == 0x222 else ">"
    tail = "/a/file ".encode(codec) + b"\x01\x02\x03\x04" + "DIR ".encode(codec)
    return struct.pack(
        f"{order}4siiii8si8s24s11i",
        "RMH ".encode(codec), 1, 108 + len(tail), behind.encoding, behind.ccsid, format.ljust(8).encode(codec), 1,
        "FILE    ".encode(codec), bytes(range(24)), 0, 0, 8, 108, 4, 120, 0, 0, 3, 4, 5,
    ) + tail  # fmt: skip


def dist(coding: Coding, behind: Coding, fields: int = 0x1F, format: str = "MQSTR") -> bytes:
    """An MQDH with two object records and two put message records."""
    codec, order = CODECS[coding.ccsid], "<" if coding.encoding == 0x222 else ">"
    objects = b"".join(name.ljust(48).encode(codec) for name in ("Q1", "QM1", "Q2", "QM2"))
    message = b"m" * 24 * (fields & 1) + b"c" * 24 * (fields >> 1 & 1) + b"g" * 24 * (fields >> 2 & 1)
    message += struct.pack(f"{order}i", 275) * (fields >> 3 & 1) + b"t" * 32 * (fields >> 4 & 1)
    tail = objects + message * 2
    return struct.pack(
        f"{order}4siiii8siiiii",
        "DH  ".encode(codec), 1, 48 + len(tail), behind.encoding, behind.ccsid, format.ljust(8).encode(codec), 0,
        fields, 2, 48, 48 + len(objects) if message else 0,
    ) + tail  # fmt: skip


@pytest.mark.parametrize("header", [rmh, dist])
@pytest.mark.parametrize("target", [LATIN_1, EBCDIC, Coding(1208, 0x111)], ids=repr)
def test_reference_and_distribution_headers_are_converted(header: Callable[..., bytes], target: Coding) -> None:
    format = MQFMT.REF_MSG_HEADER if header is rmh else MQFMT.DIST_HEADER
    data = header(UTF_8, LATIN_1) + "Grüße".encode("latin_1")
    expected = header(target, target) + "Grüße".encode(CODECS[target.ccsid])
    assert convert(data, format, UTF_8, target) == (expected, target, 0)


@pytest.mark.parametrize("fields", [0, 1, 2, 8, 9, 0x18, 0x0F])
def test_the_records_of_a_distribution_header_have_the_fields_that_it_says(fields: int) -> None:
    data, expected = dist(UTF_8, UTF_8, fields, ""), dist(EBCDIC, UTF_8, fields, "")
    assert convert(data, MQFMT.DIST_HEADER, UTF_8, EBCDIC) == (expected, EBCDIC, 0)


def altered(data: bytes, place: int, *numbers: int) -> bytes:
    """The data with these integers from the place on."""
    written = struct.pack(f"<{len(numbers)}i", *numbers)
    return data[:place] + written + data[place + len(written) :]


@pytest.mark.parametrize(
    ("format", "data"),
    [
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 32, 0x20)),  # a field of a record that there is not
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 36, -1)),  # less than no records
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 36, 3)),  # more than there are
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 36, 2**31 - 1)),
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 40, 47)),  # records in the fixed part
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 44, 2**31 - 1)),
        (MQFMT.DIST_HEADER, altered(dist(UTF_8, UTF_8), 4, 2)),  # another version
        (MQFMT.REF_MSG_HEADER, altered(rmh(UTF_8, UTF_8), 72, -1)),  # a text of less than nothing
        (MQFMT.REF_MSG_HEADER, altered(rmh(UTF_8, UTF_8), 72, 17)),  # beyond the end
        (MQFMT.REF_MSG_HEADER, altered(rmh(UTF_8, UTF_8), 76, 107)),  # in the fixed part
        (MQFMT.REF_MSG_HEADER, altered(rmh(UTF_8, UTF_8), 8, 107)),  # shorter than the fixed part
        (MQFMT.RF_HEADER_2, altered(rules("<", UTF_8, b"MQSTR   ", []), 4, 3)),
    ],
)
def test_a_header_that_contradicts_itself_is_a_format_error(format: MQFMT, data: bytes) -> None:
    assert convert(data, format, UTF_8, EBCDIC) == (data, UTF_8, MQRC.FORMAT_ERROR)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_trigger_message_of_characters_is_converted(version: str) -> None:
    trigger = bytes(MQTMC2(q_name="Q", process_name="P", user_data="Grüße", q_mgr_name="QM1"))
    if version == "1":
        trigger = trigger[:4] + b"   1" + trigger[8:-48]
    target = Coding(500, 0x111)
    latin = convert(trigger, MQFMT.TRIGGER, UTF_8, LATIN_1).data
    converted = convert(latin, MQFMT.TRIGGER, LATIN_1, target)
    assert converted == (latin.decode("latin_1").encode("cp500"), target, 0)
    assert len(converted.data) == len(trigger)


def test_folders_of_two_bytes_a_character_follow_the_byte_order() -> None:
    text = "<usr><a>ü</a></usr>"
    data = rules("<", UTF_8, b"        ", [text.encode("utf_16_le") + b" \0"])
    data = altered(data, 32, 1200)
    target = Coding(1208, 0x111)
    converted = convert(data, MQFMT.RF_HEADER_2, UTF_8, target)
    assert MQRFH2.from_bytes(converted.data, "big")[0].folders == (text,)
    assert convert(converted.data, MQFMT.RF_HEADER_2, target, UTF_8) == (data, UTF_8, 0)


def test_half_a_character_of_a_folder_is_a_format_error() -> None:
    data = altered(rules("<", UTF_8, b"        ", [b"<usr/>   "]), 32, 1200)
    assert convert(data, MQFMT.RF_HEADER_2, UTF_8, Coding(1208, 0x111)).reason == MQRC.FORMAT_ERROR


def test_a_chain_in_the_right_coding_is_converted_behind_its_first_header_when_that_is_asked_for() -> None:
    data = rules("<", LATIN_1, b"MQSTR   ", []) + b"\xfc"
    assert convert(data, MQFMT.RF_HEADER_2, UTF_8, UTF_8) == (data, UTF_8, 0)
    expected = rules("<", UTF_8, b"MQSTR   ", []) + "ü".encode()
    assert convert(data, MQFMT.RF_HEADER_2, UTF_8, UTF_8, chain=True) == (expected, UTF_8, 0)


@pytest.mark.parametrize("ccsid", [1208, -2, 0])
@pytest.mark.parametrize("format", [b"MQSTR   ", b"MYFORMAT", b"        "])
def test_a_chain_that_is_all_in_the_right_coding_stays_byte_for_byte(ccsid: int, format: bytes) -> None:
    data = rules("<", Coding(ccsid, 0x222), format, [b"<usr/>  "]) + b"A"
    assert convert(data, MQFMT.RF_HEADER_2, UTF_8, UTF_8, chain=True) == (data, UTF_8, 0)


def test_a_header_in_a_character_set_that_nobody_knows_stays_where_nothing_is_to_be_converted() -> None:
    unknown = Coding(12, 0x222)
    data = rules("<", unknown, b"MQSTR   ", [])
    assert convert(data, MQFMT.RF_HEADER_2, unknown, unknown, chain=True) == (data, unknown, 0)


def test_a_format_behind_a_header_that_is_no_text_is_a_format_error() -> None:
    data = rules("<", UTF_8, b"MQST\xff\xfe  ", []) + b"A"
    assert convert(data, MQFMT.RF_HEADER_2, UTF_8, LATIN_1) == (data, UTF_8, MQRC.FORMAT_ERROR)


@pytest.mark.parametrize("ccsid", [1047, 1025, 277, 1149])
def test_headers_and_text_go_to_the_pages_of_the_mainframe_and_back(ccsid: int) -> None:
    mainframe = Coding(ccsid, 0x111)
    data = dead_letter(UTF_8, UTF_8) + b"plain text: 1 + 1 = 2"
    there = convert(data, MQFMT.DEAD_LETTER_HEADER, UTF_8, mainframe)
    assert (there.reason, there.data[:4]) == (0, "DLH ".encode("cp500"))
    assert convert(there.data, MQFMT.DEAD_LETTER_HEADER, mainframe, UTF_8) == (data, UTF_8, 0)


SAMPLES = {
    MQFMT.DEAD_LETTER_HEADER: dead_letter(UTF_8, UTF_8, "MQHRF2") + rules("<", UTF_8, b"MQSTR   ", [b"<usr/>  "]),
    MQFMT.RF_HEADER_2: rules("<", UTF_8, b"MQHRF2  ", [b"<usr/>  "]) + rules("<", UTF_8, b"MQDEAD  ", [])
    + dead_letter(UTF_8, UTF_8),
    MQFMT.DIST_HEADER: dist(UTF_8, UTF_8) + b"A",
    MQFMT.REF_MSG_HEADER: rmh(UTF_8, UTF_8) + b"A",
    MQFMT.TRIGGER: MQTM(q_name="Q").to_bytes(),
    MQFMT.STRING: "Grüße".encode(),
}  # fmt: skip
CODINGS = st.builds(
    Coding, st.sampled_from([1208, 819, 500, 1200, 932, 1047, 1141, 99]), st.sampled_from([0x111, 0x222, 0])
)
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=5)), max_size=4)


@tries(400)
@given(st.sampled_from(list(SAMPLES)), CHANGES, st.binary(max_size=60), CODINGS, CODINGS, st.booleans())
def test_no_bytes_do_harm(
    format: MQFMT, changes: list[tuple[float, bytes]], other: bytes, source: Coding, target: Coding, chain: bool
) -> None:
    data = bytearray(SAMPLES[format])
    for where, change in changes:
        start = int(where * len(data))
        data[start : start + len(change)] = change
    for attempt in (bytes(data), other):
        found = convert(attempt, format.value, source, target, chain=chain)
        if found.reason:
            assert (found.data, found.coding) == (attempt, source)
        else:
            assert found.coding in (source, target)
            assert len(found.data) <= 4 * len(attempt)
