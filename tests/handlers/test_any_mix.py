"""Any mix of outcomes, of workers that go and of queue managers that do, by a seed (handlers rules 1, 2 and 13.1)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from broker.mqi import MQGMO, MQOO, MQError
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from tests.handlers.floor import Chances, Floor
from tests.handlers.loops import asyncio_alone
from triggers.testing.harness import Harness

TERMS = ServiceOptions(
    handler="tests:handler", attempts=4, backoff=(0.5, 4.0), doubles=True, crashes=3, dead_letter="DEAD"
)


@asyncio_alone
@pytest.mark.parametrize("seed", range(6))
async def test_h2_13_none_is_lost_none_comes_early_and_none_has_no_start(seed: int) -> None:
    floor = Floor(seed, TERMS, Chances(worker=0.03, restart=0.03, kill=0.03))
    await floor.run([(f"{number % 7}", f"{number % 7}-{number}") for number in range(300)])
    assert floor.tally["failed"] > 3


async def test_h13_1_the_sum_holds_for_ten_thousand_outcomes() -> None:
    """Whatever `Floor.check` finds after each round, the figures are those that the workers know of."""
    floor = Floor(1, TERMS, Chances(outcomes=(50, 20, 10, 10, 10), worker=0.05), places=40)
    figures = await floor.run([("k", f"k-{number}") for number in range(7_000)])
    outcomes = {"done": "succeeded", "failed": "failed", "later": "later", "rejected": "rejected"}
    assert {counted: floor.tally[reported] for reported, counted in outcomes.items()} == {
        counted: figures[counted] for counted in outcomes.values()
    }
    went = floor.tally["crashed"] + floor.tally["returned"]
    assert figures["crashed"] + figures["returned"] >= went  # and what was on its way to a worker that went
    assert figures["running"] == 0
    assert sum(floor.tally.values()) > 10_000
    assert figures["crashed"] > 10


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.FAILED])
@pytest.mark.parametrize("steps", range(6))
async def test_h7_4_a_kill_at_any_step_of_the_move_leaves_one_copy(
    steps: int, outcome: Outcome, *, written: bool
) -> None:
    """The queue manager is killed so many turns of the event loop after the end was sent, or with its write held, in
    the store or not.
    """
    terms = TERMS._replace(attempts=1)
    harness = Harness(steps)
    async with harness:
        async with harness.manager.connect("test") as connection:
            await connection.mqsc(
                "DEFINE PROCESS(P)\nDEFINE QLOCAL(DEAD)\n"
                "DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)",
                check=True,
            )
            await connection.put1("Q", "poison")
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(harness.manager.connect("worker"))
        deliveries = await stack.enter_async_context(connection.deliveries("Q", options=terms))
        (taken,) = await deliveries.take()
        await harness.clock.advance(0)
        if not steps:
            harness.store.hold(written=written)
        move = asyncio.ensure_future(deliveries.settle([Settlement(taken.id, outcome)]))
        if steps:
            for _ in range(steps):
                await asyncio.sleep(0)
        else:
            await harness.store.wait_held()
        harness.store.kill()
        connection.port.break_()  # of an embedded one
        move.cancel()
        await asyncio.wait([move])
        await stack.aclose()
        await harness.stop(kill=True)
        await harness.start()
        queues = harness.manager.core.objects.queues
        assert queues["Q"].depth + queues["DEAD"].depth == 1
        if not steps:
            assert queues["DEAD"].depth == written
        async with (
            harness.manager.connect("worker") as connection,
            connection.deliveries("Q", options=terms) as deliveries,
        ):
            take = asyncio.ensure_future(deliveries.take())
            await harness.clock.advance(100)
            if take.done():
                await deliveries.settle([Settlement(each.id, Outcome.REJECTED) for each in take.result()])
            else:
                take.cancel()
            async with connection.open("DEAD", MQOO.INPUT_SHARED) as dead:
                assert (await dead.get(options=MQGMO.NO_SYNCPOINT)).data.endswith(b"poison")
                with pytest.raises(MQError, match="2033"):
                    await dead.get(options=MQGMO.NO_SYNCPOINT)
        assert not queues["Q"].depth
