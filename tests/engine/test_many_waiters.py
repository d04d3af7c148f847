"""Ten thousand programs wait on one queue, each for the reply with its own CorrelId."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.interface.port import answer
from broker.mqi import MQGMO, MQOO, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from broker.interface import Call, Delivery

WAITERS = 10_000


def correl_id(number: int) -> bytes:
    return number.to_bytes(24, "big")


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    async with (
        QueueManager.open(name="QM1", defaults="mq", clock=VirtualClock()) as manager,
        manager.connect() as connection,
    ):
        await connection.mqsc("DEFINE QLOCAL(REPLIES)")
        yield connection
        manager.core.check_invariants()


async def test_one_put_wakes_the_right_one_of_10_000_waiting_getters(connection: Connection) -> None:
    port = connection.port
    opened = await answer(port.open(ObjectDescriptor(object_name="REPLIES"), MQOO.INPUT_SHARED | MQOO.OUTPUT))
    gmo = GetMessageOptions(options=MQGMO.WAIT, wait_interval=60_000)
    waiting: list[Call[Delivery]] = [
        port.get(opened.hobj, MessageDescriptor(correl_id=correl_id(number)), gmo, None)
        for number in range(1, WAITERS + 1)
    ]
    for number in (7_000, 1, WAITERS):
        await connection.put1("REPLIES", b"%d" % number, MessageDescriptor(correl_id=correl_id(number)))
        assert (await answer(waiting[number - 1])).data == b"%d" % number
    assert sum(call.done() for call in waiting) == 3
    assert sum(call.cancel() for call in waiting) == WAITERS - 3
