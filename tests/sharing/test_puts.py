"""MQPUT onto shared queues: in order, gathered, exactly once, and never above MAXDEPTH."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgpack
import pytest

from broker.mqi import (
    MQFB,
    MQGMO,
    MQMF,
    MQMO,
    MQOO,
    MQPMO,
    MQRC,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    ObjectRecord,
)
from broker.mqi.errors import MQError
from tests.conformance.expect import ALL, drained, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase

pytestmark = [pytest.mark.postgres, pytest.mark.usefixtures("unpolled")]  # what is counted is what puts do

IN_ORDER = MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc(
            "DEFINE QLOCAL(Q) QSGDISP(SHARED)\n"
            "DEFINE QLOCAL(OTHER) QSGDISP(SHARED)\n"
            "DEFINE QLOCAL(TEN) QSGDISP(SHARED) MAXDEPTH(10)\n"
            "DEFINE QLOCAL(THREE) QSGDISP(SHARED) MAXDEPTH(3)\n"
            "DEFINE QLOCAL(SHORT) QSGDISP(SHARED) MAXMSGL(16) MAXDEPTH(3)\n"
            "DEFINE QLOCAL(OWN)"
        )
        await members.start("QM2")
        yield members


@pytest.fixture
async def connection(members: Members) -> Connection:
    return await members.connect("QM1")


@pytest.fixture
async def queue(connection: Connection) -> Queue:
    return await connection.open("Q", ALL)


async def test_s10_4_a_put_of_priority_9_is_next_for_a_member_that_has_looked_before(members: Members) -> None:
    at_a, at_b = [await (await members.connect(name)).open("Q", ALL) for name in ("QM1", "QM2")]
    for number in range(3):
        await at_a.put(b"%d" % number, MessageDescriptor(priority=5))
    assert (await at_b.get(options=MQGMO.BROWSE_FIRST)).data == b"0"
    await at_a.put(b"urgent", MessageDescriptor(priority=9))
    assert (await at_b.get()).data == b"urgent"
    assert (await at_b.get()).data == b"0"
    assert await drained(at_a) == [b"1", b"2"]


async def test_s10_7_exactly_maxdepth_of_the_puts_of_two_members_fit(members: Members) -> None:
    queues = [await (await members.connect(f"QM{1 + number % 2}")).open("TEN", ALL) for number in range(20)]
    reasons = await asyncio.gather(*[reason_of(queue.put(b"x")) for queue in queues])
    assert sorted(reasons) == [MQRC.NONE] * 10 + [MQRC.Q_FULL] * 10
    assert await members.group.value("SELECT count(*) FROM message") == 10
    assert await members.group.value("SELECT depth_of('TEN')") == 10
    assert len(await drained(queues[0])) == 10


async def test_exactly_maxdepth_of_puts_that_gather_fit_and_of_a_batch(connection: Connection) -> None:
    queue = await connection.open("TEN", ALL)
    reasons = await asyncio.gather(*[reason_of(queue.put(b"%d" % number)) for number in range(15)])
    assert reasons == [MQRC.NONE] * 10 + [MQRC.Q_FULL] * 5
    assert await drained(queue) == [b"%d" % number for number in range(10)]
    with pytest.raises(MQError) as raised:
        await queue.put_many([b"%d" % number for number in range(15)])
    assert raised.value.reason == MQRC.Q_FULL
    assert await drained(queue) == [b"%d" % number for number in range(10)]


async def test_trap_4_a_put_that_meets_maxdepth_leaves_no_hole_in_its_group(
    members: Members, connection: Connection
) -> None:
    other = await (await members.connect("QM2")).open("THREE", ALL)
    await other.put(b"in the way")
    queue = await connection.open("THREE", ALL)
    md = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP)
    putting = [asyncio.ensure_future(queue.put(b"%d" % number, md, IN_ORDER)) for number in range(1, 6)]
    reasons = [await reason_of(each) for each in putting]
    assert reasons == [MQRC.NONE] * 2 + [MQRC.Q_FULL] * 3
    assert (await other.get()).data == b"in the way"
    last = await queue.put(b"3", MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP), IN_ORDER)
    assert last.md.msg_seq_number == 3
    await connection.commit()
    found = await members.group.rows("SELECT msg_seq_number, group_id FROM message ORDER BY place")
    assert [row["msg_seq_number"] for row in found] == [1, 2, 3]
    assert {row["group_id"] for row in found} == {last.md.group_id}


async def test_trap_6_a_message_has_its_identifiers_whoever_reads_it(members: Members, queue: Queue) -> None:
    put = await queue.put(b"x", MessageDescriptor(correl_id=b"c" * 24))
    assert put.md.msg_id.startswith(b"AMQ QM1 ")
    there = await (await members.connect("QM2")).open("Q", ALL)
    browsed = await there.get(options=MQGMO.BROWSE_FIRST)
    assert (browsed.md.msg_id, browsed.md.correl_id) == (put.md.msg_id, b"c" * 24)
    wanted = GetMessageOptions(match_options=MQMO.MATCH_MSG_ID)
    got = await there.get(MessageDescriptor(msg_id=put.md.msg_id), wanted)
    assert (got.md.msg_id, got.data) == (put.md.msg_id, b"x")


async def test_what_puts_of_a_batch_have_alike_is_written_alike_and_the_msg_id_beside_it(
    members: Members, queue: Queue
) -> None:
    put = await queue.put_many([b"%d" % number for number in range(5)])
    found = await members.group.rows("SELECT msg_id, descriptor FROM message ORDER BY place")
    assert [row["msg_id"] for row in found] == [each.msg_id for each in put]
    assert all(row["msg_id"] not in row["descriptor"] for row in found)
    assert len({row["descriptor"] for row in found}) <= 2, "the first is completed before there is a template"
    got = await (await (await members.connect("QM2")).open("Q", ALL)).get_many(5)
    assert [(each.md.msg_id, each.data) for each in got] == [(each.msg_id, b"%d" % n) for n, each in enumerate(put)]


async def test_a_descriptor_that_has_a_msg_id_of_its_own_is_read_too(members: Members, queue: Queue) -> None:
    put = await queue.put(b"of an older version", MessageDescriptor(priority=3))
    found = await members.group.value("SELECT descriptor FROM message")
    priority, none, correl_id, packed_md = msgpack.unpackb(found)
    assert none is None
    older = msgpack.packb((priority, put.md.msg_id, correl_id, packed_md))
    await members.group.rows("UPDATE message SET descriptor = $1", older)
    got = await queue.get()
    assert (got.md.msg_id, got.md.priority, got.data) == (put.md.msg_id, 3, b"of an older version")


async def test_puts_that_are_made_in_one_turn_are_written_in_few_statements(members: Members, queue: Queue) -> None:
    await queue.put(b"the session is there")
    figures = members.member("QM1").database.figures
    before = figures.round_trips, figures.transactions
    await asyncio.gather(*[queue.put(b"%03d" % number) for number in range(300)])
    assert (figures.round_trips - before[0], figures.transactions - before[1]) == (1, 1)
    assert (await drained(queue))[1:] == [b"%03d" % number for number in range(300)]


async def test_puts_of_a_connection_are_in_order_over_queues_and_units(
    members: Members, connection: Connection, queue: Queue
) -> None:
    other = await connection.open("OTHER", ALL)
    calls = []
    for number in range(20):
        target = (queue, other)[number % 2]
        calls.append(target.put(b"%02d" % number, options=MQPMO.SYNCPOINT if number % 3 else MQPMO.NO_SYNCPOINT))
    await asyncio.gather(*calls)
    await connection.commit()
    found = await members.group.rows("SELECT body FROM message ORDER BY place")
    assert [row["body"] for row in found] == [b"%02d" % number for number in range(20)]


async def test_a_put_to_a_private_queue_waits_for_the_shared_ones_before_it(
    members: Members, connection: Connection
) -> None:
    queue, own = await connection.open("Q", ALL), await connection.open("OWN", ALL)
    await queue.put(b"the session is there")
    members.lines["QM1"].hold()
    first, second = asyncio.ensure_future(queue.put(b"1")), asyncio.ensure_future(own.put(b"2"))
    third = asyncio.ensure_future(queue.put(b"3"))
    looks = await (await members.connect("QM1")).open("OWN", ALL)
    assert await reason_of(looks.get()) == MQRC.NO_MSG_AVAILABLE
    assert [each.done() for each in (first, second, third)] == [False] * 3
    members.lines["QM1"].let_through()
    await asyncio.gather(first, second, third)
    assert (await looks.get()).data == b"2"
    assert await drained(queue) == [b"the session is there", b"1", b"3"]


async def test_one_put_that_fails_fails_alone(connection: Connection, queue: Queue) -> None:
    other = await connection.open("SHORT", ALL)
    calls = [queue.put(b"1"), other.put(b"too long" * 3), queue.put(b"2"), other.put(b"3")]
    reasons = await asyncio.gather(*map(reason_of, calls))
    assert reasons == [MQRC.NONE, MQRC.MSG_TOO_BIG_FOR_Q, MQRC.NONE, MQRC.NONE]
    assert await drained(queue) == [b"1", b"2"]


async def test_each_call_of_put_many_is_one_transaction(members: Members, queue: Queue) -> None:
    await queue.put(b"the session is there")
    figures = members.member("QM1").database.figures
    before = figures.transactions
    results = await queue.put_many([b"%03d" % number for number in range(200)])
    assert figures.transactions - before == 2
    assert len({result.md.msg_id for result in results}) == 200
    assert (await drained(queue))[1:] == [b"%03d" % number for number in range(200)]


async def test_a_distribution_list_may_have_shared_and_private_destinations(
    members: Members, connection: Connection
) -> None:
    names = ("Q", "OWN", "OTHER")
    destinations = ObjectDescriptor(records=[ObjectRecord(name) for name in names])
    many = await connection.open(destinations, MQOO.OUTPUT)
    for options in (MQPMO.SYNCPOINT, MQPMO.NO_SYNCPOINT):
        result = await many.put(b"to all", options=options)
        assert [record.reason for record in result.records] == [MQRC.NONE] * 3
    await connection.commit()
    for name in names:
        assert await drained(await connection.open(name, ALL)) == [b"to all"] * 2


@pytest.mark.parametrize(("before", "reason"), [(2, MQRC.NONE), (3, MQRC.Q_FULL)])
async def test_the_segments_of_a_message_need_room_for_the_first_of_them(
    connection: Connection, before: int, reason: MQRC
) -> None:
    queue = await connection.open("SHORT", ALL)
    for _ in range(before):
        await queue.put(b"x")
    md = MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED)
    assert await reason_of(queue.put(b"a" * 40, md)) == reason


@pytest.mark.parametrize("name", ["Q", "OWN"])
@pytest.mark.parametrize("options", [MQPMO.NO_SYNCPOINT, MQPMO.SYNCPOINT])
async def test_a_report_on_arrival_is_put_to_a_shared_queue(
    members: Members, connection: Connection, name: str, options: MQPMO
) -> None:
    queue = await connection.open(name, ALL)
    put = await queue.put(b"x", MessageDescriptor(report=MQRO.COA, reply_to_q="OTHER"), options)
    await connection.commit()
    there = await (await members.connect("QM2")).open("OTHER", ALL)
    report = await there.get()
    assert (report.md.feedback, report.md.correl_id) == (MQFB.COA, put.md.msg_id)
    assert await drained(queue) == [b"x"]


async def test_what_the_queue_manager_puts_by_itself_goes_to_shared_queues(
    members: Members, connection: Connection
) -> None:
    """Expiration reports, and dead letters where a queue is full."""
    await members.mqsc("ALTER QMGR DEADQ(OTHER)")
    own, three = await connection.open("OWN", ALL), await connection.open("THREE", ALL)
    await three.put_many([b"1", b"2"])
    for _ in range(3):
        await own.put(b"x", MessageDescriptor(expiry=10, report=MQRO.EXPIRATION, reply_to_q="THREE"))
    await members.clock.advance(2)
    assert await reason_of(own.get()) == MQRC.NO_MSG_AVAILABLE
    await members.clock.rest()
    assert len(await drained(three)) == 3
    dead = await drained(await (await members.connect("QM2")).open("OTHER", ALL))
    assert [letter[:4] for letter in dead] == [b"DLH "] * 2


async def test_puts_of_many_connections_are_few_transactions_and_one_that_is_refused_keeps_none_of_the_others(
    members: Members,
) -> None:
    queues = [await (await members.connect("QM1")).open("TEN", ALL) for _ in range(14)]
    figures = members.member("QM1").database.figures
    before = figures.transactions
    reasons = await asyncio.gather(*[reason_of(queue.put(b"%d" % number)) for number, queue in enumerate(queues[:8])])
    assert reasons == [MQRC.NONE] * 8
    assert figures.transactions - before <= 4
    reasons = await asyncio.gather(*[reason_of(queue.put(b"%d" % number)) for number, queue in enumerate(queues[8:])])
    assert sorted(reasons) == [MQRC.NONE] * 2 + [MQRC.Q_FULL] * 4
    assert await members.group.value("SELECT count(*) FROM all_messages") == 10
    await drained(queues[0])
