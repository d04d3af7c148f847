"""Transactions are tested over each way to work on a database, on both event loops (tests/handlers/loops.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.databases.conftest import made_way
from tests.handlers.loops import anyio_backend
from tests.transactions.shops import QUICK, OrderShop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.databases.ways import DatabaseWay

__all__ = ["anyio_backend"]

_MARKS = {name: [pytest.mark.postgres] if "asyncpg" in name or "psycopg" in name else [] for name in QUICK}


@pytest.fixture(params=[pytest.param(name, marks=_MARKS[name]) for name in QUICK])
async def way(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DatabaseWay]:
    """A database of the program's own: of sqlite3, in threads; of aiosqlite; of asyncpg."""
    made = made_way(request.param, request, tmp_path)
    yield made
    await made.close()


@pytest.fixture(params=["embedded", "tcp"])
async def shop(request: pytest.FixtureRequest, way: DatabaseWay) -> AsyncIterator[OrderShop]:
    """A queue manager with a virtual clock, an app, and its database of orders."""
    async with OrderShop(way, request.param) as shop:
        yield shop
