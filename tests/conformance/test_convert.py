"""MQGMO_CONVERT: data in the character set and encoding of the getter (semantics 5.8)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQDLH, MQENC, MQFMT, MQGMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, fails, name_of
from tests.conformance.grouping import place, take

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.system import System

CONVERT = MQGMO.CONVERT
TEXT = "Grüße"
LATIN_1 = TEXT.encode("latin_1")


async def put_text(queue: Queue, data: bytes = LATIN_1, ccsid: int = 819, **fields: Any) -> None:
    await queue.put(data, MessageDescriptor(format=MQFMT.STRING, coded_char_set_id=ccsid, **fields))


async def converted(queue: Queue, ccsid: int = 0, encoding: int = MQENC.NATIVE, **how: Any) -> Message:
    md = MessageDescriptor(coded_char_set_id=ccsid, encoding=encoding)
    return await queue.get(md, CONVERT | how.pop("options", 0), **how)


def coding(message: Message) -> tuple[int, int, MQRC | int]:
    return message.md.coded_char_set_id, message.md.encoding, message.reason


async def test_text_comes_in_the_character_set_of_the_getter(system: System, queue: Queue) -> None:
    for ccsid, codec in ((0, "utf-8"), (1208, "utf-8"), (-3, "utf-8"), (850, "cp850"), (500, "cp500")):
        await put_text(queue)
        message = await converted(queue, ccsid)
        assert (message.data.decode(codec), message.length) == (TEXT, len(TEXT.encode(codec)))
        assert coding(message) == (ccsid if ccsid > 0 else 1208, 0x222, MQRC.NONE)
    assert system.depth() == 0


async def test_without_convert_or_descriptor_it_comes_as_it_was_put(queue: Queue) -> None:
    for _ in range(2):
        await put_text(queue)
    message = await queue.get(MessageDescriptor(coded_char_set_id=500))
    assert (message.data, *coding(message)) == (LATIN_1, 819, 0x222, MQRC.NONE)
    message = await queue.get(options=CONVERT)
    assert (message.data.decode(), *coding(message)) == (TEXT, 1208, 0x222, MQRC.NONE)


async def test_utf_16_comes_in_the_byte_order_of_the_encoding(queue: Queue) -> None:
    for encoding, codec in ((0x222, "utf_16_le"), (0x111, "utf_16_be")):
        await put_text(queue)
        message = await converted(queue, 1200, encoding)
        assert (message.data.decode(codec), *coding(message)) == (TEXT, 1200, encoding, MQRC.NONE)


@pytest.mark.parametrize(
    ("format", "data", "source", "target", "reason"),
    [
        ("", b"\x01\x02", 819, 500, MQRC.FORMAT_ERROR),
        ("", b"\x01\x02", 819, 819, MQRC.NONE),
        ("MYFORMAT", b"\x01\x02", 819, 500, MQRC.FORMAT_ERROR),
        ("MYFORMAT", b"\x01\x02", 819, 819, MQRC.NONE),
        ("MQSTR", b"\x01\x02", 12, 819, MQRC.SOURCE_CCSID_ERROR),
        ("MQSTR", b"\x01\x02", 819, 12, MQRC.TARGET_CCSID_ERROR),
        ("MQSTR", b"\xff\xfe", 1208, 819, MQRC.NOT_CONVERTED),
        ("MQDEAD", b"short", 1208, 819, MQRC.FORMAT_ERROR),
        ("MQDEAD", bytes(172), 1208, 819, MQRC.FORMAT_ERROR),
    ],
)
async def test_t5_11_what_cannot_be_converted_comes_as_it_is(
    system: System, queue: Queue, format: str, data: bytes, source: int, target: int, reason: MQRC
) -> None:
    await queue.put(data, MessageDescriptor(format=format, coded_char_set_id=source))
    message = await converted(queue, target)
    assert (message.data, message.md.format, *coding(message)) == (data, format, source, 0x222, reason)
    assert system.depth() == 0


async def test_t5_11_another_encoding_is_a_conversion_too(queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(coded_char_set_id=819))
    assert coding(await converted(queue, 819, 0x111)) == (819, 0x222, MQRC.FORMAT_ERROR)


async def test_integers_need_an_encoding_that_says_something_of_them(queue: Queue) -> None:
    for source, target, reason in (
        (0x222, 0, MQRC.TARGET_INTEGER_ENC_ERROR),
        (0, 0x222, MQRC.SOURCE_INTEGER_ENC_ERROR),
    ):
        header = MQDLH(reason=2053).to_bytes()
        await queue.put(header, MessageDescriptor(format=MQFMT.DEAD_LETTER_HEADER, encoding=source))
        assert (await converted(queue, 819, target)).reason == reason


async def test_converted_data_that_does_not_fit_is_given_unconverted(system: System, queue: Queue) -> None:
    await put_text(queue)
    message = await converted(queue, 1208, max_length=6)
    assert (message.data, message.length) == (LATIN_1, 5)
    assert coding(message) == (819, 0x222, MQRC.CONVERTED_MSG_TOO_BIG)
    assert system.depth() == 0


async def test_truncation_is_told_before_conversion(queue: Queue) -> None:
    await put_text(queue)
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await converted(queue, 1208, max_length=4)
    message = await converted(queue, 12, options=MQGMO.ACCEPT_TRUNCATED_MSG, max_length=4)
    assert (message.data, message.length) == (LATIN_1[:4], 5)
    assert coding(message) == (819, 0x222, MQRC.TRUNCATED_MSG_ACCEPTED)


async def test_a_browse_converts_for_its_reader_only(queue: Queue) -> None:
    await put_text(queue)
    for ccsid, codec in ((1208, "utf_8"), (500, "cp500")):
        message = await converted(queue, ccsid, options=MQGMO.BROWSE_FIRST)
        assert message.data.decode(codec) == TEXT
    assert (await queue.get()).data == LATIN_1


async def test_segments_are_converted_together(queue: Queue) -> None:
    data = TEXT.encode()
    text = {"coded_char_set_id": 1208, "format": "MQSTR"}
    for part, flags, offset in ((data[:3], 2, 0), (data[3:], 4, 3)):
        await place(queue, part, flags, name_of("X"), 1, offset, **text)  # type: ignore[arg-type]  # a text
    broken = await take(queue, CONVERT | MQGMO.BROWSE_FIRST, coded_char_set_id=819)
    assert (broken.data, broken.reason) == (data[:3], MQRC.NOT_CONVERTED)
    whole = await take(queue, CONVERT | MQGMO.COMPLETE_MSG, coded_char_set_id=819)
    assert (whole.data, *coding(whole)) == (LATIN_1, 819, 0x222, MQRC.NONE)


async def test_a_getter_of_version_1_has_its_data_converted_behind_the_mqmde(queue: Queue) -> None:
    await put_text(queue, msg_flags=8)
    message = await queue.get(MessageDescriptor(version=1, coded_char_set_id=1208), CONVERT)
    assert (message.data[72:].decode(), message.md.format) == (TEXT, MQFMT.MD_EXTENSION)
    assert message.md.coded_char_set_id == 1208


async def test_an_event_comes_in_the_coding_of_the_getter(system: System, connection: Connection, queue: Queue) -> None:
    await system.mqsc("DEFINE QLOCAL(SYSTEM.ADMIN.QMGR.EVENT) REPLACE\nALTER QMGR INHIBTEV(ENABLED)")
    await system.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    with fails(MQRC.PUT_INHIBITED):
        await queue.put(b"refused")
    observer = await system.connect("observer", connection)
    events = await observer.open("SYSTEM.ADMIN.QMGR.EVENT", ALL)
    as_put = await events.get(options=GetMessageOptions(options=MQGMO.BROWSE_FIRST | MQGMO.WAIT, wait_interval=-1))
    message = await converted(events, 1047, 0x111)
    assert (message.md.format, message.length, *coding(message)) == ("MQEVENT", as_put.length, 1047, 0x111, MQRC.NONE)
    assert struct.unpack(">9i", message.data[:36]) == struct.unpack("<9i", as_put.data[:36])
    assert "Q".ljust(48).encode("cp500") in message.data


async def test_pcf_that_is_damaged_is_taken_off_the_queue_as_it_is(system: System, queue: Queue) -> None:
    data = struct.pack("<9i", 1, 36, 3, 46, 1, 1, 0, 0, 5)
    await queue.put(data, MessageDescriptor(format=MQFMT.ADMIN, coded_char_set_id=1208))
    message = await converted(queue, 500, 0x111)
    assert (message.data, message.md.format, *coding(message)) == (data, "MQADMIN", 1208, 0x222, MQRC.FORMAT_ERROR)
    assert system.depth() == 0
