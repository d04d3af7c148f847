"""The systems on which every scenario runs: each way to reach a queue manager, each store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.storage.memory import MemoryStore
from tests.conformance.crashes import DurableSystem
from tests.conformance.expect import ALL
from tests.conformance.system import System
from tests.conformance.ways import WAYS
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from broker import Connection, Queue
    from broker.storage.store import Store

STORES: dict[str, Callable[[Path], Callable[[], Store]]] = {
    "memory": lambda path: MemoryStore,
    "sqlite": lambda path: partial(log_store, path / "data"),
}


@pytest.fixture(params=[(way, store) for store in STORES for way in WAYS], ids="-".join)
async def system(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[System]:
    """A queue manager without queues of ours. With a store on disk, messages are persistent by default."""
    way, store = request.param
    async with System(STORES[store](tmp_path), way) as system:
        if store != "memory":
            await system.mqsc("ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) DEFPSIST(YES)")
        yield system


@pytest.fixture(params=WAYS)
async def durable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DurableSystem]:
    """A queue manager that may crash. QLOCAL(Q) and QLOCAL(ST) are defined, with messages persistent by default."""
    async with DurableSystem(tmp_path, request.param) as system:
        await system.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES) MSGDLVSQ(FIFO)\nDEFINE QLOCAL(ST) DEFPSIST(YES)")
        yield system


@pytest.fixture
async def connection(system: System) -> Connection:
    """A connection; QLOCAL(Q) is defined."""
    await system.mqsc("DEFINE QLOCAL(Q)")
    return await system.connect("scenario")


@pytest.fixture
async def queue(connection: Connection) -> Queue:
    """QLOCAL(Q), open for everything on `connection`."""
    return await connection.open("Q", ALL)


@pytest.fixture
async def other(system: System, connection: Connection) -> Connection:
    """The connection of another program."""
    return await system.connect("other")


@pytest.fixture
async def other_queue(other: Connection) -> Queue:
    """QLOCAL(Q), open for everything on `other`."""
    return await other.open("Q", ALL)
