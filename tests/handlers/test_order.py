"""Order by key: handlers rules 2.4 and 6.2, beyond what one worker sees of it."""

from __future__ import annotations

import asyncio

import pytest

from broker.mqi import MQGMO, MQOO, MessageDescriptor
from broker.mqi.delivery_fields import Outcome
from tests.handlers.desk import TERMS, bodies, desk, settle
from tests.handlers.floor import Chances, Floor
from tests.handlers.loops import asyncio_alone

ORDERED = TERMS._replace(order_by="customer", attempts=None, backoff=(300.0,))


@pytest.mark.parametrize("how", ["expires", "clear", "got"])
async def test_a_message_that_waits_and_goes_holds_its_key_no_more(how: str) -> None:
    """H6.5."""
    async with desk() as d, d.worker(ORDERED) as worker:
        await d.put("a1", md=MessageDescriptor(expiry=100), properties={"customer": "a"})
        (head,) = await worker.take(1)
        await settle(worker, Outcome.FAILED, head)
        if how != "clear":
            await d.put("a2", properties={"customer": "a"})
        take = asyncio.ensure_future(worker.take(2))
        await d.clock.advance(9)
        assert not take.done()
        if how == "expires":
            await d.clock.advance(60)  # so often those are looked for that nobody meets
        elif how == "clear":
            await d.connection.mqsc("CLEAR QLOCAL(Q)", check=True)
            await d.put("a2", properties={"customer": "a"})
        else:
            async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
                got = await queue.get(options=MQGMO.NO_SYNCPOINT, delayed=True)
            assert got.data == b"a1"
        await d.clock.advance(0)
        assert bodies(await take) == ["a2"]


async def test_a_message_that_was_got_while_it_waited_and_is_back_holds_its_key_again() -> None:
    """H6.5."""
    async with desk() as d, d.worker(ORDERED) as worker:
        await d.put("a1", "a2", properties={"customer": "a"})
        (head,) = await worker.take(1)
        await settle(worker, Outcome.FAILED, head)
        async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT, delayed=True)
            await d.connection.backout()
        take = asyncio.ensure_future(worker.take(1))
        await d.clock.advance(299)
        assert not take.done()
        await d.clock.advance(1)
        assert bodies(await take) == ["a1"]


@asyncio_alone
@pytest.mark.parametrize("seed", range(4))
async def test_h6_3_each_key_is_handled_in_order_whatever_fails_and_goes(seed: int) -> None:
    terms = TERMS._replace(order_by="customer", attempts=None, crashes=1_000_000)
    floor = Floor(seed, terms, Chances(worker=0.05, restart=0.02, kill=0.02))
    await floor.run([(f"{number % 7}", f"{number % 7}-{number}") for number in range(700)])
    assert floor.most_keys > 4
    assert min(floor.tally[name] for name in ("done", "failed", "later", "rejected", "crashed")) > 0
