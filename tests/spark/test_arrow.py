"""Frames of columns and Arrow's record batches, both ways."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from broker import MQError
from broker.interface.batches.column_messages import messages
from broker.interface.batches.columns import BYTES_MAX, Columns, identifiers, offsets_of, pack, packed, unpack
from broker.mqi import MQMF, MessageDescriptor
from broker.mqi.layouts.folders import encode
from broker.mqi.layouts.packing import pack_md
from broker.mqi.layouts.rfh2 import pack as pack_folders
from broker.spark.arrow import put_microseconds, record_batch
from broker.spark.rows import pieces
from broker.spark.schema import NAMES, SCHEMA, arrow_schema

ARROW = arrow_schema(SCHEMA)


def identifier(number: int) -> bytes:
    return b"%024d" % number


def frame(bodies: list[bytes], **columns: Any) -> Columns:
    """Claims with the sequences 5, 6, ... of the queue Q."""
    count = len(bodies)
    defaults: dict[str, Any] = dict.fromkeys(Columns._fields)
    defaults |= {
        "messages": count, "first": 5, "msg_ids": identifiers([identifier(n) for n in range(count)]),
        "priorities": packed([n % 10 for n in range(count)]), "persistences": packed([1] * count, "b"),
        "q_names": ["Q"], "descriptors": [pack_md(MessageDescriptor(format="MQSTR"))], "properties": b"",
        "body_offsets": offsets_of(bodies), "bodies": b"",
    }  # fmt: skip
    return unpack(pack(Columns(**(defaults | columns)), bodies))


def rows(columns: Columns, **options: Any) -> list[dict[str, Any]]:
    batch = record_batch(columns, ARROW, **options)
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return found


def test_each_column_has_the_type_that_spark_expects() -> None:
    assert record_batch(frame([b"a"]), ARROW).schema.equals(ARROW)
    assert record_batch(frame([]), ARROW).num_rows == 0


def test_what_a_frame_leaves_out_is_the_default() -> None:
    first, second = rows(frame([b"one", b""]))
    assert list(first) == list(NAMES)
    assert {name: first[name] for name in ("queue", "position", "format", "priority", "persistence", "body")} == {
        "queue": "Q", "position": 5, "format": "MQSTR", "priority": 0, "persistence": 1, "body": b"one"
    }  # fmt: skip
    assert (second["position"], second["priority"], second["msg_id"], second["body"]) == (6, 1, identifier(1), b"")
    defaults = {
        "expiry": -1, "correl_id": bytes(24), "group_id": bytes(24), "backout_count": 0, "msg_seq_number": 1,
        "offset": 0, "msg_flags": 0, "original_length": -1, "put_timestamp": None, "properties": {},
    }  # fmt: skip
    assert {name: first[name] for name in defaults} == defaults


def test_what_a_frame_has_is_spread_over_its_messages() -> None:
    descriptors = [MessageDescriptor(put_date="20261122", put_time="13150742", reply_to_q="R"), MessageDescriptor()]
    texts = [b"", pack_folders(encode({"n": 7, "ok": True, "raw": b"\xff", "none": None, "x": 0.5})), b""]
    found = rows(
        frame(
            [b"a", b"b", b"c"],
            keys=packed([11, 70, 2**40], "q"),
            q_names=["Q", "R"],
            queues=packed([0, 1, 0], "h"),
            descriptors=[pack_md(each) for each in descriptors],
            descriptor_of=packed([1, 0, 0]),
            group_ids=identifiers([bytes(24), identifier(9), identifier(9)]),
            msg_seq_numbers=packed([1, 1, 2]),
            msg_flags=packed([0, 8, 2**31]),
            expiries=packed([-1, 30, 40]),
            property_offsets=offsets_of(texts),
            properties=b"".join(texts),
        )
    )
    assert [row["position"] for row in found] == [11, 70, 2**40]
    assert [row["queue"] for row in found] == ["Q", "R", "Q"]
    assert [row["reply_to_q"] for row in found] == ["", "R", "R"]
    put = datetime(2026, 11, 22, 13, 15, 7, 420_000, tzinfo=UTC)
    assert [row["put_timestamp"] for row in found] == [None, put, put]
    assert [(row["group_id"], row["msg_seq_number"]) for row in found[1:]] == [(identifier(9), 1), (identifier(9), 2)]
    assert [row["msg_flags"] for row in found] == [0, 8, -(2**31)]
    assert [row["expiry"] for row in found] == [-1, 30, 40]
    assert [row["properties"] for row in found] == [
        {}, {"n": "7", "ok": "true", "raw": "ff", "none": None, "x": "0.5"}, {}
    ]  # fmt: skip


def test_without_bodies_and_with_some_columns_alone_nothing_else_is_made() -> None:
    assert [row["body"] for row in rows(frame([b"a", b"b"]), bodies=False)] == [None, None]
    some = record_batch(frame([b"a"]), pa.schema([ARROW.field("body"), ARROW.field("queue")]))
    assert some.to_pylist() == [{"body": b"a", "queue": "Q"}]


@pytest.mark.parametrize(
    "text", [("", ""), ("20261322", "10000000"), ("2026112", "100000000"), ("abcdefgh", "10000000")]
)
def test_a_time_that_is_none_is_null(text: tuple[str, str]) -> None:
    assert put_microseconds(*text) is None


# From rows to frames.


def batch(**columns: Any) -> pa.RecordBatch:
    types = {name: ARROW.field(name).type for name in columns}
    return pa.RecordBatch.from_pydict(
        {
            name: values if isinstance(values, pa.Array) else pa.array(values, types[name])
            for name, values in columns.items()
        }
    )


def staged(given: pa.RecordBatch, q_name: str = "Q") -> list[Any]:
    return [each for piece in pieces(given, q_name) for each in messages(unpack(piece.frame))]


def test_a_row_needs_a_body_alone() -> None:
    (message,) = staged(batch(body=[b"one"]))
    assert (message.q_name, message.data) == ("Q", b"one")
    assert message.md == MessageDescriptor()


def test_what_was_read_is_written_as_it_was() -> None:
    """All fields but those that the queue manager fills in at a put."""
    md = MessageDescriptor(report=5, msg_type=1, feedback=7, encoding=546, coded_char_set_id=819, format="F",
                           reply_to_q="R", reply_to_q_mgr="M", put_date="20261122", put_appl_name="x")  # fmt: skip
    given = frame(
        [b"a", b"bb"],
        descriptors=[pack_md(md), pack_md(MessageDescriptor())],
        descriptor_of=packed([1, 0]),
        correl_ids=identifiers([identifier(1), bytes(24)]),
        group_ids=identifiers([identifier(9), bytes(24)]),
        msg_flags=packed([MQMF.LAST_MSG_IN_GROUP.value, 0]),
        msg_seq_numbers=packed([3, 1]),
        expiries=packed([50, -1]),
        backout_counts=packed([2, 0]),
    )
    first, second = staged(record_batch(given, ARROW))
    assert first.md == MessageDescriptor(
        msg_id=identifier(0), correl_id=identifier(1), group_id=identifier(9), msg_flags=MQMF.LAST_MSG_IN_GROUP.value,
        msg_seq_number=3, expiry=50, priority=0, persistence=1,
    )  # fmt: skip
    assert second.md == MessageDescriptor(
        msg_id=identifier(1), report=5, msg_type=1, feedback=7, encoding=546, coded_char_set_id=819, format="F",
        reply_to_q="R", reply_to_q_mgr="M", priority=1, persistence=1,
    )  # fmt: skip
    assert [first.data, second.data] == [b"a", b"bb"]


def test_a_null_is_the_default() -> None:
    nulls = {name: [None] for name in ("queue", "msg_id", "format", "priority", "persistence", "properties", "expiry")}
    (message,) = staged(batch(body=[b"one"], **nulls))
    assert (message.q_name, message.md) == ("Q", MessageDescriptor())


def test_text_is_a_string_message() -> None:
    bodies = pa.array(["Grüße", "x", "y"], pa.string())
    found = staged(batch(body=bodies, format=["", "OTHER", None], coded_char_set_id=[0, 0, 819]))
    assert [(each.data, each.md.format, each.md.coded_char_set_id) for each in found] == [
        ("Grüße".encode(), "MQSTR", 1208), (b"x", "OTHER", 1208), (b"y", "MQSTR", 819)
    ]  # fmt: skip


def test_properties_travel_as_a_header_before_the_body() -> None:
    given = batch(
        body=[b"a", b"b", b"c"], properties=[None, [("colour", "red"), ("n", "7")], []], format=["F", "F", ""]
    )
    plain, described, third = staged(given)
    assert (plain.data, plain.md.format, third.data) == (b"a", "F", b"c")
    assert described.md.format == "MQHRF2"
    assert described.data.startswith(b"RFH ")
    assert b"<colour>red</colour><n>7</n>" in described.data
    assert described.data.endswith(b"b")


def test_rows_of_several_queues_keep_their_order() -> None:
    found = staged(batch(body=[b"a", b"b", b"c"], queue=["A", None, "A"]))
    assert [(each.q_name, each.data) for each in found] == [("A", b"a"), ("Q", b"b"), ("A", b"c")]


@pytest.mark.parametrize("first", [0, 3])
def test_a_slice_of_a_record_batch_is_that_slice(first: int) -> None:
    """Arrow's arrays may begin in the middle of their buffers."""
    whole = batch(body=[b"%d" % n * n for n in range(8)], msg_id=[identifier(n) for n in range(8)],
                  priority=range(8), properties=[[("n", str(n))] if n == 5 else [] for n in range(8)])  # fmt: skip
    found = staged(whole.slice(first, 4))
    assert [each.md.priority for each in found] == list(range(first, first + 4))
    assert [each.md.msg_id for each in found] == [identifier(n) for n in range(first, first + 4)]
    assert [each.data for each in found if each.md.format == ""] == [
        b"%d" % n * n for n in range(first, first + 4) if n != 5
    ]


def test_pieces_are_no_longer_than_a_frame_and_a_longer_body_goes_alone() -> None:
    sizes = [10] * 5000 + [BYTES_MAX // 2] * 5 + [2 * BYTES_MAX] + [300] * 3000 + [0]
    bodies = [bytes([n % 256]) * size for n, size in enumerate(sizes)]
    cut = list(pieces(batch(body=bodies), "Q"))
    assert [body for piece in cut for body in (each.data for each in messages(unpack(piece.frame)))] == bodies
    assert [piece.rows for piece in cut] == [4096, 905, 2, 2, 1, 1024, 1024, 953]


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"body": [b"a", None]}, "column body is null"),
        ({"body": [b"a"], "msg_id": [b"short"]}, "column msg_id has a value of 5 bytes: it has 24, or is null"),
        ({"body": [b"a"], "persistence": [7]}, "column persistence has 7"),
    ],
)
def test_a_value_that_cannot_be_is_an_error_that_names_its_column(columns: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        staged(batch(**columns))


def test_a_queue_has_to_be_named_somewhere() -> None:
    with pytest.raises(ValueError, match="rows without a queue: give the option queue"):
        staged(batch(body=[b"a", b"b"], queue=["A", None]), "")


def test_a_descriptor_that_cannot_be_is_refused() -> None:
    with pytest.raises(MQError, match="2026"):
        staged(batch(body=[b"a"], format=["ninechars"]))
