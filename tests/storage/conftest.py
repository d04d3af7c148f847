"""The stores under test: each test that takes `store` runs on all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.storage.memory import MemoryStore
from broker.storage.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.storage.store import Store


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open and empty store of each kind."""
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "data", ballast_bytes=4096)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """An open and empty SqliteStore in the directory `data` of tmp_path."""
    store = SqliteStore(tmp_path / "data", ballast_bytes=4096)
    await store.open()
    yield store
    await store.close()
