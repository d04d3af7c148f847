"""A queue manager in memory, and its listener on a free port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from broker.testing import VirtualClock
from tests.server.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Both event loops: their sockets differ in what tests of sockets are about."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def manager(clock: VirtualClock) -> AsyncIterator[QueueManager]:
    """A queue manager with the queues Q and R."""
    async with QueueManager.open(name="QM1", defaults="mq", clock=clock) as manager:
        async with manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)")
        yield manager


@pytest.fixture
async def server(manager: QueueManager) -> AsyncIterator[Server]:
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"mq://{server.addresses[0]}/QM1"


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    """A line that tests can cut: between the clients that connect to it and the server."""
    async with Proxy(server.addresses[0]) as proxy:
        yield proxy
