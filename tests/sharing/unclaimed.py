"""The common part of tests of messages that nobody takes: the statement that takes them is held up, the wait ends
meanwhile, and they cannot go back.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from broker.mqi import MQPMO, MQRC
from broker.mqi.errors import MQError
from tests.conformance.expect import fails

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator

    import asyncpg

    from broker import Message, Queue
    from broker.mqi import MessageDescriptor
    from tests.sharing.members import Members


async def stop_counting(rival: asyncpg.Connection) -> None:
    """Nobody counts messages of Q any more, got or put, until the session of `rival` is closed."""
    await rival.execute(
        "INSERT INTO share (queue, member, lane) SELECT 'Q', name, lane FROM member, generate_series(0, 7) AS lane "
        "ON CONFLICT DO NOTHING"
    )
    await rival.execute("BEGIN; SELECT * FROM share WHERE queue = 'Q' FOR UPDATE")


async def hold_up(
    members: Members,
    getter: asyncio.Future[Message],
    there: Queue,
    rival: asyncpg.Connection,
    *bodies: bytes,
    md: MessageDescriptor | None = None,
) -> None:
    """Commit messages for a get that waits. The statement that takes them for it gets no further than to the row of
    their queue, which `rival` has until it is closed.
    """
    for body in bodies:
        await there.put(body, md, MQPMO.SYNCPOINT)
    await stop_counting(rival)
    await there._connection.commit()
    await members.group.until_blocked(getter)


async def end_wait(members: Members, getter: asyncio.Future[Message]) -> None:
    """The interval of the one get that waits at QM1 ends."""
    (waiter,) = members["QM1"].core.objects.shared_queues["Q"].waiters
    waiter.owner.ended(MQRC.NO_MSG_AVAILABLE)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await getter


@contextmanager
def returns_fail(members: Members, times: Iterable[int] | None = None) -> Iterator[Iterator[int]]:
    """The database fails when QM1 lets go back what nobody took, so many `times` or always: those that are left."""
    database = members.member("QM1").database
    repeat, left = database.repeat, iter(count() if times is None else times)

    async def fail(query: str, *arguments: Any) -> list[Any]:
        if "give_back_unclaimed" in query and next(left, None) is not None:
            raise MQError(MQRC.CF_NOT_AVAILABLE, "")
        return await repeat(query, *arguments)

    with patch.object(database, "repeat", fail):
        yield left
