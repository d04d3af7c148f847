"""The connection of a delivery that is begun before anybody asks for it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

from broker import Delivered, Deliveries, MQError
from broker.interface.port import Call, Port
from broker.mqi import MQRC
from broker.mqi.delivery_fields import ServiceOptions
from broker.mqi.layouts.layouts import MQTMC2

DELIVERED = Delivered(7, 1, 0, 0.0, (), MQTMC2(q_name="ORDERS"))


class DeliveriesPort:
    """A port that makes connections when the test says so."""

    q_mgr_name = "QM1"
    broken = False

    def __init__(self) -> None:
        self.calls: list[Call[Port]] = []

    def delivery_connection(self, delivery: int, appl_name: str) -> Call[Port]:
        self.calls.append(Call())
        return self.calls[-1]


def served() -> tuple[DeliveriesPort, Deliveries]:
    port = DeliveriesPort()
    return port, Deliveries(cast("Port", port), "ORDERS", ServiceOptions())


async def test_what_was_begun_is_what_is_asked_for_once() -> None:
    port, deliveries = served()
    deliveries.connect_ahead(DELIVERED)
    asked = asyncio.create_task(deliveries.connect(DELIVERED))
    await asyncio.sleep(0)
    port.calls[0].set_result(cast("Port", port))
    assert await asked is await deliveries.connect(DELIVERED)
    assert len(port.calls) == 1


async def test_who_is_cancelled_while_it_is_made_may_ask_again() -> None:
    port, deliveries = served()
    deliveries.connect_ahead(DELIVERED)
    asked = asyncio.create_task(deliveries.connect(DELIVERED))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait((asked,))
    again = asyncio.create_task(deliveries.connect(DELIVERED))
    await asyncio.sleep(0)
    port.calls[1].set_result(cast("Port", port))
    assert (await again).q_mgr_name == "QM1"


async def test_one_that_nobody_asks_for_may_fail_without_a_word() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    port, deliveries = served()
    for error in (None, MQError(MQRC.CONNECTION_BROKEN)):
        deliveries.connect_ahead(DELIVERED)
        if error is not None:
            port.calls[-1].set_exception(error)
        deliveries.forget_ahead(DELIVERED)
    port.calls.clear()
    gc.collect()
    await asyncio.sleep(0)
    assert told == []
