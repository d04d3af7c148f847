"""Browse locks on shared queues: what is locked has a handle, whatever becomes of the database (semantics 5.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker.mqi import MQGMO, MQRC, MessageDescriptor, ObjectDescriptor
from tests.conformance.expect import ALL, drained, name_of
from tests.conformance.grouping import FIRST, LMIG, LO, MIG, NEXT, place, put_all, take
from tests.conformance.invariants import check_locks
from tests.sharing.members import Members
from tests.sharing.test_get_outcomes import _loses_its_answer
from tests.sharing.test_membership import _joined, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from broker import Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

LOCK = MQGMO.LOCK
WHOLE_GROUP = MQGMO.ALL_MSGS_AVAILABLE
X = name_of("X")


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with patch("broker.sharing.database.database.SETTLE_SECONDS", 0.0):
        yield


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(Q) QSGDISP(SHARED) MSGDLVSQ(FIFO)")
        yield members
        await members.clock.rest()
        check_locks([members[name] for name in members.running], group)


async def free_again(members: Members) -> None:
    """Return when nothing is locked any more."""

    async def free() -> bool:
        return not await members.group.value("SELECT count(*) FROM held")

    await until(free)


async def test_what_a_handle_has_locked_is_not_given_before_what_comes_before_it(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sharing.gets.pages.LONG", 2)
    chosen = ObjectDescriptor(object_name="Q", selection_string="Root.MQMD.Priority = 5")
    queue = await (await members.connect("QM1")).open(chosen, ALL)
    for body, priority in ((b"-", 0), (b"-", 0), (b"-", 0), (b"first", 5), (b"locked", 5)):
        await queue.put(body, MessageDescriptor(priority=priority))
    assert [(await take(queue, NEXT | LOCK)).data for _ in range(2)] == [b"first", b"locked"]
    assert (await queue.get()).data == b"first"
    assert (await queue.get()).data == b"locked"


async def test_a_get_that_waits_behind_others_is_given_the_group_of_which_its_handle_has_locked_a_part(
    members: Members,
) -> None:
    queue = await (await members.connect("QM1")).open("Q", ALL)
    rival = await (await members.connect("QM1")).open("Q", ALL)
    putter = await (await members.connect("QM2")).open("Q", ALL)
    await place(queue, b"a", MIG, X, 1)
    await take(queue, FIRST | LOCK)
    waiters = members["QM1"].core.objects.queues["Q"].waiters
    waits = []
    for number, each in enumerate((rival, queue), 1):
        waits.append(asyncio.create_task(take(each, WHOLE_GROUP | LO, wait=float("inf"))))
        while waiters.count < number:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0)
        await members.clock.rest()
    await place(putter, b"b", LMIG, X, 2)
    await members.clock.advance(2)
    assert waits[1].done()
    assert waits[1].result().data == b"a"
    waits[0].cancel()
    await asyncio.wait(waits)


async def test_a_browse_with_lock_whose_answer_is_lost_locks_nothing(members: Members) -> None:
    queue = await (await members.connect("QM1")).open("Q", ALL)
    await put_all(queue, b"A")
    assert await _loses_its_answer(members, take(queue, FIRST | LOCK), 2) == MQRC.CF_NOT_AVAILABLE
    await free_again(members)
    assert await drained(await (await members.connect("QM2")).open("Q", ALL)) == [b"A"]


async def test_a_lock_that_ends_while_the_database_is_away_is_ended_when_it_is_back(members: Members) -> None:
    queue = await (await members.connect("QM1")).open("Q", ALL)
    await put_all(queue, b"A")
    await take(queue, FIRST | LOCK)
    await members.lines["QM1"].cut()
    await queue.close()
    await members.lines["QM1"].mend()
    await free_again(members)
    assert members.member("QM1").membership.state == "joined"


async def test_the_locks_of_a_life_in_the_group_end_with_it(members: Members) -> None:
    queue: Queue = await (await members.connect("QM1")).open("Q", ALL)
    await put_all(queue, b"A", b"B")
    await take(queue, FIRST | LOCK)
    await members.lapse("QM1")
    other = await (await members.connect("QM2")).open("Q", ALL)
    assert (await other.get()).data == b"A"
    await members.lines["QM1"].mend()
    await until(lambda: _joined(members, "QM1"))
    await members.clock.rest()
    assert (await take(queue, MQGMO.UNLOCK)).reason == MQRC.NO_MSG_LOCKED
    reopened = await (await members.connect("QM1")).open("Q", ALL)
    assert await drained(reopened) == [b"B"]
