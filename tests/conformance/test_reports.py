"""Report messages and the dead-letter queue (semantics 12.3, 12.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from broker.mqi import (
    MQAT,
    MQFB,
    MQFMT,
    MQGMO,
    MQIA,
    MQMF,
    MQMT,
    MQPMO,
    MQRC,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
)
from broker.mqi.layouts.layouts import MQDLH
from tests.conformance.expect import ALL, drained, fails, name_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

BODY = bytes(range(256)) + bytes(44)


@pytest.fixture
async def replies(system: System, connection: Connection) -> Queue:
    """QLOCAL(REPLIES), to which the reports go."""
    await system.mqsc("DEFINE QLOCAL(REPLIES)")
    return await connection.open("REPLIES", ALL)


@pytest.fixture
async def dead(system: System, connection: Connection) -> Queue:
    """The dead-letter queue."""
    await system.mqsc("DEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)")
    return await connection.open("DEAD", ALL)


def asking(report: int, **fields: int | str | bytes) -> MessageDescriptor:
    """A descriptor that asks for reports."""
    return replace(MessageDescriptor(report=report, reply_to_q="REPLIES"), **fields)  # type: ignore[arg-type]


async def feedbacks(queue: Queue) -> list[int]:
    """Get all reports: their Feedback."""
    found = []
    while await depth(queue):
        found.append((await queue.get()).md.feedback)
    return found


async def depth(queue: Queue) -> int:
    return int((await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH])


async def test_t12_4_confirmations_come_with_the_commit_of_the_put_and_of_the_get(
    connection: Connection, queue: Queue, replies: Queue
) -> None:
    md = asking(MQRO.COA | MQRO.COD | MQRO.PASS_CORREL_ID, correl_id=name_of("order"))
    await queue.put(b"hello", md)
    arrival = await replies.get()
    assert (arrival.md.feedback, arrival.md.correl_id, arrival.data) == (MQFB.COA, name_of("order"), b"")
    await queue.get(options=MQGMO.SYNCPOINT)
    assert await drained(replies) == []
    await connection.commit()
    delivery = await replies.get()
    assert (delivery.md.feedback, delivery.md.correl_id, delivery.data) == (MQFB.COD, name_of("order"), b"")


async def test_t12_5_a_get_that_is_backed_out_is_not_confirmed(
    connection: Connection, queue: Queue, replies: Queue
) -> None:
    await queue.put(b"hello", asking(MQRO.COD))
    await queue.get(options=MQGMO.SYNCPOINT)
    await connection.backout()
    assert await drained(replies) == []
    await queue.get()
    assert await feedbacks(replies) == [MQFB.COD]


async def test_a_put_that_is_backed_out_is_not_confirmed(connection: Connection, queue: Queue, replies: Queue) -> None:
    await queue.put(b"hello", asking(MQRO.COA), MQPMO.SYNCPOINT)
    await connection.backout()
    assert await drained(replies) == []
    await queue.put(b"hello", asking(MQRO.COA), MQPMO.SYNCPOINT)
    assert await drained(replies) == []
    await connection.commit()
    assert await feedbacks(replies) == [MQFB.COA]


async def test_a_browse_is_not_confirmed(queue: Queue, replies: Queue) -> None:
    await queue.put(b"hello", asking(MQRO.COD))
    await queue.get(options=MQGMO.BROWSE_FIRST)
    assert await drained(replies) == []


async def test_clearing_a_queue_delivers_nothing(system: System, queue: Queue, replies: Queue) -> None:
    await queue.put(b"hello", asking(MQRO.COD))
    await queue.close()
    await system.mqsc("CLEAR QLOCAL(Q)")
    assert await drained(replies) == []


async def test_a_report_describes_its_message(system: System, queue: Queue, replies: Queue) -> None:
    md = asking(
        MQRO.COA | MQRO.PASS_MSG_ID,
        msg_id=name_of("id"),
        correl_id=name_of("correl"),
        format="MYFORMAT",
        encoding=273,
        coded_char_set_id=37,
        priority=7,
        msg_type=MQMT.REQUEST,
    )
    placed = await queue.put(BODY, md)
    await system.pass_time(1)
    report = await replies.get()
    assert report.md == replace(
        placed.md,
        msg_type=MQMT.REPORT,
        feedback=MQFB.COA,
        report=0,
        correl_id=name_of("id"),
        reply_to_q="",
        reply_to_q_mgr="QM1",
        put_appl_type=MQAT.QMGR,
        put_appl_name="QM1",
        original_length=300,
    )


@pytest.mark.parametrize(
    ("options", "msg_id", "correl_id"),
    [
        (0, None, "id"),
        (MQRO.PASS_MSG_ID, "id", "id"),
        (MQRO.PASS_CORREL_ID, None, "correl"),
        (MQRO.PASS_MSG_ID | MQRO.PASS_CORREL_ID, "id", "correl"),
    ],
)
async def test_the_identifiers_of_a_report_are_chosen_by_options(
    queue: Queue, replies: Queue, options: int, msg_id: str | None, correl_id: str
) -> None:
    await queue.put(b"", asking(MQRO.COA | options, msg_id=name_of("id"), correl_id=name_of("correl")))
    report = await replies.get()
    assert report.md.correl_id == name_of(correl_id)
    if msg_id is None:
        assert report.md.msg_id.startswith(b"AMQ QM1 ")
    else:
        assert report.md.msg_id == name_of(msg_id)


@pytest.mark.parametrize(
    ("option", "data"),
    [
        (MQRO.COA, b""),
        (MQRO.COA_WITH_DATA, BODY[:100]),
        (MQRO.COA_WITH_FULL_DATA, BODY),
        (MQRO.COD, b""),
        (MQRO.COD_WITH_DATA, BODY[:100]),
        (MQRO.COD_WITH_FULL_DATA, BODY),
    ],
)
async def test_a_report_carries_as_much_data_as_was_asked_for(
    queue: Queue, replies: Queue, option: MQRO, data: bytes
) -> None:
    await queue.put(BODY, asking(option))
    await queue.get()
    assert await drained(replies) == [data]


async def test_headers_do_not_count_among_the_first_hundred_bytes(queue: Queue, replies: Queue) -> None:
    header = MQDLH(MQRC.Q_FULL, encoding=546, format="MYFORMAT").to_bytes()
    md = asking(MQRO.EXPIRATION_WITH_DATA | MQRO.COD_WITH_DATA, format=MQFMT.DEAD_LETTER_HEADER)
    rfh = b"RFH \1\0\0\0\x20\0\0\0" + bytes(8) + b"MYFORMAT" + bytes(4)
    await queue.put(rfh + BODY, replace(md, format=MQFMT.RF_HEADER))
    await queue.get()
    assert await drained(replies) == [rfh + BODY[:100]]
    await queue.put(header + BODY, md)
    await queue.get()
    assert await drained(replies) == []  # delivering a dead letter is no delivery


async def test_reports_may_pass_on_what_is_left_of_a_life(system: System, queue: Queue, replies: Queue) -> None:
    options = MQRO.COD | MQRO.PASS_DISCARD_AND_EXPIRY | MQRO.DISCARD_MSG
    await queue.put(b"hello", asking(options, expiry=600))
    await system.pass_time(2)
    await queue.get()
    report = await replies.get()
    assert (report.md.expiry, report.md.report) == (580, MQRO.DISCARD_MSG)


async def test_a_report_passes_on_neither_expiry_nor_disposition_unasked(queue: Queue, replies: Queue) -> None:
    await queue.put(b"hello", asking(MQRO.COD | MQRO.DISCARD_MSG, expiry=600))
    await queue.get()
    report = await replies.get()
    assert (report.md.expiry, report.md.report) == (-1, 0)


async def test_every_segment_that_the_queue_manager_cuts_is_confirmed(
    system: System, connection: Connection, queue: Queue, replies: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(64)")
    md = asking(MQRO.COA_WITH_DATA | MQRO.COD, msg_flags=MQMF.SEGMENTATION_ALLOWED)
    placed = await queue.put(BODY[:150], md)
    reports = [await replies.get() for _ in range(3)]
    assert [(report.data, report.md.offset, report.md.original_length) for report in reports] == [
        (BODY[:64], 0, 64),
        (BODY[64:128], 64, 64),
        (b"", 128, 22),
    ]
    assert {report.md.group_id for report in reports} == {placed.md.group_id}
    assert [report.md.feedback for report in reports] == [MQFB.COA] * 3
    await queue.get(options=MQGMO.COMPLETE_MSG)
    assert await feedbacks(replies) == [MQFB.COD] * 3


async def test_a_confirmation_counts_towards_maxumsgs(
    system: System, connection: Connection, queue: Queue, replies: Queue
) -> None:
    await system.mqsc("ALTER QMGR MAXUMSGS(4)")
    for _ in range(2):
        await queue.put(b"", asking(MQRO.COA), MQPMO.SYNCPOINT)
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await queue.put(b"", options=MQPMO.SYNCPOINT)
    await connection.commit()
    assert await feedbacks(replies) == [MQFB.COA] * 2


async def test_t12_8_a_put_that_fails_gives_no_report(system: System, queue: Queue, replies: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    await queue.put(b"")
    with fails(MQRC.Q_FULL):
        await queue.put(b"", asking(MQRO.EXCEPTION | MQRO.COA))
    assert await drained(replies) == []


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (0x0000_0008, MQRC.UNKNOWN_REPORT_OPTION),
        (0x0200_0000, MQRC.UNKNOWN_REPORT_OPTION),
        (0x0500_0000, MQRC.UNKNOWN_REPORT_OPTION),
        (0x0040_0000, MQRC.UNKNOWN_REPORT_OPTION),
        (MQRO.COA_WITH_FULL_DATA | MQRO.COD_WITH_DATA | MQRO.PASS_MSG_ID, MQRC.NONE),
        (MQRO.EXCEPTION_WITH_FULL_DATA | MQRO.EXPIRATION_WITH_DATA | MQRO.PAN | MQRO.NAN, MQRC.NONE),
    ],
)
async def test_t12_6_report_options_that_are_not_known_may_be_a_warning(
    queue: Queue, replies: Queue, report: int, reason: MQRC
) -> None:
    assert (await queue.put(b"hello", asking(report))).reason == reason
    assert (await queue.get()).md.report == report


@pytest.mark.parametrize("report", [0x0004_0000, 0x0000_8000, 0x0000_0200, 0x0000_1000, 0x0004_0008])
async def test_t12_6_report_options_that_are_not_known_may_be_refused(
    queue: Queue, replies: Queue, report: int
) -> None:
    with fails(MQRC.REPORT_OPTIONS_ERROR):
        await queue.put(b"hello", asking(report))
    assert await drained(queue) == []


# Reports that cannot be put


async def test_a_report_to_a_queue_that_is_not_there_is_a_dead_letter(
    system: System, queue: Queue, dead: Queue
) -> None:
    placed = await queue.put(BODY, asking(MQRO.COA_WITH_FULL_DATA, reply_to_q="NOSUCH", format="MYFORMAT"))
    letter = await dead.get()
    header = MQDLH.from_bytes(letter.data)
    assert (header.reason, header.dest_q_name, header.dest_q_mgr_name) == (MQRC.UNKNOWN_OBJECT_NAME, "NOSUCH", "QM1")
    assert (header.format, header.encoding, header.coded_char_set_id) == ("MYFORMAT", 546, 1208)
    assert (header.put_appl_type, header.put_appl_name, header.put_date) == (MQAT.QMGR, "QM1", "20260101")
    assert letter.data[MQDLH.SIZE :] == BODY
    assert (letter.md.format, letter.md.feedback) == (MQFMT.DEAD_LETTER_HEADER, MQFB.COA)
    assert letter.md.correl_id == placed.md.msg_id


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [("PUT(DISABLED)", MQRC.PUT_INHIBITED), ("MAXDEPTH(0)", MQRC.Q_FULL), ("MAXMSGL(10)", MQRC.MSG_TOO_BIG_FOR_Q)],
)
async def test_a_report_that_its_queue_does_not_take_is_a_dead_letter(
    system: System, queue: Queue, replies: Queue, dead: Queue, attribute: str, reason: MQRC
) -> None:
    await system.mqsc(f"ALTER QLOCAL(REPLIES) {attribute}")
    await queue.put(BODY, asking(MQRO.COA_WITH_DATA))
    assert MQDLH.from_bytes((await dead.get()).data).reason == reason


async def test_a_persistent_report_to_a_temporary_dynamic_queue_is_a_dead_letter(
    system: System, connection: Connection, queue: Queue, dead: Queue
) -> None:
    await system.mqsc("DEFINE QMODEL(M) DEFTYPE(TEMPDYN)")
    replies = await connection.open(ObjectDescriptor(object_name="M", dynamic_q_name="R.*"), ALL)
    for persistence in (0, 1):
        await queue.put(BODY, asking(MQRO.COA, reply_to_q=replies.name, persistence=persistence))
    assert MQDLH.from_bytes((await dead.get()).data).reason == MQRC.PERSISTENT_NOT_ALLOWED
    assert await feedbacks(replies) == [MQFB.COA]


async def test_a_report_that_can_be_put_nowhere_is_lost_but_not_the_message(
    system: System, queue: Queue, dead: Queue
) -> None:
    md = asking(MQRO.COA | MQRO.COD, reply_to_q="NOSUCH")
    await system.mqsc("ALTER QLOCAL(DEAD) PUT(DISABLED)")
    assert (await queue.put(b"hello", md)).reason == MQRC.NONE
    await system.mqsc("ALTER QMGR DEADQ(' ')")
    assert (await queue.get()).data == b"hello"
    assert await drained(dead) == []


async def test_a_report_triggers_like_any_put(system: System, connection: Connection, queue: Queue) -> None:
    await system.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(REPLIES) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    async with connection.trigger_starts(["P"], 1) as starts:
        await queue.put(b"hello", asking(MQRO.COA))
        assert [(start.q_name, start.starts) for start in await starts.pending()] == [("REPLIES", 1)]


async def test_a_report_serves_who_waits_for_it(connection: Connection, queue: Queue, replies: Queue) -> None:
    placed = await queue.put(b"hello", asking(MQRO.COD))
    async with connection.unit_of_work():
        await queue.get()
    report = await replies.get(
        MessageDescriptor(correl_id=placed.md.msg_id), GetMessageOptions(options=MQGMO.WAIT, wait_interval=1000)
    )
    assert report.md.feedback == MQFB.COD


async def test_put1_is_confirmed_too(connection: Connection, queue: Queue, replies: Queue) -> None:
    await connection.put1(ObjectDescriptor(object_name="Q"), b"hello", asking(MQRO.COA))
    assert await feedbacks(replies) == [MQFB.COA]


async def test_leaving_a_connection_cleanly_confirms_what_it_got(system: System, queue: Queue, replies: Queue) -> None:
    await queue.put(b"hello", asking(MQRO.COD_WITH_DATA))
    async with system.reached.connect("leaver") as leaver:
        taken = await leaver.open("Q", ALL)
        await taken.get(options=MQGMO.SYNCPOINT)
    await system.rest()
    assert await drained(replies) == [b"hello"]
