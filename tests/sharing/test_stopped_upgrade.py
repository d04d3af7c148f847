"""The upgrade of a group to tables that are made anew, while no member runs (docs/how-to/queue-sharing.md, Upgrade)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from broker.sharing.database.schema import SqlSet, UnsuitableError, WrongVersionError, ensure, released
from broker.sharing.versions.stopped_upgrade import LivingMemberError, StoppedUpgrade
from tests.sharing.cut_session import CutError, cut_session
from tests.sharing.database import LEAKS
from tests.sharing.postgres import JUDGE
from tests.sharing.released import ReleasedGroup, sql_of
from tests.sharing.released.leavings import leave_everything, older_members
from tests.sharing.released.standing import lives, standing
from tests.sharing.test_versions import made

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sharing.database import GroupDatabase
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

NEW = released()
SLICE = 150


@pytest.fixture(params=[1, 2])
async def old(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncIterator[ReleasedGroup]:
    """A group that members of an older release have made."""
    async with ReleasedGroup(postgres, request.param) as group:
        group.forgive(*LEAKS)
        yield group


@pytest.fixture
async def latest(postgres: Postgres) -> AsyncIterator[ReleasedGroup]:
    """One that members of the last version before the tables were made anew have left with all kinds of messages."""
    async with ReleasedGroup(postgres, 2) as group:
        group.forgive(*LEAKS)
        await leave_everything(group)
        yield group


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.sharing.versions.stopped_upgrade.SLICE_MESSAGES", SLICE)


def unheard(copied: int, messages: int) -> None:
    """Nobody is told how far it is."""


@asynccontextmanager
async def upgrading(group: ReleasedGroup, cut_at: int | None = None, **cutting: Any) -> AsyncIterator[StoppedUpgrade]:
    """An upgrade of the group in a session of its own, which is cut off at a statement (`CutSession`)."""
    session = await cut_session(group.dsn, group.schema, cut_at, **cutting)
    try:
        yield StoppedUpgrade(session, group.name, group.schema, NEW)
    finally:
        await session.close()


async def upgraded(group: ReleasedGroup) -> None:
    async with upgrading(group) as upgrade:
        await upgrade.copy(unheard)
        await upgrade.end()


# What comes over


async def test_all_that_was_left_is_there_as_before(old: ReleasedGroup) -> None:
    """Number, order, backout count and holder of each message; units of work, keys, handles, tags, claims, sinks."""
    await leave_everything(old)
    before = await standing(old)
    assert {message["state"] for message in before["messages"]} == {0, 1, 2, 3, 6, 7, 8}
    await upgraded(old)
    after = await standing(old)
    assert {kind: after[kind] for kind in before} == before
    assert {unit["row"].count('"ACTIVE"') for unit in after["unit_of_work"]} == {0, 1}


async def test_the_tables_and_functions_are_those_of_a_group_that_is_made_new(
    old: ReleasedGroup, group: GroupDatabase
) -> None:
    await upgraded(old)
    assert await made(old) == await made(group)


async def test_each_old_table_is_copied_or_known_to_be_of_no_use_any_more(latest: ReleasedGroup) -> None:
    tables = "SELECT relname FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' ORDER BY 1"
    text = (files("broker.sharing") / "sql" / "upgrade" / "definitions.sql").read_text("utf-8")
    assert {
        row["relname"] for row in await latest.rows(tables, latest.schema) if f"'{row['relname']}'" not in text
    } == {"alive", "command", "lane", "message_nonpersistent", "message_persistent", "properties"}


async def test_lives_of_members_that_had_failed_are_over_and_what_they_left_is_theirs(latest: ReleasedGroup) -> None:
    assert await lives(latest) == [
        ("QM1", 2, "ACTIVE", None), ("QM2", 1, "INACTIVE", None), ("QM3", 2, "RECOVERING", "QM1"),
    ]  # fmt: skip
    await upgraded(latest)
    assert await lives(latest) == [
        ("QM1", 3, "RECOVERING", None), ("QM2", 1, "INACTIVE", None), ("QM3", 3, "RECOVERING", None),
    ]  # fmt: skip
    assert await latest.rows("SELECT DISTINCT member, epoch FROM held WHERE member <> '' ORDER BY 1, 2") == [
        {"member": "QM1", "epoch": 1}, {"member": "QM1", "epoch": 2}, {"member": "QM3", "epoch": 1},
    ]  # fmt: skip


async def test_messages_of_units_of_work_that_have_no_row_come_over_and_stay_their_members(
    latest: ReleasedGroup,
) -> None:
    """The first version has left such; the recovery of their member frees them."""
    await latest.rows("ALTER TABLE unit_of_work DISABLE TRIGGER ALL")
    await latest.rows("DELETE FROM unit_of_work WHERE member = 'QM1' AND epoch = 1 AND state = 'ACTIVE'")
    await latest.rows("ALTER TABLE unit_of_work ENABLE TRIGGER ALL")
    before = await standing(latest)
    await upgraded(latest)
    assert await standing(latest) == before
    assert await latest.value(
        "SELECT count(*) FROM held AS h WHERE kind IN (0, 2) "
        "AND NOT EXISTS (SELECT FROM unit_of_work WHERE id = h.unit)"
    )


async def test_numbers_are_not_used_again(latest: ReleasedGroup) -> None:
    crashes = await latest.value("SELECT crashes FROM alive")
    last = [await latest.value(f"SELECT last_value FROM {name}") for name in ("arrival", "object_version")]
    await upgraded(latest)
    assert await latest.value("SELECT crashes FROM alive") > crashes
    assert [await latest.value(f"SELECT nextval('{name}')") for name in ("arrival", "object_version")] == [
        number + 1 for number in last
    ]


async def test_who_had_rights_has_them(latest: ReleasedGroup) -> None:
    name = f"user_{latest.name.lower()}"
    latest.server.sql(f"CREATE ROLE {name} LOGIN")
    for grant in (
        f"GRANT USAGE ON SCHEMA {latest.schema} TO {name}",
        f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {latest.schema} TO {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {latest.schema} TO {name}",
        f"REVOKE INSERT ON security FROM {name}",
        f"ALTER DEFAULT PRIVILEGES FOR ROLE evermq IN SCHEMA {latest.schema} GRANT DELETE ON TABLES TO {name}",
    ):
        await latest.rows(grant)
    await upgraded(latest)
    session = await latest.session(name)
    for table in ("message", "message_persistent", "held", "held_nonpersistent", "share", "member"):
        assert await session.fetchval(
            "SELECT array[has_table_privilege($1, 'SELECT'), has_table_privilege($1, 'INSERT'), "
            "has_table_privilege($1, 'UPDATE')]", table,
        ) == [True, True, False]  # fmt: skip
    assert await session.fetchval("SELECT has_table_privilege('security', 'INSERT')") is False
    assert await session.fetchval("SELECT nextval('arrival')")
    await session.close()
    await latest.rows("SET ROLE evermq")
    await latest.rows("CREATE TABLE later ()")
    await latest.rows("RESET ROLE")
    assert await latest.value("SELECT has_table_privilege($1, 'later', 'DELETE')", name)
    await latest.rows(f"DROP OWNED BY {name}")
    latest.server.sql(f"DROP ROLE {name}")


async def test_the_owner_of_the_tables_owns_the_new_ones_whoever_does_it(latest: ReleasedGroup) -> None:
    session = await cut_session(latest.server.dsn(JUDGE), latest.schema, None)
    upgrade = StoppedUpgrade(session, latest.name, latest.schema, NEW)
    await upgrade.copy(unheard)
    await upgrade.end()
    await session.close()
    owners = (
        "SELECT DISTINCT pg_get_userbyid(relowner) AS owner FROM pg_class WHERE relnamespace = $1::text::regnamespace"
    )
    assert await latest.rows(owners, latest.schema) == [{"owner": "evermq"}]


async def test_a_copy_that_differs_is_found_and_nothing_is_lost(latest: ReleasedGroup) -> None:
    before = await standing(latest)
    async with upgrading(latest) as upgrade:
        real = upgrade._text
        upgrade._text = lambda name: real(name) + (" LIMIT 9" if name == "messages" else "")  # type: ignore[method-assign]
        with pytest.raises(
            UnsuitableError, match=r"differs from what is there: .* messages of A in state 1 instead of"
        ):
            await upgrade.copy(unheard)
    async with upgrading(latest) as upgrade:
        with pytest.raises(UnsuitableError, match="not copied and compared yet"):
            await upgrade.end()
        assert await upgrade.undo() == 2
    assert await standing(latest) == before


# Who may not


async def test_it_is_refused_while_an_older_member_lives_which_is_named(old: ReleasedGroup) -> None:
    members = await older_members(old, "QM1", "QM2")
    await members[0].fail()
    async with upgrading(old) as upgrade:
        for refused in (upgrade.plan, partial(upgrade.copy, unheard)):
            with pytest.raises(LivingMemberError, match=r"QM2 has a lease for \d+\.\d s: it lives, at here"):
                await refused()
        assert await old.rows("SELECT name, value FROM properties WHERE name = 'version'") == [
            {"name": "version", "value": "1"}
        ]
        await members[1].session.execute("SELECT take_over('QM2', 1, 'QM1', 1, 10)")
        with pytest.raises(LivingMemberError, match=r"QM1 has a lease .* is being recovered by QM2"):
            await upgrade.plan()
        await members[0].fail()
        await members[1].leave()
        assert await upgrade.plan() is not None
    for member in members:
        await member.session.close()


async def test_what_a_failed_member_has_under_way_is_ended_before(old: ReleasedGroup) -> None:
    """It was stopped in a transaction, and can commit nothing any more."""
    (member,) = await older_members(old, "QM1")
    await member.session.execute(f"SET application_name = '{old.name}/QM1/1/calls'")
    await member.session.execute("BEGIN; SELECT enter(0, 2)")
    await member.session.execute("UPDATE queue SET depth = 77 WHERE name = 'A'")
    await old.rows("UPDATE member SET lease_until = clock_timestamp()")
    await upgraded(old)
    with pytest.raises((asyncpg.AdminShutdownError, asyncpg.InterfaceError)):
        await member.session.execute("COMMIT")
    member.session.terminate()
    assert await old.value("SELECT count(*) FROM share WHERE n <> 0") == 0


@pytest.mark.parametrize("step", ["begun", "ended"])
async def test_a_member_of_an_older_release_is_refused(old: ReleasedGroup, step: str) -> None:
    async with upgrading(old) as upgrade:
        await upgrade.copy(unheard)
        if step == "ended":
            await upgrade.end()
    session = await old.session()
    if old.version == 1:  # which asks this, and wants "1": "the tables are of version 3, this EverMQ has version 1"
        assert await session.fetchval("SELECT value FROM properties WHERE name = 'version'") == "3"
    else:
        with pytest.raises(WrongVersionError, match="takes members from version 3 on; this EverMQ has version 2"):
            await ensure(session, old.schema, sql_of(2))
    await session.close()


async def test_a_member_of_this_release_says_which_command_to_run_and_changes_nothing(old: ReleasedGroup) -> None:
    before = await standing(old)
    session = await old.session()
    with pytest.raises(
        WrongVersionError, match=f"of version {old.version}, .*end all members, and run `evermq group upgrade"
    ):
        await ensure(session, old.schema, NEW)
    assert await standing(old) == before
    async with upgrading(old) as upgrade:
        await upgrade.copy(unheard)
        with pytest.raises(WrongVersionError, match=r"an upgrade of .* is under way: run .* to end it, or with --undo"):
            await ensure(session, old.schema, NEW)
        await upgrade.end()
    await ensure(session, old.schema, NEW)
    await session.close()


async def test_another_upgrade_of_the_group_waits_and_gives_up(
    latest: ReleasedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.sharing.versions.stopped_upgrade.LOCK_MS", 50)
    async with upgrading(latest) as upgrade, upgrading(latest) as other:
        await upgrade.copy(unheard)
        for refused in (partial(other.copy, unheard), other.end, other.undo):
            with pytest.raises(UnsuitableError, match=r"another upgrade of .* is under way just now"):
                await refused()
        await upgrade.end()


async def test_one_that_another_release_has_begun_is_its(latest: ReleasedGroup) -> None:
    async with upgrading(latest) as upgrade:
        await upgrade.copy(unheard)
    later = SqlSet(NEW.version + 1, 3, (*NEW.tables, "SELECT 1"), NEW.functions, rebuilt=3)
    session = await latest.session()
    other = StoppedUpgrade(session, latest.name, latest.schema, later)
    for refused in (other.plan, partial(other.copy, unheard), other.end):
        with pytest.raises(WrongVersionError, match="to version 3 is under way, and this EverMQ has version 4"):
            await refused()
    assert await other.undo() == 2
    await session.close()


async def test_rights_that_are_missing_are_told_before_anything_is_done(latest: ReleasedGroup) -> None:
    await latest.rows(f"ALTER SCHEMA {latest.schema} OWNER TO {JUDGE}")
    await latest.rows(f"GRANT USAGE ON SCHEMA {latest.schema} TO evermq")
    async with upgrading(latest) as upgrade:
        with pytest.raises(UnsuitableError, match=f"ALTER SCHEMA {latest.schema} OWNER TO evermq"):
            await upgrade.plan()
    await latest.rows(f"ALTER SCHEMA {latest.schema} OWNER TO evermq")


async def test_tables_and_views_of_others_are_named_which_would_go_with_the_old_tables(latest: ReleasedGroup) -> None:
    await latest.rows("CREATE SCHEMA others")
    await latest.rows("CREATE VIEW others.depths AS SELECT name, depth FROM queue")
    await latest.rows("CREATE TABLE notes ()")
    async with upgrading(latest) as upgrade:
        with pytest.raises(UnsuitableError, match=r"notes, others\.depths: not EverMQ's"):
            await upgrade.plan()
    await latest.rows("DROP SCHEMA others CASCADE")
    await latest.rows("DROP TABLE notes")
    async with upgrading(latest) as upgrade:
        assert await upgrade.plan() is not None


# The way back


@pytest.mark.parametrize("after_slices", [0, 1, None])
async def test_an_upgrade_is_taken_back_before_its_last_step(
    latest: ReleasedGroup, short_slices: None, after_slices: int | None
) -> None:
    before, slices = await standing(latest), count(1)

    def enough(copied: int, messages: int) -> None:
        if next(slices) == after_slices:
            raise CutError("cut")

    async with upgrading(latest, cut_at=20 if after_slices == 0 else None) as upgrade:
        if after_slices is None:
            await upgrade.copy(unheard)
        else:
            with pytest.raises(asyncpg.InterfaceError):
                await upgrade.copy(enough)
    async with upgrading(latest) as upgrade:
        assert await upgrade.undo() == 2
    assert await standing(latest) == before
    session = await latest.session()
    await ensure(session, latest.schema, sql_of(2))  # so does an older member
    await session.close()
    assert await latest.value("SELECT to_regnamespace($1)", f"{latest.schema}_upgrade") is None
    async with upgrading(latest) as upgrade:
        with pytest.raises(UnsuitableError, match=r"no upgrade of .* is under way"):
            await upgrade.undo()
    await upgraded(latest)
    assert await standing(latest) == before


async def test_there_is_no_way_back_behind_the_last_step(latest: ReleasedGroup) -> None:
    await upgraded(latest)
    async with upgrading(latest) as upgrade:
        with pytest.raises(UnsuitableError, match="behind its last step there is no way back"):
            await upgrade.undo()
        assert await upgrade.plan() is None
