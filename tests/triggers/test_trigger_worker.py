"""The trigger monitor in a worker: over the wire, beside the user's code, away from the queue manager."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from broker import QueueManager
from broker.client import connect
from broker.config import Config
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.server import Server
from tests.triggers.fake import handlers
from triggers import TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from triggers import TriggerMessage


@pytest.fixture
async def manager() -> AsyncIterator[QueueManager]:
    """A queue manager in memory, with a triggered queue."""
    async with QueueManager.open(name="QM1") as manager:
        async with manager.connect() as operator:
            await operator.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE(EVERY)")
        yield manager


@pytest.fixture
async def server(manager: QueueManager) -> AsyncIterator[Server]:
    config = Config()
    async with Server(manager, replace(config.listener, port=0), config.limits) as server:
        yield server


def pending(manager: QueueManager) -> int:
    return int(next(queue["trigger_pending"] for queue in manager.status()["queues"] if queue["name"] == "Q"))


async def test_messages_start_handlers_over_the_wire(manager: QueueManager, server: Server) -> None:
    got: list[bytes] = []
    all_got = anyio.Event()

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            got.append((await queue.get(options=MQGMO.SYNCPOINT)).data)
        if len(got) == 100:
            all_got.set()

    with anyio.fail_after(20):
        async with (
            connect(f"mq://{server.addresses[0]}") as source,
            TriggerMonitor(source, [handlers(P=handler)], generation_interval=0.01),
            manager.connect() as connection,
        ):
            for number in range(100):
                await connection.put1("Q", str(number))
            await all_got.wait()
    assert sorted(map(int, got)) == list(range(100))
    assert pending(manager) == 0


async def test_a_cut_line_ends_the_worker_and_its_start_is_pending_again(manager: QueueManager, server: Server) -> None:
    started = anyio.Event()

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
            started.set()
            await anyio.sleep_forever()

    async def worker() -> None:
        async with (
            connect(f"mq://{server.addresses[0]}") as source,
            TriggerMonitor(source, [handlers(P=handler)]) as monitor,
        ):
            await monitor.wait()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, manager.connect() as connection:
            await connection.put1("Q", b"one")

            async def cut() -> None:
                await started.wait()
                assert pending(manager) == 0
                await server.__aexit__(None, None, None)

            tasks.start_soon(cut)
            with pytest.raises(MQError) as caught:
                await worker()
        assert caught.value.reason in (MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_STOPPING)
        assert pending(manager) == 1
