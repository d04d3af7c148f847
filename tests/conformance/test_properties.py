"""Message properties: what a putter says, what a getter is given, in which form (semantics 14; the layout of
MQRFH2 is in tests/mqi/test_rfh2.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import Connection, Queue
from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, MQXQH, GetMessageOptions, MessageDescriptor
from broker.mqi.layouts.folders import decode
from broker.mqi.layouts.rfh2 import FORMAT, MQRFH2
from tests.conformance.expect import ALL, fails, reason_of
from tests.conformance.system import System

if TYPE_CHECKING:
    from broker.interface import Message
    from broker.mqi.layouts.fields import ByteOrder
    from broker.mqi.layouts.folders import Value

PROPERTIES: dict[str, Value] = {
    "colour": "red",
    "n": 5,
    "big": 2**40,
    "weight": 2.5,
    "flag": True,
    "key": b"\0\xff",
    "nothing": None,
    "mcd.Msd": "text",
    "wmq.paint.shade": "dark",
}
USR = "<usr><colour>red</colour></usr>"
FORCE = MQGMO.PROPERTIES_FORCE_MQRFH2


def by_hand(*folders: str, format: str = "MQSTR", byteorder: ByteOrder = "little") -> tuple[bytes, MessageDescriptor]:
    """A message with an MQRFH2 that its program has written."""
    data = MQRFH2(folders, format, 546, 819).to_bytes(byteorder) + b"data"
    encoding = 546 if byteorder == "little" else 273
    return data, MessageDescriptor(format=FORMAT, encoding=encoding, coded_char_set_id=1208)


def taken_apart(message: Message) -> tuple[dict[str, Value], bytes]:
    """The properties and the data of a message that begins with an MQRFH2."""
    assert message.md.format == FORMAT
    assert (message.md.encoding, message.md.coded_char_set_id) == (546, 1208)
    header, length = MQRFH2.from_bytes(message.data)
    return decode(header.folders), message.data[length:]


async def test_properties_come_back_as_a_mapping_beside_the_data(queue: Queue) -> None:
    await queue.put("hello", properties=PROPERTIES)
    message = await queue.get()
    assert (message.data, message.length, message.md.format) == (b"hello", 5, "MQSTR")
    assert message.properties == PROPERTIES
    assert [type(value) for value in message.properties.values()] == [type(value) for value in PROPERTIES.values()]


async def test_a_message_without_properties_has_an_empty_mapping(queue: Queue) -> None:
    await queue.put(b"hello")
    await queue.put(b"hello", properties={})
    assert [(await queue.get()).properties for _ in range(2)] == [{}, {}]


async def test_the_callers_descriptor_and_properties_stay_as_they_are(queue: Queue) -> None:
    md, properties = MessageDescriptor(format="MQSTR", priority=3), {"a": 1}
    result = await queue.put(b"x", md, properties=properties)
    assert (md, properties) == (MessageDescriptor(format="MQSTR", priority=3), {"a": 1})
    assert (result.md.format, result.md.priority, result.md.coded_char_set_id) == ("MQSTR", 3, 1208)


async def test_put1_takes_properties(connection: Connection, queue: Queue) -> None:
    await connection.put1("Q", "hello", properties=PROPERTIES)
    assert (await queue.get()).properties == PROPERTIES


async def test_a_browse_sees_them_and_a_backout_keeps_them(connection: Connection, queue: Queue) -> None:
    await queue.put(b"hello", properties=PROPERTIES)
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).properties == PROPERTIES
    assert (await queue.get(options=MQGMO.SYNCPOINT)).properties == PROPERTIES
    await connection.backout()
    assert (await queue.get()).properties == PROPERTIES


async def test_they_survive_a_restart(system: System, queue: Queue) -> None:
    await queue.put(b"with", properties=PROPERTIES, persistence=1)
    await queue.put(b"without", persistence=1)
    await system.restart()
    again = await (await system.connect("again")).open("Q", ALL)
    found = [await again.get() for _ in range(2)]
    assert [(message.data, dict(message.properties)) for message in found] == [(b"with", PROPERTIES), (b"without", {})]


async def test_force_mqrfh2_brings_them_before_the_data(queue: Queue) -> None:
    await queue.put("hello", properties=PROPERTIES)
    message = await queue.get(options=FORCE)
    assert taken_apart(message) == (PROPERTIES, b"hello")
    assert message.properties == {}
    header, _ = MQRFH2.from_bytes(message.data)
    assert (header.format, header.coded_char_set_id) == ("MQSTR", 1208)


async def test_no_properties_takes_them_away(queue: Queue) -> None:
    await queue.put("hello", properties=PROPERTIES)
    message = await queue.get(options=MQGMO.NO_PROPERTIES)
    assert (message.data, message.md.format, message.properties) == (b"hello", "MQSTR", {})


@pytest.mark.parametrize(("properties", "in_data"), [({"colour": "red"}, True), ({"wmq.a": 1}, False)])
async def test_compatibility_brings_a_header_of_what_older_programs_know(
    queue: Queue, properties: dict[str, Value], in_data: bool
) -> None:
    await queue.put(b"hello", properties=properties)
    message = await queue.get(options=MQGMO.PROPERTIES_COMPATIBILITY)
    assert message.properties == {}
    if in_data:
        assert taken_apart(message) == (properties, b"hello")
    else:
        assert message.data == b"hello"


@pytest.mark.parametrize("control", ["COMPAT", "NONE", "ALL"])
async def test_a_get_that_does_not_say_has_the_mapping(system: System, queue: Queue, control: str) -> None:
    await system.mqsc(f"ALTER QLOCAL(Q) PROPCTL({control})")
    await queue.put(b"hello", properties=PROPERTIES)
    message = await queue.get()
    assert (message.data, message.properties) == (b"hello", PROPERTIES)


async def test_a_queue_can_force_the_header(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) PROPCTL(FORCE)")
    for _ in range(2):
        await queue.put(b"hello", properties=PROPERTIES)
    message = await queue.get()
    assert taken_apart(message) == (PROPERTIES, b"hello")
    assert message.properties == {}
    message = await queue.get(options=MQGMO.PROPERTIES_IN_HANDLE)
    assert (message.data, message.properties) == (b"hello", PROPERTIES)


async def test_at_most_one_form_may_be_asked_for(queue: Queue) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        await queue.get(options=MQGMO.PROPERTIES_IN_HANDLE | FORCE)


# An MQRFH2 written by hand


@pytest.mark.parametrize("byteorder", ["little", "big"])
async def test_an_mqrfh2_written_by_hand_is_recognised(queue: Queue, byteorder: ByteOrder) -> None:
    data, md = by_hand(USR, "<mcd><Msd>text</Msd></mcd>", byteorder=byteorder)
    result = await queue.put(data, md)
    assert (result.md.format, result.md.encoding) == (FORMAT, md.encoding)
    message = await queue.get()
    assert (message.data, message.properties) == (b"data", {"colour": "red", "mcd.Msd": "text"})
    assert (message.md.format, message.md.encoding, message.md.coded_char_set_id) == ("MQSTR", 546, 819)


async def test_it_comes_back_as_it_was_when_it_is_asked_for(queue: Queue) -> None:
    data, md = by_hand('<usr><colour dt="string">red</colour></usr>', "<mcd><Msd>text</Msd></mcd>")
    await queue.put(data, md)
    assert (await queue.get(options=FORCE)).data == data


async def test_folders_without_properties_stay_in_the_data(queue: Queue) -> None:
    data, md = by_hand("<psc><Command>Publish</Command></psc>", USR)
    await queue.put(data, md)
    message = await queue.get()
    assert message.properties == {"colour": "red"}
    assert message.md.format == FORMAT
    header, length = MQRFH2.from_bytes(message.data)
    assert (header.folders, header.format) == (("<psc><Command>Publish</Command></psc>",), "MQSTR")
    assert message.data[length:] == b"data"


async def test_a_chain_of_headers_is_read_to_its_end(queue: Queue) -> None:
    data, md = by_hand(USR, format=FORMAT)
    inner, _ = by_hand("<usr><n dt='i4'>5</n></usr>")
    await queue.put(data.removesuffix(b"data") + inner, md)
    message = await queue.get()
    assert (message.data, message.md.format, message.properties) == (b"data", "MQSTR", {"colour": "red", "n": 5})


async def test_properties_may_be_added_to_those_in_the_data(queue: Queue) -> None:
    data, md = by_hand(USR)
    await queue.put(data, md, properties={"n": 5})
    message = await queue.get()
    assert (message.data, message.properties) == (b"data", {"colour": "red", "n": 5})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", MQRC.RFH_ERROR),
        (b"no header at all, but long enough for one", MQRC.RFH_ERROR),
        (by_hand("<usr><a>")[0], MQRC.RFH_FORMAT_ERROR),
        (by_hand("<usr><a dt='i4'>x</a></usr>")[0], MQRC.RFH_FORMAT_ERROR),
        (by_hand(USR, format=FORMAT)[0], MQRC.RFH_ERROR),
    ],
)
async def test_data_that_only_says_it_is_mqrfh2_is_refused(
    system: System, queue: Queue, data: bytes, reason: MQRC
) -> None:
    assert await reason_of(queue.put(data, MessageDescriptor(format=FORMAT))) == reason
    assert system.depth() == 0


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"a b": 1}, MQRC.PROPERTY_NAME_ERROR),
        ({"a" * 5000: 1}, MQRC.PROPERTY_NAME_LENGTH_ERR),
        ({"a": [1]}, MQRC.PROPERTY_TYPE_ERROR),
        ({"a": 2**64}, MQRC.PROPERTY_TYPE_ERROR),
    ],
)
async def test_properties_that_cannot_be_are_refused(
    system: System, queue: Queue, properties: dict[str, Value], reason: MQRC
) -> None:
    assert await reason_of(queue.put(b"x", properties=properties)) == reason
    assert system.depth() == 0


# Lengths, segments


async def test_properties_do_not_count_in_maxmsgl(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    await queue.put(b"x" * 10, properties={"a": "long" * 100})
    with fails(MQRC.MSG_TOO_BIG_FOR_Q):
        await queue.put(b"x" * 11, properties={"a": 1})
    assert (await queue.get(max_length=10)).length == 10


async def test_properties_count_in_maxpropl(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QMGR MAXPROPL(60)")
    await queue.put(b"x" * 1000, properties={"a": "short"})
    with fails(MQRC.PROPERTIES_TOO_BIG):
        await queue.put(b"x", properties={"a": "long" * 20})
    await system.mqsc("ALTER QMGR MAXPROPL(0)")
    await queue.put(b"x")
    with fails(MQRC.PROPERTIES_TOO_BIG):
        await queue.put(b"x", properties={"a": 1})
    assert system.depth() == 2


async def test_a_header_asked_for_counts_in_the_buffer(queue: Queue) -> None:
    await queue.put(b"hello", properties={"a": 1})
    with fails(MQRC.TRUNCATED_MSG_FAILED) as caught:
        await queue.get(options=FORCE, max_length=20)
    partial = caught.value.message
    assert (partial.length > 41, len(partial.data)) == (True, 20)  # type: ignore[attr-defined]
    message = await queue.get(options=FORCE | MQGMO.ACCEPT_TRUNCATED_MSG, max_length=partial.length - 1)  # type: ignore[attr-defined]
    assert message.reason == MQRC.TRUNCATED_MSG_ACCEPTED


async def test_a_truncated_message_has_its_properties_all_the_same(queue: Queue) -> None:
    await queue.put(b"hello", properties=PROPERTIES)
    with fails(MQRC.TRUNCATED_MSG_FAILED) as caught:
        await queue.get(max_length=2)
    assert caught.value.message.properties == PROPERTIES  # type: ignore[attr-defined]


async def test_a_message_that_is_cut_has_them_on_each_segment(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(16)")
    md = MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED)
    await queue.put(b"x" * 40, md, properties={"a": 1})
    segment = await queue.get(options=MQGMO.BROWSE_NEXT)
    assert (segment.length, segment.properties) == (16, {"a": 1})
    whole = await queue.get(options=MQGMO.COMPLETE_MSG)
    assert (whole.data, whole.properties) == (b"x" * 40, {"a": 1})


async def test_offsets_do_not_count_properties(connection: Connection, queue: Queue) -> None:
    in_order = MQPMO.LOGICAL_ORDER | MQPMO.SYNCPOINT
    await queue.put(b"12345", MessageDescriptor(msg_flags=MQMF.SEGMENT), in_order, properties=PROPERTIES)
    result = await queue.put(b"678", MessageDescriptor(msg_flags=MQMF.LAST_SEGMENT), in_order)
    assert result.md.offset == 5
    await connection.commit()
    whole = await queue.get(options=MQGMO.COMPLETE_MSG)
    assert (whole.data, whole.properties) == (b"12345678", PROPERTIES)


async def test_an_old_descriptor_brings_header_and_extension(connection: Connection, queue: Queue) -> None:
    await queue.put(b"hello", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP, format="MQSTR"), properties={"a": 1})
    old = await queue.get(MessageDescriptor(version=1), GetMessageOptions(options=FORCE | MQGMO.BROWSE_FIRST))
    assert (old.md.format, old.data[:4], old.data[72:76], old.data[-5:]) == ("MQHMDE", b"MDE ", b"RFH ", b"hello")


async def test_a_segment_of_a_message_with_a_header_needs_none_of_its_own(connection: Connection, queue: Queue) -> None:
    in_order = MQPMO.LOGICAL_ORDER | MQPMO.SYNCPOINT
    data, md = by_hand(USR)
    md.msg_flags = MQMF.SEGMENT
    await queue.put(data, md, in_order)
    rest = MessageDescriptor(format=FORMAT, coded_char_set_id=819, msg_flags=MQMF.LAST_SEGMENT)
    await queue.put(b"rest", rest, in_order)
    await connection.commit()
    whole = await queue.get(options=MQGMO.COMPLETE_MSG)
    assert (whole.data, whole.md.format, whole.properties) == (b"datarest", "MQSTR", {"colour": "red"})


async def test_they_travel_before_the_data_to_another_queue_manager(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QLOCAL(X) USAGE(XMITQ)\nDEFINE QREMOTE(R) RNAME(THERE) RQMNAME(QM2) XMITQ(X)")
    await connection.put1("R", "hello", properties=PROPERTIES)
    message = await (await connection.open("X", ALL)).get()
    header = MQXQH.from_bytes(message.data)
    assert (message.properties, header.md.format) == ({}, FORMAT)
    rfh2, length = MQRFH2.from_bytes(message.data[MQXQH.SIZE :])
    assert (decode(rfh2.folders), rfh2.format) == (PROPERTIES, "MQSTR")
    assert message.data[MQXQH.SIZE + length :] == b"hello"


async def test_an_encoding_that_uses_all_its_bits_does_no_harm(queue: Queue) -> None:
    await queue.put(b"hello", MessageDescriptor(encoding=2**32 - 1, coded_char_set_id=2**32 - 1), properties={"a": 1})
    assert taken_apart(await queue.get(options=FORCE)) == ({"a": 1}, b"hello")
