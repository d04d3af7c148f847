"""Figures of the status: the age of the oldest message, puts and gets, units of work and who holds them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from broker import QueueManager
from broker.engine.admin.figures import UNITS_MAX
from broker.mqi import MQGMO, MQOO, MQPMO, MessageDescriptor
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection


@asynccontextmanager
async def managed() -> AsyncIterator[tuple[QueueManager, Connection, VirtualClock]]:
    """A queue manager with the queue Q, whose clock stands still."""
    clock = VirtualClock()
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("owner", "bob") as connection:
        await connection.mqsc("DEFINE QLOCAL(Q)", check=True)
        yield manager, connection, clock


async def figures_of_q(connection: Connection) -> dict[str, Any]:
    return next(queue for queue in (await connection.status())["queues"] if queue["name"] == "Q")


async def test_the_age_is_that_of_the_oldest_message_that_a_get_can_be_given() -> None:
    async with managed() as (_, connection, clock), connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
        ages = [(await figures_of_q(connection))["oldest_age"]]
        await queue.put(b"low", MessageDescriptor(priority=1))
        await clock.advance(60.0)
        await queue.put(b"high", MessageDescriptor(priority=9))
        await queue.put(b"uncommitted", options=MQPMO.SYNCPOINT)
        await clock.advance(5.0)
        ages.append((await figures_of_q(connection))["oldest_age"])
        await queue.get()  # the one of high priority, the oldest stays
        ages.append((await figures_of_q(connection))["oldest_age"])
        await queue.get()
        ages.append((await figures_of_q(connection))["oldest_age"])
        assert ages == [0.0, 65.0, 65.0, 0.0]
        await connection.commit()
        assert (await figures_of_q(connection))["oldest_age"] == 5.0


async def test_puts_and_gets_are_counted_and_never_fall() -> None:
    async with managed() as (_, connection, _), connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
        await queue.put_many([b"1", b"2", b"3"])
        await queue.get()
        figures = await figures_of_q(connection)
        assert (figures["depth"], figures["puts"], figures["gets"]) == (2, 3, 1)


async def test_units_of_work_are_listed_with_who_holds_them_the_oldest_first() -> None:
    async with managed() as (manager, connection, clock), connection.open("Q", MQOO.OUTPUT) as queue:
        assert (await connection.status())["units_of_work"] == []
        await queue.put(b"x", options=MQPMO.SYNCPOINT)
        await clock.advance(7.5)
        async with manager.connect("shop", "ann") as other, other.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as same:
            await same.put_many([b"1", b"2"])
            await same.get(options=MQGMO.SYNCPOINT)
            await same.put(b"3", options=MQPMO.SYNCPOINT)
            state = {"channel": "", "state": "ACTIVE", "puts": 1}
            assert (await connection.status())["units_of_work"] == [
                {"name": "owner", "user": "bob", **state, "gets": 0, "age": 7.5},
                {"name": "shop", "user": "ann", **state, "gets": 1, "age": 0.0},
            ]
            await other.backout()
        await connection.backout()
        assert (await connection.status())["units_of_work"] == []


async def test_of_very_many_units_of_work_the_oldest_are_listed() -> None:
    async with managed() as (manager, connection, clock):
        others = []
        for number in range(UNITS_MAX + 2):
            other = await manager.connect(f"program {number}")
            await other.put1("Q", b"x", options=MQPMO.SYNCPOINT)
            await clock.advance(1.0)
            others.append(other)
        listed = (await connection.status())["units_of_work"]
        assert [each["name"] for each in listed] == [f"program {number}" for number in range(UNITS_MAX)]
        for other in others:
            await other.backout()
            await other.close()
