"""A program's own MQRFH2 comes back byte for byte to a getter that asks for headers (semantics 14).

What the mapping of a message holds, and what is refused, is in test_properties.py; chains of headers of every kind are
in tests/core/test_original_header.py.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQDLH, MQGMO, MQMF, MQPMO, MQRC, MQRO, MQXQH, MessageDescriptor
from broker.mqi.layouts.folders import decode
from broker.mqi.layouts.rfh2 import FORMAT, MQRFH2
from tests.conformance.expect import ALL, fails

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.system import System

FORCE = MQGMO.PROPERTIES_FORCE_MQRFH2
COMPATIBILITY = MQGMO.PROPERTIES_COMPATIBILITY
PSC = b"<psc><Command>Publish</Command></psc>"
MINE = b"<mine><setting>1</setting></mine>"
MCD = b"<mcd><Msd>jms_text</Msd></mcd>"
USR = b'<usr>\n<colour dt="string">red</colour></usr>'
BIG, LITTLE = 273, 546


def folder(text: bytes, order: str, pad: bytes = b" ") -> bytes:
    text += pad * (-len(text) % 4)
    return struct.pack(f"{order}i", len(text)) + text


def header(*folders: bytes, order: str = ">", behind: tuple[int, int, bytes] = (BIG, -2, b"MQSTR   ")) -> bytes:
    """An MQRFH2 of these folders, with flags that mean nothing."""
    body = b"".join(folders)
    return struct.pack(f"{order}4siiii8sii", b"RFH ", 2, 36 + len(body), *behind, 7, 1208) + body


MIXED = header(folder(PSC, ">"), folder(USR, ">", b"\0"), folder(MINE, ">"), folder(MCD, ">"), folder(b"", ">"))
CHAIN = header(folder(MCD, ">"), behind=(LITTLE, 819, b"MQHRF2  ")) + header(
    folder(USR, "<"), folder(PSC, "<"), order="<"
)
IN_UTF_16 = struct.pack("<4siiii8siii", b"RFH ", 2, 116, LITTLE, 819, b"MQSTR   ", 0, 1200, 76)
IN_UTF_16 += "<usr><colour>red</colour></usr>".encode("utf_16_le").ljust(76, b"\0")
EMPTY = header()
HEADERS = pytest.mark.parametrize("head", [MIXED, CHAIN, IN_UTF_16, EMPTY], ids=["mixed", "chain", "utf-16", "empty"])


def described(head: bytes = MIXED, **fields: object) -> MessageDescriptor:
    """The descriptor of data that begin with this header."""
    encoding = BIG if head[4] == 0 else LITTLE
    return MessageDescriptor(format=FORMAT, encoding=encoding, coded_char_set_id=819, **fields)  # type: ignore[arg-type]


def as_put(message: Message, data: bytes, head: bytes = MIXED) -> None:
    """The message is what was put."""
    assert (message.data, message.length) == (data, len(data))
    wanted = described(head)
    assert (message.md.format, message.md.encoding, message.md.coded_char_set_id) == (FORMAT, wanted.encoding, 819)
    assert message.properties == {}


@HEADERS
@pytest.mark.parametrize("options", [FORCE, COMPATIBILITY])
async def test_a_header_comes_back_byte_for_byte(system: System, queue: Queue, head: bytes, options: MQGMO) -> None:
    await queue.put(head + b"data", described(head), persistence=1)
    as_put(await queue.get(options=options | MQGMO.BROWSE_FIRST), head + b"data", head)
    await queue.close()
    await system.restart()
    again = await (await system.connect("again")).open("Q", ALL)
    as_put(await again.get(options=options | MQGMO.SYNCPOINT), head + b"data", head)


@HEADERS
async def test_the_mapping_stays_what_a_get_has_that_does_not_ask(queue: Queue, head: bytes) -> None:
    expected = {"colour": "red"} | ({"mcd.Msd": "jms_text"} if head in (MIXED, CHAIN) else {})
    for options in (MQGMO.NO_WAIT, MQGMO.PROPERTIES_IN_HANDLE):
        await queue.put(head + b"data", described(head))
        message = await queue.get(options=options)
        assert message.properties == ({} if head == EMPTY else expected)
        if head in (MIXED, CHAIN):
            left, length = MQRFH2.from_bytes(message.data, "big" if head == MIXED else "little")
            assert left.folders == ((PSC.decode(), MINE.decode()) if head == MIXED else (PSC.decode(),))
            assert (left.flags, message.md.format, message.data[length:]) == (7, FORMAT, b"data")
        else:
            assert (message.data, message.md.format) == (b"data", "MQSTR")


async def test_a_header_of_what_older_programs_do_not_know_is_not_for_them(queue: Queue) -> None:
    head = header(folder(b"<wmq content='properties'><a>1</a></wmq>", ">"), folder(PSC, ">"))
    await queue.put(head + b"data", described(head))
    message = await queue.get(options=COMPATIBILITY | MQGMO.BROWSE_FIRST)
    assert (message.data, message.properties) == (header(folder(PSC, ">")) + b"data", {})
    as_put(await queue.get(options=FORCE), head + b"data", head)


async def test_without_properties_a_header_comes_back_to_everybody(queue: Queue) -> None:
    head = header(folder(PSC, ">", b"\0"), folder(MINE, ">"))
    for options in (MQGMO.NO_WAIT, FORCE, COMPATIBILITY, MQGMO.NO_PROPERTIES):
        await queue.put(head + b"data", described(head))
        as_put(await queue.get(options=options), head + b"data", head)


async def test_properties_given_beside_a_header_make_a_new_one(queue: Queue) -> None:
    await queue.put(MIXED + b"data", described(), properties={"n": 5})
    message = await queue.get(options=FORCE)
    made, length = MQRFH2.from_bytes(message.data)
    assert (message.md.encoding, message.md.coded_char_set_id, made.format) == (LITTLE, 1208, FORMAT)
    assert decode(made.folders) == {"n": 5, "colour": "red", "mcd.Msd": "jms_text"}
    left, end = MQRFH2.from_bytes(message.data, "big", length)
    assert (left.folders, message.data[length + end :]) == ((PSC.decode(), MINE.decode()), b"data")


# PROPCTL


async def test_a_queue_can_give_it_to_all(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) PROPCTL(FORCE)")
    for _ in range(3):
        await queue.put(MIXED + b"data", described())
    as_put(await queue.get(), MIXED + b"data")
    for message in await queue.get_many(2):
        as_put(message, MIXED + b"data")


@pytest.mark.parametrize(("of_alias", "of_queue"), [("FORCE", "COMPAT"), ("COMPAT", "FORCE")])
async def test_the_propctl_of_an_alias_counts_for_those_who_open_it(
    system: System, connection: Connection, queue: Queue, of_alias: str, of_queue: str
) -> None:
    await system.mqsc(f"DEFINE QALIAS(A) TARGET(Q) PROPCTL({of_alias})\nALTER QLOCAL(Q) PROPCTL({of_queue})")
    async with connection.open("A", ALL) as alias:
        for name, getter in (("A", alias), ("Q", queue)):
            for _ in range(6):
                await queue.put(MIXED + b"data", described())
            forced = (of_alias if name == "A" else of_queue) == "FORCE"
            found = [await getter.get(), await getter.get(options=MQGMO.BROWSE_FIRST), await getter.get(wait=0)]
            found += await getter.get_many(3)
            assert [message.properties == {} for message in found] == [forced] * 6
            assert [message.data == MIXED + b"data" for message in found] == [forced] * 6
            assert [(await getter.get(options=FORCE)).data] == [MIXED + b"data"]


async def test_propctl_counts_as_it_is_when_a_message_comes(system: System, queue: Queue) -> None:
    for control, forced in (("FORCE", True), ("COMPAT", False), ("FORCE", True)):
        await system.mqsc(f"ALTER QLOCAL(Q) PROPCTL({control})")
        await queue.put(MIXED + b"data", described())
        assert ((await queue.get()).data == MIXED + b"data") == forced


# Lengths, segments, reports


async def test_the_header_counts_in_the_buffer_and_not_in_maxmsgl(system: System, queue: Queue) -> None:
    left = len(header(folder(PSC, ">"), folder(MINE, ">")))
    await system.mqsc(f"ALTER QLOCAL(Q) MAXMSGL({left + 4})")
    await queue.put(MIXED + b"data", described())
    with fails(MQRC.MSG_TOO_BIG_FOR_Q):
        await queue.put(MIXED + b"data.", described())
    whole = len(MIXED) + 4
    with fails(MQRC.TRUNCATED_MSG_FAILED) as caught:
        await queue.get(options=FORCE, max_length=whole - 1)
    partial = caught.value.message
    assert (partial.length, partial.data) == (whole, (MIXED + b"data")[:-1])  # type: ignore[attr-defined]
    assert (await queue.get(options=MQGMO.BROWSE_FIRST, max_length=left + 4)).reason == MQRC.NONE
    as_put(await queue.get(options=FORCE, max_length=whole), MIXED + b"data")


async def test_only_the_properties_count_in_maxpropl(system: System, queue: Queue) -> None:
    properties = len(folder(USR, ">")) + len(folder(MCD, ">")) + len(folder(b"", ">"))
    await system.mqsc(f"ALTER QMGR MAXPROPL({properties - 1})")
    with fails(MQRC.PROPERTIES_TOO_BIG):
        await queue.put(MIXED + b"data", described())
    await system.mqsc(f"ALTER QMGR MAXPROPL({properties})")
    await queue.put(MIXED + b"data", described())
    as_put(await queue.get(options=FORCE), MIXED + b"data")


@pytest.mark.parametrize("piece", [48, 160])
async def test_a_message_that_was_cut_has_it_when_it_is_put_together(system: System, queue: Queue, piece: int) -> None:
    await system.mqsc(f"ALTER QLOCAL(Q) MAXMSGL({piece})")
    data = MIXED + b"0123456789" * 20
    await queue.put(data, described(msg_flags=MQMF.SEGMENTATION_ALLOWED))
    for option in (MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT):
        plain = await queue.get(options=option)
        assert (plain.length, plain.properties) == (piece, {"colour": "red", "mcd.Msd": "jms_text"})
        segment = await queue.get(options=FORCE | MQGMO.BROWSE_MSG_UNDER_CURSOR)
        if piece == 160 and option == MQGMO.BROWSE_FIRST:  # all that was left of the header is in this piece
            as_put(segment, data[: segment.length])
        else:
            made, length = MQRFH2.from_bytes(segment.data)
            assert (decode(made.folders), segment.data[length:]) == (plain.properties, plain.data)
        under_cursor = FORCE | MQGMO.BROWSE_MSG_UNDER_CURSOR
        with fails(MQRC.TRUNCATED_MSG_FAILED):
            await queue.get(options=under_cursor, max_length=segment.length - 1)
        assert (await queue.get(options=under_cursor, max_length=segment.length)).data == segment.data
    as_put(await queue.get(options=FORCE | MQGMO.COMPLETE_MSG, max_length=len(data)), data)


async def test_segments_of_a_program_have_that_of_the_first(connection: Connection, queue: Queue) -> None:
    in_order = MQPMO.LOGICAL_ORDER | MQPMO.SYNCPOINT
    await queue.put(MIXED + b"12345", described(msg_flags=MQMF.SEGMENT), in_order)
    result = await queue.put(b"678", described(msg_flags=MQMF.LAST_SEGMENT), in_order)
    assert result.md.offset == len(header(folder(PSC, ">"), folder(MINE, ">"))) + 5
    await connection.commit()
    as_put(await queue.get(options=FORCE | MQGMO.COMPLETE_MSG), MIXED + b"12345678")


async def test_a_message_of_a_group_has_it_behind_the_mqmde_of_an_old_getter(queue: Queue) -> None:
    await queue.put(MIXED + b"data", described(msg_flags=MQMF.MSG_IN_GROUP))
    message = await queue.get(MessageDescriptor(version=1), FORCE)
    assert (message.md.format, message.md.encoding, message.data[72:]) == ("MQHMDE", BIG, MIXED + b"data")
    assert struct.unpack(">4siiii8s", message.data[:28]) == (b"MDE ", 2, 72, BIG, 819, b"MQHRF2  ")


async def test_a_report_carries_it_with_the_data(system: System, queue: Queue) -> None:
    await system.mqsc("DEFINE QLOCAL(REPLIES)")
    for report, shown in ((MQRO.COA_WITH_FULL_DATA, 200), (MQRO.COA_WITH_DATA, 100), (MQRO.COA, None)):
        await queue.put(MIXED + b"x" * 200, described(report=report, reply_to_q="REPLIES"))
        replies = await (await system.connect("replies")).open("REPLIES", ALL)
        message = await replies.get(options=FORCE)
        if shown is None:
            assert message.data == b""
        else:
            as_put(message, MIXED + b"x" * shown)


async def test_on_the_dead_letter_queue_the_folders_stand_before_the_mqdlh(system: System, queue: Queue) -> None:
    await system.mqsc("DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)")
    await queue.put(MIXED + b"data", described(report=MQRO.COA_WITH_FULL_DATA, reply_to_q="NOWHERE"))
    message = await (await system.connect("dead")).open("DLQ", ALL)
    dead = await message.get(options=FORCE)
    made, length = MQRFH2.from_bytes(dead.data)
    assert (decode(made.folders), made.format) == ({"colour": "red", "mcd.Msd": "jms_text"}, "MQDEAD")
    behind = dead.data[length + MQDLH.SIZE :]
    assert behind == header(folder(PSC, ">"), folder(MINE, ">")) + b"data"


@pytest.mark.parametrize("flags", [0, MQMF.MSG_IN_GROUP])
async def test_it_travels_to_another_queue_manager_as_it_is(
    system: System, connection: Connection, flags: MQMF
) -> None:
    await system.mqsc("DEFINE QLOCAL(X) USAGE(XMITQ)\nDEFINE QREMOTE(R) RNAME(THERE) RQMNAME(QM2) XMITQ(X)")
    await connection.put1("R", MIXED + b"data", described(msg_flags=flags))
    message = await (await connection.open("X", ALL)).get()
    found = MQXQH.from_bytes(message.data)
    start = MQXQH.SIZE
    if flags:
        assert (found.md.format, found.md.encoding, found.md.coded_char_set_id) == ("MQHMDE", LITTLE, 1208)
        extension = struct.unpack_from("<4siiii8s", message.data, start)
        assert extension == (b"MDE ", 2, 72, BIG, 819, b"MQHRF2  ")
        start += 72
    else:
        assert (found.md.format, found.md.encoding, found.md.coded_char_set_id) == (FORMAT, BIG, 819)
    assert message.data[start:] == MIXED + b"data"


# CONVERT


async def test_the_header_is_converted_with_the_data(queue: Queue) -> None:
    await queue.put(MIXED + "Grüße".encode("latin_1"), described())
    for ccsid, encoding, codec in ((1208, LITTLE, "utf_8"), (1047, BIG, "cp500"), (819, LITTLE, "latin_1")):
        md = MessageDescriptor(coded_char_set_id=ccsid, encoding=encoding)
        message = await queue.get(md, FORCE | MQGMO.CONVERT | MQGMO.BROWSE_FIRST)
        assert (message.md.format, message.md.encoding, message.md.coded_char_set_id) == (FORMAT, encoding, ccsid)
        assert (message.reason, message.length) == (MQRC.NONE, len(message.data))
        order, says = "<" if encoding == LITTLE else ">", -2 if ccsid == 819 else ccsid
        fixed = struct.unpack_from(f"{order}4siiii8sii", message.data)
        assert fixed == (
            "RFH ".encode(codec), 2, len(MIXED), encoding, says, "MQSTR   ".encode(codec), 7, 1208,
        )  # fmt: skip
        folders = [
            folder(PSC, order),
            folder(USR, order, b"\0"),
            folder(MINE, order),
            folder(MCD, order),
            folder(b"", order),
        ]
        assert message.data[36 : len(MIXED)] == b"".join(folders)
        assert message.data[len(MIXED) :].decode(codec) == "Grüße"
    same = await queue.get(MessageDescriptor(coded_char_set_id=819, encoding=BIG), FORCE | MQGMO.CONVERT)
    as_put(same, MIXED + "Grüße".encode("latin_1"))


async def test_a_header_that_is_made_of_properties_is_converted_too(queue: Queue) -> None:
    md = MessageDescriptor(format="MQSTR", coded_char_set_id=819)
    for target, encoding, codec in ((500, BIG, "cp500"), (1208, LITTLE, "utf_8")):
        await queue.put("Grüße".encode("latin_1"), md, properties={"colour": "grün"})
        asked = MessageDescriptor(coded_char_set_id=target, encoding=encoding)
        message = await queue.get(asked, FORCE | MQGMO.CONVERT)
        assert (message.md.encoding, message.md.coded_char_set_id, message.reason) == (encoding, target, MQRC.NONE)
        order = "<" if encoding == LITTLE else ">"
        tag, _, length, behind, ccsid, format, _, names = struct.unpack_from(f"{order}4siiii8sii", message.data)
        assert (tag.decode(codec), behind, ccsid, format.decode(codec), names) == (
            "RFH ",
            encoding,
            target,
            "MQSTR   ",
            1208,
        )
        assert message.data[length:].decode(codec) == "Grüße"
        assert "grün".encode() in message.data


async def test_a_buffer_must_have_room_for_mqmde_header_and_converted_data(queue: Queue) -> None:
    await queue.put(MIXED + "ü".encode("latin_1"), described(msg_flags=MQMF.MSG_IN_GROUP))
    md = MessageDescriptor(version=1, coded_char_set_id=1208)
    room = 72 + len(MIXED) + 2
    for length, reason in ((room, MQRC.NONE), (room - 1, MQRC.CONVERTED_MSG_TOO_BIG)):
        message = await queue.get(md, FORCE | MQGMO.CONVERT | MQGMO.BROWSE_FIRST, max_length=length)
        assert (message.reason, message.length) == (reason, length)


async def test_what_cannot_be_converted_leaves_the_header_as_it_was_put(system: System, queue: Queue) -> None:
    head = header(folder(USR, ">"), behind=(BIG, 819, b"MYFORMAT"))
    await queue.put(head + b"data", described(head))
    message = await queue.get(MessageDescriptor(coded_char_set_id=500), FORCE | MQGMO.CONVERT)
    as_put(message, head + b"data", head)
    assert message.reason == MQRC.FORMAT_ERROR
    assert system.depth() == 0


async def test_a_converted_header_that_does_not_fit_is_given_unconverted(queue: Queue) -> None:
    data = MIXED + "ü".encode("latin_1")
    await queue.put(data, described())
    md = MessageDescriptor(coded_char_set_id=1208)
    message = await queue.get(md, FORCE | MQGMO.CONVERT | MQGMO.BROWSE_FIRST, max_length=len(data))
    as_put(message, data)
    assert message.reason == MQRC.CONVERTED_MSG_TOO_BIG
    message = await queue.get(md, FORCE | MQGMO.CONVERT, max_length=len(data) + 1)
    assert (message.reason, message.data[-2:]) == (MQRC.NONE, "ü".encode())
