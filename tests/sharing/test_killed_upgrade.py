"""An upgrade that is broken off, at each of its steps, goes on: its process is killed, or PostgreSQL stops."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from tests.sharing.database import LEAKS
from tests.sharing.postgres import JUDGE
from tests.sharing.released import ReleasedGroup
from tests.sharing.released.leavings import leave_everything
from tests.sharing.released.standing import standing
from tests.sharing.test_stopped_upgrade import latest, short_slices, unheard, upgrading

if TYPE_CHECKING:
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

__all__ = ["latest", "short_slices"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_each_statement_it_goes_on(latest: ReleasedGroup, short_slices: None, after: bool) -> None:
    """The process that does it is gone before a statement is sent, or when it has had its effect."""
    before = await standing(latest)
    for number in count(1):
        async with upgrading(latest, number, after=after) as upgrade:
            try:
                await upgrade.copy(unheard)
            except asyncpg.InterfaceError:
                pass
            else:
                break  # it has fewer statements
        async with upgrading(latest) as upgrade:
            await upgrade.copy(unheard)
        assert await _aside(latest) == {**before, "depths": []}, number
        async with upgrading(latest) as upgrade:
            await upgrade.undo()
        assert await standing(latest) == before, number
    assert number > 30
    for number in count(1):
        async with upgrading(latest, number, after=after) as upgrade:
            try:
                await upgrade.end()
            except asyncpg.InterfaceError:
                pass
            else:
                break
        if await latest.value("SELECT to_regclass('held') IS NOT NULL"):
            break  # its COMMIT was the last thing that happened
    assert number > 8
    assert await standing(latest) == before


async def _aside(group: ReleasedGroup) -> dict[str, Any]:
    """What is in the new tables before the last step, which sets sequences and depths."""
    session = await group.session(JUDGE)
    real, group._judge = group._judge, session
    await session.execute(f"SET search_path TO {group.schema}_upgrade")
    schema, group.schema = group.schema, f"{group.schema}_upgrade"
    found = await standing(group)
    group._judge, group.schema = real, schema
    await session.close()
    for sequence in ("arrival", "object_version"):
        found[sequence] = await group.rows(f"SELECT last_value FROM {sequence}")
    return {**found, "depths": []}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_postgresql_stopped_at_each_transaction_it_goes_on(
    durable_postgres: Postgres, short_slices: None, after: bool
) -> None:
    """At once, before or behind its COMMIT. Nonpersistent messages are gone, those that were copied too."""
    async with ReleasedGroup(durable_postgres, 2) as group:
        group.forgive(*LEAKS)
        await leave_everything(group)
        expected = await standing(group)
        expected["messages"] = [message for message in expected["messages"] if message["persistent"]]
        expected["depths"] = []

        def stop() -> None:
            durable_postgres.restart("immediate")

        for number in count(1):
            await group.rows(_NONPERSISTENT)
            async with upgrading(group, number, after=after, cuts=stop, words="COMMIT") as upgrade:
                try:
                    await upgrade.copy(unheard)
                except asyncpg.InterfaceError:
                    pass
                else:
                    break
            async with upgrading(group) as upgrade:
                await upgrade.copy(unheard)
            assert _but_sequences(await _aside(group)) == _but_sequences(expected), number
            async with upgrading(group) as upgrade:
                await upgrade.undo()
        assert number > 6
        stop()  # between two steps
        async with upgrading(group, 1, after=after, cuts=stop, words="COMMIT") as upgrade:
            with pytest.raises(asyncpg.InterfaceError):
                await upgrade.end()
        if not after:
            async with upgrading(group) as upgrade:
                await upgrade.end()
        found = await standing(group)
        depths = await group.rows(
            "SELECT name, (SELECT count(*) FROM message WHERE queue = name) + (SELECT count(*) FROM held "
            "WHERE queue = name AND kind <> 2) AS depth FROM queue ORDER BY name"
        )
        assert _but_sequences(found) == {**_but_sequences(expected), "depths": depths if not after else found["depths"]}


_NONPERSISTENT = """
INSERT INTO message (queue, place, persistent, state, msg_id, descriptor, length, body, put_by)
    SELECT 'B', nextval('arrival'), false, 1, '', '', 0, '', 'QM1' FROM generate_series(1, 100)
"""


def _but_sequences(found: dict[str, Any]) -> dict[str, Any]:
    """A sequence goes on somewhat higher after a crash."""
    return {kind: rows for kind, rows in found.items() if kind not in ("arrival", "object_version")}
