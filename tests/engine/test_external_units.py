"""Units of work that a database of a program's own decides (transactions rule 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQPMO, MQRC
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from broker.mqi.external_units import Decided, Decision, PreparedDelivery
from tests.engine.bench import opened, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engine.bench import Bench

UNIT, OTHER, DATABASE = b"u" * 16, b"o" * 16, b"d" * 16
SERVED = "DEFINE PROCESS(P)\nDEFINE QLOCAL(W) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as found:
        yield found


async def test_a_prepared_unit_takes_effect_when_it_is_decided(bench: Bench) -> None:
    await bench.queue.put(b"a", options=MQPMO.SYNCPOINT)
    await bench.connection.prepare(UNIT, DATABASE, "orders")
    assert await bench.connection.in_doubt(DATABASE, [UNIT, b"x" * 16]) == [UNIT]
    assert await reason_of(bench.queue.get(wait=0)) == MQRC.NO_MSG_AVAILABLE
    assert await bench.connection.decide(DATABASE, [Decision(UNIT, commit=True)] * 2) == [Decided.DONE, Decided.UNKNOWN]
    assert (await bench.queue.get(wait=0)).data == b"a"
    assert await bench.connection.in_doubt(DATABASE, [UNIT]) == []


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.LATER, Outcome.RETURNED])
async def test_a_prepared_delivery_that_is_backed_out_is_charged_as_its_settlement_says(
    bench: Bench, outcome: Outcome | None
) -> None:
    await bench.connection.mqsc(SERVED, check=True)
    await bench.connection.put1("W", b"work")
    queue = bench.manager.core.objects.queues["W"]
    async with bench.connection.deliveries("W", options=ServiceOptions(backoff=(5.0, 5.0), jitter=False)) as deliveries:
        (taken,) = await deliveries.take()
        own = await deliveries.connect(taken)
        await own.put1("Q", b"done")
        prepared = PreparedDelivery(UNIT, Settlement(taken.id, Outcome.DONE))
        assert await deliveries.prepare(DATABASE, [prepared, prepared], "orders") == [0, MQRC.HOBJ_ERROR]
        assert await reason_of(own.put1("Q", b"late")) == MQRC.HCONN_ERROR
        assert (bench.manager.core.deliveries.in_flight(queue), len(queue.shelf.available)) == (0, 0)
        settlement = None if outcome is None else Settlement(taken.id, outcome, seconds=5.0)
        decision = Decision(UNIT, commit=False, settlement=settlement)
        assert await bench.connection.decide(DATABASE, [decision]) == [Decided.DONE]
        if outcome in (Outcome.FAILED, Outcome.LATER):
            await bench.manager.clock.advance(5.0)  # type: ignore[attr-defined]
        (again,) = await deliveries.take()
        assert again.attempt == (2 if outcome == Outcome.FAILED else 1)
        assert bench.depth == 0
        (figures,) = bench.manager.handler_figures()
        assert (figures["started"], figures["running"]) == (2, 1)


async def test_a_prepared_delivery_that_is_committed_has_succeeded(bench: Bench) -> None:
    await bench.connection.mqsc(SERVED, check=True)
    await bench.connection.put1("W", b"work")
    async with bench.connection.deliveries("W") as deliveries:
        (taken,) = await deliveries.take()
        await (await deliveries.connect(taken)).put1("Q", b"done")
        await bench.idle()
        before = bench.transactions
        await deliveries.prepare(DATABASE, [PreparedDelivery(UNIT, Settlement(taken.id, Outcome.DONE))])
        assert await bench.connection.decide(DATABASE, [Decision(UNIT, commit=True)]) == [Decided.DONE]
        assert bench.transactions == before + 2
        (figures,) = bench.manager.handler_figures()
        assert (figures["succeeded"], figures["running"], bench.depth) == (1, 0, 1)
    assert bench.manager.core.objects.queues["W"].depth == 0
