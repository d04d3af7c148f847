"""What is committed is durable before it is told, and one wait for the disk serves many (queue-sharing 10.3.8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import asyncpg
import pytest

from broker import QueueManager, QueueSharingGroup
from broker.mqi import MQGMO, MQPMO, MessageDescriptor
from broker.sharing.database.flushes import Flushes
from broker.sharing.database.sessions import Lane, Lanes, SessionFigures
from tests.conformance.expect import ALL, drained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase

PERSISTENT = MessageDescriptor(persistence=1)


class Session:
    """A session that flushes when it is let."""

    def __init__(self, crashes: int) -> None:
        self.crashes = crashes
        self.unreplicated = False
        self.begun: list[asyncio.Future[None]] = []

    def is_closed(self) -> bool:
        return False

    async def execute(self, statement: str) -> None:
        assert statement == "CALL flush()"
        self.begun.append(asyncio.get_running_loop().create_future())
        await self.begun[-1]


def lane(session: Any) -> Lane:
    made = Lane(0, Lanes(AsyncMock(), SessionFigures()))
    made.session = session
    return made


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_comes_while_a_flush_is_under_way_waits_for_one_of_its_own_with_all_who_come_by_then() -> None:
    figures = SessionFigures()
    flushes, sessions = Flushes(figures), [Session(1) for _ in range(4)]
    calls = [asyncio.ensure_future(flushes.flush(lane(sessions[0])))]
    await turns()
    calls += [asyncio.ensure_future(flushes.flush(lane(session))) for session in sessions[1:]]
    await turns()
    assert [len(session.begun) for session in sessions] == [1, 0, 0, 0]
    sessions[0].begun[0].set_result(None)
    await turns()
    assert [call.done() for call in calls] == [True, False, False, False]
    assert [len(session.begun) for session in sessions] == [1, 1, 0, 0]
    sessions[1].begun[0].set_result(None)
    await asyncio.gather(*calls)
    assert figures.flushes == 2


async def test_a_flush_of_a_session_from_after_a_crash_says_nothing_to_one_from_before() -> None:
    flushes, first, after, before = Flushes(SessionFigures()), Session(1), Session(2), Session(1)
    calls = [asyncio.ensure_future(flushes.flush(lane(session))) for session in (first, after, before)]
    await turns()
    first.begun[0].set_result(None)
    await turns()
    after.begun[0].set_result(None)
    await turns()
    assert [call.done() for call in calls] == [True, True, False]
    before.begun[0].set_exception(asyncpg.ConnectionDoesNotExistError())
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await calls[2]


async def test_who_waits_behind_a_flush_that_fails_makes_one_himself() -> None:
    flushes, first, second, third = Flushes(SessionFigures()), Session(1), Session(1), Session(1)
    calls = [asyncio.ensure_future(flushes.flush(lane(session))) for session in (first, second, third)]
    await turns()
    first.begun[0].set_result(None)
    await turns()
    second.begun[0].set_exception(asyncpg.InterfaceError("cut off"))
    with pytest.raises(asyncpg.InterfaceError):
        await calls[1]
    await turns()
    third.begun[0].set_result(None)
    await calls[2]


@pytest.fixture
async def program(durable_group: GroupDatabase) -> AsyncIterator[Connection]:
    group = QueueSharingGroup(durable_group.name, durable_group.dsn)
    async with QueueManager.open(name="QM1", group=group) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield connection


@pytest.fixture
async def queue(program: Connection) -> Queue:
    queue = await program.open("Q", ALL)
    await queue.put(b"1", PERSISTENT)
    return queue


@pytest.mark.postgres
@pytest.mark.parametrize("call", ["put", "commit of a put"])
async def test_what_a_crash_of_the_database_takes_before_it_is_durable_is_made_again(
    durable_group: GroupDatabase, program: Connection, queue: Queue, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    flush, crashed = Flushes.flush, False

    async def crash_first(flushes: Flushes, lane: Lane) -> None:
        nonlocal crashed
        if not crashed:
            crashed = True
            await asyncio.to_thread(durable_group.server.restart, "immediate")
        await flush(flushes, lane)

    if call == "commit of a put":
        await queue.put(b"2", PERSISTENT, MQPMO.SYNCPOINT)
    monkeypatch.setattr(Flushes, "flush", crash_first)
    if call == "put":  # with what has a put written by more than one statement: of others the commit waits itself
        await queue.put(b"2", MessageDescriptor(persistence=1, correl_id=bytes(23) + b"C"))
    else:
        await program.commit()
    assert crashed
    assert await drained(queue) == [b"1", b"2"]


@pytest.mark.postgres
@pytest.mark.parametrize("step", ["get", "get in a unit", "commit of a get"])
async def test_what_tells_nobody_is_durable_with_its_own_commit(
    durable_group: GroupDatabase, program: Connection, queue: Queue, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It need not be short: no other waits for it."""
    flush = Flushes.flush

    async def flush_beside(flushes: Flushes, lane: Lane) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert not task.get_name().startswith("CallTasks"), "a call waits a second time"
        await flush(flushes, lane)  # what the member does beside calls

    monkeypatch.setattr(Flushes, "flush", flush_beside)
    assert (await queue.get(options=MQGMO.NO_SYNCPOINT if step == "get" else MQGMO.SYNCPOINT)).data == b"1"
    if step == "commit of a get":
        await program.commit()
    monkeypatch.undo()
    await asyncio.to_thread(durable_group.server.restart, "immediate")
    await program.commit()
    assert await drained(queue) == []


@pytest.mark.postgres
async def test_a_commit_that_is_asked_for_again_waits_for_the_disk(
    durable_group: GroupDatabase, program: Connection, queue: Queue
) -> None:
    """The statement that committed it may not have waited."""
    await queue.get(options=MQGMO.SYNCPOINT)
    ((unit,),) = [row.values() for row in await durable_group.rows("SELECT id FROM unit_of_work")]
    session = await durable_group.session(**{"evermq.member": "QM1", "evermq.epoch": "1"})
    waited = [await session.fetchval("SELECT waited FROM commit_units('QM1', 1, $1, true)", [unit]) for _ in range(2)]
    await session.close()
    assert waited == [True, False]
    await program.commit()


@pytest.mark.postgres
async def test_crashes_that_follow_one_another_closely_have_numbers_of_their_own(durable_group: GroupDatabase) -> None:
    numbers = []
    for _ in range(4):
        await asyncio.to_thread(durable_group.server.restart, "immediate")
        session = await durable_group.session(synchronous_commit="off")
        numbers.append(await session.fetchval("SELECT crashes FROM rise()"))
        session.terminate()
    assert len(set(numbers)) == len(numbers)
