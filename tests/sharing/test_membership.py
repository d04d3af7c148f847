"""Joining a group, keeping a lease, and what happens where the database is lost (queue-sharing 8, and queue-sharing
rule 10.3.1).
"""

from __future__ import annotations

import asyncio
import logging
import os
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from broker import QueueManager, QueueSharingGroup
from broker.client import connect
from broker.clock import boottime
from broker.engine.shared_queues import GroupError
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MessageDescriptor
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.members.lease import MemberLease
from broker.sharing.members.lease_times import LeaseTimes
from broker.storage.memory import MemoryStore
from tests.conformance.expect import ALL, fails, reason_of
from tests.sharing.chaos.processes import Member
from tests.sharing.members import Members
from tests.sharing.postgres import OWNER, Postgres, binaries
from tests.sharing.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from broker.core.queues.handles import Handle
    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

logger = logging.getLogger(__name__)

PERSISTENT = MessageDescriptor(persistence=1)
SOON = 60.0  # seconds, for what comes within a lease of five


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when something is so, which real time brings about."""
    gives_up = monotonic() + SOON
    while not await holds():
        assert monotonic() < gives_up
        await anyio.sleep(0.02)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are renewed, and looked at, many times a second: what ends them is not how long they are."""
    for name in ("renew", "again", "watch"):
        monkeypatch.setattr(LeaseTimes, name, 0.05)


@pytest.fixture
async def pair(group: GroupDatabase, eager: None) -> AsyncIterator[Members]:
    """Two members."""
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield members


def manager_of(group: GroupDatabase, name: str = "QM1", store: MemoryStore | None = None) -> QueueManager:
    return QueueManager.open(
        name=name, store=store or MemoryStore(), group=QueueSharingGroup(group.name, group.dsn, lease=3.0)
    )


# Joining


async def test_each_start_and_each_takeover_raises_the_epoch(group: GroupDatabase) -> None:
    async with Members(group) as members:
        await members.start("QM2")
        await members.stop("QM2")
        await members.start("QM2")
        assert members.member("QM2").database.epoch == 2
        await members.fail("QM2")
        assert await group.value("SELECT epoch FROM member WHERE name = 'QM2'") == 3
        await members.start("QM2")
        assert members.member("QM2").database.epoch == 4


async def test_a_member_that_leaves_in_order_has_no_lease_any_more(group: GroupDatabase) -> None:
    async with manager_of(group):
        assert await group.value("SELECT state FROM member") == "ACTIVE"
    assert await group.value("SELECT state FROM member") == "INACTIVE"
    async with manager_of(group):  # with other data, and at once
        assert await group.value("SELECT epoch FROM member") == 2


async def test_a_name_is_one_queue_managers_while_that_lives(group: GroupDatabase, eager: None) -> None:
    async with manager_of(group):
        with pytest.raises(GroupError, match=r"has a queue manager QM1 already, which runs at .*; end that one"):
            async with manager_of(group):
                raise AssertionError("two have one name")


async def test_another_queue_manager_of_the_name_waits_for_the_end_of_the_lease(
    group: GroupDatabase, eager: None
) -> None:
    await group.rows(
        "INSERT INTO member (name, epoch, state, lease_until, instance) "
        "VALUES ('QM1', 7, 'ACTIVE', clock_timestamp() + interval '0.5 s', gen_random_uuid())"
    )
    before = monotonic()
    async with manager_of(group) as manager:
        assert monotonic() - before > 0.45
        assert manager.status()["sharing"]["member"]["epoch"] == 8


async def test_the_same_data_may_be_started_again_before_its_lease_ends(group: GroupDatabase) -> None:
    async with Members(group) as members:
        await members.crash("QM1")
        await group.rows("UPDATE member SET lease_until = clock_timestamp() + interval '1 h'")
        with anyio.fail_after(60):
            await members.start("QM1")


async def test_a_queue_manager_cannot_have_the_name_of_its_group(group: GroupDatabase) -> None:
    with pytest.raises(GroupError, match="name of its queue-sharing group"):
        async with manager_of(group, group.name):
            raise AssertionError("it has")


@pytest.mark.parametrize(
    ("setting", "reported"), [("fsync", "fsync=off.*set fsync = on"), ("full_page_writes", "full_page_writes=off")]
)
async def test_a_database_that_could_lose_what_was_acknowledged_is_refused(setting: str, reported: str) -> None:
    settings: dict[str, Any] = {setting: "off"}
    with Postgres(**settings) as server:
        manager = QueueManager.open(name="QM1", group=QueueSharingGroup("GRP1", server.dsn()))
        with pytest.raises(GroupError, match=reported):
            async with manager:
                raise AssertionError("accepted")
        assert server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'evermq_grp1'") == [["0"]]


async def test_a_database_with_another_encoding_is_refused(postgres: Postgres) -> None:
    postgres.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    dsn = postgres.dsn().replace("/evermq?", "/latin?")
    with pytest.raises(GroupError, match=r"server_encoding=LATIN1.*ENCODING 'UTF8'"):
        async with QueueManager.open(name="QM1", group=QueueSharingGroup("GRP1", dsn)):
            raise AssertionError("accepted")
    postgres.sql("DROP DATABASE latin")


async def test_with_terminate_a_member_says_that_there_is_no_database_and_does_not_start(tmp_path: Path) -> None:
    dsn = f"postgresql://evermq@/evermq?host={tmp_path}"
    with pytest.raises(GroupError, match="QM1: the queue-sharing group GRP1 cannot be joined"):
        async with QueueManager.open(name="QM1", defaults="mq", group=QueueSharingGroup("GRP1", dsn)):
            raise AssertionError("started")


async def test_a_line_that_is_cut_while_a_member_joins_is_told_as_what_it_is(group: GroupDatabase) -> None:
    async with Proxy(group.server) as line:
        line.to_client = lambda piece: None if b"my_epoch" in piece else piece
        with pytest.raises(GroupError, match="cannot be joined: the connection to the database was lost"):
            async with QueueManager.open(name="QM1", defaults="mq", group=QueueSharingGroup(group.name, line.dsn)):
                raise AssertionError("started")


async def test_with_tolerate_it_starts_with_its_private_queues_and_joins_later(pair: Members) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(OWN)", "QM2")
    await pair.stop("QM2")
    mend = pair.lines["QM2"].mend
    pair.lines["QM2"].mend = _nothing  # type: ignore[method-assign]
    await pair.lines["QM2"].cut()
    await pair.start("QM2")
    program = await pair.connect("QM2")
    own = await program.open("OWN", ALL)
    await own.put(b"private")
    assert pair["QM2"].status()["sharing"]["member"]["state"] == "away"
    await mend()
    await until(lambda: _joined(pair, "QM2"))
    queue = await program.open("Q", ALL)
    await queue.put(b"shared")
    assert (await queue.get()).data == b"shared"


# The lease


async def test_a_lease_is_renewed_and_its_clock_counts_the_time_of_suspension(pair: Members) -> None:
    lease = pair.member("QM1").membership.lease
    renewals = lease.renewals
    until_before = await pair.group.value("SELECT lease_until FROM member WHERE name = 'QM1'")
    await until(lambda: _true(lease.renewals >= renewals + 2))
    assert await pair.group.value("SELECT lease_until FROM member WHERE name = 'QM1'") > until_before
    assert 0 <= lease.age < boottime()


async def test_a_renewal_does_not_wait_for_writers_that_are_fenced(pair: Members) -> None:
    member = pair.member("QM1")
    writer = await member.database.session("calls", 100)
    await writer.execute("BEGIN; SELECT enter(2)")
    lease = MemberLease(member.database, member.membership.times)  # the member's own is renewed meanwhile
    assert await lease._renew()
    lease._drop()
    await writer.execute("ROLLBACK")  # which the database would have ended, had the renewal waited for it
    await writer.close()


@pytest.mark.parametrize("hangs", [False, True])
async def test_s8_2_a_member_gives_its_lease_up_before_peers_take_over(
    monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    now = 100.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Away:
        """A database that cannot be reached, or does not answer."""

        member, epoch = "QM1", 1

        async def session(self, purpose: str) -> DatabaseSession:
            if hangs:
                await sleep(lease._patience())
                raise TimeoutError
            raise ConnectionRefusedError(purpose)

    lease = MemberLease(cast("Database", Away()), LeaseTimes(10.0))
    lease.begin(now)
    monkeypatch.setattr("broker.sharing.members.lease.boottime", lambda: now)
    monkeypatch.setattr(anyio, "sleep", sleep)
    assert "its lease could not be renewed for" in await lease.keep()
    assert 107.0 <= now < 110.0


_WRITER = """
BEGIN;
SELECT fence('QM1', 1);
UPDATE share SET n = n WHERE queue = 'Q';
COMMIT;
"""


@pytest.mark.benchmark
async def test_s10_3_renewals_are_quick_beside_64_writers(group: GroupDatabase, tmp_path: Path) -> None:
    script = tmp_path / "writer.sql"
    script.write_text(_WRITER)
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        member = members.member("QM1")
        lease, took = MemberLease(member.database, member.membership.times), list[float]()
        await lease._renew()
        where = ("-h", str(group.server.folder), "-U", OWNER, OWNER)
        writers = await asyncio.create_subprocess_exec(
            *(binaries() / "pgbench", "-n", "-f", str(script), "-c", "64", "-j", "2", "-T", "6", *where),
            env={"PGOPTIONS": f"-c search_path={group.schema}", "PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        while writers.returncode is None:
            before = monotonic()
            await lease._renew()
            took.append(monotonic() - before)
            with anyio.move_on_after(0.01):
                await writers.wait()
        lease._drop()
    assert writers.stdout is not None
    reported = (await writers.stdout.read()).decode()
    assert writers.returncode == 0, reported
    (rate,) = [line for line in reported.splitlines() if line.startswith("tps")]
    took = sorted(took[len(took) // 6 :])  # without the first second, in which they come
    p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    logger.info("renewals=%d p50_ms=%.1f p99_ms=%.1f writers: %s", len(took), p50 * 1e3, p99 * 1e3, rate)
    assert p99 < 0.1


# Loss of the database


async def test_s8_1_with_tolerate_shared_calls_fail_and_private_ones_work_until_the_link_is_back(
    pair: Members,
) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(OWN)", "QM2")
    program = await pair.connect("QM2")
    queue, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await queue.put(b"1", PERSISTENT)
    await pair.lines["QM2"].cut()
    with fails(MQRC.CF_NOT_AVAILABLE):
        await queue.get()
    await own.put(b"private")
    await pair.lapse("QM2")
    with fails(MQRC.CF_NOT_AVAILABLE):
        await queue.get()
    assert (await own.get()).data == b"private"
    await pair.lines["QM2"].mend()
    await until(lambda: _joined(pair, "QM2"))
    assert (await queue.get()).data == b"1"
    await queue.put(b"2", PERSISTENT)
    assert (await queue.get()).data == b"2"


async def test_o2_6_a_member_without_a_lease_is_not_ready_and_alive(pair: Members) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM2")
    assert pair["QM2"].failing_checks(ready=True) == {}
    await pair.lapse("QM2")
    assert pair["QM2"].failing_checks() == {}
    (reason,) = pair["QM2"].failing_checks(ready=True).values()
    assert reason.startswith("QM2 has no lease in its queue-sharing group: ")
    assert reason.endswith(f": {pair['QM2'].status()['sharing']['member']['waits_for']}")
    assert pair["QM1"].failing_checks(ready=True) == {}
    await pair.lines["QM2"].mend()
    await until(lambda: _joined(pair, "QM2"))
    assert pair["QM2"].failing_checks(ready=True) == {}


async def test_a_unit_of_work_from_before_the_loss_is_backed_out(pair: Members) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(OWN) DEFPSIST(YES)", "QM2")
    program = await pair.connect("QM2")
    queue, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await queue.put(b"old", PERSISTENT)
    await queue.get(options=MQGMO.SYNCPOINT)
    await own.put(b"private", PERSISTENT, MQPMO.SYNCPOINT)
    await pair.lapse("QM2")
    await pair.lines["QM2"].mend()
    await until(lambda: _joined(pair, "QM2"))
    with fails(MQRC.BACKED_OUT):
        await queue.put(b"late", PERSISTENT, MQPMO.SYNCPOINT)
    with fails(MQRC.BACKED_OUT):
        await queue.get(options=MQGMO.SYNCPOINT)
    with fails(MQRC.BACKED_OUT):
        await program.commit()
    assert await reason_of(own.get()) == MQRC.NO_MSG_AVAILABLE
    message = await queue.get()
    assert (message.data, message.md.backout_count) == (b"old", 1)


async def test_a_call_from_before_the_loss_does_not_end_the_next_life(pair: Members) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM2")
    database, membership = pair.member("QM2").database, pair.member("QM2").membership
    epoch, lives = database.epoch, membership.lives

    async def work(session: DatabaseSession) -> None:
        if database.epoch == epoch:
            membership._life_is_over("the test says so")
            await until(lambda: _joined(pair, "QM2"))
            raise ConnectionResetError
        await session.execute("SELECT fence($1, $2)", "QM2", epoch)

    with fails(MQRC.CF_NOT_AVAILABLE):
        await database.look_again(work)
    assert (membership.lives, membership.state) == (lives + 1, "joined")


async def test_a_short_loss_ends_nothing(pair: Members) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM2")
    program = await pair.connect("QM2")
    queue = await program.open("Q", ALL)
    await queue.put(b"1", PERSISTENT, MQPMO.SYNCPOINT)
    epoch = pair.member("QM2").database.epoch
    pair.lines["QM2"].cut_lines()
    await queue.put(b"2", PERSISTENT, MQPMO.SYNCPOINT)
    await program.commit()
    assert [(await queue.get()).data, (await queue.get()).data] == [b"1", b"2"]
    assert pair.member("QM2").database.epoch == epoch


async def test_a_member_that_starts_without_the_database_serves_its_private_queues_and_joins_when_it_is_there(
    group: GroupDatabase, eager: None
) -> None:
    store = MemoryStore()
    async with Proxy(group.server) as line:
        sharing = QueueSharingGroup(group.name, line.dsn)
        async with QueueManager.open(name="QM1", store=store, group=sharing) as manager, manager.connect() as program:
            await program.mqsc(
                "ALTER QMGR CFCONLOS(TOLERATE)\nDEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)\n"
                "DEFINE QALIAS(LEADS.THERE) TARGET(Q)\nDEFINE QALIAS(A.TOPIC) TARGET(T) TARGTYPE(TOPIC)"
            )
        await line.cut()
        async with QueueManager.open(name="QM1", store=store, group=sharing) as manager, manager.connect() as program:
            own = await program.open("OWN", ALL)
            await own.put(b"private")
            assert (await own.get()).data == b"private"
            for name in ("Q", "LEADS.THERE", "NONE"):
                assert await reason_of(program.open(name, ALL)) == MQRC.DB2_NOT_AVAILABLE
            assert await reason_of(program.put1("Q", b"late")) == MQRC.DB2_NOT_AVAILABLE
            assert await reason_of(program.open("A.TOPIC", MQOO.OUTPUT)) == MQRC.UNKNOWN_ALIAS_BASE_Q
            await line.mend()
            await until(lambda: _true(manager.status()["sharing"]["member"]["state"] == "joined"))
            queue = await program.open("LEADS.THERE", MQOO.OUTPUT)
            await queue.put(b"shared", PERSISTENT)
            assert (await (await program.open("Q", ALL)).get()).data == b"shared"
            assert await reason_of(program.open("NONE", ALL)) == MQRC.UNKNOWN_OBJECT_NAME


async def test_what_another_member_has_defined_since_is_not_called_unknown_while_the_database_is_away(
    pair: Members,
) -> None:
    await pair.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM2")
    program = await pair.connect("QM2")
    await pair.lapse("QM2")
    await pair.mqsc("DEFINE QLOCAL(NEW) QSGDISP(SHARED)", "QM1")
    assert await reason_of(program.open("NEW", ALL)) == MQRC.DB2_NOT_AVAILABLE
    await pair.lines["QM2"].mend()
    await until(lambda: _joined(pair, "QM2"))
    await (await program.open("NEW", ALL)).close()


async def test_s8_2_with_terminate_a_member_ends_itself_within_its_lease(pair: Members) -> None:
    program = await pair.connect("QM2")
    queue = await program.open("Q", ALL)
    waits = asyncio.ensure_future(queue.get(wait=60))
    manager = pair["QM2"]
    await pair.clock.rest()
    await pair.lapse("QM2")
    error = await manager.stopped()
    assert isinstance(error, GroupError)
    assert "CFCONLOS(TERMINATE)" in str(error)
    with fails(MQRC.CONNECTION_BROKEN):
        await waits
    assert await reason_of(queue.put(b"late")) in (MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR)
    with fails(MQRC.Q_MGR_STOPPING):
        manager.connect()
    assert await pair.group.value("SELECT state FROM member WHERE name = 'QM2'") == "INACTIVE"
    pair.group.forgive("units of work")


async def test_a_member_whose_epoch_was_taken_learns_it_at_its_next_call(group: GroupDatabase) -> None:
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nALTER QMGR CFCONLOS(TOLERATE)")
        queue = await (await members.connect("QM1")).open("Q", ALL)
        await group.rows("UPDATE member SET epoch = epoch + 1, state = 'INACTIVE' WHERE name = 'QM1'")
        with fails(MQRC.CF_NOT_AVAILABLE):
            await queue.put(b"late")
        await until(lambda: _joined(members, "QM1"))
        await queue.put(b"of another life")
        assert (await queue.get()).data == b"of another life"


async def test_a_handle_that_is_closed_while_others_are_made_known_in_the_next_life_is_left_out(
    group: GroupDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nALTER QMGR CFCONLOS(TOLERATE)")
        queues = [await (await members.connect("QM1")).open("Q", ALL) for _ in range(2)]
        handles, manager = members.member("QM1").handles, members["QM1"]
        entered = handles.enter

        async def enter(handle: Handle) -> None:
            monkeypatch.setattr(handles, "enter", entered)
            await entered(handle)
            others = [each for each in handles._rows if each.name == "Q" and each is not handle]
            (leaves,) = (each for each in manager.conversations if each.hconn is others[-1].hconn)
            leaves.break_(at_once=True)

        monkeypatch.setattr(handles, "enter", enter)
        await group.rows("UPDATE member SET epoch = epoch + 1, state = 'INACTIVE' WHERE name = 'QM1'")
        with fails(MQRC.CF_NOT_AVAILABLE):
            await queues[0].put(b"late")
        await until(lambda: _joined(members, "QM1"))
        reasons = [await reason_of(queue.put(b"of another life")) for queue in queues]
        assert sorted(reasons) == [MQRC.NONE, MQRC.CONNECTION_BROKEN]


async def test_a_handle_of_which_nobody_knows_whether_it_was_made_known_is_so_in_the_life_after(
    group: GroupDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nALTER QMGR CFCONLOS(TOLERATE)")
        queue = await (await members.connect("QM1")).open("Q", ALL)
        handles = members.member("QM1").handles
        entered = handles.enter

        async def enter(handle: Handle) -> None:
            if handle.name == "Q":
                monkeypatch.setattr(handles, "enter", entered)
                raise OutcomeUnknownError("the database cannot be reached")
            await entered(handle)

        monkeypatch.setattr(handles, "enter", enter)
        await group.rows("UPDATE member SET epoch = epoch + 1, state = 'INACTIVE' WHERE name = 'QM1'")
        with fails(MQRC.CF_NOT_AVAILABLE):
            await queue.put(b"late")
        await until(lambda: _joined(members, "QM1"))
        assert await group.value("SELECT count(*) FROM handle WHERE queue = 'Q'") == 1


# Processes


async def test_a_peer_takes_over_when_the_lease_of_a_member_that_was_killed_has_ended(
    durable_group: GroupDatabase, tmp_path: Path
) -> None:
    group = durable_group
    group.forgive("units of work")
    first, second = (Member(name, tmp_path / name, group.name, group.dsn, lease=5.0) for name in ("QM1", "QM2"))
    try:
        await first.start()
        await first.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        await second.start()
        async with connect(f"mq://{second.address}") as peer:
            queue = await peer.open("Q", ALL)
            await queue.put(b"got", PERSISTENT)
            program = await connect(f"mq://{first.address}").__aenter__()
            dying = await program.open("Q", ALL)
            await dying.get(options=MQGMO.SYNCPOINT)
            await dying.put(b"never", PERSISTENT, MQPMO.SYNCPOINT)
            waits = asyncio.ensure_future(queue.get(wait=SOON))
            await first.kill()
            message = await waits
            assert (message.data, message.md.backout_count) == (b"got", 1)
            await until(lambda: _is(group, "SELECT state FROM member WHERE name = 'QM1'", "INACTIVE"))
    finally:
        await asyncio.gather(first.kill(), second.end())


async def test_s10_1_a_member_that_was_stopped_for_longer_than_its_lease_writes_nothing_any_more(
    durable_group: GroupDatabase, tmp_path: Path
) -> None:
    group = durable_group
    group.forgive("units of work")
    first, second = (Member(name, tmp_path / name, group.name, group.dsn, lease=5.0) for name in ("QM1", "QM2"))
    await asyncio.gather(first.start(), second.start())
    acknowledged: list[bytes] = []
    failed: list[int] = []
    try:
        await first.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        program = await connect(f"mq://{first.address}").__aenter__()
        queue = await program.open("Q", ALL)

        async def puts() -> None:
            number = 0
            while not failed:
                data = b"%d" % number
                failed.extend([reason] if (reason := await reason_of(queue.put(data, PERSISTENT))) else [])
                if not failed:
                    acknowledged.append(data)
                number += 1

        putting = asyncio.ensure_future(puts())
        await until(lambda: _true(len(acknowledged) > 50))
        first.stop()
        await until(lambda: _is(group, "SELECT state FROM member WHERE name = 'QM1'", "INACTIVE"))
        counted = await group.value("SELECT count(*) FROM message")
        first.go_on()
        await asyncio.wait_for(putting, SOON)
        assert failed[0] in (MQRC.CF_NOT_AVAILABLE, MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_STOPPING)
        async with connect(f"mq://{second.address}") as peer:
            found = [message.data for message in await (await peer.open("Q", ALL)).get_many(1000)]
        assert len(found) == len(set(found)) == counted  # nothing doubled, nothing that the recovery did not count
        assert set(acknowledged) <= set(found)
        assert len(found) <= len(acknowledged) + 1
    finally:
        await asyncio.gather(first.end(), second.end())  # the first may have joined again


async def _true(value: object) -> bool:
    return bool(value)


async def _nothing() -> None:
    """Done by hand."""


async def _is(group: GroupDatabase, sql: str, value: object) -> bool:
    return bool(await group.value(sql) == value)


async def _joined(members: Members, name: str) -> bool:
    return members.member(name).membership.state == "joined"
