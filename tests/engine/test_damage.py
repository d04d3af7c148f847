"""Messages whose data is damaged: the get or browse that meets one fails, the message stays, the queue goes on
(semantics 5.10, log case 29).
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError, QueueManager
from broker.config import Config
from broker.core.calls import batches
from broker.engine.calls.room import Room
from broker.engine.expiry_scan import EXPIRY_SCAN_INTERVAL
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
)
from broker.storage.creation import LogSettings
from broker.storage.log_store import LogStore
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import ALL, Bench, opened, reason_of
from tests.engine.trial import slow_store

if TYPE_CHECKING:
    from pathlib import Path

    from broker import Message, Queue

DAMAGED = MQRC.OBJECT_DAMAGED
NONE = MQRC.NO_MSG_AVAILABLE
BROWSE = MQGMO.BROWSE_NEXT


class Measured(Room):
    """Room without bounds that adds up what is got."""

    def __init__(self) -> None:
        self.held = 0

    def got(self, size: int) -> None:
        self.held += size


async def put_all(bench: Bench, *data: bytes) -> list[bytes]:
    """Put these messages; their MsgIds."""
    return [(await bench.queue.put(each)).md.msg_id for each in data]


async def seen(call: Any) -> object:
    """The data of what a call gives, or its reason."""
    try:
        found = await call
    except MQError as error:
        return error.reason
    return [each.data for each in found] if isinstance(found, list) else found.data


def by_msg_id(queue: Queue, msg_id: bytes, options: MQGMO = MQGMO.NONE, wait: float | None = None) -> Any:
    md = MessageDescriptor(msg_id=msg_id)
    gmo = GetMessageOptions(options=options.value, match_options=MQMO.MATCH_MSG_ID.value)
    return queue.get(md, gmo) if wait is None else queue.get(md, gmo, wait=wait)


def figures(bench: Bench) -> tuple[int, int]:
    """CURDEPTH of Q, and how many of its messages are damaged, by the status."""
    (queue,) = [each for each in bench.manager.status()["queues"] if each["name"] == "Q"]
    return queue["depth"], queue["damaged"]


# A get


@pytest.mark.parametrize("options", [MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT])
@pytest.mark.parametrize("body_bytes", [0, 1_000_000])
async def test_a_get_that_meets_damage_fails_and_the_next_one_is_given_the_next_message(
    options: MQGMO, body_bytes: int
) -> None:
    store = FaultStore(MemoryStore())
    async with opened(store, body_bytes=0) as bench:
        await put_all(bench, b"A", b"B", b"C")
    store.damage(b"B")
    async with opened(store, body_bytes=body_bytes) as bench:
        assert [await seen(bench.queue.get(options=options)) for _ in range(4)] == [b"A", DAMAGED, b"C", NONE]
        await bench.connection.commit()
        assert figures(bench) == (1, 1)
        assert bench.manager.journal.error is None
    store.repair()
    async with opened(store) as bench:
        message = await bench.queue.get()
        assert (message.data, message.md.backout_count) == (b"B", 0)


async def test_the_error_and_the_log_name_queue_msg_id_and_file_once_and_show_no_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(body_bytes=0) as bench:
        (msg_id,) = await put_all(bench, b"SECRET")
        bench.store.damage(b"SECRET")
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                with pytest.raises(MQError) as caught:
                    await by_msg_id(bench.queue, msg_id)
                detail = caught.value.detail
                assert caught.value.reason == DAMAGED
                assert "what the store has is not what was written" in detail
                assert (msg_id.hex() in detail, "on Q" in detail) == (True, True)
        (record,) = caplog.records
        reported = record.getMessage()
        assert reported == f"message damaged queue=Q id={msg_id.hex()}: what the store has is not what was written"


async def test_a_get_of_just_this_message_fails_again_and_does_not_wait() -> None:
    async with opened(body_bytes=0) as bench:
        (msg_id,) = await put_all(bench, b"A")
        bench.store.damage(b"A")
        assert await reason_of(bench.queue.get()) == DAMAGED
        token = next(iter(bench.manager.core.objects.queues["Q"].shelf.entries.values())).token
        by_token = GetMessageOptions(version=4, match_options=MQMO.MATCH_MSG_TOKEN.value, msg_token=token)
        assert await reason_of(bench.queue.get(None, by_token)) == DAMAGED
        assert await reason_of(by_msg_id(bench.queue, msg_id, wait=5)) == DAMAGED
        assert await reason_of(by_msg_id(bench.queue, msg_id, BROWSE)) == DAMAGED
        assert await reason_of(bench.queue.get()) == NONE


async def test_who_waits_for_just_this_message_waits_no_longer() -> None:
    async with opened(slow_store(), body_bytes=0) as bench, bench.manager.connect() as other:
        (msg_id,) = await put_all(bench, b"A")
        bench.store.damage(b"A")
        second = await other.open("Q", ALL)
        first = asyncio.ensure_future(bench.queue.get())
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(by_msg_id(second, msg_id, wait=60))
        assert [await reason_of(first), await reason_of(waiting)] == [DAMAGED, DAMAGED]
        assert bench.waiting == 0


async def test_a_get_whose_buffer_is_too_small_meets_the_damage_too() -> None:
    async with opened(body_bytes=0) as bench:
        await put_all(bench, b"AAAA", b"B")
        bench.store.damage(b"AAAA")
        assert await reason_of(bench.queue.get(max_length=2)) == DAMAGED
        assert await seen(bench.queue.get()) == b"B"
        assert figures(bench) == (1, 1)


async def test_nobody_is_told_of_what_was_only_read_along_with_others() -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await put_all(bench, *(b"%d" % number for number in range(300)))
    store.damage(*(b"%d" % number for number in range(1, 300, 2)))
    async with opened(store) as bench:
        assert await seen(bench.queue.get()) == b"0"
        await bench.idle()
        assert figures(bench) == (299, 0)
        for number in range(1, 300):
            assert await seen(bench.queue.get()) == (DAMAGED if number % 2 else b"%d" % number)
        assert figures(bench) == (150, 150)


async def test_a_get_given_up_while_it_reads_leaves_the_damage_to_the_next() -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        await put_all(bench, b"A")
        bench.store.damage(b"A")
        getting = asyncio.ensure_future(bench.queue.get())
        await asyncio.sleep(0)
        getting.cancel()
        await asyncio.wait([getting])
        await bench.idle()
        assert figures(bench) == (1, 0)
        assert await reason_of(bench.queue.get()) == DAMAGED


async def test_two_who_meet_it_together_are_both_told(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(slow_store(), body_bytes=0) as bench, bench.manager.connect() as other:
        await put_all(bench, b"A", b"B")
        bench.store.damage(b"A")
        second = await other.open("Q", ALL)
        calls = second.get(options=BROWSE), bench.queue.get(options=MQGMO.SYNCPOINT)
        assert await asyncio.gather(*map(seen, calls)) == [DAMAGED, DAMAGED]
        await bench.connection.backout()
        assert figures(bench) == (2, 1)
        assert [await seen(second.get(options=BROWSE)), await seen(bench.queue.get())] == [b"B", b"B"]
        assert len([each for each in caplog.records if "message damaged" in each.getMessage()]) == 1


async def test_what_expires_while_its_damage_is_found_is_not_set_aside() -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        await bench.queue.put(b"A", MessageDescriptor(expiry=10))
        await put_all(bench, b"B")
        bench.store.damage(b"A")
        browsing = asyncio.ensure_future(seen(bench.queue.get(options=BROWSE)))
        await asyncio.sleep(0)
        bench.manager.clock._now += 2  # type: ignore[attr-defined]
        assert [await seen(bench.queue.get()), await browsing] == [b"B", DAMAGED]
        assert figures(bench) == (0, 0)


async def test_who_waits_for_a_message_that_another_has_locked_is_told_at_once() -> None:
    async with opened(slow_store(), body_bytes=0) as bench, bench.manager.connect() as other:
        (msg_id,) = await put_all(bench, b"A")
        bench.store.damage(b"A")
        second = await other.open("Q", ALL)
        locking = asyncio.ensure_future(seen(bench.queue.get(options=BROWSE | MQGMO.LOCK)))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(seen(by_msg_id(second, msg_id, wait=60)))
        assert await asyncio.gather(*[locking, waiting]) == [DAMAGED, DAMAGED]


@pytest.mark.parametrize("turns", range(1, 8))
@pytest.mark.parametrize("end", ["commit", "backout"])
async def test_the_end_of_a_unit_of_work_that_overtakes_its_get_removes_nothing_damaged(end: str, turns: int) -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        await put_all(bench, b"A", b"B")
        bench.store.damage(b"B")
        calls = [asyncio.ensure_future(seen(bench.queue.get(options=MQGMO.SYNCPOINT))) for _ in range(2)]
        for _ in range(turns):
            await asyncio.sleep(0)
        assert await getattr(bench.connection, end)() == MQRC.NONE
        assert await asyncio.gather(*calls) == [b"A", DAMAGED]
        await bench.idle()
        kept = [] if end == "commit" else [b"A"]
        assert [await seen(bench.queue.get()) for _ in range(2)] == [*kept, NONE, NONE][:2]
        assert figures(bench) == (1, 1)
        bench.store.repair()
        assert [data for data, *_ in await bench.stored()] == [b"B"]


async def test_a_message_that_is_damaged_is_not_hardened() -> None:
    async with opened(body_bytes=0) as bench:
        await bench.connection.mqsc("ALTER QLOCAL(Q) HARDENBO")
        await put_all(bench, b"A")
        bench.store.damage(b"A")
        assert await reason_of(bench.queue.get(options=MQGMO.SYNCPOINT)) == DAMAGED
        await bench.connection.backout()
        bench.store.repair()
        assert await bench.stored() == [(b"A", 0, 0)]


# Several at once


@pytest.mark.parametrize("options", [MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT, BROWSE])
async def test_a_batch_ends_before_the_damage_and_the_next_one_begins_with_it(options: MQGMO) -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        await put_all(bench, b"A", b"B", b"C", b"D", b"E")
        bench.store.damage(b"C", b"D")
        found = [await seen(bench.queue.get_many(5, options=options)) for _ in range(5)]
        assert found == [[b"A", b"B"], DAMAGED, DAMAGED, [b"E"], NONE]
        await bench.connection.commit()
        assert figures(bench) == (5 if options == BROWSE else 2, 2)


async def test_a_batch_cut_short_by_damage_holds_and_gives_back_what_it_was_given() -> None:
    """Nobody takes the answer: what was in it is put again, what was behind it has gone back already."""
    async with opened(slow_store(), body_bytes=0) as bench:
        await put_all(bench, *(b"%04d" % number for number in range(5)))
        bench.store.damage(b"0002")
        room = Measured()
        port = bench.manager.converse(room=room)
        handle = await port.open(ObjectDescriptor(object_name="Q"), ALL)
        call = port.get_many(handle.hobj, None, GetMessageOptions(), 5)
        assert [each.data for each in await call] == [b"0000", b"0001"]
        assert (call.held, room.held) == (8, 8)
        call.abandon()
        await bench.idle()
        port.break_()
        found = [await seen(bench.queue.get()) for _ in range(6)]
        assert found == [b"0000", b"0001", DAMAGED, b"0003", b"0004", NONE]
        assert figures(bench) == (1, 1)


async def test_a_batch_of_browses_cut_short_by_damage_has_all_its_data() -> None:
    """Two runs are read, and no room for both: what comes before the damage has left memory again."""
    async with opened(slow_store(), body_bytes=99) as bench, bench.manager.connect() as other:
        await put_all(bench, *(b"%d" % number * 100 for number in range(3)))
        bench.store.damage(b"2" * 100)
        second = await other.open("Q", ALL)
        assert await seen(second.get(options=BROWSE)) == b"0" * 100
        assert await seen(bench.queue.get(options=BROWSE)) == b"0" * 100
        calls = bench.queue.get_many(1, options=BROWSE), second.get_many(2, options=BROWSE)
        assert await asyncio.gather(*map(seen, calls)) == [[b"1" * 100], [b"1" * 100]]


async def test_batches_on_their_way_together_are_given_each_good_message_once() -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        await put_all(bench, *(b"%d" % number for number in range(12)))
        bench.store.damage(b"1", b"7")
        calls = [bench.queue.get_many(5, options=MQGMO.SYNCPOINT) for _ in range(3)]
        found = [data for each in await asyncio.gather(*map(seen, calls)) if isinstance(each, list) for data in each]
        while (more := await seen(bench.queue.get_many(5))) != NONE:
            found += more if isinstance(more, list) else []
        assert sorted(found) == sorted(b"%d" % number for number in range(12) if number not in (1, 7))
        await bench.connection.commit()
        assert figures(bench) == (2, 2)


async def test_a_browse_in_batches_that_cannot_go_back_leaves_out_what_is_damaged() -> None:
    """The second call has moved the cursor on by the time that the first one knows."""
    async with opened(slow_store(), body_bytes=0) as bench:
        await put_all(bench, *(b"%d" % number for number in range(6)))
        bench.store.damage(b"1", b"4")
        calls = [bench.queue.get_many(3, options=BROWSE) for _ in range(2)]
        assert await asyncio.gather(*map(seen, calls)) == [[b"0", b"2"], [b"3"]]
        assert [await seen(bench.queue.get_many(3, options=BROWSE)) for _ in range(2)] == [DAMAGED, [b"5"]]
        assert figures(bench) == (6, 2)


@pytest.mark.parametrize("damaged", [b"0", b"1"])
async def test_a_browse_in_batches_that_marks_leaves_out_what_is_damaged(damaged: bytes) -> None:
    marking = MQGMO.BROWSE_NEXT | MQGMO.UNMARKED_BROWSE_MSG | MQGMO.MARK_BROWSE_HANDLE
    async with opened(body_bytes=0) as bench:
        await put_all(bench, b"0", b"1", b"2")
        bench.store.damage(damaged)
        good = [each for each in (b"0", b"1", b"2") if each != damaged]
        assert await seen(bench.queue.get_many(3, options=marking)) == good
        bench.store.damage(*good)
        assert await seen(bench.queue.get_many(3, options=MQGMO.BROWSE_NEXT)) == NONE


@pytest.mark.parametrize("in_unit", [False, True])
async def test_a_loop_is_given_all_that_is_good_and_the_error_at_its_place(in_unit: bool) -> None:
    store = slow_store()
    async with opened(store) as bench:
        await put_all(bench, *(b"%d" % number for number in range(40)))
    store.damage(b"3", b"17", b"39")
    async with opened(store) as bench:
        found: list[object] = []

        async def go_on() -> None:
            async for message in bench.queue:
                found.extend([message.data])  # at once, not when the loop has ended

        for _ in range(3):
            if in_unit:
                with pytest.raises(MQError):
                    async with bench.connection.unit_of_work():
                        try:
                            await go_on()
                        except MQError:
                            await bench.connection.commit()
                            raise
            else:
                with pytest.raises(MQError):
                    await go_on()
            found.append(DAMAGED)
        numbers = [DAMAGED if number in (3, 17, 39) else b"%d" % number for number in range(40)]
        assert found == numbers
        assert figures(bench) == (3, 3)


# Browses


async def test_a_browse_fails_at_it_once_and_goes_on_behind_it() -> None:
    async with opened(body_bytes=0) as bench:
        await put_all(bench, b"A", b"B", b"C")
        bench.store.damage(b"B")
        assert [await seen(bench.queue.get(options=BROWSE)) for _ in range(4)] == [b"A", DAMAGED, b"C", NONE]
        assert await seen(bench.queue.get(options=MQGMO.BROWSE_FIRST)) == b"A"
        assert await seen(bench.queue.get(options=BROWSE)) == b"C"


async def test_what_is_under_the_cursor_and_damaged_fails_again() -> None:
    async with opened(body_bytes=0) as bench:
        await put_all(bench, b"A")
        bench.store.damage(b"A")
        assert await reason_of(bench.queue.get(options=BROWSE)) == DAMAGED
        for options in (MQGMO.BROWSE_MSG_UNDER_CURSOR, MQGMO.MSG_UNDER_CURSOR):
            assert await reason_of(bench.queue.get(options=options)) == DAMAGED


async def test_a_browse_that_locks_leaves_no_lock_on_what_is_damaged() -> None:
    async with opened(body_bytes=0) as bench, bench.manager.connect() as other:
        await put_all(bench, b"A", b"B")
        bench.store.damage(b"A")
        assert await reason_of(bench.queue.get(options=BROWSE | MQGMO.LOCK)) == DAMAGED
        assert (await bench.queue.get(options=MQGMO.UNLOCK)).reason == MQRC.NO_MSG_LOCKED
        assert await seen((await other.open("Q", ALL)).get()) == b"B"


# Groups and segments


async def put_group(bench: Bench, *data: bytes) -> bytes:
    """Put a group of these messages; its GroupId."""
    for number, each in enumerate(data, 1):
        flags = MQMF.LAST_MSG_IN_GROUP if number == len(data) else MQMF.MSG_IN_GROUP
        result = await bench.queue.put(each, MessageDescriptor(msg_flags=flags.value), options=MQPMO.LOGICAL_ORDER)
    return result.md.group_id


async def test_a_message_of_segments_is_given_whole_or_not_at_all() -> None:
    whole = MQGMO.COMPLETE_MSG
    async with opened(body_bytes=0) as bench:
        md = MessageDescriptor(msg_flags=MQMF.SEGMENT.value)
        last = MessageDescriptor(msg_flags=MQMF.LAST_SEGMENT.value)
        for each, descriptor in ((b"A1", md), (b"A2", md), (b"A3", last)):
            await bench.queue.put(each, descriptor, options=MQPMO.LOGICAL_ORDER)
        await put_all(bench, b"B")
        bench.store.damage(b"A2")
        assert [await seen(bench.queue.get(options=whole)) for _ in range(3)] == [DAMAGED, b"B", NONE]
        assert [await seen(bench.queue.get()) for _ in range(3)] == [b"A1", b"A3", NONE]
        assert figures(bench) == (1, 1)


async def test_a_get_in_logical_order_stands_before_what_is_damaged_and_fails_again() -> None:
    options = MQGMO.LOGICAL_ORDER | MQGMO.SYNCPOINT
    async with opened(body_bytes=0) as bench:
        await put_group(bench, b"A", b"B", b"C")
        bench.store.damage(b"B")
        found = [await seen(bench.queue.get(options=options)) for _ in range(3)]
        assert found == [b"A", DAMAGED, DAMAGED]
        assert await reason_of(bench.queue.get(options=options | MQGMO.WAIT, wait=60)) == DAMAGED
        await bench.connection.backout()
        assert figures(bench) == (3, 1)


async def test_a_browse_in_logical_order_goes_on_behind_what_is_damaged() -> None:
    options = MQGMO.LOGICAL_ORDER | MQGMO.BROWSE_NEXT
    async with opened(body_bytes=0) as bench:
        await put_group(bench, b"A", b"B", b"C")
        bench.store.damage(b"B")
        found = [await seen(bench.queue.get(options=options)) for _ in range(4)]
        assert found == [b"A", DAMAGED, b"C", NONE]


async def test_a_group_that_lacks_a_damaged_message_is_not_complete_and_explain_says_so() -> None:
    options = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
    async with opened(body_bytes=0) as bench:
        group_id = await put_group(bench, b"A", b"B", b"C")
        bench.store.damage(b"B")
        found = [await seen(bench.queue.get_many(3, options=options | MQGMO.SYNCPOINT)) for _ in range(2)]
        assert found == [[b"A"], DAMAGED]
        await bench.connection.backout()
        assert await reason_of(bench.queue.get(options=options)) == NONE
        reported = await bench.connection.explain("Q", group_id=group_id)
        assert {"DAMAGED", "INCOMPLETE_GROUP"} <= set(reported.codes)
        (group,) = [finding for finding in reported.findings if finding.code == "INCOMPLETE_GROUP"]
        assert (group.figures["damaged"], group.figures["missing"]) == ([2], [[2, 2]])


async def test_a_waiting_get_that_is_served_with_damage_fails() -> None:
    """The second message of a group lets a get of whole groups be given the first, which is on disk."""
    async with opened(body_bytes=0) as bench, bench.manager.connect() as other:
        bench.store.damage(b"A")
        queue = await other.open("Q", ALL)
        options = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
        first = MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP.value)
        last = MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP.value)
        await bench.queue.put(b"A", first, options=MQPMO.LOGICAL_ORDER)
        waiting = asyncio.ensure_future(seen(queue.get(options=options, wait=60)))
        await bench.until(lambda: bench.waiting == 1)
        await bench.queue.put(b"B", last, options=MQPMO.LOGICAL_ORDER)
        assert await waiting == DAMAGED
        assert await seen(queue.get()) == b"B"


# What removes it all the same


@pytest.mark.parametrize("count", [1, 600])
async def test_clear_and_purge_remove_it(count: int) -> None:
    for command in ("CLEAR QLOCAL(R)", "DELETE QLOCAL(R) PURGE"):
        async with opened(body_bytes=0) as bench:
            await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
            bench.store.damage(b"A")
            async with bench.connection.open("R", ALL) as queue:
                await queue.put_many([b"A", *[b"B"] * (count - 1)])
                assert await reason_of(queue.get()) == DAMAGED
            (reply,) = await bench.connection.mqsc("DELETE QLOCAL(R)")
            assert not reply.ok
            (reply,) = await bench.connection.mqsc(command)
            assert reply.ok
            await bench.idle()
            assert await bench.stored() == []


@pytest.mark.parametrize("met", [False, True])
async def test_it_expires_and_its_report_has_no_data(met: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(REPLIES) DEFPSIST(YES)")
        replies = await bench.connection.open("REPLIES", ALL)
        md = MessageDescriptor(expiry=10, report=MQRO.EXPIRATION_WITH_FULL_DATA.value, reply_to_q="REPLIES")
        for each in (b"A", b"B", b"C"):
            await bench.queue.put(each, md)
        bench.store.damage(b"B")
        if met:
            found = [await seen(bench.queue.get(options=BROWSE)) for _ in range(3)]
            assert found == [b"A", DAMAGED, b"C"]
        assert isinstance(bench.manager.clock, VirtualClock)
        await bench.manager.clock.advance(EXPIRY_SCAN_INTERVAL)
        reports: list[Message] = [await replies.get(wait=60) for _ in range(3)]
        assert {each.data for each in reports} == {b"A", b"", b"C"}
        assert [each.md.feedback for each in reports] == [MQFB.EXPIRATION] * 3
        assert figures(bench) == (0, 0)
        assert len([each for each in caplog.records if "message damaged" in each.getMessage()]) == 1


async def test_a_nonpersistent_message_kept_over_a_stop_is_set_aside_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await bench.connection.mqsc("ALTER QLOCAL(Q) NPMCLASS(HIGH)")
        for each in (b"A", b"B"):
            await bench.queue.put(each, MessageDescriptor(persistence=0))
    store.damage(b"A")
    async with opened(store) as bench:
        assert figures(bench) == (2, 1)
        assert [await seen(bench.queue.get()) for _ in range(2)] == [b"B", NONE]
        assert len([each for each in caplog.records if "message damaged" in each.getMessage()]) == 1


# Explained


async def test_explain_names_the_first_of_them_and_counts_the_others() -> None:
    async with opened(body_bytes=0) as bench:
        data = [b"%d" % number for number in range(13)]
        ids = await put_all(bench, *data)
        bench.store.damage(*data[:12])
        while await seen(bench.queue.get()) == DAMAGED:
            pass
        reported = (await bench.connection.explain("Q")).findings
        damaged = [finding for finding in reported if finding.code == "DAMAGED"]
        assert [finding.figures.get("msg_id") for finding in damaged] == [*(id.hex() for id in ids[:10]), None]
        assert damaged[-1].figures == {"messages": 2}
        assert "what the store has is not what was written" in damaged[0].text
        (one,) = (await bench.connection.explain("Q", msg_id=ids[3])).causes
        assert (one.code, one.figures["msg_id"]) == ("DAMAGED", ids[3].hex())


# One by one or together


async def all_of(seed: int, way: str) -> tuple[list[object], list[int]]:
    """Return what a program is given of a queue with damage, in its order, and the numbers of what stays."""
    chance = random.Random(seed)
    count = chance.randrange(1, 60)
    damaged = [number for number in range(count) if chance.random() < 0.2]
    priorities = [chance.choice((4, 4, 5)) for _ in range(count)]
    expiring = [chance.random() < 0.1 for _ in range(count)]
    body_bytes, options = (
        chance.choice((0, 5, 40, 10_000)),
        chance.choice((MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT, BROWSE)),
    )
    store = slow_store()
    async with opened(store, body_bytes=body_bytes) as bench:
        for number in range(count):
            md = MessageDescriptor(priority=priorities[number], expiry=600 if expiring[number] else -1)
            await bench.queue.put(b"%d" % number, md)
    store.damage(*(b"%d" % number for number in damaged))
    found: list[object] = []
    async with opened(store, body_bytes=body_bytes) as bench:
        while not found or found[-1] != NONE:
            size = chance.randrange(1, 20)
            each = await seen(
                bench.queue.get(options=options) if way == "one" else bench.queue.get_many(size, options=options)
            )
            found += each if isinstance(each, list) else [each]
            bench.manager.core.check_invariants()
        await bench.connection.commit()
        left = bench.manager.core.objects.queues["Q"]
        return found, [left.depth, len(left.shelf.damaged)]


@pytest.mark.parametrize("seed", range(40))
async def test_batches_come_to_what_single_gets_come_to(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, many = await all_of(seed, "one"), await all_of(seed, "many")
    monkeypatch.setattr(batches, "get_run", lambda *_: ([], None))
    assert one == many == await all_of(seed, "many"), f"seed {seed}"


async def test_it_is_the_same_over_a_restart_of_the_queue_manager() -> None:
    """What is set aside is so for this run only: the disk may give the bytes again, or the file may be restored."""
    store = FaultStore(MemoryStore())
    config = replace(Config(), limits=replace(Config().limits, body_bytes=0))
    for damaged in (True, True, False):
        if damaged:
            store.damage(b"A")
        else:
            store.repair()
        async with (
            QueueManager.open(config, store=store, clock=VirtualClock()) as manager,
            manager.connect() as program,
        ):
            await program.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
            async with program.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
                if not manager.core.objects.queues["Q"].depth:
                    await queue.put(b"A")
                assert await seen(queue.get()) == (DAMAGED if damaged else b"A")


# On a disk


@pytest.mark.parametrize("data", [b"2" * 100, b"2" * 3000])
async def test_a_byte_changed_on_the_disk_is_told_at_the_get(tmp_path: Path, data: bytes) -> None:
    """Log case 29: where its row is, and where data has a table of its own."""
    config = replace(Config(), limits=replace(Config().limits, body_bytes=0))

    def store() -> LogStore:
        return LogStore(tmp_path / "data", settings=LogSettings(file_bytes=1024 * 1024), ballast_bytes=0)

    async with QueueManager.open(config, store=store()) as manager, manager.connect() as program:
        await program.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
        for each in (b"1", data, b"3"):
            await program.put1("Q", each)
    database = tmp_path / "data" / "evermq-1.db"
    kept = bytearray(database.read_bytes())
    kept[kept.index(data) + len(data) // 2] ^= 1
    database.write_bytes(kept)
    async with QueueManager.open(config, store=store()) as manager, manager.connect() as program:
        async with program.open("Q", MQOO.INPUT_SHARED) as queue:
            assert await seen(queue.get()) == b"1"
            with pytest.raises(MQError, match=r"evermq-1\.db") as caught:
                await queue.get()
            assert caught.value.reason == DAMAGED
            assert [await seen(queue.get()) for _ in range(2)] == [b"3", NONE]
        assert manager.core.objects.queues["Q"].depth == 1
