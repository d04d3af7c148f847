"""What calls come to where the queue manager takes a short cut: repeated puts, batches, a put that meets a waiting get.

Each test is about a rule that the short cut has to follow by itself. That all of them come to the same in general is
tested in `tests/engine/test_fast_path_twins.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import (
    MQFB,
    MQGMO,
    MQMF,
    MQMO,
    MQMT,
    MQOO,
    MQPMO,
    MQRC,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    PutMessageOptions,
    PutMessageRecord,
)
from tests.conformance.expect import ALL, drained, fails, reason_of

if TYPE_CHECKING:
    from broker import Connection, Message, PutResult, Queue
    from tests.conformance.system import System


@pytest.fixture
async def replies(system: System, connection: Connection) -> Queue:
    await system.mqsc("DEFINE QLOCAL(REPLIES)")
    return await connection.open("REPLIES", ALL)


# A put that meets a waiting get


@pytest.mark.parametrize(
    ("report", "feedback"),
    [(MQRO.COA, [MQFB.COA]), (MQRO.COD, [MQFB.COD]), (MQRO.COA | MQRO.COD, [MQFB.COA, MQFB.COD])],
)
async def test_a_message_that_a_get_waits_for_is_confirmed(
    queue: Queue, other_queue: Queue, replies: Queue, report: MQRO, feedback: list[MQFB]
) -> None:
    getting = asyncio.ensure_future(other_queue.get(wait=5))
    await asyncio.sleep(0)
    md = MessageDescriptor(report=report, reply_to_q="REPLIES")
    await asyncio.gather(queue.put(b"A", md), getting)
    reports = [await replies.get() for _ in feedback]
    assert [(each.md.msg_type, each.md.feedback) for each in reports] == [(MQMT.REPORT, each) for each in feedback]
    assert await reason_of(replies.get()) == MQRC.NO_MSG_AVAILABLE


# A get behind a backout


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_a_get_sees_what_the_backout_before_it_brings_back(
    connection: Connection, queue: Queue, many: bool
) -> None:
    await queue.put(b"A")
    await queue.get(options=MQGMO.SYNCPOINT)

    async def got() -> Message:
        return (await queue.get_many(5))[0] if many else await queue.get()

    _, message = await asyncio.gather(connection.backout(), got())
    assert (message.data, message.md.backout_count) == (b"A", 1)


# Browse marks


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_a_mark_is_gone_when_its_message_was_got_and_backed_out(
    connection: Connection, queue: Queue, beside_queue: Queue, many: bool
) -> None:
    for data in (b"A", b"B", b"C"):
        await queue.put(data)
    mark = MQGMO.BROWSE_NEXT | MQGMO.MARK_BROWSE_HANDLE
    assert [(await beside_queue.get(options=mark)).data for _ in range(3)] == [b"A", b"B", b"C"]
    if many:
        await queue.get_many(1, options=MQGMO.SYNCPOINT)  # the first of its kind; the next takes a run
        await queue.get_many(2, options=MQGMO.SYNCPOINT)
    else:
        for _ in range(3):
            await queue.get(options=MQGMO.SYNCPOINT)
    await connection.backout()
    mark_another = MQGMO.BROWSE_FIRST | MQGMO.UNMARKED_BROWSE_MSG | MQGMO.MARK_BROWSE_HANDLE
    assert [(await beside_queue.get(options=mark_another)).data for _ in range(3)] == [b"A", b"B", b"C"]
    assert await reason_of(beside_queue.get(options=mark_another)) == MQRC.NO_MSG_AVAILABLE


# A report on a queue in order of arrival


async def test_a_report_takes_its_place_by_arrival_on_a_queue_that_is_first_in_first_out(
    connection: Connection, queue: Queue
) -> None:
    await connection.mqsc("DEFINE QLOCAL(REPLIES) MSGDLVSQ(FIFO)")
    replies = await connection.open("REPLIES", ALL)
    await replies.put(b"before", MessageDescriptor(priority=0))
    await queue.put(b"reported", MessageDescriptor(priority=9, report=MQRO.COA_WITH_DATA, reply_to_q="REPLIES"))
    await replies.put(b"after", MessageDescriptor(priority=9))
    assert await drained(replies) == [b"before", b"reported", b"after"]


# Repeated puts


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (PutMessageOptions(version=7), MQRC.PMO_ERROR),
        (PutMessageOptions(options=MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT), MQRC.OPTIONS_ERROR),
        (PutMessageOptions(records=(PutMessageRecord(),)), MQRC.RECS_PRESENT_ERROR),
    ],
    ids=["version", "options", "records"],
)
@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
async def test_options_are_checked_behind_good_ones_too(
    queue: Queue, bad: PutMessageOptions, reason: MQRC, many: bool
) -> None:
    for _ in range(4):
        await queue.put(b"A")
    with fails(reason):
        await (queue.put_many([b"B", b"C"], options=bad) if many else queue.put(b"B", None, bad))
    assert await drained(queue) == [b"A"] * 4


@pytest.mark.parametrize("change", ["MAXMSGL(3)", "PUT(DISABLED)", "MAXDEPTH(4)"])
async def test_a_changed_definition_holds_for_the_next_of_many_alike(
    connection: Connection, queue: Queue, change: str
) -> None:
    for _ in range(4):
        await queue.put(b"four")
    await connection.mqsc(f"ALTER QLOCAL(Q) {change}")
    reasons = {"MAXMSGL(3)": MQRC.MSG_TOO_BIG_FOR_Q, "PUT(DISABLED)": MQRC.PUT_INHIBITED, "MAXDEPTH(4)": MQRC.Q_FULL}
    with fails(reasons[change]):
        await queue.put(b"four")


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
async def test_a_queue_manager_that_quiesces_takes_no_more_of_many_alike(
    system: System, queue: Queue, many: bool
) -> None:
    for _ in range(4):
        await queue.put(b"A", options=MQPMO.FAIL_IF_QUIESCING)
    quiescing = asyncio.ensure_future(system.manager.quiesce(timeout=60))
    await asyncio.sleep(0)
    with fails(MQRC.Q_MGR_QUIESCING):
        options = MQPMO.FAIL_IF_QUIESCING
        await (queue.put_many([b"B", b"C"], options=options) if many else queue.put(b"B", options=options))
    quiescing.cancel()


async def test_a_descriptor_that_was_changed_counts_for_the_next_of_many_alike(queue: Queue) -> None:
    md = MessageDescriptor(priority=2)
    for _ in range(4):
        await queue.put(b"A", md)
    md.priority = 8
    await queue.put(b"B", md)
    assert await drained(queue) == [b"B"] + [b"A"] * 4


# Puts and gets in a batch, beside what only some handles and queues have


async def put_in(queue: Queue, many: bool, *bodies: bytes) -> list[PutResult]:
    """Put these, in one call or in as many."""
    return await queue.put_many(bodies) if many else [await queue.put(data) for data in bodies]


async def got_in(queue: Queue, many: bool, count: int, options: MQGMO = MQGMO.NONE) -> list[Message]:
    """Get so many, in one call or in as many."""
    return (
        await queue.get_many(count, options=options)
        if many
        else [await queue.get(options=options) for _ in range(count)]
    )


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
async def test_a_put_of_many_alike_warns_of_a_group_that_is_open(queue: Queue, many: bool) -> None:
    for _ in range(4):
        await queue.put(b"A")
    await queue.put(b"first", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP), MQPMO.LOGICAL_ORDER)
    assert [each.reason for each in await put_in(queue, many, b"B", b"C")] == [MQRC.INCOMPLETE_GROUP, MQRC.NONE]


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_a_get_of_many_alike_warns_of_a_group_that_is_open(queue: Queue, many: bool) -> None:
    for data in (b"A", b"B"):
        await queue.put(data)
    await got_in(queue, many, 2)
    await queue.put(b"first", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP))
    await put_in(queue, many, b"C", b"D")
    await queue.get(options=GetMessageOptions(options=MQGMO.LOGICAL_ORDER, match_options=MQMO.NONE))
    assert [each.reason for each in await got_in(queue, many, 2)] == [MQRC.INCOMPLETE_GROUP, MQRC.NONE]


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
async def test_a_backout_opens_a_group_again_for_puts_of_many_alike(
    connection: Connection, queue: Queue, many: bool
) -> None:
    await queue.put(b"first", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP), MQPMO.LOGICAL_ORDER)
    for _ in range(4):
        await queue.put(b"A", options=MQPMO.SYNCPOINT)
    await connection.backout()
    options = MQPMO.SYNCPOINT  # as the puts that were backed out
    results = (
        await queue.put_many([b"B", b"C"], options=options)
        if many
        else [await queue.put(data, options=options) for data in (b"B", b"C")]
    )
    assert [each.reason for each in results] == [MQRC.INCOMPLETE_GROUP, MQRC.NONE]
    await connection.commit()


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_a_backout_opens_a_group_again_for_gets_of_many_alike(
    connection: Connection, queue: Queue, many: bool
) -> None:
    await queue.put(b"first", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP))
    await put_in(queue, many, b"A", b"B", b"C", b"D")
    await queue.get(options=GetMessageOptions(options=MQGMO.LOGICAL_ORDER, match_options=MQMO.NONE))
    await got_in(queue, False, 4, MQGMO.SYNCPOINT)
    await connection.backout()
    found = await got_in(queue, many, 2, MQGMO.SYNCPOINT)
    assert [each.reason for each in found] == [MQRC.INCOMPLETE_GROUP, MQRC.NONE]
    await connection.commit()


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_a_message_of_a_group_that_is_got_among_others_opens_its_group(queue: Queue, many: bool) -> None:
    await put_in(queue, many, b"A", b"B", b"C")
    first = await queue.put(b"first", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP))
    last = MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP, msg_seq_number=2, group_id=first.md.group_id)
    await queue.put(b"last", last)
    await got_in(queue, many, 2)
    assert [each.data for each in await got_in(queue, many, 2)] == [b"C", b"first"]
    in_order = GetMessageOptions(options=MQGMO.LOGICAL_ORDER, match_options=MQMO.NONE)
    assert (await queue.get(options=in_order)).data == b"last"


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_a_message_in_no_group_that_is_got_among_others_closes_theirs(queue: Queue, many: bool) -> None:
    await put_in(queue, many, b"A", b"B")
    await got_in(queue, many, 2)
    first = await queue.put(b"first", MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP))
    await queue.put(b"C")
    last = MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP, msg_seq_number=2, group_id=first.md.group_id)
    await queue.put(b"last", last)
    assert [each.data for each in await got_in(queue, many, 2)] == [b"first", b"C"]
    in_order = GetMessageOptions(options=MQGMO.LOGICAL_ORDER, match_options=MQMO.NONE)
    assert await reason_of(queue.get(options=in_order)) == MQRC.NO_MSG_AVAILABLE


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
async def test_the_first_of_many_alike_triggers(
    system: System, connection: Connection, beside: Connection, many: bool
) -> None:
    await connection.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) PROCESS(P)")
    queue = await connection.open("Q", MQOO.OUTPUT)
    async with beside.trigger_starts() as starts:
        for _ in range(3):
            await put_in(queue, many, *[b"A"] * 4)
            await system.rest()
            (start,) = await starts.take("Q", 10)
            start.done()
            async with beside.open("Q", MQOO.INPUT_SHARED) as emptying:
                await emptying.get_many(10)


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
async def test_the_last_of_many_alike_that_fills_a_queue_is_told(
    connection: Connection, queue: Queue, many: bool
) -> None:
    await connection.mqsc("DEFINE QLOCAL(SYSTEM.ADMIN.PERFM.EVENT) REPLACE\nALTER QMGR PERFMEV(ENABLED)")
    await connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10) QDEPTHHI(80) QDPHIEV(ENABLED)")
    events = await connection.open("SYSTEM.ADMIN.PERFM.EVENT", ALL)
    for _ in range(4):
        await queue.put(b"A")
    await put_in(queue, many, b"A", b"A", b"A")
    assert await reason_of(events.get()) == MQRC.NO_MSG_AVAILABLE
    await put_in(queue, many, b"A", b"A")
    assert len(await events.get_many(10)) == 1


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
async def test_the_context_that_is_passed_on_is_that_of_the_last_of_many_alike(
    connection: Connection, queue: Queue, many: bool
) -> None:
    setting = await connection.open("Q", MQOO.OUTPUT | MQOO.SET_IDENTITY_CONTEXT)
    for data in (b"0", b"1", b"2", b"3"):
        md = MessageDescriptor(appl_identity_data=data.decode())
        await setting.put(data, md, MQPMO.SET_IDENTITY_CONTEXT)
    async with connection.open("Q", MQOO.INPUT_SHARED | MQOO.SAVE_ALL_CONTEXT) as saving:
        await got_in(saving, many, 1)
        await got_in(saving, many, 2)
        passing = await connection.open("Q", MQOO.OUTPUT | MQOO.PASS_IDENTITY_CONTEXT)
        pmo = PutMessageOptions(options=MQPMO.PASS_IDENTITY_CONTEXT, context=saving)
        assert (await passing.put(b"4", None, pmo)).md.appl_identity_data == "2"


# Groups


@pytest.mark.parametrize("whole", [MQGMO.ALL_MSGS_AVAILABLE, MQGMO.NONE], ids=["whole", "in order"])
async def test_a_group_put_backwards_with_a_generated_group_id_is_got_in_order(queue: Queue, whole: MQGMO) -> None:
    options = GetMessageOptions(options=MQGMO.LOGICAL_ORDER | whole, match_options=MQMO.NONE)
    last = MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP, msg_seq_number=3)
    group_id = (await queue.put(b"3", last)).md.group_id
    assert group_id != bytes(24)
    another = (await queue.put(b"3", last)).md.group_id
    assert another not in (group_id, bytes(24))
    for number in (2, 1):
        assert await reason_of(queue.get(options=options)) == MQRC.NO_MSG_AVAILABLE
        md = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP, msg_seq_number=number, group_id=group_id)
        await queue.put(b"%d" % number, md)
    found = [await queue.get(options=options) for _ in range(3)]
    assert [(message.data, message.md.group_id) for message in found] == [
        (b"1", group_id),
        (b"2", group_id),
        (b"3", group_id),
    ]
    assert await reason_of(queue.get(options=options)) == MQRC.NO_MSG_AVAILABLE
    assert (await queue.get()).md.group_id == another
