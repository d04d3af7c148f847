"""The upgrade of a group with very many messages, and how long it takes: EVERMQ_TEST_MESSAGES of them, or a million."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

from tests.sharing.database import LEAKS
from tests.sharing.postgres import Postgres
from tests.sharing.released import ReleasedGroup
from tests.sharing.released.leavings import leave_many
from tests.sharing.released.standing import digest
from tests.sharing.test_stopped_upgrade import upgrading

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(3600)]

MESSAGES = int(os.environ.get("EVERMQ_TEST_MESSAGES", "1000000"))


@pytest.fixture
def large_postgres() -> Iterator[Postgres]:
    """As an installation has it, with its data on a disk."""
    with Postgres(in_memory=False, shared_buffers="512MB", max_wal_size="4GB") as server:
        yield server


async def test_a_group_with_a_million_messages_is_upgraded_in_minutes(
    large_postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ReleasedGroup(large_postgres, 2) as group:
        group.forgive(*LEAKS)
        await leave_many(group, MESSAGES)
        await group.rows("VACUUM ANALYZE")
        before = await digest(group)
        seconds: dict[str, float] = {}
        slices = []

        async with upgrading(group) as upgrade:
            plan = await upgrade.plan()
            assert plan is not None
            began = perf_counter()
            await upgrade.copy(lambda copied, messages: slices.append(perf_counter()))
            seconds["copied and compared"] = perf_counter() - began
            began = perf_counter()
            await upgrade.end()
            seconds["last step"] = perf_counter() - began
        seconds["longest slice"] = max(later - earlier for earlier, later in pairwise(slices))
        with capsys.disabled():
            sys.stdout.write(f"\n{plan}: {plan.minutes} minutes estimated; {seconds}\n")
        assert await digest(group) == before
