"""The commit of a get outside syncpoint begins the transaction of the next (queue-sharing 10.2.6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest

from broker.mqi import MQPMO, MessageDescriptor
from broker.sharing.database.sessions import Lane, Lanes, SessionFigures
from broker.sharing.members.lease_times import LeaseTimes
from tests.conformance.expect import ALL, drained
from tests.sharing.members import Members

if TYPE_CHECKING:
    from broker import Queue
    from tests.sharing.database import GroupDatabase

DEFINITIONS = "DEFINE QLOCAL(Q) QSGDISP(SHARED)"
PERSISTENT = MessageDescriptor(persistence=1)
_IN_TRANSACTION = (
    "SELECT backend_xid IS NULL AND backend_xmin IS NULL AS holds_nothing FROM pg_stat_activity"
    " WHERE starts_with(application_name, $1) AND state = 'idle in transaction'"
)


class Session:
    """A session that is in a transaction or not."""

    def __init__(self) -> None:
        self.inside = False
        self.made: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    def is_closed(self) -> bool:
        return False

    def is_in_transaction(self) -> bool:
        return self.inside

    async def execute(self, statement: str) -> None:
        await self.may_end.wait()
        self.made.append(statement)
        self.inside = False


def lanes_of(*sessions: Session) -> Lanes:
    return Lanes(AsyncMock(side_effect=sessions), SessionFigures(), range(len(sessions)))


async def used(lanes: Lanes, *, chained: bool, chain: bool = False) -> Lane:
    """Use a lane as a get does, or as another call."""
    async with lanes.lend(chained=chained) as lane:
        lane.sequence += 2
        lane.session.inside = chain
    return lane


async def test_a_lane_that_has_begun_a_transaction_is_for_who_goes_on_with_it_while_others_are_free() -> None:
    sessions = Session(), Session()
    lanes = lanes_of(*sessions)
    lanes.open()
    first = await used(lanes, chained=True, chain=True)
    second = await used(lanes, chained=False)
    assert second is not first
    assert await used(lanes, chained=True, chain=True) is first
    assert await used(lanes, chained=False) is second
    assert [session.made for session in sessions] == [[], []]


async def test_where_no_other_is_free_the_transaction_ends_before_another_call_begins() -> None:
    session = Session()
    lanes = lanes_of(session)
    lanes.open()
    await used(lanes, chained=True, chain=True)
    await used(lanes, chained=False)
    assert session.made == ["ROLLBACK"]


async def test_a_transaction_that_is_not_gone_on_with_ends_at_the_second_look() -> None:
    session = Session()
    lanes = lanes_of(session)
    lanes.open()
    await used(lanes, chained=True, chain=True)
    await lanes.end_idle()
    await used(lanes, chained=True, chain=True)
    await lanes.end_idle()
    assert session.made == []
    await lanes.end_idle()
    assert session.made == ["ROLLBACK"]
    await used(lanes, chained=True)
    await lanes.end_idle()
    await lanes.end_idle()
    assert session.made == ["ROLLBACK"]


async def test_a_lane_whose_transaction_is_being_ended_is_lent_to_nobody() -> None:
    session = Session()
    lanes = lanes_of(session)
    lanes.open()
    await used(lanes, chained=True, chain=True)
    await lanes.end_idle()
    session.may_end.clear()
    ending = asyncio.ensure_future(lanes.end_idle())
    await asyncio.sleep(0)
    asked = asyncio.ensure_future(used(lanes, chained=True))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asked.done()
    session.may_end.set()
    await asyncio.gather(ending, asked)


@pytest.fixture
async def queue(here: Queue) -> Queue:
    await here.put_many([b"1", b"2", b"3"], PERSISTENT)
    return here


async def in_transaction(members: Members) -> list[dict[str, Any]]:
    return await members.group.rows(_IN_TRANSACTION, f"{members.group.name}/QM1/")


@pytest.mark.postgres
async def test_what_a_commit_has_begun_holds_nothing(members: Members, queue: Queue) -> None:
    assert (await queue.get()).data == b"1"
    assert await in_transaction(members) == [{"holds_nothing": True}]


@pytest.mark.postgres
async def test_what_a_commit_has_begun_ends_when_nobody_goes_on_with_it(
    group: GroupDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaseTimes, "watch", property(lambda _: 0.02))
    async with Members(group) as members:
        await members.mqsc(DEFINITIONS)
        queue = await (await members.connect("QM1")).open("Q", ALL)
        await queue.put_many([b"1", b"2"], PERSISTENT)
        for body in (b"1", b"2"):
            assert (await queue.get()).data == body
            while await in_transaction(members):  # noqa: ASYNC110  # nobody tells of it
                await asyncio.sleep(0)


@pytest.mark.postgres
async def test_a_get_that_finds_nothing_begins_nothing(members: Members, queue: Queue) -> None:
    assert await drained(queue) == [b"1", b"2", b"3"]
    assert await in_transaction(members) == []


@pytest.mark.postgres
async def test_a_put_behind_a_get_is_there_for_others_at_once(queue: Queue, there: Queue) -> None:
    for number in range(1, 4):
        assert (await queue.get()).data == b"%d" % number
        await queue.put(b"put", PERSISTENT)
        await queue.put(b"in a unit", PERSISTENT, MQPMO.SYNCPOINT)
        await queue._connection.commit()
    assert await drained(there) == [b"put", b"in a unit"] * 3


@pytest.mark.postgres
async def test_a_get_goes_on_where_the_session_of_the_begun_transaction_was_ended(
    members: Members, queue: Queue
) -> None:
    for number in range(1, 4):
        assert (await queue.get()).data == b"%d" % number
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE starts_with(application_name, $1)"
        await members.group.rows(f"{ended} AND state = 'idle in transaction'", f"{members.group.name}/QM1/")
    assert await drained(queue) == []


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["immediate", "fast"])
async def test_a_get_goes_on_where_the_database_was_stopped_in_the_begun_transaction(
    durable_group: GroupDatabase, how: str
) -> None:
    async with Members(durable_group) as members:
        await members.mqsc(DEFINITIONS)
        queue = await (await members.connect("QM1")).open("Q", ALL)
        await queue.put_many([b"1", b"2"], PERSISTENT)
        assert (await queue.get()).data == b"1"
        await asyncio.to_thread(durable_group.server.restart, how)
        assert await drained(queue) == [b"2"]
