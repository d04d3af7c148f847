"""That a group which is lent to scenario after scenario is as new for each, and hides nothing that one has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.kept import KeptGroups

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conformance.sharing import SharedSystem
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

DEFINITIONS = "DEFINE QLOCAL(Q)\nDEFINE QLOCAL(OWN) QSGDISP(QMGR)\nDEFINE QALIAS(A) TARGET(Q)\nDEFINE PROCESS('p')"


@pytest.fixture
async def groups() -> AsyncIterator[KeptGroups]:
    groups = KeptGroups(every=3)
    yield groups
    await groups.end()


async def one(groups: KeptGroups, server: Postgres, text: str = "") -> SharedSystem:
    """Lend the group to a scenario that runs these commands, and return it."""
    async with groups.lend(server, "embedded", 2) as (system, _):
        if text:
            await system.mqsc(text)
    return system


async def test_what_a_scenario_has_defined_and_put_is_gone_and_the_group_is_the_same(
    groups: KeptGroups, postgres: Postgres
) -> None:
    async with groups.lend(postgres, "embedded", 2) as (first, _):
        await first.mqsc(DEFINITIONS)
        connection = await first.connect("scenario")
        for q_name in ("Q", "OWN", "SYSTEM.DEAD.LETTER.QUEUE"):
            await connection.put1(q_name, b"left on the queue")
    async with groups.lend(postgres, "embedded", 2) as (second, _):
        assert second is first
        assert (await second.connect("scenario")).q_mgr_name == "QM1"  # in turn from the first
        await second.mqsc(DEFINITIONS)
        assert [second.depth(name) for name in ("Q", "OWN", "SYSTEM.DEAD.LETTER.QUEUE")] == [0, 0, 0]


@pytest.mark.parametrize("text", ["ALTER QMGR MAXUMSGS(7)", "ALTER QLOCAL(SYSTEM.DEAD.LETTER.QUEUE) MAXDEPTH(7)"])
async def test_what_a_scenario_has_altered_ends_the_group(groups: KeptGroups, postgres: Postgres, text: str) -> None:
    first = await one(groups, postgres, text)
    assert await one(groups, postgres) is not first


async def test_a_restart_ends_the_group_and_the_members_leave_it_in_order(
    groups: KeptGroups, postgres: Postgres
) -> None:
    async with groups.lend(postgres, "embedded", 2) as (first, _):
        await first.mqsc("DEFINE QLOCAL(Q)")
        await first.restart()
        assert first.depth("Q") == 0
    assert await one(groups, postgres) is not first


async def test_a_group_is_lent_on_its_first_day_only(groups: KeptGroups, postgres: Postgres) -> None:
    """Scenarios know the date of a put."""
    async with groups.lend(postgres, "embedded", 1) as (first, _):
        await first.clock.advance(3600)
    async with groups.lend(postgres, "embedded", 1) as (second, _):
        await second.clock.advance(86_400)
    assert second is first
    async with groups.lend(postgres, "embedded", 1) as (third, _):
        assert third is not first


async def test_a_scenario_that_failed_ends_the_group(groups: KeptGroups, postgres: Postgres) -> None:
    async with groups.lend(postgres, "embedded", 2) as (first, loan):
        loan.failed = True
    assert await one(groups, postgres) is not first


async def test_a_group_is_lent_so_many_times(groups: KeptGroups, postgres: Postgres) -> None:
    first, second, third, fourth = [await one(groups, postgres) for _ in range(4)]
    assert first is second is third
    assert fourth is not third


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        (
            "WITH gone AS (DELETE FROM message RETURNING *) "
            "INSERT INTO held SELECT gone.*, 0, 'QM1', 1, gen_random_uuid() FROM gone",
            "messages not at rest",
        ),
        ("INSERT INTO unit_of_work (id, member, epoch) VALUES (gen_random_uuid(), 'QM1', 1)", "units of work"),
        ("INSERT INTO handle VALUES (gen_random_uuid(), 'Q', 'QM1', 1, true, false)", "handles"),
    ],
)
async def test_what_a_scenario_leaves_behind_is_found_while_the_members_are_joined(
    groups: KeptGroups, postgres: Postgres, sql: str, kind: str
) -> None:
    """When they leave they free it: then nobody would see it."""
    with pytest.raises(AssertionError, match=kind):
        async with groups.lend(postgres, "embedded", 1) as (system, _):
            await system.mqsc("DEFINE QLOCAL(Q)")
            await (await system.connect("scenario")).put1("Q", b"a message")
            session = await system.group.session()
            await session.execute(sql)
            await session.close()


async def test_groups_of_both_kinds_end_in_any_order(groups: KeptGroups, postgres: Postgres) -> None:
    small = await one(groups, postgres)
    async with groups.lend(postgres, "tcp", 1) as (large, _):
        pass
    assert await one(groups, postgres, "ALTER QMGR MAXUMSGS(7)") is small
    async with groups.lend(postgres, "tcp", 1) as (again, _):
        await again.mqsc("DEFINE QLOCAL(Q)")  # and hears of what the database tells
    assert again is large
