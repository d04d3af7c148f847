"""Steps of deliveries, by each way to a queue manager and on each store (transactions rules 7.3 and 7.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQRC, MQError
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from tests.conformance.ways import JUDGED

if TYPE_CHECKING:
    from broker import Connection
    from tests.conformance.system import System

OPTIONS = ServiceOptions(handler="tests:handler")


@pytest.fixture
async def served(system: System, connection: Connection) -> str:
    """A queue whose messages handlers are given."""
    if system._entrance in JUDGED:
        pytest.skip("the definitions there are not the user's to make")
    await connection.mqsc(
        "DEFINE PROCESS(STEPS)\nDEFINE QLOCAL(STEPS) TRIGGER TRIGTYPE(EVERY) PROCESS(STEPS) DEFPSIST(YES)", check=True
    )
    return "STEPS"


async def test_a_step_comes_with_the_next_delivery_and_goes_with_its_message(
    system: System, connection: Connection, served: str
) -> None:
    await connection.put1(served, "order")
    async with connection.deliveries(served, options=OPTIONS) as deliveries:
        for steps in (None, {"charge": b"1"}, {"charge": b"1", "ship": b""}):
            (taken,) = await deliveries.take()
            assert taken.steps == steps
            if len(steps or ()) < 2:
                await deliveries.step(taken, *(("ship", b"") if steps else ("charge", b"1")))
                await deliveries.settle([Settlement(taken.id, Outcome.RETURNED)])
        await deliveries.settle([Settlement(taken.id, Outcome.DONE)])
        with pytest.raises(MQError) as ended:
            await deliveries.step(taken, "late", b"")
        assert ended.value.reason == MQRC.HCONN_ERROR
