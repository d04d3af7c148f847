"""Claims: what a consumer is given, when it is durable, and who sees what of it meanwhile (`docs/rules/claims.md`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.interface.claims.claims import BrowseSelection
from broker.interface.port import answer
from broker.mqi import (
    MQGMO,
    MQMF,
    MQMO,
    MQOO,
    MQPMO,
    MQRC,
    MQRO,
    MQTM,
    GetMessageOptions,
    MessageDescriptor,
)
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFullError
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import opened, reason_of
from tests.engine.reader import Reader, bodies_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engine.bench import Bench

NONE = MQRC.NO_MSG_AVAILABLE
GROUP, LAST = MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as found:
        yield found


async def put(bench: Bench, *bodies: bytes | str, **fields: object) -> None:
    for body in bodies:
        await bench.queue.put(body, MessageDescriptor(**fields))  # type: ignore[arg-type]


async def reader(bench: Bench, name: str = "ARCHIVE", *q_names: str) -> Reader:
    made = Reader(bench.manager, name, *q_names)
    await made.register()
    return made


async def later(bench: Bench, seconds: float) -> None:
    clock = bench.manager.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(seconds)


# What others see of it: the table of claims rule 1


async def test_a_get_does_not_see_a_claimed_message_and_a_wait_goes_on(bench: Bench) -> None:
    """K1."""
    await put(bench, b"A", b"B")
    archive = await reader(bench)
    assert await archive.batch() == [b"A", b"B"]
    assert await reason_of(bench.queue.get()) == NONE
    waiting = asyncio.ensure_future(bench.queue.get(wait=60))
    await bench.until(lambda: bench.waiting == 1)
    assert await archive.release() == 2
    assert (await waiting).data == b"A"


async def test_a_get_by_msg_id_does_not_see_it_either(bench: Bench) -> None:
    """K1."""
    placed = await bench.queue.put(b"A")
    archive = await reader(bench)
    await archive.claim()
    options = GetMessageOptions(match_options=MQMO.MATCH_MSG_ID.value)
    assert await reason_of(bench.queue.get(MessageDescriptor(msg_id=placed.md.msg_id), options)) == NONE


async def test_under_the_cursor_it_is_gone_and_browse_next_goes_on_from_its_place(bench: Bench) -> None:
    """K2."""
    await put(bench, b"A", b"B")
    assert (await bench.queue.get(options=MQGMO.BROWSE_FIRST)).data == b"A"
    archive = await reader(bench)
    assert await archive.claim(1) == 1
    assert await reason_of(bench.queue.get(options=MQGMO.MSG_UNDER_CURSOR)) == MQRC.NO_MSG_UNDER_CURSOR
    assert (await bench.queue.get(options=MQGMO.BROWSE_NEXT)).data == b"B"


async def test_a_locked_message_is_passed_over(bench: Bench) -> None:
    """K3."""
    await put(bench, b"A", b"B")
    await bench.queue.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
    archive = await reader(bench)
    assert await archive.batch() == [b"B"]


async def test_browse_marks_are_dropped_for_good(bench: Bench) -> None:
    """K4."""
    await put(bench, b"A")
    marking = MQGMO.BROWSE_FIRST | MQGMO.MARK_BROWSE_HANDLE
    async with bench.connection.open("Q", MQOO.BROWSE) as queue:
        await queue.get(options=marking)
        unmarked = MQGMO.BROWSE_FIRST | MQGMO.UNMARKED_BROWSE_MSG
        archive = await reader(bench)
        await archive.claim()
        await archive.release()
        assert (await bench.queue.get(options=unmarked)).data == b"A"


async def test_a_claimed_message_does_not_expire_until_it_is_back(bench: Bench) -> None:
    """K5."""
    await bench.connection.mqsc("DEFINE QLOCAL(R)")
    await put(bench, b"A", expiry=5, report=MQRO.EXPIRATION, reply_to_q="R")
    archive = await reader(bench)
    await archive.claim()
    await later(bench, 3600)
    await bench.idle()
    reports = bench.manager.core.objects.queues["R"]
    assert (bench.depth, reports.depth) == (1, 0)
    await archive.release()
    assert await reason_of(bench.queue.get()) == NONE
    await bench.idle()
    assert (bench.depth, reports.depth) == (0, 1)


async def test_an_expired_message_is_discarded_by_a_claim_with_its_report(bench: Bench) -> None:
    """K5."""
    await bench.connection.mqsc("DEFINE QLOCAL(R)")
    await put(bench, b"A", expiry=5, report=MQRO.EXPIRATION, reply_to_q="R")
    await put(bench, b"B")
    await later(bench, 1)
    archive = await reader(bench)
    assert await archive.batch() == [b"B"]
    await bench.idle()
    assert bench.manager.core.objects.queues["R"].depth == 1


async def test_claims_count_in_the_depth_and_leave_it_when_they_are_acknowledged(bench: Bench) -> None:
    """K6."""
    await put(bench, b"A", b"B", b"C")
    archive = await reader(bench)
    await archive.batch(2)
    assert bench.depth == 3
    await archive.acknowledge()
    assert bench.depth == 1


async def test_a_full_queue_stays_full_while_its_messages_are_claimed(bench: Bench) -> None:
    """K6."""
    await bench.connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    await put(bench, b"A")
    archive = await reader(bench)
    await archive.batch()
    assert await reason_of(bench.queue.put(b"B")) == MQRC.Q_FULL
    await archive.acknowledge()
    await put(bench, b"B")


async def test_get_disabled_stops_claims_and_nothing_else(bench: Bench) -> None:
    """K9."""
    await put(bench, b"A", b"B")
    archive = await reader(bench)
    await archive.claim(1)
    await bench.connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    await archive.pin()
    assert await archive.read() == [(1, b"A")]
    await archive.acknowledge()
    assert await reason_of(archive.claim()) == MQRC.GET_INHIBITED


async def test_altering_the_queue_leaves_claims_at_their_places(bench: Bench) -> None:
    """K10."""
    await put(bench, b"A", b"B", b"C")
    archive = await reader(bench)
    await archive.claim(2)
    await bench.connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2) MSGDLVSQ(FIFO) DEFPRTY(3) MAXMSGL(1)")
    await archive.release()
    got = [(await bench.queue.get()).data for _ in range(3)]
    assert got == [b"A", b"B", b"C"]


async def test_a_logical_message_is_incomplete_while_a_segment_is_claimed(bench: Bench) -> None:
    """K12."""
    group_id = b"G" * 24
    for number, (flags, body) in enumerate([(MQMF.SEGMENT, b"A"), (MQMF.LAST_SEGMENT, b"B")]):
        await put(bench, body, group_id=group_id, msg_flags=flags, offset=number, msg_seq_number=1)
    archive = await reader(bench)
    assert await archive.claim(1) == 1
    whole = MQGMO.COMPLETE_MSG
    assert await reason_of(bench.queue.get(options=whole)) == NONE
    waiting = asyncio.ensure_future(bench.queue.get(options=whole, wait=60))
    await bench.until(lambda: bench.waiting == 1)
    await archive.release()
    assert (await waiting).data == b"AB"


async def test_the_report_on_delivery_comes_with_the_acknowledgement(bench: Bench) -> None:
    """K13, K67."""
    await bench.connection.mqsc("DEFINE QLOCAL(R)")
    reports = bench.manager.core.objects.queues["R"]
    await put(bench, b"A", report=MQRO.COD, reply_to_q="R")
    archive = await reader(bench)
    await archive.batch()
    assert reports.depth == 0
    await archive.acknowledge()
    assert reports.depth == 1


async def test_a_report_with_data_is_made_of_what_is_on_disk() -> None:
    """K13."""
    async with opened(body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(R)")
        await put(bench, b"A" * 500, report=MQRO.COD_WITH_FULL_DATA, reply_to_q="R")
        archive = await reader(bench)
        await archive.batch()
        await archive.acknowledge()
        async with bench.connection.open("R", MQOO.INPUT_SHARED) as queue:
            assert (await queue.get()).data == b"A" * 500


async def test_a_backout_counts_once(bench: Bench) -> None:
    """K49."""
    await put(bench, b"A")
    archive = await reader(bench)
    await archive.batch()
    await archive.release()
    message = await bench.queue.get()
    assert (message.data, message.md.backout_count) == (b"A", 1)


# Triggers


async def starts(bench: Bench) -> int:
    return bench.manager.core.objects.queues["Q"].pending_starts


async def test_first_does_not_count_claims(bench: Bench) -> None:
    """K15."""
    await bench.connection.mqsc("DEFINE PROCESS(P) APPLICID('x')\nDEFINE QLOCAL(T) TRIGGER TRIGTYPE(FIRST) PROCESS(P)")
    queue = bench.manager.core.objects.queues["T"]
    archive = await reader(bench, "ARCHIVE", "T")
    async with bench.connection.open("T", MQOO.OUTPUT) as handle:
        await handle.put(b"A")
        assert queue.pending_starts == 1
        bench.manager.core.triggers.count(queue, 0)  # it was started, and has gone
        await handle.put(b"B")
        assert queue.pending_starts == 0
        assert await archive.claim() == 2
        await handle.put(b"C")
        assert queue.pending_starts == 1


async def test_claims_are_not_among_those_that_a_depth_is_reached_with(bench: Bench) -> None:
    """K17."""
    await bench.connection.mqsc(
        "DEFINE PROCESS(P) APPLICID('x')\nDEFINE QLOCAL(T) TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(3) PROCESS(P)"
    )
    queue = bench.manager.core.objects.queues["T"]
    archive = await reader(bench, "ARCHIVE", "T")
    async with bench.connection.open("T", MQOO.OUTPUT) as handle:
        await handle.put(b"A")
        await handle.put(b"B")
        assert await archive.claim() == 2
        await handle.put(b"C")
        await handle.put(b"D")
        assert (queue.trigger_on, queue.pending_starts) == (True, 0)
        await handle.put(b"E")
        assert (queue.trigger_on, queue.pending_starts) == (False, 1)


async def test_claims_that_come_back_can_reach_a_depth(bench: Bench) -> None:
    """K17."""
    await bench.connection.mqsc(
        "DEFINE PROCESS(P) APPLICID('x')\nDEFINE QLOCAL(I)\n"
        "DEFINE QLOCAL(T) TRIGTYPE(DEPTH) TRIGDPTH(3) PROCESS(P) INITQ(I)"
    )
    queue = bench.manager.core.objects.queues["T"]
    for data in (b"A", b"B", b"C"):
        await bench.connection.put1("T", data)
    archive = await reader(bench, "ARCHIVE", "T")
    await archive.claim()
    async with bench.connection.open("I", MQOO.INPUT_SHARED) as monitor:
        await bench.connection.mqsc("ALTER QLOCAL(T) TRIGGER")
        assert queue.trigger_on
        await archive.release()
        assert (queue.trigger_on, MQTM.from_bytes((await monitor.get()).data).q_name) == (False, "T")


async def test_every_counts_a_message_that_comes_back(bench: Bench) -> None:
    """K16."""
    await bench.connection.mqsc("DEFINE PROCESS(P) APPLICID('x')\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    await put(bench, b"A")
    archive = await reader(bench)
    await archive.claim()
    bench.manager.core.triggers.count(bench.manager.core.objects.queues["Q"], 0)
    await archive.release()
    assert await starts(bench) == 1


# A store without room


async def test_a_claim_without_room_claims_nothing_and_the_acknowledged_part_is_gone(bench: Bench) -> None:
    """K30."""
    await put(bench, *"ABCD")
    archive = await reader(bench)
    await archive.batch(2)
    bench.store.fill()
    assert await reason_of(archive.claim(start=2)) == MQRC.STORAGE_MEDIUM_FULL
    assert bench.depth == 2
    assert (await bench.queue.get(options=MQGMO.BROWSE_FIRST)).data == b"C"
    bench.store.make_room()
    archive.start = 2
    assert await archive.batch() == [b"C", b"D"]
    assert archive.end == 4


async def test_an_acknowledgement_without_room_leaves_the_claims(bench: Bench) -> None:
    """K31."""
    await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
    await put(bench, b"A", report=MQRO.COD, reply_to_q="R", persistence=1)
    archive = await reader(bench)
    await archive.batch()
    bench.store.fill()
    assert await reason_of(archive.acknowledge()) == MQRC.STORAGE_MEDIUM_FULL
    assert await reason_of(bench.queue.get()) == NONE
    assert (bench.depth, bench.manager.core.objects.queues["R"].depth) == (1, 0)
    bench.store.make_room()
    archive.start = 0
    assert await archive.read(0, 1) == [(1, b"A")]
    await archive.acknowledge()
    assert (bench.depth, bench.manager.core.objects.queues["R"].depth) == (0, 1)


async def test_a_claim_on_its_way_is_nobodys(bench: Bench) -> None:
    """K20."""
    await put(bench, *"AB")
    archive = await reader(bench)
    bench.store.hold()
    claiming = asyncio.ensure_future(archive.claim())
    await bench.store.wait_held()
    assert not claiming.done()
    assert await reason_of(bench.queue.get()) == NONE
    bench.store.fail_next(StoreFullError("the disk is full"))
    bench.store.release()
    assert await claiming == 2


async def test_a_claim_that_breaks_off_after_some_slices_is_a_shorter_claim(bench: Bench) -> None:
    """K33, without the crash."""
    await put_many(bench, 3000)
    archive = await reader(bench)
    bench.store.fail_next(StoreFullError("the disk is full"), after=4)  # the empty write of the acknowledgement is none
    assert await archive.claim(5000) in (2000, 3000)
    bench.manager.core.check_invariants()


async def test_a_crash_between_two_slices_of_a_claim_leaves_no_hole() -> None:
    """K33."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await put_many(bench, 3000)
        archive = await reader(bench)
        store.hold(after=3)
        claiming = asyncio.ensure_future(archive.claim(5000))
        await store.wait_held()
        store.kill()
        assert await reason_of(claiming) == MQRC.CONNECTION_BROKEN
    async with opened(store) as bench:
        again = Reader(bench.manager)
        await again.register(archive.lineage, 0)
        assert (await again.claim(5000), bench.depth) == (2000, 3000)
        await again.pin()
        assert [sequence for sequence, _ in await again.read()] == list(range(1, 2001))
        await again.acknowledge()
        assert await again.claim(5000) == 1000


async def test_a_crash_between_two_slices_of_an_acknowledgement_leaves_the_rest_claimed() -> None:
    """K34."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await put_many(bench, 3000)
        archive = await reader(bench)
        await archive.batch(3000)
        store.hold(after=3)
        ending = asyncio.ensure_future(archive.acknowledge())
        await store.wait_held()
        store.kill()
        assert await reason_of(ending) == MQRC.CONNECTION_BROKEN
    async with opened(store) as bench:
        assert bench.depth == 1000
        again = Reader(bench.manager)
        await again.register(archive.lineage, 3000)
        await again.acknowledge(3000)
        assert bench.depth == 0


async def test_where_the_first_slice_of_an_acknowledgement_has_no_room_nothing_after_it_happens(bench: Bench) -> None:
    """K34."""
    await put_many(bench, 3000)
    archive = await reader(bench)
    await archive.batch(3000)
    bench.store.fail_next(StoreFullError("the disk is full"))
    written = len(bench.store.written)
    assert await reason_of(archive.acknowledge()) == MQRC.STORAGE_MEDIUM_FULL
    assert (bench.depth, len(bench.store.written)) == (3000, written)
    assert len(await archive.read()) == 3000
    archive.end = 3000
    await archive.acknowledge()
    assert bench.depth == 0


async def put_many(bench: Bench, count: int) -> None:
    await bench.queue.put_many([b"%d" % number for number in range(count)])


# Groups


async def group(bench: Bench, name: bytes, *numbers: int, last: int = 0, body: bytes = b"") -> None:
    for number in numbers:
        flags = LAST if number == last else GROUP
        await put(
            bench, body or name + b"%d" % number, group_id=name.ljust(24, b"."), msg_flags=flags, msg_seq_number=number
        )


async def test_a_group_is_claimed_where_its_first_message_stands(bench: Bench) -> None:
    """K38."""
    await group(bench, b"G", 3, last=3)
    await put(bench, b"A")
    await group(bench, b"G", 1, last=3)
    await put(bench, b"B")
    await group(bench, b"G", 2, last=3)
    archive = await reader(bench)
    assert await archive.batch(whole=True) == [b"A", b"G1", b"G2", b"G3", b"B"]


async def test_a_group_of_which_somebody_has_a_message_waits(bench: Bench) -> None:
    """K39."""
    await group(bench, b"G", 1, 2, last=2)
    await put(bench, b"A")
    by_number = GetMessageOptions(
        options=MQGMO.SYNCPOINT.value, match_options=MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER
    )
    wanted = MessageDescriptor(group_id=b"G".ljust(24, b"."), msg_seq_number=2)
    assert (await bench.queue.get(wanted, by_number)).data == b"G2"
    archive = await reader(bench)
    assert await archive.batch(whole=True) == [b"A"]
    await archive.acknowledge()
    await bench.connection.backout()
    assert await archive.batch(whole=True) == [b"G1", b"G2"]


async def test_a_group_that_is_begun_is_claimed_whole(bench: Bench) -> None:
    """K40."""
    await group(bench, b"G", *range(1, 51), last=50)
    await put(bench, b"A")
    archive = await reader(bench)
    assert await archive.claim(10, whole=True) == 50
    assert await archive.claim(10, whole=True) == 50


async def test_a_group_that_is_too_large_is_passed_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """K41."""
    monkeypatch.setattr("broker.core.claims.claiming.GROUP_MAX", 2)
    await group(bench, b"G", 1, 2, 3, last=3)
    await group(bench, b"H", 1, 2, last=2)
    archive = await reader(bench)
    assert await archive.batch(whole=True) == [b"H1", b"H2"]


async def test_no_cut_parts_a_group(bench: Bench) -> None:
    """K42."""
    await put_many(bench, 250)
    await group(bench, b"G", *range(1, 21), last=20)
    await put_many(bench, 300)
    archive = await reader(bench)
    await archive.claim(1000, whole=True)
    cuts = await archive.pin()
    assert [cut.sequence for cut in cuts] == [270, 526, 570]
    assert sum(cut.messages for cut in cuts) == 570


async def test_a_member_behind_the_last_stays(bench: Bench) -> None:
    """K43."""
    await group(bench, b"G", 1, 2, 3, last=3)
    archive = await reader(bench)
    assert await archive.batch(whole=True) == [b"G1", b"G2", b"G3"]
    await group(bench, b"G", 4, last=3)
    await archive.acknowledge()
    assert await archive.claim(whole=True) == 0
    assert bench.depth == 1


async def test_a_second_one_of_the_same_number_stays(bench: Bench) -> None:
    """K43."""
    await group(bench, b"G", 1, 1, 2, last=2)
    archive = await reader(bench)
    assert await archive.batch(whole=True) == [b"G1", b"G2"]
    assert await archive.claim(start=2, whole=True) == 0
    assert bench.depth == 1


async def test_a_group_stays_in_one_slice(bench: Bench) -> None:
    """K33 and K40: a slice of 1,000 messages takes in the group that it has begun."""
    await put_many(bench, 990)
    await group(bench, b"G", *range(1, 31), last=30, body=b"x")
    archive = await reader(bench)
    bench.store.written.clear()
    assert await archive.claim(5000, whole=True) == 1020
    lengths = [sum(len(run.ids) for run in rows.held) for rows in bench.store.written if rows.held]
    assert lengths == [1020]


# Which messages


async def test_each_of_several_queues_has_its_share(bench: Bench) -> None:
    """K44."""
    await bench.connection.mqsc("DEFINE QLOCAL(P) DEFPSIST(YES)")
    async with bench.connection.open("P", MQOO.OUTPUT) as queue:
        await queue.put_many([b"p"] * 10)
    await put_many(bench, 1000)
    archive = await reader(bench, "ARCHIVE", "P", "Q")
    found = await archive.batch(20)
    assert (found.count(b"p"), len(found)) == (10, 20)
    more = await archive.claim(20, start=20)
    assert more == 20


async def test_the_turn_goes_on_behind_the_queue_at_which_the_last_claim_ended(bench: Bench) -> None:
    """K44."""
    await bench.connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)")
    for name in "AB":
        async with bench.connection.open(name, MQOO.OUTPUT) as queue:
            for _ in range(3):
                await queue.put(name)
    archive = await reader(bench, "ARCHIVE", "A", "B")
    seen = b""
    for _ in range(4):
        seen += b"".join(await archive.batch(1))
        await archive.acknowledge()
    assert seen == b"ABAB"


async def test_queues_of_a_generic_name_come_and_go(bench: Bench) -> None:
    """K45."""
    await bench.connection.mqsc("DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(A.2)")
    archive = await reader(bench, "ARCHIVE", "A.*")
    assert await archive.claim() == 0
    await bench.connection.mqsc("DELETE QLOCAL(A.1)\nDEFINE QLOCAL(A.3)")
    async with bench.connection.open("A.3", MQOO.OUTPUT) as queue:
        await queue.put(b"3")
    assert await archive.batch() == [b"3"]


async def test_a_higher_priority_that_comes_later_has_a_higher_sequence(bench: Bench) -> None:
    """K46."""
    await put(bench, b"A", priority=1)
    archive = await reader(bench)
    await archive.claim()
    await put(bench, b"B", priority=9)
    await put(bench, b"C", priority=1)
    await archive.pin()
    await archive.acknowledge()
    await put(bench, b"D", priority=9)
    await archive.claim()
    await archive.pin()
    assert await archive.read() == [(2, b"B"), (3, b"D"), (4, b"C")]


async def test_a_getter_that_waits_comes_before_a_claim(bench: Bench) -> None:
    """K47."""
    archive = await reader(bench)
    waiting = asyncio.ensure_future(bench.queue.get(wait=60))
    await bench.until(lambda: bench.waiting == 1)
    await put(bench, b"A")
    assert await archive.claim() == 0
    assert (await waiting).data == b"A"


async def test_a_claim_keeps_to_its_bytes_but_takes_one_message_at_least(bench: Bench) -> None:
    await put(bench, b"A" * 10, b"B" * 10, b"C" * 10)
    archive = await reader(bench)
    assert await archive.claim(100, 25) == 2
    await archive.pin()
    await archive.acknowledge()
    assert await archive.claim(100, 5) == 1


async def test_a_claim_may_be_bound_to_what_had_arrived(bench: Bench) -> None:
    await put(bench, b"A", priority=1)
    archive = Reader(bench.manager)
    arrived = (await archive.consumer()).arrived
    await archive.register()
    await put(bench, b"B", priority=9)
    assert await archive.claim(before=arrived) == 1
    await archive.pin()
    assert await archive.read() == [(1, b"A")]


async def test_a_temporary_dynamic_queue_is_not_claimed_from(bench: Bench) -> None:
    async with bench.connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", MQOO.INPUT_SHARED) as queue:
        port = bench.manager.converse()
        assert await reason_of(port.consumer("X", [queue.name])) == MQRC.OPTION_NOT_VALID_FOR_TYPE


# What is kept over a restart


async def test_claims_outlive_a_restart() -> None:
    """K11."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await put(bench, *"ABCD")
        archive = await reader(bench)
        await archive.batch(3)
        await archive.acknowledge(1)
    async with opened(store) as bench:
        again = Reader(bench.manager)
        await again.register(archive.lineage, 1, 3)
        again.end = 3
        assert (bench.depth, await again.read()) == (3, [(2, b"B"), (3, b"C")])
        assert (await bench.queue.get()).data == b"D"
        await again.acknowledge()
        assert bench.depth == 0


async def test_a_nonpersistent_message_is_kept_while_it_is_claimed() -> None:
    """K35, K36."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await put(bench, b"N", persistence=0)
        await put(bench, b"P")
        archive = await reader(bench)
        await archive.batch()
    async with opened(store) as bench:
        again = Reader(bench.manager)
        await again.register(archive.lineage, 0, 2)
        again.end = 2
        assert await again.read() == [(1, b"N"), (2, b"P")]
        assert await again.release() == 2
        browsed = [(await bench.queue.get(options=MQGMO.BROWSE_NEXT)).data for _ in range(2)]
        assert browsed == [b"N", b"P"]
    async with opened(store) as bench:
        assert (await bench.queue.get()).data == b"P"
        assert await reason_of(bench.queue.get()) == NONE


async def test_an_orderly_stop_keeps_a_claimed_message_once() -> None:
    """K37."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await bench.connection.mqsc("ALTER QLOCAL(Q) NPMCLASS(HIGH)")
        await put(bench, b"N", b"M", persistence=0)
        archive = await reader(bench)
        await archive.batch(1)
    async with opened(store) as bench:
        assert bench.depth == 2
        again = Reader(bench.manager)
        await again.register(archive.lineage, 0, 1)
        again.end = 1
        assert await again.read() == [(1, b"N")]
        assert (await bench.queue.get()).data == b"M"


async def test_every_counts_a_claimed_message_after_a_restart_when_it_comes_back() -> None:
    """K16."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await bench.connection.mqsc(
            "DEFINE PROCESS(P) APPLICID('x')\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
        )
        await put(bench, b"A")
        await (await reader(bench)).claim()
    async with opened(store) as bench:
        assert await starts(bench) == 0
        again = await reader(bench)
        await again.release()
        assert await starts(bench) == 1


# Calls that are made together


async def test_calls_about_one_consumer_follow_one_another(bench: Bench) -> None:
    """K19: whatever the connection."""
    await put_many(bench, 2500)
    archive = await reader(bench)
    other = Reader(bench.manager)
    other.uuid, other.generation = archive.uuid, archive.generation
    assert set(await asyncio.gather(archive.claim(3000), other.claim(1))) == {2500}


# Queues read by arrival number


async def by_number(bench: Bench, after: int) -> tuple[list[bytes], int]:
    port = bench.manager.converse()
    (found,) = await answer(port.queue_ranges(["Q"]))
    return bodies_of(await answer(port.browse_range("Q", after, found.last, BrowseSelection()))), found.last


async def test_a_late_commit_a_backout_and_a_higher_priority_are_each_seen_once(bench: Bench) -> None:
    """K72."""
    await put(bench, b"A", b"B", priority=1)
    await bench.queue.put(b"LATE", options=MQPMO.SYNCPOINT)
    await put(bench, b"C", priority=1)
    async with bench.manager.connect() as other, other.open("Q", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get(options=MQGMO.SYNCPOINT)).data == b"A"
        seen, last = await by_number(bench, 0)
        await other.backout()
    await put(bench, b"HIGH", priority=9)
    await bench.connection.commit()
    more, end = await by_number(bench, last)
    assert seen == [b"A", b"B"]
    assert more == [b"LATE", b"C", b"HIGH"]
    assert (await by_number(bench, end))[0] == []


async def test_a_consumer_has_never_claimed_more_than_it_may() -> None:
    """A claim then gives what there is, and is no error."""
    async with opened(claim_bytes=2048) as bench:
        await put(bench, b"A" * 1500, b"B" * 600, b"C" * 500)
        archive = await reader(bench)
        assert await archive.claim() == 1
        await archive.pin()
        archive.start = 1
        assert await archive.claim() == 2
        await archive.pin()
        await archive.acknowledge()
        await put(bench, b"D" * 3000)
        assert await archive.claim() == 0
