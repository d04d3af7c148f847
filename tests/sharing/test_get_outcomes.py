"""The database is lost with the answer to a get, or to a put: nobody knows what it has done to the unit of work, so
that is not committed (queue-sharing 10.2.6).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker.mqi import MQGMO, MQPMO, MQRC
from tests.conformance.expect import ALL, drained, fails, reason_of
from tests.sharing.members import Members
from tests.sharing.test_put_outcomes import ROW
from tests.sharing.unclaimed import stop_counting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    import asyncpg

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

SIMPLY = MQGMO.SYNCPOINT, 1
BY_A_LOOK = MQGMO.SYNCPOINT | MQGMO.COMPLETE_MSG, 3
"""Options, and the answer that tells what was taken: this one looks first."""


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with patch("broker.sharing.database.database.SETTLE_SECONDS", 0.0):
        yield


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield members


@pytest.fixture
async def program(members: Members) -> Connection:
    return await members.connect("QM1")


@pytest.fixture
async def queue(program: Connection) -> Queue:
    queue = await program.open("Q", ALL)
    for body in (b"1", b"2"):
        await queue.put(body)
    return queue


async def _loses_its_answer(members: Members, call: Coroutine[object, object, object], answers: int = 1) -> int:
    """Make a call whose last answer is lost, and the database with it until the call is over; its reason."""
    line = members.lines["QM1"]
    seen = asyncio.Event()

    def judge(piece: bytes) -> bytes | None:
        nonlocal answers
        answers -= ROW in piece
        if answers:
            return piece
        line.to_client = None
        line.hold()
        seen.set()
        return None

    line.to_client = judge
    ends = asyncio.ensure_future(reason_of(call))
    await seen.wait()
    await line.cut()
    reason = await ends
    await line.mend()
    return reason


@pytest.mark.parametrize(("options", "answers"), [SIMPLY, BY_A_LOOK])
async def test_what_a_get_has_taken_whose_answer_is_lost_is_not_committed_away(
    members: Members, program: Connection, queue: Queue, options: int, answers: int
) -> None:
    with patch("broker.sharing.gets.returned.ReturnedMessages._try_later"):  # nor if it has not come back by then
        assert (await queue.get(options=options)).data == b"1"
        assert await _loses_its_answer(members, queue.get(options=options), answers) == MQRC.CF_NOT_AVAILABLE
        assert await members.group.value("SELECT count(*) FROM held WHERE kind = 2") == 2
        with fails(MQRC.BACKED_OUT):
            await program.commit()
    assert await drained(queue) == [b"1", b"2"]


@pytest.mark.parametrize(("options", "answers"), [SIMPLY, BY_A_LOOK])
async def test_what_the_first_get_of_a_unit_has_taken_comes_back_when_its_answer_is_lost(
    members: Members, program: Connection, queue: Queue, options: int, answers: int
) -> None:
    assert await _loses_its_answer(members, queue.get(options=options), answers) == MQRC.CF_NOT_AVAILABLE
    await members.clock.rest()
    while await members.group.value("SELECT count(*) FROM held"):
        pass
    assert await members.group.rows("SELECT * FROM unit_of_work") == []
    assert await drained(queue) == [b"1", b"2"]


@pytest.mark.parametrize("options", [MQGMO.NO_SYNCPOINT, MQGMO.SYNCPOINT, MQGMO.NO_SYNCPOINT | MQGMO.COMPLETE_MSG])
async def test_what_is_being_taken_still_when_nobody_waits_for_it_any_more_comes_back(
    members: Members, queue: Queue, rival: asyncpg.Connection, options: int
) -> None:
    """The database is lost to a get whose statement goes on there, behind a rival."""
    await stop_counting(rival)
    getter = asyncio.ensure_future(reason_of(queue.get(options=options)))
    await members.group.until_blocked(getter)
    await members.lines["QM1"].cut()
    assert await getter == MQRC.CF_NOT_AVAILABLE
    await members.lines["QM1"].mend()
    returns = members.member("QM1").returned
    async with asyncio.timeout(60):
        while await members.group.value("SELECT count(*) FROM pg_locks WHERE NOT granted") < 2 and returns.pending:
            pass  # what goes back waits for what is being taken, and that for the rival
        await rival.close()
        while returns.pending:
            await members.clock.rest()
    assert await members.group.value("SELECT count(*) FROM message WHERE state = 1") == 2
    assert await drained(queue) == [b"1", b"2"]


@pytest.mark.parametrize("options", [MQGMO.BROWSE_FIRST, MQGMO.SYNCPOINT | MQGMO.COMPLETE_MSG])
async def test_a_get_that_looks_first_looks_again_when_its_session_is_lost(
    members: Members, queue: Queue, options: int
) -> None:
    before = members.member("QM1").database.figures.retries
    line = members.lines["QM1"]

    def cut(piece: bytes) -> bytes | None:
        line.to_server = None
        return None

    line.to_server = cut
    assert (await queue.get(options=options)).data == b"1"
    assert members.member("QM1").database.figures.retries == before + 1


async def test_a_put_whose_answer_is_lost_is_not_committed(members: Members, program: Connection, queue: Queue) -> None:
    await queue.put(b"3", options=MQPMO.SYNCPOINT)
    assert await _loses_its_answer(members, queue.put(b"4", options=MQPMO.SYNCPOINT)) == MQRC.CONNECTION_BROKEN
    with fails(MQRC.BACKED_OUT):
        await program.commit()
    assert await drained(queue) == [b"1", b"2"]
