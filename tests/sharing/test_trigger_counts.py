"""Starts that are counted: each message starts one handler in the group, whichever member is gone (queue-sharing rule
10.3.10).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MessageDescriptor
from broker.sharing.handlers import triggering
from tests.conformance.expect import ALL
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)
EVERY = "TRIGGER TRIGTYPE(EVERY) PROCESS(P)"


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    """Three members; Q is trigger EVERY, without an initiation queue."""
    async with Members(group, 3) as members:
        for name in members.running:
            await members.mqsc("DEFINE PROCESS(P) APPLICID('p')", name)
        await members.mqsc(f"DEFINE QLOCAL(Q) QSGDISP(SHARED) {EVERY}")
        group.forgive("units of work")  # those that a member asks for at its next start
        yield members


async def put(members: Members, name: str, *bodies: bytes, priority: int = 0) -> None:
    connection = await members.connect(name)
    for body in bodies:
        await connection.put1("Q", body, MessageDescriptor(persistence=1, priority=priority))


async def opened(members: Members, name: str) -> Queue:
    return await (await members.connect(name)).open("Q", ALL)


def pending(members: Members) -> dict[str, int]:
    """Return the count of each member that runs."""
    return {name: members[name].core.objects.queues["Q"].pending_starts for name in members.running}


async def sweep(members: Members, name: str) -> int:
    async with (await members.connect(name)).trigger_starts() as starts:
        return await starts.sweep()


async def test_what_a_failed_member_had_not_started_and_not_done_starts_once_at_its_recoverer(members: Members) -> None:
    await put(members, "QM1", b"done", b"under way", b"taken", b"pending")
    queue = await opened(members, "QM1")
    starts = (await members.connect("QM1")).trigger_starts()
    done, *_ = await starts.take("Q", 3)
    await queue.get()
    done.done()
    await queue.get(options=MQGMO.SYNCPOINT)
    assert pending(members) == {"QM1": 1, "QM2": 0, "QM3": 0}
    await members.fail("QM1")
    counts = pending(members)
    assert sorted(counts.values()) == [0, 3]
    recoverer = members[max(counts, key=lambda name: counts[name])]
    async with recoverer.connect() as connection, connection.trigger_starts() as again:
        assert len(await again.take("Q", 10)) == 3
    await members.start("QM1")
    assert pending(members)["QM1"] == 0  # its messages are its recoverer's


async def test_who_recovers_a_recoverer_has_what_that_had_taken_over(members: Members) -> None:
    await put(members, "QM1", b"1", b"2")
    await members.stop("QM3")
    await members.fail("QM1")
    assert pending(members) == {"QM2": 2}
    await members.start("QM3")
    await members.fail("QM2")
    assert pending(members) == {"QM3": 2}


async def test_a_member_that_starts_again_counts_what_it_has_put(members: Members) -> None:
    await put(members, "QM2", b"1")
    await put(members, "QM1", b"2", b"3")
    await members.stop("QM1")
    await members.start("QM1")
    assert pending(members) == {"QM2": 1, "QM3": 0, "QM1": 2}


async def test_who_makes_a_message_available_counts_it_whoever_has_put_it(members: Members) -> None:
    queue = await opened(members, "QM1")
    await queue.put(b"later", PERSISTENT, delay=10)
    await members.fail("QM1")
    await members.clock.advance(12)
    counts = pending(members)
    assert sorted(counts.values()) == [0, 1]
    (one,) = [name for name, count in counts.items() if count]
    assert await members.group.value("SELECT put_by FROM message") == one
    assert [await sweep(members, name) for name in members.running] == [0, 0]


async def test_a_message_that_was_cut_and_waited_for_its_instant_is_one_start(members: Members) -> None:
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) MAXMSGL(64)")
    queue = await opened(members, "QM1")
    await queue.put(bytes(150), MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED), delay=10)
    await queue.close()
    assert pending(members) == {"QM1": 0, "QM2": 0, "QM3": 0}
    await members.clock.advance(10)
    assert pending(members) == {"QM1": 1, "QM2": 0, "QM3": 0}


async def test_triggering_that_is_switched_on_counts_each_message_at_one_member(members: Members) -> None:
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) NOTRIGGER TRIGMPRI(5)")
    await put(members, "QM1", b"1", b"2", priority=5)
    await put(members, "QM1", b"low", priority=4)
    await put(members, "QM2", b"3", priority=9)
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) TRIGGER")
    assert pending(members) == {"QM1": 2, "QM2": 1, "QM3": 0}


async def test_the_sweep_of_one_member_finds_what_another_has_put_that_is_gone(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triggering, "ADOPTED_AT_ONCE", 2)
    await put(members, "QM1", *(b"%d" % number for number in range(5)))
    assert [await sweep(members, name) for name in ("QM2", "QM3")] == [0, 0]  # QM1 has their starts
    await members.stop("QM1")
    reader = await opened(members, "QM3")
    assert await sweep(members, "QM2") == 0  # somebody reads them
    await reader.close()
    await members.clock.rest()
    assert [await sweep(members, name) for name in ("QM2", "QM3", "QM2")] == [5, 0, 0]
    assert pending(members) == {"QM2": 5, "QM3": 0}


async def test_the_sweep_makes_one_start_pending_for_messages_that_handlers_have_left(members: Members) -> None:
    await put(members, "QM1", b"1", b"2")
    starts = (await members.connect("QM1")).trigger_starts()
    taken = await starts.take("Q", 10)
    assert await starts.sweep() == 0
    for start in taken:
        start.done()
    assert await sweep(members, "QM2") == 0
    assert [await starts.sweep(), await starts.sweep()] == [1, 0]
    assert pending(members) == {"QM1": 1, "QM2": 0, "QM3": 0}


async def test_the_sweep_finds_nothing_while_the_database_is_away(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    await put(members, "QM1", b"1")
    (start,) = await (await members.connect("QM1")).trigger_starts().take("Q", 1)
    start.done()
    await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)")
    await members.lines["QM1"].cut()
    assert await sweep(members, "QM1") == 0
    assert "sweep" not in caplog.text
    await members.lines["QM1"].mend()


async def test_a_start_that_is_given_back_is_pending_while_there_is_a_message(members: Members) -> None:
    await put(members, "QM1", b"1")
    queue = await opened(members, "QM1")
    starts = (await members.connect("QM1")).trigger_starts()
    (start,) = await starts.take("Q", 1)
    await queue.get(options=MQGMO.SYNCPOINT)
    start.give_back()
    await members.clock.rest()
    assert pending(members)["QM1"] == 1
    (start,) = await starts.take("Q", 1)
    await queue._connection.commit()
    start.give_back()
    await members.clock.rest()
    assert pending(members)["QM1"] == 0


async def test_what_is_counted_while_a_start_is_given_back_stays(members: Members) -> None:
    await put(members, "QM1", b"1")
    starts = (await members.connect("QM1")).trigger_starts()
    (start,) = await starts.take("Q", 1)
    start.give_back()
    triggers, queue = members["QM1"].core.triggers, members["QM1"].core.objects.queues["Q"]
    await asyncio.sleep(0)  # the database is being asked
    triggers.again(queue, 1)  # a message that the database may not have told of
    await members.clock.rest()
    assert pending(members)["QM1"] == 2


async def test_a_start_that_is_given_back_while_the_database_is_away_is_pending(members: Members) -> None:
    await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)")
    await put(members, "QM1", b"1")
    (start,) = await (await members.connect("QM1")).trigger_starts().take("Q", 1)
    await members.lines["QM1"].cut()
    start.give_back()
    await members.clock.rest()
    assert pending(members)["QM1"] == 1
    await members.lines["QM1"].mend()


async def test_what_was_not_heard_triggers_when_the_database_is_heard_again(members: Members) -> None:
    await members.mqsc("ALTER QLOCAL(Q) QSGDISP(SHARED) TRIGTYPE(FIRST)")
    member = members.member("QM2")
    member.notifications.notified = lambda payload: None  # type: ignore[method-assign]
    await put(members, "QM1", b"1")
    await members.clock.rest()
    assert pending(members) == {"QM1": 1, "QM2": 0, "QM3": 1}
    members.lines["QM2"].cut_lines()
    connection = await members.connect("QM2")
    while not pending(members)["QM2"]:  # the session on which it hears is made again in real time
        await connection.status()
    assert pending(members) == {"QM1": 1, "QM2": 1, "QM3": 1}
