"""The figures that a program has taken of its queue manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQOO, MQRC, MQError
from tests.exposition import samples

if TYPE_CHECKING:
    from broker import Connection
    from tests.conformance.system import System


async def test_the_figures_tell_of_the_queues_that_are_named(system: System, connection: Connection) -> None:
    await system.mqsc("DEFINE QLOCAL(ORDERS.1)\nDEFINE QLOCAL(BILLS)")
    async with connection.open("ORDERS.1", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
        for data in (b"1", b"22"):
            await queue.put(data)
        await queue.get()
        found = samples(await connection.figures("ORDERS.*"))
    assert found['evermq_queue_depth{queue="ORDERS.1"}'] == 1
    assert found['evermq_queue_puts_total{queue="ORDERS.1"}'] == 2
    assert found['evermq_queue_gets_total{queue="ORDERS.1"}'] == 1
    assert found['evermq_queue_get_bytes_total{queue="ORDERS.1"}'] == 1
    assert not any("BILLS" in name for name in found)


async def test_figures_of_nothing_that_there_is_are_refused(connection: Connection) -> None:
    with pytest.raises(MQError) as refused:
        await connection.figures(names="rabbitmq")
    assert (refused.value.reason, refused.value.detail) == (
        MQRC.OPTIONS_ERROR, "names='rabbitmq': one of evermq, ibmmq",
    )  # fmt: skip
