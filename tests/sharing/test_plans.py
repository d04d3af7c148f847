"""What a verb costs does not depend on how many messages a queue has, nor on what the database believes of that
(queue-sharing rule 10.2.8): the statistics of an empty table, and the plans of a session that has made them then.
"""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

from broker.mqi import MQGMO, MQMO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from broker.sharing.database.schema import released
from broker.sharing.database.sessions import SESSIONS_MAX
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

DEPTH: Final = 100_000
AT_ONCE: Final = 50
MOST: Final = 3
"""Rows that are read of any table, or entries of any index, for each message of a verb."""
SLACK: Final = 250
"""Beside those of its messages: of the fence, the definition, the shares; and entries of messages that the verbs before
it have taken, which the first who comes across them marks as dead.
"""

_FILL: Final = """
INSERT INTO message (queue, place, persistent, state, put_by, msg_id, correl_id, group_id, deadline, descriptor,
                     length, body)
    SELECT 'Q', (4::bigint << 56) | nextval('arrival'), persistent, state, put_by,
           decode(lpad(to_hex(n), 48, '0'), 'hex'), decode(lpad(to_hex(n), 48, 'c'), 'hex'),
           decode(lpad(to_hex(n), 48, 'd'), 'hex'), deadline, descriptor, length, body
        FROM message, generate_series(1, $1) AS n WHERE body = '0'
"""
_READ: Final = """
SELECT relname AS name, coalesce(seq_tup_read, 0) AS read FROM pg_stat_user_tables WHERE schemaname = $1
UNION ALL SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = $1
"""


_IN_SQL: Final = re.compile(
    r"CREATE OR REPLACE FUNCTION (\w+)\((?:(?!\$\$).)*?LANGUAGE sql\b(?:(?!\$\$).)*\$\$((?:(?!\$\$).)*)\$\$", re.DOTALL
)
RARE: Final = {"change_security", "queues_in", "tidy_keys"}
"""Functions of administration, which may be planned at each call."""


def test_a_function_that_looks_into_a_table_is_planned_once_a_session() -> None:
    """One in SQL is planned anew at each call, or in each transaction: that may cost more than what it looks for."""
    in_sql = dict(_IN_SQL.findall(released().functions))
    assert len(in_sql) > len(RARE)
    assert {name for name, body in in_sql.items() if re.search(r"\b(FROM|UPDATE|DELETE|INSERT)\b", body)} == RARE


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, lease=600.0) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED) MAXDEPTH(999999999)")
        for table in ("message", "held"):
            for part in ("persistent", "nonpersistent"):
                await members.group.rows(f"ALTER TABLE {table}_{part} SET (autovacuum_enabled = off)")
        yield members


class Reads:
    """What the database has read, by table and index."""

    def __init__(self, members: Members) -> None:
        self._members = members

    async def all(self) -> dict[str, int]:
        """Return it, with what all sessions of the member have read until now."""
        async with AsyncExitStack() as stack:
            for _ in range(SESSIONS_MAX):
                lane = await stack.enter_async_context(self._members.member("QM1").database._lanes.lend())
                await lane.session.execute("SELECT pg_stat_force_next_flush()")
        return {row["name"]: row["read"] for row in await self._members.group.rows(_READ, self._members.group.schema)}

    async def of(self, verb: Awaitable[object]) -> dict[str, int]:
        """Return what a verb reads."""
        before = await self.all()
        await verb
        after = await self.all()
        return {name: read - before.get(name, 0) for name, read in after.items() if read != before.get(name, 0)}


async def _put(queue: Queue) -> None:
    await queue.put_many([b"x"] * AT_ONCE)


async def _put_in_unit(queue: Queue) -> None:
    for _ in range(AT_ONCE):
        await queue.put(b"x", options=MQPMO.SYNCPOINT)
    await queue._connection.commit()


async def _get(queue: Queue) -> None:
    assert len(await queue.get_many(AT_ONCE)) == AT_ONCE


async def _get_one_by_one(queue: Queue) -> None:
    for _ in range(AT_ONCE):
        await queue.get()


async def _get_in_unit(queue: Queue) -> None:
    assert len(await queue.get_many(AT_ONCE, options=MQGMO.SYNCPOINT)) == AT_ONCE
    await queue._connection.commit()


async def _back_out(queue: Queue) -> None:
    assert len(await queue.get_many(AT_ONCE, options=MQGMO.SYNCPOINT)) == AT_ONCE
    await queue._connection.backout()


async def _by_msg_id(queue: Queue) -> None:
    for _ in range(AT_ONCE // 2):
        md = (await queue.put(b"x")).md
        await queue.get(MessageDescriptor(msg_id=md.msg_id), GetMessageOptions(match_options=MQMO.MATCH_MSG_ID))


async def _nothing_by_correl_id(queue: Queue) -> None:
    for _ in range(AT_ONCE):
        with fails(MQRC.NO_MSG_AVAILABLE):
            await queue.get(
                MessageDescriptor(correl_id=b"none" * 6), GetMessageOptions(match_options=MQMO.MATCH_CORREL_ID)
            )


async def _browse(queue: Queue) -> None:
    await queue.get(options=MQGMO.BROWSE_FIRST)
    for _ in range(AT_ONCE - 1):
        await queue.get(options=MQGMO.BROWSE_NEXT)


async def _lock(queue: Queue) -> None:
    for _ in range(AT_ONCE):
        await queue.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)
        await queue.get(options=MQGMO.MSG_UNDER_CURSOR)


async def _look_in_vain(queue: Queue) -> None:
    for _ in range(AT_ONCE):
        with fails(MQRC.NO_MSG_AVAILABLE):
            await queue.get(MessageDescriptor(msg_id=b"none" * 6), GetMessageOptions(match_options=MQMO.MATCH_MSG_ID))


VERBS: Final[dict[str, Callable[[Queue], Awaitable[None]]]] = {
    "put": _put, "put in a unit": _put_in_unit, "get": _get, "get one by one": _get_one_by_one,
    "get in a unit": _get_in_unit, "back out": _back_out, "get by MsgId": _by_msg_id, "browse": _browse,
    "lock": _lock, "none with this MsgId": _look_in_vain, "none with this CorrelId": _nothing_by_correl_id,
}  # fmt: skip


@pytest.mark.parametrize("known", ["empty", "a session of an empty queue", "full"])
async def test_no_verb_reads_more_at_depth_10_5_than_its_messages(members: Members, known: str) -> None:
    connection = await members.connect("QM1")
    queue = await connection.open("Q", ALL)
    await queue.put(b"0")
    await members.group.rows("VACUUM ANALYZE")
    if known == "a session of an empty queue":
        await _put(queue)
        await _put(queue)
        for verb in VERBS.values():
            await verb(queue)
        await queue.put(b"0")
    await members.group.rows(_FILL, DEPTH)
    await members.group.rows("INSERT INTO share VALUES ('Q', '', 0, $1)", DEPTH)
    if known == "full":
        await members.group.rows("VACUUM ANALYZE")
    if known != "a session of an empty queue":
        members.member("QM1").database._lanes.drop()
    reads = Reads(members)
    found: dict[str, Any] = {}
    for name, verb in VERBS.items():
        read = await reads.of(verb(queue))
        found |= {(name, of): rows for of, rows in read.items() if rows > _most(of)}
    assert not found
    members.group.forgive("units of work")


def _most(of: str) -> int:
    """Return the most that a verb may read: of shares for each call, which may be for one message."""
    return AT_ONCE * (2 * MOST if of == "share_pkey" else MOST) + SLACK
