"""Frames of columns: what is packed comes out again, and what is no frame is refused by one error, whatever it is."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.interface.batches import columns
from broker.interface.batches.column_messages import messages
from broker.interface.batches.columns import NO_MESSAGES, Columns, Fill, pack, packed, unpack
from broker.interface.claims.staging import Row, Staging, frames
from broker.mqi import MQRC, MessageDescriptor, MQError
from broker.mqi.layouts.packing import pack_md
from broker.mqi.structures import NO_ID

LONGEST = 1 << 30
ID = bytes(range(24))

identifiers = st.sampled_from([NO_ID, ID, b"\xff" * 24])
longs = st.integers(-(2**31), 2**31 - 1)
texts = st.text("ABC. é", max_size=4)
descriptors = st.builds(
    MessageDescriptor,
    report=longs,
    msg_type=st.sampled_from([1, 8, 65_536]),
    expiry=longs,
    feedback=longs,
    format=texts.map(lambda text: text.rstrip(" ")),
    priority=st.integers(-1, 2**31 - 1),
    persistence=st.sampled_from([0, 1, 2]),
    msg_id=identifiers,
    correl_id=identifiers,
    group_id=identifiers,
    backout_count=st.integers(0, 5),
    accounting_token=st.binary(min_size=32, max_size=32),
    msg_seq_number=longs,
    offset=longs,
    msg_flags=st.integers(0, 2**32 - 1),
    original_length=longs,
)
rows = st.lists(
    st.builds(Row, st.sampled_from(["A", "B", "C" * 48]), st.binary(max_size=40), st.none() | descriptors),
    max_size=12,
)


def staged(*given: Row) -> bytes:
    """The one frame of these messages."""
    (frame,) = frames(given)
    return frame


def refusal(frame: Any) -> MQError:
    with pytest.raises(MQError) as caught:
        unpack(frame)
    assert caught.value.reason == MQRC.BUFFER_ERROR
    return caught.value


@given(rows)
def test_messages_come_out_of_their_frames_as_they_went_in(given_rows: list[Row]) -> None:
    wanted = [(row.q_name, row.md or MessageDescriptor(), row.data) for row in given_rows]
    read = [each for frame in frames(given_rows) for each in messages(unpack(frame))]
    assert [(each.q_name, each.md, each.data) for each in read] == wanted
    assert all(each.length == len(each.data) and each.sequence == each.position == 0 for each in read)


@given(rows)
def test_a_frame_is_packed_of_its_columns_again(given_rows: list[Row]) -> None:
    for frame in frames(given_rows):
        assert pack(unpack(frame)) == frame


def test_columns_of_which_all_is_the_default_are_not_sent() -> None:
    found = unpack(staged(Row("Q", b"one"), Row("Q", b"two")))
    sent = {name for name, value in found._asdict().items() if value not in (None, 0, b"")}
    assert sent == {"messages", "priorities", "persistences", "q_names", "descriptors", "body_offsets", "bodies"}
    assert len(found.descriptors) == 1


def test_the_columns_are_as_wide_as_programs_rely_on() -> None:
    md = MessageDescriptor(
        priority=7, persistence=1, expiry=5, msg_id=ID, correl_id=ID, group_id=ID, msg_seq_number=2, offset=3,
        msg_flags=8, original_length=9, backout_count=4,
    )  # fmt: skip
    found = unpack(staged(Row("A", b"x", md), Row("B", b"", MessageDescriptor(format="MQSTR"))))
    assert found == Columns(
        messages=2,
        first=0,
        keys=None,
        msg_ids=ID + NO_ID,
        correl_ids=ID + NO_ID,
        group_ids=ID + NO_ID,
        msg_seq_numbers=b"\2\0\0\0\1\0\0\0",
        offsets=b"\3\0\0\0\0\0\0\0",
        msg_flags=b"\10\0\0\0\0\0\0\0",
        original_lengths=b"\t\0\0\0\xff\xff\xff\xff",
        backout_counts=b"\4\0\0\0\0\0\0\0",
        expiries=b"\5\0\0\0\xff\xff\xff\xff",
        priorities=b"\7\0\0\0\xff\xff\xff\xff",
        persistences=b"\1\2",
        q_names=["A", "B"],
        queues=b"\0\0\1\0",
        descriptors=[pack_md(md), pack_md(MessageDescriptor(format="MQSTR"))],
        descriptor_of=b"\0\0\0\0\1\0\0\0",
        property_offsets=None,
        properties=b"",
        body_offsets=b"\0\0\0\0\1\0\0\0\1\0\0\0",
        bodies=b"x",
    )


def test_a_frame_without_messages_is_one() -> None:
    assert unpack(pack(NO_MESSAGES)) == NO_MESSAGES
    assert list(messages(NO_MESSAGES)) == []


def test_priorities_and_flags_may_need_all_bits() -> None:
    one = unpack(staged(Row("Q", b"")))
    for priority, flags in ((2**31, 2**32 - 1), (2**32 - 2, 2**31), (9, 0)):
        (message,) = messages(one._replace(priorities=packed([priority]), msg_flags=packed([flags])))
        assert (message.md.priority, message.md.msg_flags) == (priority, flags)


def test_messages_know_their_sequences_and_arrival_numbers() -> None:
    found = unpack(staged(Row("Q", b"one"), Row("Q", b"two")))
    claimed = list(messages(found._replace(first=7)))
    assert [(each.sequence, each.position) for each in claimed] == [(7, 0), (8, 0)]
    browsed = list(messages(found._replace(keys=packed([2**50, 5], "q"))))
    assert [(each.sequence, each.position) for each in browsed] == [(0, 2**50), (0, 5)]
    assert claimed[0].resolved_q_name == "Q"


def test_properties_are_staged_as_a_header_and_read_as_a_column() -> None:
    md = MessageDescriptor(format="MQSTR")
    header, plain = messages(unpack(staged(Row("Q", b"one", md, {"colour": "red"}), Row("Q", b"two", md))))
    assert (header.md.format, header.data[:4], header.data[-3:]) == ("MQHRF2", b"RFH ", b"one")
    assert (plain.md, plain.data) == (md, b"two")
    folder = b"\x20\x00\x00\x00<usr><colour>red</colour></usr> "
    bare = unpack(staged(Row("Q", b"one", md), Row("Q", b"two", md)))
    column = bare._replace(properties=folder, property_offsets=packed([0, len(folder), len(folder)]))
    first, second = messages(unpack(pack(column)))
    assert (first.properties, first.data) == ({"colour": "red"}, b"one")
    assert second.properties == {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"messages": 3}, "priorities is not 3 times"),
        ({"messages": -1}, "-1 messages"),
        ({"messages": True}, "True messages"),
        ({"messages": 4097}, "4097 messages"),
        ({"first": -1}, "first=-1"),
        ({"first": 2**63}, "first="),
        ({"first": None}, "first=None"),
        ({"keys": bytes(15)}, "keys is not 2 times 8"),
        ({"msg_ids": bytes(47)}, "msg_ids"),
        ({"correl_ids": "text"}, "correl_ids"),
        ({"group_ids": 5}, "group_ids"),
        ({"msg_seq_numbers": b""}, "msg_seq_numbers"),
        ({"offsets": bytes(9)}, "offsets"),
        ({"msg_flags": bytes(7)}, "msg_flags"),
        ({"original_lengths": bytes(7)}, "original_lengths"),
        ({"backout_counts": bytes(7)}, "backout_counts"),
        ({"expiries": bytes(7)}, "expiries"),
        ({"priorities": None}, "priorities"),
        ({"persistences": bytes(3)}, "persistences"),
        ({"q_names": []}, "no queue"),
        ({"q_names": "Q"}, "names of its queues"),
        ({"q_names": [b"Q"]}, "names of its queues"),
        ({"q_names": ["Q" * 49]}, "names of its queues"),
        ({"queues": b"\0\0\1\0"}, "queues has places beyond the 1"),
        ({"queues": b"\0\0\xff\xff"}, "queues has places"),
        ({"descriptors": []}, "no descriptor"),
        ({"descriptors": [None]}, "descriptors are no list"),
        ({"descriptors": [bytes(65_537)]}, "descriptors are no list"),
        ({"descriptor_of": packed([0, 1])}, "descriptor_of has places beyond the 1"),
        ({"descriptor_of": packed([-1, 0])}, "descriptor_of has places"),
        ({"properties": b"x"}, "1 bytes of properties belong to no message"),
        ({"properties": b"x", "property_offsets": packed([0, 0, 2])}, "property_offsets does not run from 0 to 1"),
        ({"property_offsets": packed([0, 0])}, "property_offsets is not 3 times 4"),
        ({"properties": None}, "properties or bodies"),
        ({"bodies": None}, "properties or bodies"),
        ({"body_offsets": None}, "body_offsets is not 3 times 4"),
        ({"body_offsets": packed([0, 3])}, "body_offsets is not 3 times 4"),
        ({"body_offsets": packed([1, 3, 6])}, "body_offsets does not run"),
        ({"body_offsets": packed([0, 3, 5])}, "body_offsets does not run"),
        ({"body_offsets": packed([0, 7, 6])}, "body_offsets does not run"),
        ({"body_offsets": packed([0, -1, 6])}, "body_offsets does not run"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(change: dict[str, Any], says: str) -> None:
    found = unpack(staged(Row("Q", b"one"), Row("Q", b"two")))._replace(**change)
    assert says in refusal(msgpack.packb(tuple(found))).detail


@pytest.mark.parametrize(
    "frame",
    [
        None,
        "text",
        bytearray(pack(NO_MESSAGES)),
        b"",
        b"\xc1",
        b"\xc0",
        msgpack.packb([0] * 21),
        msgpack.packb([0] * 23),
        msgpack.packb({"messages": 0}),
        msgpack.packb([msgpack.ExtType(1, b"")] * 22),
        pack(NO_MESSAGES)[:-1],
        pack(NO_MESSAGES) + b"\xc0",
        b"\x91" * 100_000 + b"\xc0",  # deeper than anything is
        b"\xdd\xff\xff\xff\xff",
        msgpack.packb([*NO_MESSAGES[:14], [[], [], []], *NO_MESSAGES[15:]]),  # more lists than a frame has
    ],
)
def test_what_is_no_frame_is_refused(frame: Any) -> None:
    refusal(frame)


def test_a_frame_of_many_lists_is_refused_before_they_are_made() -> None:
    many = [[b""] * 2] * 4000
    assert "more lists than a frame has" in refusal(msgpack.packb([*NO_MESSAGES[:14], many, *NO_MESSAGES[15:]])).detail


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(rows=rows, at=st.integers(0, 21), value=values)
def test_any_value_in_any_column_makes_a_frame_or_an_error(rows: list[Row], at: int, value: Any) -> None:
    found = list(unpack(next(frames(rows), pack(NO_MESSAGES))))
    found[at] = value
    try:
        made = unpack(msgpack.packb(found))
        list(messages(made))
    except MQError:
        pass


@given(rows=rows, at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_byte_changed_makes_a_frame_or_an_error(rows: list[Row], at: int, byte: int) -> None:
    frame = bytearray(next(frames(rows), pack(NO_MESSAGES)))
    frame[at % len(frame)] = byte
    try:
        list(messages(unpack(bytes(frame))))
    except MQError:
        pass


def filled(length: int, longest: int = LONGEST) -> int:
    """Return the number of messages of this length that go into a frame."""
    return Fill(longest).take(repeat((length, 200)))


def test_a_frame_ends_where_it_is_long_enough() -> None:
    assert filled(0) == columns.SHORT_MESSAGES_MAX
    assert filled(columns.SHORT_BYTES) == columns.SHORT_MESSAGES_MAX
    assert filled(columns.SHORT_BYTES + 1) == columns.MESSAGES_MAX
    assert filled(2048) == 1024
    assert filled(2049) == 1023
    assert filled(columns.BYTES_MAX) == 1
    assert filled(columns.BYTES_MAX + 1) == 1


@pytest.mark.parametrize("longest", [64 * 1024, 300_000])
def test_no_frame_is_longer_than_the_line_takes_but_of_one_message(longest: int) -> None:
    def described(number: int) -> MessageDescriptor:
        return MessageDescriptor(
            msg_id=number.to_bytes(24, "big"), correl_id=ID, group_id=ID, reply_to_q=f"{number:048}", msg_flags=1
        )

    sizes = [length for length in (0, 1, 100, 5_000, 400_000, 20, 63_000, 200) for _ in range(40)]
    made = list(frames((Row("Q", bytes(size), described(size)) for size in sizes), longest))
    assert sum(unpack(frame).messages for frame in made) == len(sizes)
    assert all(len(frame) <= longest or unpack(frame).messages == 1 for frame in made)
    assert any(len(frame) > longest for frame in made)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Row("", b""), MQRC.OBJECT_NAME_ERROR),
        (Row("Q" * 49, b""), MQRC.OBJECT_NAME_ERROR),
        (Row(5, b""), MQRC.OBJECT_NAME_ERROR),  # type: ignore[arg-type]
        (Row("Q", b"", MessageDescriptor(version=1)), MQRC.MD_ERROR),
        (Row("Q", b"", MessageDescriptor(msg_id=b"short")), MQRC.MD_ERROR),
        (Row("Q", b"", MessageDescriptor(offset=2**32)), MQRC.MD_ERROR),
        (Row("Q", b"", MessageDescriptor(persistence=300)), MQRC.PERSISTENCE_ERROR),
        (Row("Q", b"", MessageDescriptor(priority=2**31)), MQRC.PRIORITY_ERROR),
        (Row("Q", b"", None, {"JMSbad": "x"}), MQRC.PROPERTY_NAME_ERROR),
    ],
)
def test_what_cannot_be_staged_is_refused_at_once(row: Row, reason: MQRC) -> None:
    staging = Staging()
    staging.add(Row("Q", b"before"))
    with pytest.raises(MQError) as caught:
        staging.add(row)
    assert caught.value.reason == reason
    assert [each.data for each in messages(unpack(staging.frame()))] == [b"before"]
    assert len(staging) == 0


def test_a_descriptor_may_be_changed_when_its_message_is_staged() -> None:
    md = MessageDescriptor(correl_id=ID)
    staging = Staging()
    staging.add(Row("Q", "text", md))
    md.correl_id, md.format = NO_ID, "OTHER"
    staging.add(Row("Q", b"data", md))
    first, second = messages(unpack(staging.frame()))
    assert (first.md.correl_id, first.md.format, first.md.coded_char_set_id) == (ID, "MQSTR", 1208)
    assert (first.data, second.md.correl_id, second.md.format) == (b"text", NO_ID, "OTHER")
