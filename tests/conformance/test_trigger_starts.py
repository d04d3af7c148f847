"""Trigger starts as leases: the counts of the fast path, through the public interface."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQIA, MQMF, MQOO, MQPER, MQPMO, MessageDescriptor
from tests.conformance.expect import ALL

if TYPE_CHECKING:
    from broker import Connection, Queue, TriggerStarts
    from tests.conformance.system import System


@pytest.fixture
async def other(beside: Connection) -> Connection:
    """That of a monitor: a queue manager tells of its own starts."""
    return beside


@pytest.fixture
async def triggered(system: System, connection: Connection) -> Queue:
    """QLOCAL(Q), trigger EVERY, open for output only."""
    await system.mqsc("DEFINE PROCESS(P) APPLICID('app') USERDATA('user') ENVRDATA('envr')")
    await system.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) TRIGDATA('data')")
    return await connection.open("Q", MQOO.OUTPUT)


async def counts(starts: TriggerStarts) -> list[tuple[str, str, str, int]]:
    return [(each.q_name, each.process_name, each.appl_id, each.starts) for each in await starts.pending()]


async def test_s_12_each_put_counts_one_start(connection: Connection, other: Connection, triggered: Queue) -> None:
    async with other.trigger_starts() as starts:
        assert await counts(starts) == []
        for count in (1, 2, 3):
            await triggered.put(b"A")
            assert await counts(starts) == [("Q", "P", "app", count)]


async def test_s_10_a_start_carries_the_trigger_message(other: Connection, triggered: Queue) -> None:
    await triggered.put(b"A")
    async with other.trigger_starts() as starts:
        (start,) = await starts.take("Q", 10)
        trigger = start.trigger
        assert (trigger.q_name, trigger.process_name, trigger.trigger_data) == ("Q", "P", "data")
        assert (trigger.appl_id, trigger.env_data, trigger.user_data, trigger.q_mgr_name) == (
            "app",
            "envr",
            "user",
            "QM1",
        )
        assert len(bytes(trigger)) == 732
        start.done()


async def test_r_1_taking_starts_lowers_the_count(other: Connection, triggered: Queue) -> None:
    for _ in range(5):
        await triggered.put(b"A")
    async with other.trigger_starts() as starts:
        taken = await starts.take("Q", 3)
        assert (len(taken), starts.held, await counts(starts)) == (3, 3, [("Q", "P", "app", 2)])
        for start in taken:
            start.done()
            start.done()
        assert starts.held == 0
        rest = await starts.take("Q", 10)
        assert (len(rest), await counts(starts)) == (2, [])
        for start in rest:
            start.done()
    async with other.trigger_starts() as starts:
        assert await counts(starts) == []


async def test_starts_not_done_are_pending_again_when_the_monitor_leaves(
    system: System, other: Connection, triggered: Queue
) -> None:
    for _ in range(3):
        await triggered.put(b"A")
    async with other.trigger_starts() as starts:
        first, *_ = await starts.take("Q", 3)
        first.done()
    await system.rest()
    async with other.trigger_starts() as starts:
        assert await counts(starts) == [("Q", "P", "app", 2)]


async def test_the_starts_of_a_broken_connection_are_pending_again(
    system: System, connection: Connection, other: Connection, triggered: Queue
) -> None:
    for _ in range(3):
        await triggered.put(b"A")
    starts = other.trigger_starts()
    first, *_ = await starts.take("Q", 3)
    first.done()
    await other.status()
    system.cut(other)
    await system.until(lambda: system.manager.core.objects.queues["Q"].pending_starts == 2)


async def test_the_starts_of_a_connection_that_disconnects_are_pending_again(
    system: System, other: Connection, triggered: Queue
) -> None:
    await triggered.put(b"A")
    await other.trigger_starts().take("Q", 1)
    await other.disconnect()
    await system.rest()
    assert system.manager.core.objects.queues["Q"].pending_starts == 1


async def test_s_18_a_monitor_waits_for_the_next_post(system: System, other: Connection, triggered: Queue) -> None:
    async with other.trigger_starts() as starts, asyncio.TaskGroup() as tasks:
        assert await counts(starts) == []
        waiting = tasks.create_task(starts.wait())
        await other.status()
        assert not waiting.done()
        await triggered.put(b"A")
        await waiting
        assert await counts(starts) == [("Q", "P", "app", 1)]


async def test_a_post_after_the_look_ends_the_wait_at_once(other: Connection, triggered: Queue) -> None:
    async with other.trigger_starts() as starts:
        await starts.pending()
        await triggered.put(b"A")
        await starts.wait()


async def test_a_simple_monitor_iterates(system: System, other: Connection, triggered: Queue) -> None:
    served: list[str] = []

    async def serve() -> None:
        async with other.trigger_starts(["P"]) as starts:
            async for start in starts:
                served.append(start.trigger.q_name)
                start.done()

    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve())
        for _ in range(3):
            await triggered.put(b"A")
        await system.until(lambda: len(served) == 3)
        serving.cancel()
    assert served == ["Q"] * 3


async def test_a_monitor_sees_the_processes_that_it_serves(other: Connection, triggered: Queue) -> None:
    await triggered.put(b"A")
    async with other.trigger_starts(["OTHER"]) as starts:
        assert await counts(starts) == []


async def test_a_monitor_holds_so_many_starts_at_a_time(other: Connection, triggered: Queue) -> None:
    for _ in range(5):
        await triggered.put(b"A")
    async with other.trigger_starts(limit=2) as starts:
        assert (len(await starts.take("Q", 5)), await starts.take("Q", 5)) == (2, [])
    with pytest.raises(ValueError, match="limit"):
        other.trigger_starts(limit=0)


async def test_r_6_a_unit_of_work_counts_when_it_is_committed(
    connection: Connection, other: Connection, triggered: Queue
) -> None:
    async with other.trigger_starts() as starts:
        for _ in range(2):
            await triggered.put(b"A", options=MQPMO.SYNCPOINT)
        assert await counts(starts) == []
        await connection.backout()
        assert await counts(starts) == []
        for _ in range(2):
            await triggered.put(b"A", options=MQPMO.SYNCPOINT)
        await connection.commit()
        assert await counts(starts) == [("Q", "P", "app", 2)]


async def test_a_get_backed_out_counts_no_start(system: System, other: Connection, triggered: Queue) -> None:
    await triggered.put(b"A")
    handle = await other.open("Q", ALL)
    async with other.trigger_starts() as starts:
        (start,) = await starts.take("Q", 1)
        await handle.get(options=MQGMO.SYNCPOINT)
        await other.backout()
        start.done()
        assert await counts(starts) == []


async def test_r_7_messages_below_trigmpri_do_not_count(system: System, other: Connection, triggered: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) TRIGMPRI(5)")
    for priority in (4, 5, 9, 0):
        await triggered.put(b"A", MessageDescriptor(priority=priority))
    async with other.trigger_starts() as starts:
        assert await counts(starts) == [("Q", "P", "app", 2)]


async def test_r_9_first_is_one_start_for_a_queue_that_nobody_reads(
    system: System, other: Connection, triggered: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) TRIGTYPE(FIRST)")
    async with other.trigger_starts() as starts:
        for _ in range(3):
            await triggered.put(b"A")
        await system.rest()
        assert await counts(starts) == [("Q", "P", "app", 1)]
        (start,) = await starts.take("Q", 10)
        async with other.open("Q", MQOO.INPUT_SHARED) as handle:
            await handle.get()
            start.done()
            await triggered.put(b"A")
            await system.rest()
            assert await counts(starts) == []
        await system.rest()
        assert await counts(starts) == [("Q", "P", "app", 1)]  # closed, and there are messages


async def test_r_11_inhibited_gets_hold_starts_back(system: System, other: Connection, triggered: Queue) -> None:
    await triggered.put(b"A")
    async with other.trigger_starts() as starts:
        await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        assert (await counts(starts), await starts.take("Q", 1)) == ([], [])
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(starts.wait())
            await other.status()
            await system.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
            await waiting
        assert await counts(starts) == [("Q", "P", "app", 1)]


async def test_clearing_the_queue_clears_its_count(
    system: System, connection: Connection, other: Connection, triggered: Queue
) -> None:
    await triggered.put(b"A")
    await triggered.close()
    await system.mqsc("CLEAR QLOCAL(Q)")
    async with other.trigger_starts() as starts:
        assert await counts(starts) == []


async def test_switching_triggering_on_counts_what_waits(
    system: System, connection: Connection, other: Connection
) -> None:
    for _ in range(3):
        await connection.put1("Q", b"A")
    await system.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) PROCESS(P) TRIGTYPE(EVERY) TRIGGER")
    async with other.trigger_starts() as starts:
        assert [each.starts for each in await starts.pending()] == [3]
        await system.mqsc("ALTER QLOCAL(Q) NOTRIGGER")
        assert await starts.pending() == []


# Messages that the queue manager cuts (C3)


def may_cut() -> MessageDescriptor:
    return MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED, persistence=MQPER.PERSISTENT)


async def test_a_message_that_is_cut_into_segments_is_one_start(
    system: System, connection: Connection, other: Connection, triggered: Queue
) -> None:  # C3
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(64)")
    async with other.trigger_starts() as starts:
        await triggered.put(bytes(150), may_cut())
        assert (system.depth(), await counts(starts)) == (3, [("Q", "P", "app", 1)])
        for _ in range(2):
            await triggered.put(bytes(150), may_cut(), MQPMO.SYNCPOINT)
        await connection.commit()
        assert (system.depth(), await counts(starts)) == (9, [("Q", "P", "app", 3)])


async def test_a_message_cut_on_its_way_to_a_transmission_queue_is_one_start(
    system: System, connection: Connection, other: Connection
) -> None:
    await system.mqsc(
        "DEFINE PROCESS(P)\nDEFINE QLOCAL(X) USAGE(XMITQ) MAXMSGL(1024) TRIGGER TRIGTYPE(EVERY) PROCESS(P)\n"
        "DEFINE QREMOTE(R) RNAME(FAR) RQMNAME(QM9) XMITQ(X)"
    )
    await connection.put1("R", bytes(2000), may_cut())
    async with other.trigger_starts() as starts:
        assert (system.depth("X"), await counts(starts)) == (2, [("X", "P", "", 1)])


async def test_segments_that_a_program_puts_are_a_start_each(other: Connection, triggered: Queue) -> None:  # C3
    async with other.trigger_starts() as starts:
        for flags in (MQMF.SEGMENT, MQMF.LAST_SEGMENT):
            await triggered.put(bytes(16), MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)
        assert await counts(starts) == [("Q", "P", "app", 2)]


async def test_triggering_switched_on_counts_each_segment_on_the_queue(
    system: System, other: Connection, triggered: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(64)")
    await triggered.put(bytes(150), may_cut())
    await system.mqsc("ALTER QLOCAL(Q) NOTRIGGER\nALTER QLOCAL(Q) TRIGGER")
    async with other.trigger_starts() as starts:
        assert await counts(starts) == [("Q", "P", "app", 3)]


async def test_a_start_given_back_is_pending_again(system: System, other: Connection, triggered: Queue) -> None:
    for _ in range(2):
        await triggered.put(b"A")
    async with other.trigger_starts() as starts:
        one, two = await starts.take("Q", 2)
        one.give_back()
        one.give_back()
        one.done()
        await system.rest()
        assert (starts.held, await counts(starts)) == (1, [("Q", "P", "app", 1)])
        two.done()
        two.give_back()
        await system.rest()
        assert (starts.held, await counts(starts)) == (0, [("Q", "P", "app", 1)])


# DEPTH, FIRST without a process, and starts that are missing


async def test_r_10_depth_is_one_start_and_switches_itself_off(
    system: System, connection: Connection, other: Connection, triggered: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(3)")
    async with other.trigger_starts() as starts, other.open("Q", MQOO.INQUIRE) as inquirer:
        for pending, control in (([], 1), ([], 1), ([("Q", "P", "app", 1)], 0), ([("Q", "P", "app", 1)], 0)):
            await triggered.put(b"A")
            await system.rest()
            assert await counts(starts) == pending
            assert await inquirer.inquire(MQIA.TRIGGER_CONTROL) == {MQIA.TRIGGER_CONTROL: control}
        (start,) = await starts.take("Q", 10)
        start.done()
        await triggered.put(b"A")
        await system.rest()
        assert await counts(starts) == []
        await system.mqsc("ALTER QLOCAL(Q) TRIGGER")
        assert await counts(starts) == [("Q", "P", "app", 1)]


async def test_s_3_first_without_a_process_is_a_start_for_the_exit(
    system: System, connection: Connection, other: Connection
) -> None:  # S-7
    await system.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) TRIGDATA('data')")
    await connection.put1("Q", b"A")
    await system.rest()
    async with other.trigger_starts([""]) as starts, other.trigger_starts(["P"]) as others:
        assert await counts(starts) == [("Q", "", "", 1)]
        assert await counts(others) == []
        (start,) = await starts.take("Q", 10)
        trigger = start.trigger
        assert (trigger.q_name, trigger.process_name, trigger.trigger_data, trigger.appl_id) == ("Q", "", "data", "")
        start.done()


async def test_a_sweep_makes_a_start_pending_where_nobody_is_on_the_way(
    system: System, connection: Connection, other: Connection, triggered: Queue
) -> None:
    async with other.trigger_starts() as starts:
        assert await starts.sweep() == 0
        for _ in range(3):
            await triggered.put(b"A")
        taken = await starts.take("Q", 3)
        assert await starts.sweep() == 0
        for start in taken:
            start.done()
        async with asyncio.TaskGroup() as tasks:
            await starts.pending()
            waiting = tasks.create_task(starts.wait())
            assert await starts.sweep() == 1
            await waiting  # the sweep has posted it
        assert await counts(starts) == [("Q", "P", "app", 1)]
        assert await starts.sweep() == 0
