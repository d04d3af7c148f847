"""MQGET from shared queues through several members: who is given what, and what keeps nobody from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from broker.engine.calls.batches import ANSWER_BYTES
from broker.mqi import MQFB, MQGMO, MQMF, MQMO, MQMT, MQPMO, MQRC, MQRO, GetMessageOptions, MessageDescriptor
from broker.mqi.errors import MQError
from broker.sharing.database.notifications import Notifications
from broker.sharing.gets import page_gets, pages
from broker.sharing.gets.waits import Waits
from tests.conformance.expect import ALL, drained, fails
from tests.sharing.members import Members, lose_line
from tests.sharing.unclaimed import end_wait, hold_up, returns_fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

WAITING = GetMessageOptions(options=MQGMO.WAIT, wait_interval=5000)
COMPLETE = GetMessageOptions(options=MQGMO.COMPLETE_MSG)
GROUP = b"G" * 24


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) MAXDEPTH(20000)\nDEFINE QLOCAL(R) QSGDISP(SHARED)")
        await members.start("QM2")
        yield members


@pytest.fixture
async def queues(members: Members) -> list[Queue]:
    """The queue, as programs of two members have it open."""
    return [await (await members.connect(name)).open("Q", ALL) for name in members.running]


@pytest.mark.usefixtures("unpolled")
async def test_s3_2_of_two_who_wait_on_two_members_one_is_given_the_message(
    members: Members, queues: list[Queue]
) -> None:
    getters = [asyncio.ensure_future(queue.get(options=WAITING)) for queue in queues]
    await members.clock.rest()
    await queues[1].put(b"one")
    done, waiting = await asyncio.wait(getters, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    (got,), (other,) = done, waiting
    assert (await got).data == b"one"
    await members.clock.advance(5)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await other


async def test_s10_4_two_getters_on_two_members_drain_a_queue_in_order(queues: list[Queue]) -> None:
    await queues[0].put_many([b"%d" % number for number in range(10_000)])

    async def drain(queue: Queue) -> list[int]:
        got: list[int] = []
        while True:
            try:
                got += [int(message.data) for message in await queue.get_many(64)]
                got.append(int((await queue.get()).data))
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return got

    one, two = await asyncio.gather(*map(drain, queues))
    assert one == sorted(one)
    assert two == sorted(two)
    assert sorted(one + two) == list(range(10_000))
    assert one
    assert two


async def test_s10_4_what_is_put_with_priority_9_is_next_at_the_other_member(queues: list[Queue]) -> None:
    await queues[0].put_many([b"first", b"second"])
    assert (await queues[1].get()).data == b"first"
    await queues[0].put(b"urgent", MessageDescriptor(priority=9))
    assert [(await queues[1].get()).data for _ in range(2)] == [b"urgent", b"second"]


async def test_s10_5_who_waits_is_served_when_the_notifications_were_cut(members: Members, queues: list[Queue]) -> None:
    getter = asyncio.ensure_future(queues[0].get(options=WAITING))
    await members.clock.rest()
    cut = await members.group.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1",
        f"{members.group.name}/QM1/%/listen",
    )
    assert len(cut) == 1
    await queues[1].put(b"nobody hears of me")
    assert (await asyncio.wait_for(getter, 60)).data == b"nobody hears of me"


@pytest.mark.parametrize("options", [MQGMO.NONE, MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE])
async def test_trap_1_who_finds_the_only_message_locked_waits_for_the_rival(
    members: Members, queues: list[Queue], rival: asyncpg.Connection, options: int
) -> None:
    await queues[0].put(b"mine after all")
    await rival.execute("BEGIN; SELECT * FROM message FOR UPDATE")
    getter = asyncio.ensure_future(queues[1].get(options=GetMessageOptions(options=options)))
    await members.group.until_blocked(getter)
    rival.terminate()  # without a word
    assert (await getter).data == b"mine after all"


async def test_a_message_that_a_rival_does_not_let_go_of_is_in_use(
    members: Members, queues: list[Queue], rival: asyncpg.Connection
) -> None:
    await queues[0].put(b"stuck")
    await rival.execute("BEGIN; SELECT * FROM message FOR UPDATE")
    with fails(MQRC.CF_STRUC_IN_USE):
        await queues[1].get()
    await rival.close()
    assert (await queues[1].get()).data == b"stuck"


@pytest.mark.parametrize("syncpoint", [MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT])
@pytest.mark.parametrize("end", ["interval", "cancelled"])
async def test_trap_3_what_is_granted_to_a_wait_that_has_ended_goes_back(
    members: Members, queues: list[Queue], rival: asyncpg.Connection, end: str, syncpoint: MQGMO
) -> None:
    options = GetMessageOptions(options=MQGMO.WAIT | syncpoint, wait_interval=5000)
    getter = asyncio.ensure_future(queues[0].get(options=options))
    await members.clock.rest()
    await hold_up(members, getter, queues[1], rival, b"nobody's")
    if end == "interval":
        await end_wait(members, getter)
    else:
        getter.cancel()
        await asyncio.wait([getter])
    await rival.close()
    await members.clock.rest()
    message = await queues[1].get()
    assert (message.data, message.md.backout_count) == (b"nobody's", 0)
    members.group.forgive("units of work")


async def test_nothing_is_got_before_what_nobody_took_is_back(
    members: Members, queues: list[Queue], rival: asyncpg.Connection
) -> None:
    """The database fails while a message goes back: the next get is given that, and not the one behind it."""
    options = GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=5000)
    getter = asyncio.ensure_future(queues[0].get(options=options))
    await members.clock.rest()
    await hold_up(members, getter, queues[1], rival, b"1", b"2")
    await end_wait(members, getter)
    with returns_fail(members, range(2)) as failures:
        await rival.close()
        assert [(await queues[0].get()).data for _ in range(2)] == [b"1", b"2"]
    assert next(failures, None) is None
    members.group.forgive("units of work")


async def test_what_a_batch_was_given_beyond_what_its_unit_may_hold_goes_back(
    members: Members, queues: list[Queue]
) -> None:
    await members.mqsc("ALTER QMGR MAXUMSGS(2)", "QM1")
    await queues[1].put_many([b"1", b"2", b"3"])
    assert [each.data for each in await queues[0].get_many(3, options=MQGMO.SYNCPOINT)] == [b"1", b"2"]
    await queues[0]._connection.commit()
    assert await drained(queues[1]) == [b"3"]


async def test_a_unit_of_work_does_not_take_along_what_nobody_took(
    members: Members, queues: list[Queue], rival: asyncpg.Connection
) -> None:
    """The database fails while a message goes back that was taken in a unit of work for a wait that has ended."""
    await queues[1].put(b"1")
    assert (await queues[0].get(options=MQGMO.SYNCPOINT)).data == b"1"
    getter = asyncio.ensure_future(queues[0].get(options=MQGMO.SYNCPOINT, wait=5))
    await members.clock.rest()
    await hold_up(members, getter, queues[1], rival, b"2")
    await end_wait(members, getter)
    with returns_fail(members):
        await rival.close()
        with fails(MQRC.BACKED_OUT):
            await queues[0]._connection.commit()
    assert [(await queues[0].get()).data for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize("many", [False, True])
async def test_a_connection_that_breaks_while_its_get_looks_does_not_begin_to_wait(
    members: Members, queues: list[Queue], *, many: bool
) -> None:
    queue, line = queues[0], members.lines["QM1"]
    line.hold()
    getter = asyncio.ensure_future(queue.get_many(2, options=WAITING) if many else queue.get(options=WAITING))
    await asyncio.sleep(0)
    lose_line(queue._connection)
    line.let_through()
    with fails(MQRC.CONNECTION_BROKEN):
        await getter


async def test_trap_5_a_get_that_is_made_again_gives_the_same_message(members: Members, queues: list[Queue]) -> None:
    for number in range(1, 4):
        await queues[0].put(b"%d" % number, options=MQPMO.LOGICAL_ORDER, md=_in_group(last=number == 3))
    await members.group.rows("CREATE SEQUENCE hurdle")
    await members.group.rows("GRANT ALL ON SEQUENCE hurdle TO PUBLIC")
    await members.group.rows(
        "CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('hurdle') % 2 = 1 THEN RAISE serialization_failure; END IF; RETURN NEW; END $$"
    )
    await members.group.rows(
        "CREATE TRIGGER hurdle BEFORE INSERT ON held_nonpersistent FOR EACH ROW EXECUTE FUNCTION stumble()"
    )
    ordered = GetMessageOptions(options=MQGMO.LOGICAL_ORDER | MQGMO.SYNCPOINT)
    assert [(await queues[1].get(options=ordered)).data for _ in range(3)] == [b"1", b"2", b"3"]
    assert await members.group.value("SELECT last_value FROM hurdle") == 6  # each was made twice
    await queues[1]._connection.commit()
    members.group.forgive("units of work")


def _in_group(*, last: bool) -> MessageDescriptor:
    return MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP if last else MQMF.MSG_IN_GROUP)


async def test_trap_7_a_group_is_found_whose_halves_are_committed_while_it_is_looked_for(
    members: Members, queues: list[Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Waits, "watch_all", lambda _: None)  # no poll
    getter = queues[1]
    whole = GetMessageOptions(options=MQGMO.WAIT | MQGMO.ALL_MSGS_AVAILABLE, wait_interval=-1)
    other = await (await members.connect("QM1")).open("Q", ALL)
    for queue, number, flags in ((queues[0], 1, MQMF.MSG_IN_GROUP), (other, 2, MQMF.LAST_MSG_IN_GROUP)):
        md = MessageDescriptor(group_id=GROUP, msg_seq_number=number, msg_flags=flags)
        await queue.put(b"%d" % number, md, MQPMO.SYNCPOINT)
    waiting = asyncio.ensure_future(getter.get(options=whole))
    await members.clock.rest()
    seen, notified = asyncio.Event(), asyncio.Event()
    hear = Notifications.notified

    def hears(notifications: Notifications, payload: str) -> None:
        hear(notifications, payload)
        if seen.is_set() and notifications is members.member("QM2").notifications:
            notified.set()

    monkeypatch.setattr(Notifications, "notified", hears)

    async def stale(*arguments: Any) -> Any:
        """The first look sees one half, and the other is committed before it is judged."""
        page = await looked(*arguments)
        if not seen.is_set():
            seen.set()
            await other._connection.commit()
            await notified.wait()
        return page

    looked = pages.page
    monkeypatch.setattr(page_gets, "page", stale)
    await queues[0]._connection.commit()
    assert (await asyncio.wait_for(waiting, 60)).data == b"1"
    members.group.forgive("units of work")


async def test_trap_8_who_puts_a_message_together_waits_for_the_segments_of_a_rival(
    members: Members, queues: list[Queue], rival: asyncpg.Connection
) -> None:
    await _put_segments(queues[0], 1)
    await rival.execute("BEGIN; SELECT * FROM message WHERE byte_offset > 1 FOR UPDATE")
    getter = asyncio.ensure_future(queues[1].get(options=COMPLETE))
    await members.group.until_blocked(getter)
    await rival.close()
    assert (await getter).data == b"abc0"


async def test_trap_8_two_who_put_messages_together_get_each_once_and_whole(queues: list[Queue]) -> None:
    await _put_segments(queues[0], 40)

    async def drain(queue: Queue) -> list[bytes]:
        got = []
        while True:
            try:
                got.append((await queue.get(options=COMPLETE)).data)
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return got

    some, others = await asyncio.gather(*map(drain, queues))
    assert sorted(some + others) == sorted(b"abc%d" % number for number in range(40))


async def _put_segments(queue: Queue, count: int) -> None:
    for number in range(count):
        id = b"%024d" % number
        for offset, data in enumerate((b"a", b"b", b"c", b"%d" % number)):
            flags = MQMF.SEGMENT if offset < 3 else MQMF.LAST_SEGMENT
            await queue.put(data, MessageDescriptor(group_id=id, offset=offset, msg_flags=flags))


async def test_a_locked_message_is_hidden_from_all_members_until_its_handle_is_closed(
    members: Members, queues: list[Queue]
) -> None:
    await queues[0].put(b"locked")
    await queues[0].get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    others = [queues[1], await (await members.connect("QM1")).open("Q", ALL)]
    for other in others:
        with fails(MQRC.NO_MSG_AVAILABLE):
            await other.get()
    await queues[0].close()
    await members.clock.rest()
    assert (await queues[1].get()).data == b"locked"


async def test_an_expired_message_is_discarded_once_in_the_group(members: Members, queues: list[Queue]) -> None:
    await members.mqsc("ALTER QMGR SQQMNAME(IGNORE)", "QM2")  # R is its own, too, where it is the one that tells QM1
    replies = await (await members.connect("QM1")).open("R", ALL)
    md = MessageDescriptor(expiry=10, report=MQRO.EXPIRATION, reply_to_q="R")
    await queues[0].put(b"late", md)
    await queues[0].put(b"in time")
    await members.clock.advance(120)
    report = await replies.get()
    assert (report.md.msg_type, report.md.feedback) == (MQMT.REPORT, MQFB.EXPIRATION)
    assert (await queues[1].get()).data == b"in time"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await replies.get()


async def test_a_batch_of_persistent_and_nonpersistent_messages_ends_with_the_one_that_fills_the_answer(
    queues: list[Queue],
) -> None:
    half = bytes(ANSWER_BYTES // 2)
    kinds = [MessageDescriptor(persistence=number % 2) for number in range(4)]
    sent = [b"0", half + b"1", half + b"2", b"3"]
    await queues[0].put_many(zip(sent, kinds, strict=True))
    got = [await queues[1].get_many(10, options=MQGMO.NO_SYNCPOINT) for _ in range(2)]
    assert [[(each.data, each.md.persistence) for each in batch] for batch in got] == [
        [(sent[0], 0), (sent[1], 1), (sent[2], 0)],
        [(sent[3], 1)],
    ]
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queues[1].get_many(10)


@pytest.mark.parametrize(("options", "calls"), [(MQGMO.SYNCPOINT, 1), (MQGMO.NO_SYNCPOINT, 2)])
async def test_one_get_is_one_call_of_the_database_or_one_and_its_commit(
    members: Members, queues: list[Queue], options: MQGMO, calls: int
) -> None:
    await queues[0].put_many([b"%d" % number for number in range(20)], MessageDescriptor(persistence=1))
    figures = members.member("QM1").database.figures
    before = figures.round_trips
    for _ in range(20):
        await queues[0].get(options=options)
    assert figures.round_trips - before <= 20 * calls + 5  # others look now and then
    await queues[0]._connection.commit()
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0
    members.group.forgive("units of work")


async def test_many_who_wait_are_served_by_few_statements(members: Members) -> None:
    queues = [await (await members.connect("QM1")).open("Q", ALL) for _ in range(100)]
    getters = [asyncio.ensure_future(queue.get(options=WAITING)) for queue in queues]
    await members.clock.rest()
    figures = members.member("QM1").database.figures
    before = figures.round_trips
    putter = await (await members.connect("QM2")).open("Q", ALL)
    await putter.put_many([b"%d" % number for number in range(100)])
    got = await asyncio.gather(*getters)
    assert [int(message.data) for message in got] == list(range(100))
    assert figures.round_trips - before <= 10


async def test_a_reply_finds_who_waits_for_it_among_many(members: Members) -> None:
    ids = [b"%024d" % number for number in range(50)]
    by_correl_id = GetMessageOptions(options=MQGMO.WAIT, match_options=MQMO.MATCH_CORREL_ID, wait_interval=5000)
    queues = [await (await members.connect("QM1")).open("Q", ALL) for _ in ids]
    getters = [
        asyncio.ensure_future(queue.get(MessageDescriptor(correl_id=id), by_correl_id))
        for queue, id in zip(queues, ids, strict=True)
    ]
    await members.clock.rest()
    putter = await (await members.connect("QM2")).open("Q", ALL)
    await putter.put(b"reply", MessageDescriptor(correl_id=ids[30]))
    assert (await getters[30]).data == b"reply"
    assert [getter.done() for getter in getters].count(True) == 1
    await members.clock.advance(5)
    await asyncio.gather(*getters, return_exceptions=True)
