"""Fixtures of tests of a group with two members, QM1 and QM2. Modules that need others have their own `members`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.expect import ALL
from tests.sharing.members import Members
from tests.sharing.workers import Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg

    from broker import Queue
    from tests.sharing.database import GroupDatabase


@pytest.fixture
def unpolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members look when they are told to, never just because time has passed."""
    monkeypatch.setattr("broker.sharing.gets.waits.POLL_SECONDS", 3600.0)


@pytest.fixture
async def members(request: pytest.FixtureRequest, group: GroupDatabase) -> AsyncIterator[Members]:
    """Both members, with what `DEFINITIONS` of the module defines at QM1 before QM2 joins."""
    async with Members(group) as members:
        await members.mqsc(request.module.DEFINITIONS)
        await members.start("QM2")
        yield members


@pytest.fixture
async def workers(members: Members) -> AsyncIterator[Workers]:
    async with Workers(members) as workers:
        yield workers


@pytest.fixture
async def here(members: Members) -> Queue:
    """Q, open for everything at QM1."""
    return await (await members.connect("QM1")).open("Q", ALL)


@pytest.fixture
async def there(members: Members) -> Queue:
    """Q, open for everything at QM2."""
    return await (await members.connect("QM2")).open("Q", ALL)


@pytest.fixture
async def rival(members: Members) -> AsyncIterator[asyncpg.Connection]:
    """A session of somebody who is at the messages too, and may go without a word."""
    session = await members.group.session()
    yield session
    session.terminate()
