"""What a hundred thousand messages, deliveries or bytes cost those beside them: handlers rules 6.1, 6.2 and 12.3.

Costs are counted in calls of functions, so that they are the same on any machine.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQOO, MessageDescriptor
from broker.mqi.delivery_fields import Outcome
from tests.handlers.desk import TERMS, bodies, desk, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.handlers.desk import Desk

WIDE = "ALTER QLOCAL(Q) MAXDEPTH(999999999)\nDEFINE QLOCAL(Q2) TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
MANY = [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)]
FLAT = 1.1
"""So much more may it cost: a search in many sorted keys takes a few steps more than in few."""


async def calls(step: Callable[[], Awaitable[None]]) -> int:
    """Return the number of functions that a step calls: the fewest of several runs, as the first leave things for
    others.
    """
    fewest = sys.maxsize
    for _ in range(5):
        count = 0

        def seen(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(seen)
        try:
            await step()
        finally:
            sys.setprofile(None)
        fewest = min(fewest, count)
    return fewest


async def fill(d: Desk, count: int, **options: object) -> None:
    """Nonpersistent messages: their store is none of those whose cost is counted."""
    md = MessageDescriptor(persistence=0)
    async with d.connection.open("Q", MQOO.OUTPUT) as queue:
        for start in range(0, count, 1000):
            for _ in range(min(1000, count - start)):
                await queue.put("a", md, **options)  # type: ignore[arg-type]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("many", MANY)
async def test_h6_4_the_messages_of_a_busy_key_cost_another_nothing(many: int) -> None:
    async with desk(WIDE) as d, d.worker(TERMS._replace(order_by="customer")) as worker:

        async def other() -> None:
            await d.put("b", properties={"customer": "b"})
            (taken,) = await worker.take(5)
            assert bodies([taken]) == ["b"]
            await settle(worker, Outcome.DONE, taken)

        await fill(d, 10, properties={"customer": "a"})
        (head,) = await worker.take(5)
        few = await calls(other)
        await fill(d, many, properties={"customer": "a"})
        assert await calls(other) <= FLAT * few
        await settle(worker, Outcome.DONE, head)
        assert bodies(await worker.take(5)) == ["a"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("many", MANY)
async def test_h6_10_the_backlog_of_a_queue_costs_another_nothing(many: int) -> None:
    async with desk(WIDE) as d, d.worker() as busy, d.worker(queue="Q2") as worker:

        async def other() -> None:
            await d.put("b", queue="Q2")
            (taken,) = await worker.take(5)
            await settle(worker, Outcome.DONE, taken)

        await fill(d, 10)
        held = await busy.take(5)
        few = await calls(other)
        await fill(d, many)
        assert await calls(other) <= FLAT * few
        await settle(busy, Outcome.DONE, *held)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_h12_4_what_is_in_flight_costs_an_end_and_a_disconnection_nothing(many: int) -> None:
    async with desk(WIDE) as d, d.worker() as holder:

        async def end() -> None:
            (taken,) = await holder.take(1)
            await settle(holder, Outcome.DONE, taken)

        async def leave() -> None:
            async with d.worker() as worker:
                assert len(await worker.take(1)) == 1

        await fill(d, 20)
        few = await calls(end), await calls(leave)
        await fill(d, many)
        held = await holder.take(many)
        assert len(held) == many
        assert [await calls(end) <= FLAT * few[0], await calls(leave) <= FLAT * few[1]] == [True, True]
        await settle(holder, Outcome.DONE, *held)


async def test_h12_6_a_body_of_64_mib_is_taken_alone() -> None:
    definitions = "ALTER QMGR MAXMSGL(104857600)\nALTER QLOCAL(Q) MAXMSGL(104857600)"
    async with desk(definitions) as d, d.worker() as worker, d.worker() as other:
        long = b"x" * (64 * 1024 * 1024)
        await d.put("a", long, "b", "c")
        assert [len(each.messages[0].data) for each in await worker.take(10)] == [1]
        (alone,) = await worker.take(10)
        assert alone.messages[0].data == long
        assert bodies(await other.take(10)) == ["b", "c"]  # while it is under its handler
        (again,) = await settle(worker, Outcome.DONE, alone)
        assert again.reason == 0


async def test_takes_of_long_bodies_are_cut_at_4_mib() -> None:
    """H12.6: what is given together is no longer than that."""
    async with desk("ALTER QLOCAL(Q) MAXMSGL(4194304)") as d, d.worker() as worker:
        mib = b"x" * (1024 * 1024)
        await d.put(*[mib] * 6)
        assert [len(await worker.take(10)), len(await worker.take(10))] == [4, 2]
        take = asyncio.ensure_future(worker.take())
        await d.clock.advance(0)
        assert not take.done()
        take.cancel()
