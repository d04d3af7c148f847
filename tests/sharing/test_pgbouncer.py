"""A group behind PgBouncer, which may give each client a session of its own, and no less."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from broker import QueueManager, QueueSharingGroup
from broker.client import connect
from broker.engine.shared_queues import GroupError
from broker.mqi import MQGMO, MQOO, MQPMO, MessageDescriptor
from broker.sharing.members.administration import Administration
from tests.conformance.expect import ALL
from tests.sharing.chaos.processes import Member
from tests.sharing.pgbouncer import PgBouncer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sharing.database import GroupDatabase
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)


@pytest.fixture
def pool(postgres: Postgres) -> Iterator[PgBouncer]:
    with PgBouncer(postgres) as pool:
        yield pool


def joined(group: GroupDatabase, pool: PgBouncer, name: str = "QM1") -> QueueManager:
    return QueueManager.open(name=name, group=QueueSharingGroup(group.name, pool.dsn))


async def test_members_share_queues_and_hear_of_each_other_behind_a_pool_of_sessions(
    group: GroupDatabase, pool: PgBouncer
) -> None:
    async with joined(group, pool) as one, joined(group, pool, "QM2") as two, one.connect() as here:
        await here.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)", check=True)
        async with two.connect() as there, here.open("Q", MQOO.OUTPUT) as source, there.open("Q", ALL) as target:
            waits = asyncio.ensure_future(target.get(wait=60))
            await source.put(b"woken", PERSISTENT, MQPMO.SYNCPOINT)
            await here.commit()
            assert (await waits).data == b"woken"
            await source.put(b"back", PERSISTENT)
            await target.get(options=MQGMO.SYNCPOINT)
            await there.backout()
            message = await target.get()
            assert (message.data, message.md.backout_count) == (b"back", 1)
        names = await group.rows(
            "SELECT DISTINCT split_part(application_name, '/', 2) AS name FROM pg_stat_activity"
            " WHERE starts_with(application_name, $1) ORDER BY 1", f"{group.name}/"
        )  # fmt: skip
        assert [each["name"] for each in names] == ["QM1", "QM2"]  # by which peers end their sessions
        held = "backend_xid IS NOT NULL OR backend_xmin IS NOT NULL"
        idle = await group.rows(f"SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND ({held})")
        assert idle == []
    group.forgive("sessions")  # the pool keeps them


async def test_the_sessions_of_a_member_that_was_killed_are_ended_behind_a_pool(
    group: GroupDatabase, pool: PgBouncer, tmp_path: Path
) -> None:
    group.forgive("units of work", "sessions")
    group.forgive("handles", "connection tags")  # the second may end before it has taken those of the first away
    first, second = (Member(name, tmp_path / name, group.name, pool.dsn, lease=4.0) for name in ("QM1", "QM2"))
    try:
        await asyncio.gather(first.start(), second.start())
        await first.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        async with connect(f"mq://{second.address}") as peer:
            queue = await peer.open("Q", ALL)
            await queue.put(b"got", PERSISTENT)
            dying = await (await connect(f"mq://{first.address}").__aenter__()).open("Q", ALL)
            await dying.get(options=MQGMO.SYNCPOINT)
            waits = asyncio.ensure_future(queue.get(wait=60))
            await first.kill()
            message = await waits
            assert (message.data, message.md.backout_count) == (b"got", 1)
    finally:
        await asyncio.gather(first.kill(), second.end())


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pool_that_lends_sessions_for_a_transaction_is_refused_and_left_as_it_was(
    group: GroupDatabase, postgres: Postgres, mode: str
) -> None:
    with PgBouncer(postgres, mode, sessions=1) as pool:
        for _ in range(2):  # asyncpg meets what it has prepared before
            with pytest.raises(GroupError, match="pool_mode = session"):
                async with joined(group, pool):
                    pytest.fail("it has joined")
        with pytest.raises(GroupError, match="pool_mode = session"):
            await Administration(QueueSharingGroup(group.name, pool.dsn)).members()
        other = await asyncpg.connect(pool.dsn, statement_cache_size=0)  # another program's
        settings = await other.fetchrow(
            "SELECT current_setting('search_path'), current_setting('evermq.member', true), (SELECT count(*) FROM"
            " pg_listening_channels())"
        )
        assert tuple(settings) == ('"$user", public', None, 0)
        await other.close()
    group.forgive("sessions")
