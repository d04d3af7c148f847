"""The stores under test: each test that takes `store` runs on all of them, `disk_store` is the one on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.storage.memory import MemoryStore
from broker.testing import VirtualClock
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.storage.log_store import LogStore
    from broker.storage.store import Store


@pytest.fixture(params=["memory", "disk"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open and empty store of each kind."""
    store: Store = MemoryStore() if request.param == "memory" else log_store(tmp_path / "data")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def clock() -> VirtualClock:
    """The time of `disk_store`, which stands still."""
    return VirtualClock()


@pytest.fixture
async def disk_store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[LogStore]:
    """An open and empty store on disk, in `data`."""
    store = log_store(tmp_path / "data", clock=clock)
    await store.open()
    yield store
    await store.close()
