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
    from broker import Connection, Message, Queue
    from tests.conformance.system import System


@pytest.fixture
async def replies(connection: Connection) -> Queue:
    await connection.mqsc("DEFINE QLOCAL(REPLIES)")
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
    connection: Connection, queue: Queue, other_queue: Queue, many: bool
) -> None:
    for data in (b"A", b"B", b"C"):
        await queue.put(data)
    mark = MQGMO.BROWSE_NEXT | MQGMO.MARK_BROWSE_HANDLE
    assert [(await other_queue.get(options=mark)).data for _ in range(3)] == [b"A", b"B", b"C"]
    if many:
        await queue.get_many(1, options=MQGMO.SYNCPOINT)  # the first of its kind; the next takes a run
        await queue.get_many(2, options=MQGMO.SYNCPOINT)
    else:
        for _ in range(3):
            await queue.get(options=MQGMO.SYNCPOINT)
    await connection.backout()
    mark_another = MQGMO.BROWSE_FIRST | MQGMO.UNMARKED_BROWSE_MSG | MQGMO.MARK_BROWSE_HANDLE
    assert [(await other_queue.get(options=mark_another)).data for _ in range(3)] == [b"A", b"B", b"C"]
    assert await reason_of(other_queue.get(options=mark_another)) == MQRC.NO_MSG_AVAILABLE


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
