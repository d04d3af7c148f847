"""Conversion of data: text, and headers down to the text behind them."""

from __future__ import annotations

import struct

import pytest

from broker.core.conversion import Coding, convert
from broker.mqi import MQFMT, MQRC
from broker.mqi.layouts import MQTM

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
