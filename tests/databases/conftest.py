"""Fixtures of the program's own database: `way`, each of the ways to work on it; `opened`, such a database in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.databases.ways import GONE, ORDERS, WAYS, DatabaseWay, is_there
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.databases.opened import OpenDatabase


def made_way(name: str, request: pytest.FixtureRequest, folder: Path) -> DatabaseWay:
    """A way over a database with an empty table of orders; skipped where its package is not installed."""
    kind = WAYS[name]
    if not is_there(kind):
        pytest.skip(f"{name} needs {kind.needs}, which comes with the extra `full`")
    postgres: Postgres | None = request.getfixturevalue("postgres") if kind.dialect == "postgresql" else None
    way = kind(folder, postgres)
    if postgres is not None:
        postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    else:
        way.look(ORDERS)
    return way


@pytest.fixture(params=[pytest.param(name, marks=_marks) for name, way in WAYS.items() for _marks in [
    [pytest.mark.postgres] if way.dialect == "postgresql" else []]])  # fmt: skip
async def way(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DatabaseWay]:
    made = made_way(request.param, request, tmp_path)
    yield made
    await made.close()


@pytest.fixture
async def opened(way: DatabaseWay) -> AsyncIterator[OpenDatabase]:
    opened = await way.database(pool_wait=5.0).open()
    yield opened
    await opened.close()
