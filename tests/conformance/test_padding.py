"""Programs written for IBM MQ pad every text with blanks to the length of its field, or with NULs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from broker.mqi import (
    MQCA,
    MQGMO,
    MQMT,
    MQOO,
    MQOT,
    MQPMO,
    MQRC,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
    PutMessageOptions,
)
from broker.mqi.layouts.rfh2 import MQRFH2
from broker.mqi.structures import DESCRIPTOR_SIZES
from tests.conformance.expect import ALL, fails

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

TEXTS = [field.name for field in fields(MessageDescriptor) if isinstance(getattr(MessageDescriptor(), field.name), str)]
PADS = pytest.mark.parametrize("pad", [" ", "\0"], ids=["blanks", "NULs"])


def padded(md: MessageDescriptor, pad: str = " ") -> MessageDescriptor:
    """The descriptor with every text as long as its field."""
    return replace(md, **{name: getattr(md, name).ljust(DESCRIPTOR_SIZES[name], pad) for name in TEXTS})


@PADS
async def test_every_text_of_a_descriptor_is_stored_and_answered_without_its_padding(
    connection: Connection, pad: str
) -> None:
    texts = {name: name[: min(4, DESCRIPTOR_SIZES[name])].upper() for name in TEXTS}
    md = padded(MessageDescriptor(**texts), pad)  # type: ignore[arg-type]  # texts alone
    before = md.to_tuple()
    queue = await connection.open("Q", ALL | MQOO.SET_ALL_CONTEXT)
    put = await queue.put(b"A", md, MQPMO.SET_ALL_CONTEXT)
    got = await queue.get()
    for result in (put, got):
        assert {name: getattr(result.md, name) for name in TEXTS} == texts
    assert md.to_tuple() == before


@PADS
async def test_a_padded_format_is_converted(queue: Queue, pad: str) -> None:
    await queue.put("grün".encode("latin-1"), MessageDescriptor(format="MQSTR".ljust(8, pad), coded_char_set_id=819))
    message = await queue.get(MessageDescriptor(coded_char_set_id=1208), MQGMO.CONVERT)
    assert (message.data, message.reason) == ("grün".encode(), MQRC.NONE)


async def test_a_text_with_a_blank_format_is_mqstr(queue: Queue) -> None:
    await queue.put("A", MessageDescriptor(format=" " * 8))
    assert (await queue.get()).md.format == "MQSTR"


@PADS
async def test_the_properties_of_a_message_of_padded_format_mqhrf2_are_taken(queue: Queue, pad: str) -> None:
    """Each put, also those that are like the one before."""
    header = MQRFH2(("<usr><a>1</a></usr>",), "MQSTR").to_bytes()
    md = MessageDescriptor(format="MQHRF2".ljust(8, pad))
    for _ in range(4):
        result = await queue.put(header + b"data", md)
        assert result.md.format == "MQHRF2"
        message = await queue.get()
        assert (message.data, dict(message.properties), message.md.format) == (b"data", {"a": "1"}, "MQSTR")


async def test_each_put_of_padded_format_mqhrf2_is_looked_at(queue: Queue) -> None:
    """A header without properties stays in the data, and leaves nothing by which the next put would be known again."""
    header = MQRFH2(("<psc><Command>RegSub</Command></psc>",), "MQSTR").to_bytes()
    md = MessageDescriptor(format="MQHRF2  ")
    for _ in range(4):
        await queue.put(header + b"data", md)
    with fails(MQRC.RFH_ERROR):
        await queue.put(b"no header", md)


async def test_properties_beside_a_padded_format(queue: Queue) -> None:
    await queue.put(b"data", MessageDescriptor(format="MQSTR   "), properties={"a": 1})
    message = await queue.get()
    assert (dict(message.properties), message.md.format) == ({"a": 1}, "MQSTR")


@pytest.mark.parametrize("md", [MessageDescriptor(msg_type=MQMT.REQUEST), MessageDescriptor(report=MQRO.COA)])
async def test_a_blank_reply_queue_is_missing(queue: Queue, md: MessageDescriptor) -> None:
    with fails(MQRC.MISSING_REPLY_TO_Q):
        await queue.put(b"A", padded(md))


async def test_a_report_goes_to_a_padded_reply_queue(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", padded(MessageDescriptor(report=MQRO.COA, reply_to_q="Q", reply_to_q_mgr="QM1")))
    assert [(await queue.get()).md.msg_type for _ in range(2)] == [MQMT.DATAGRAM, MQMT.REPORT]


@PADS
async def test_the_names_of_an_object_descriptor(system: System, connection: Connection, pad: str) -> None:
    await system.mqsc("DEFINE QMODEL(M)")
    od = ObjectDescriptor(object_name="Q".ljust(48, pad), object_q_mgr_name="QM1".ljust(48, pad))
    before = replace(od)
    async with connection.open(od, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        assert (queue.name, queue.resolved_q_name, queue.resolved_q_mgr_name) == ("Q", "Q", system.q_owner)
        assert await queue.inquire(MQCA.Q_NAME) == {MQCA.Q_NAME: "Q"}
    await connection.put1(od, b"A")
    assert od == before
    model = ObjectDescriptor(object_name="M".ljust(48, pad), dynamic_q_name="NEW".ljust(48, pad))
    async with connection.open(model, ALL) as made:
        assert made.name == "NEW"
    with fails(MQRC.DYNAMIC_Q_NAME_ERROR):
        await connection.open(replace(model, dynamic_q_name=pad * 48), ALL)
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open(pad * 48, ALL)
    async with connection.open(
        ObjectDescriptor(object_name=pad * 48, object_q_mgr_name=pad * 48, object_type=MQOT.Q_MGR), MQOO.INQUIRE
    ) as q_mgr:
        assert await q_mgr.inquire(MQCA.Q_MGR_NAME) == {MQCA.Q_MGR_NAME: "QM1"}


@pytest.mark.parametrize("blanks_in_front", ["Q ".rjust(10), "A B", "Q\0Q"])
async def test_only_what_stands_at_the_end_is_padding(connection: Connection, blanks_in_front: str) -> None:
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.open(blanks_in_front, ALL)


@PADS
async def test_a_padded_selector_is_the_selector_and_a_blank_one_none(connection: Connection, pad: str) -> None:
    await connection.put1("Q", b"A", properties={"n": 1})
    await connection.put1("Q", b"B", properties={"n": 2})
    for selector, expected in (("n = 2", b"B"), ("", b"A")):
        od = ObjectDescriptor(object_name="Q", selection_string=selector.ljust(40, pad))
        async with connection.open(od, MQOO.BROWSE) as queue:
            assert (await queue.get(options=MQGMO.BROWSE_FIRST)).data == expected


@PADS
async def test_the_names_in_the_records_of_a_distribution_list(connection: Connection, pad: str) -> None:
    records = [ObjectRecord("Q".ljust(48, pad), "QM1".ljust(48, pad)), ObjectRecord("Q".ljust(48, pad), pad * 48)]
    od = ObjectDescriptor(object_name=pad * 48, object_q_mgr_name=pad * 48, records=records)
    async with connection.open(od, MQOO.OUTPUT) as queues:
        result = await queues.put(b"A", MessageDescriptor(format="MQSTR   "))
        assert result.md.format == "MQSTR"
        assert [record.reason for record in result.records] == [MQRC.NONE, MQRC.NONE]
    assert [record.object_name for record in records] == ["Q".ljust(48, pad)] * 2


@PADS
async def test_what_mqset_and_explain_are_given(connection: Connection, queue: Queue, pad: str) -> None:
    await queue.set({MQCA.TRIGGER_DATA: "DATA".ljust(64, pad)})
    assert await queue.inquire(MQCA.TRIGGER_DATA) == {MQCA.TRIGGER_DATA: "DATA"}
    assert (await connection.explain("Q".ljust(48, pad))).q_name == "Q"


async def test_a_padded_put_that_is_repeated_stays_what_it_was(queue: Queue) -> None:
    """The queue manager knows the second and later ones again; the caller may change the descriptor between them."""
    md, gmo = MessageDescriptor(format="MQSTR   ", reply_to_q="R" + " " * 47), GetMessageOptions()
    for number in range(6):
        if number == 4:
            md.format = "MQPCF   "
        result = await queue.put(b"A", md, PutMessageOptions())
        got = (await queue.get(None, gmo)).md
        expected = ("MQSTR" if number < 4 else "MQPCF", "R", "QM1")
        assert (result.md.format, result.md.reply_to_q, result.md.reply_to_q_mgr) == expected
        assert (got.format, got.reply_to_q, got.reply_to_q_mgr) == expected
