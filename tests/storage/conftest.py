"""The stores under test: each test that takes `store` runs on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.storage.memory import MemoryStore
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.storage.store import Store


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open and empty store of each kind."""
    store: Store = MemoryStore() if request.param == "memory" else log_store(tmp_path / "data")
    await store.open()
    yield store
    await store.close()
