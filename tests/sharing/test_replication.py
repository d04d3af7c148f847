"""A synchronous standby: what it may not have is not acknowledged (queue-sharing rules 10.3.5 and 10.3.8)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQPMO, MessageDescriptor
from tests.conformance.expect import ALL, drained
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from broker import Connection, Queue
    from tests.sharing.database import GroupDatabase
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)


@contextmanager
def standby_away(server: Postgres) -> Iterator[None]:
    """The server waits for a synchronous standby that is not there."""
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'away'", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        server.sql("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


async def waiting(group: GroupDatabase, but: list[int]) -> int:
    """The session for calls that waits for the standby; none of these."""
    waits = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE '%/calls' "
        "AND starts_with(application_name, $1) AND pid <> ALL ($2)"
    )
    while not (found := await group.rows(waits, f"{group.name}/", but)):  # noqa: ASYNC110  # the server tells nobody
        await asyncio.sleep(0)
    pid: int = found[0]["pid"]
    return pid


async def put(_: Connection, queue: Queue) -> None:
    await queue.put(b"1", PERSISTENT)


async def commit(program: Connection, _: Queue) -> None:
    await program.commit()


@pytest.mark.parametrize("call", [put, commit])
async def test_what_the_standby_may_not_have_is_acknowledged_when_it_has_it(
    durable_group: GroupDatabase, call: Callable[[Connection, Queue], Awaitable[None]]
) -> None:
    async with Members(durable_group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        program = await members.connect("QM1")
        queue = await program.open("Q", ALL)
        if call is commit:
            await queue.put(b"1", PERSISTENT, MQPMO.SYNCPOINT)
        with standby_away(durable_group.server):
            making = asyncio.ensure_future(call(program, queue))
            cancelled: list[int] = []
            for _ in range(2):  # the wait of the call, and the next
                cancelled.append(await waiting(durable_group, cancelled))
                await durable_group.rows("SELECT pg_cancel_backend($1)", cancelled[-1])
            await waiting(durable_group, cancelled)
            assert not making.done()
        await making
        assert members.member("QM1").database.figures.unknown >= 1  # of a commit the row of its unit tells, too
        assert await drained(queue) == [b"1"]
