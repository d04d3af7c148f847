"""Fixtures of tests that need PostgreSQL: a server for all of them, and for each a queue-sharing group of its own.

postgres            the server: data in memory, for the whole session
durable_postgres    a server of one test, with its data on a disk: it may be stopped, frozen and restarted
group               a new group on `postgres`
durable_group       a new group on `durable_postgres`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sharing.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.sharing.database import GroupDatabase


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL that is quick. Tests neither stop it nor change its settings."""
    with Postgres() as server:
        yield server


@pytest.fixture
def durable_postgres() -> Iterator[Postgres]:
    """A PostgreSQL of this test's own, on a disk."""
    with Postgres(in_memory=False) as server:
        yield server


@pytest.fixture
async def group(postgres: Postgres) -> AsyncIterator[GroupDatabase]:
    """A new queue-sharing group without members. What members leave behind fails the test."""
    from tests.sharing.database import GroupDatabase

    async with GroupDatabase(postgres) as group:
        yield group


@pytest.fixture
async def durable_group(durable_postgres: Postgres) -> AsyncIterator[GroupDatabase]:
    """A new queue-sharing group whose database the test may stop."""
    from tests.sharing.database import GroupDatabase

    async with GroupDatabase(durable_postgres) as group:
        yield group
