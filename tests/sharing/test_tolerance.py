"""Members that wait: for a peer that recovers what they have left, and for a database that is away (queue-sharing 8).

A new queue manager has CFCONLOS(TOLERATE): it goes on meanwhile, and says for what it waits.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from broker import QueueManager, QueueSharingGroup
from broker.client import connect
from broker.config import LimitsConfig, ListenerConfig
from broker.engine.shared_queues import GroupError
from broker.mqi import MQPMO, MQRC
from broker.server import Server
from broker.sharing.members.group_member import GroupMember
from broker.sharing.members.joining import Joining
from broker.storage.memory import MemoryStore
from tests.conformance.expect import ALL, reason_of
from tests.sharing.members import Members
from tests.sharing.test_membership import PERSISTENT, _true, eager, until

if TYPE_CHECKING:
    from broker.sharing.database.sessions import DatabaseSession
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

__all__ = ["eager"]


async def _recovered_slowly(group: GroupDatabase, steps: int) -> None:
    """QM2 recovers QM1 in so many steps, each of which keeps its claim for half a second."""
    for _ in range(steps):
        await group.rows("UPDATE member SET lease_until = clock_timestamp() + interval '0.5 s' WHERE name = 'QM1'")
        await anyio.sleep(0.2)
    await group.rows("UPDATE member SET state = 'INACTIVE', recoverer = NULL WHERE name = 'QM1'")


@pytest.fixture
async def recovering(group: GroupDatabase, eager: None) -> GroupDatabase:
    """A group in which QM2 recovers what a QM1 with other data has left."""
    await group.rows(
        "INSERT INTO member (name, epoch, state, recoverer, lease_until, instance) VALUES"
        " ('QM1', 7, 'RECOVERING', 'QM2', clock_timestamp() + interval '0.5 s', gen_random_uuid())"
    )
    return group


async def test_a_member_waits_while_a_peer_recovers_it_slowly_and_says_for_whom(
    recovering: GroupDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """It has other data, as one that is started anew in another place: it may not recover itself."""
    sharing = QueueSharingGroup(recovering.name, recovering.dsn, lease=3.0)
    manager = QueueManager.open(name="QM1", defaults="mq", group=sharing)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_recovered_slowly(recovering, 10))  # longer than its first claim
        async with manager:
            assert await recovering.value("SELECT state FROM member WHERE name = 'QM1'") == "ACTIVE"
            assert manager.status()["sharing"]["member"]["epoch"] == 8
    awaited = "QM1: the queue-sharing group {} is joined when QM2 has recovered what QM1 has left: waiting"
    assert caplog.messages.count(awaited.format(recovering.name)) == 1


async def test_one_that_tolerates_to_be_without_its_group_starts_meanwhile_and_is_not_ready(
    recovering: GroupDatabase,
) -> None:
    sharing = QueueSharingGroup(recovering.name, recovering.dsn, lease=3.0)
    recovery = asyncio.ensure_future(_recovered_slowly(recovering, 1000))
    async with QueueManager.open(name="QM1", group=sharing) as manager, manager.connect() as program:
        await program.mqsc("DEFINE QLOCAL(OWN)", check=True)
        await program.put1("OWN", b"private")
        away = "QM1 has no lease in its queue-sharing group: QM2 recovers what it has left"
        assert manager.failing_checks(ready=True) == {"group": away}
        assert manager.failing_checks() == {}
        assert manager.status()["sharing"]["member"]["waits_for"] == "QM2 recovers what it has left"
        recovery.cancel()
        await until(lambda: _true(manager.sharing and manager.sharing.in_group))  # the recoverer is gone
        assert manager.failing_checks(ready=True) == {}


async def _extended(limits: list[anyio.CancelScope], before: float) -> bool:
    """True if the third beginning has more time than before."""
    return len(limits) == 3 and limits[-1].deadline > before


async def test_a_member_with_the_same_data_waits_for_a_step_of_its_recovery_however_long(
    group: GroupDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The step holds the row by which the member gets its epoch."""
    monkeypatch.setattr("broker.sharing.members.joining.LOCK_TIMEOUT", "SET LOCAL lock_timeout = '50ms'")
    limits: list[anyio.CancelScope] = []
    begin_after = Joining._begin_after

    async def with_limit(joining: Joining, session: DatabaseSession, last: int, limit: anyio.CancelScope) -> object:
        limits.append(limit)
        return await begin_after(joining, session, last, limit)

    monkeypatch.setattr(Joining, "_begin_after", with_limit)
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        queue = await (await members.connect("QM1")).open("Q", ALL)
        await queue.put(b"never", PERSISTENT, MQPMO.SYNCPOINT)
        rival = await group.session()
        await rival.execute("BEGIN; SELECT FROM unit_of_work FOR UPDATE")
        await members.crash("QM1")
        await group.rows("UPDATE member SET lease_until = '-infinity' WHERE name = 'QM1'")
        await group.until_blocked(asyncio.get_running_loop().create_future())  # QM2, in a step
        starting = asyncio.ensure_future(members.start("QM1"))
        for _ in range(3):  # it has a whole lease again, as long as QM2 is at it
            await until(partial(_extended, limits, limits[-1].deadline))
        assert not starting.done()
        assert caplog.text.count("is joined when QM2 has recovered what QM1 has left: waiting") == 1
        await rival.close()
        await starting
        assert members.member("QM1").in_group
    group.forgive("units of work")


@pytest.mark.parametrize("door", ["embedded", "tcp"])
async def test_s8_1_a_pause_of_the_database_ends_no_new_queue_manager_and_shared_calls_come_back_by_themselves(
    durable_group: GroupDatabase, door: str
) -> None:
    """A new one has CFCONLOS(TOLERATE). Its sessions hang: nobody tells it that they are lost."""
    group = durable_group
    group.forgive("sessions")  # of the pause, which the server notices later
    sharing = QueueSharingGroup(group.name, group.dsn, lease=4.0)
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(QueueManager.open(name="QM1", group=sharing))
        server = await stack.enter_async_context(Server(manager, ListenerConfig(port=0), LimitsConfig()))
        joined = manager.connect() if door == "embedded" else connect(f"mq://{server.addresses[0]}")
        program = await stack.enter_async_context(joined)
        await until(lambda: _true(manager.sharing and manager.sharing.in_group))
        await program.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)", check=True)
        queue, own = await program.open("Q", ALL), await program.open("OWN", ALL)
        await queue.put(b"1", PERSISTENT)
        group.server.freeze()
        try:
            await until(lambda: _true(not manager.sharing or not manager.sharing.in_group))
            assert await reason_of(queue.put(b"meanwhile")) == MQRC.CF_NOT_AVAILABLE
            assert await reason_of(queue.get()) == MQRC.CF_NOT_AVAILABLE
            await own.put(b"private")
            assert (await own.get()).data == b"private"
            (reason,) = manager.failing_checks(ready=True).values()
            assert reason.startswith("QM1 has no lease in its queue-sharing group: its lease could not be renewed for ")
        finally:
            group.server.thaw()
        await until(lambda: _true(manager.sharing and manager.sharing.in_group))
        assert manager.failing_checks(ready=True) == {}
        assert (await queue.get()).data == b"1"
        await queue.put(b"2", PERSISTENT)
        assert (await queue.get()).data == b"2"


async def test_a_new_queue_manager_tolerates_the_loss_and_one_with_the_defaults_of_mq_does_not(
    group: GroupDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker.sharing")
    for defaults, word in (("durable", "TOLERATE"), ("mq", "TERMINATE")):
        sharing = QueueSharingGroup(group.name, group.dsn)
        manager = QueueManager.open(name="QM1", defaults=defaults, group=sharing)
        async with manager, manager.connect() as connection:
            (reply,) = await connection.mqsc("DISPLAY QMGR CFCONLOS")
            assert [each["CFCONLOS"] for each in reply.attributes] == [word]
    assert "ALTER QMGR CFCONLOS" not in caplog.text


async def test_a_queue_manager_that_exists_keeps_terminate_and_its_log_says_how_to_change_it(
    group: GroupDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker.sharing")
    store, sharing = MemoryStore(), QueueSharingGroup(group.name, group.dsn)
    async with QueueManager.open(name="QM1", defaults="mq", store=store, group=sharing):
        """One from before."""
    advised = "group_loss_ends name=QM1: "
    assert advised not in caplog.text
    async with QueueManager.open(name="QM1", store=store, group=sharing) as manager, manager.connect() as connection:
        assert caplog.text.count(advised) == 1
        (line,) = (each for each in caplog.messages if each.startswith(advised))
        (command,) = re.findall("ALTER QMGR [A-Z()]+", line)
        assert isinstance(manager.sharing, GroupMember)
        tolerates = [manager.sharing.membership.tolerates]
        await connection.mqsc(command, check=True)
        tolerates.append(manager.sharing.membership.tolerates)
        assert tolerates == [False, True]
    async with QueueManager.open(name="QM1", store=store, group=sharing):
        assert caplog.text.count(advised) == 1


@pytest.mark.parametrize(("right", "wrong"), [("//evermq@", "//nobody@"), ("/evermq?", "/none?")])
async def test_what_no_waiting_mends_keeps_a_member_from_its_start_that_would_tolerate_a_loss(
    group: GroupDatabase, right: str, wrong: str
) -> None:
    dsn = group.dsn.replace(right, wrong)
    with pytest.raises(GroupError, match=r'cannot be joined: (role "nobody"|database "none") does not exist'):
        async with QueueManager.open(name="QM1", group=QueueSharingGroup(group.name, dsn)):
            raise AssertionError("started")
