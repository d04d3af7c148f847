"""The log tells who keeps dead rows in the database of a group (queue-sharing 10.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.sharing.members.snapshots import SnapshotWatch
from tests.sharing.database import GroupDatabase
from tests.sharing.members import Members
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.postgres

OLD = 200
_PASS = "DO $$ BEGIN FOR n IN 1..{} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"


@pytest.fixture
def soon_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.sharing.members.snapshots.OLD_TRANSACTIONS", OLD)


@pytest.fixture
async def watch(group: GroupDatabase, soon_old: None) -> AsyncIterator[SnapshotWatch]:
    """That of QM1, the first of two members."""
    async with Members(group, 2) as members:
        yield SnapshotWatch(members.member("QM1").database)


async def pass_(group: GroupDatabase, transactions: int = 2 * OLD) -> None:
    """Let so many transactions come and go."""
    await group.rows(_PASS.format(transactions))


@pytest.mark.parametrize("begun", ["BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1", "BEGIN; CREATE TEMP TABLE t ()"])
async def test_a_transaction_that_stays_open_is_told_with_whose_it_is_until_it_ends(
    group: GroupDatabase, watch: SnapshotWatch, caplog: pytest.LogCaptureFixture, begun: str
) -> None:
    """It has read, or written: until it ends, what others delete stays."""
    caplog.set_level("INFO", "broker.sharing.members.snapshots")
    forgotten = await group.session(application_name="a report")
    await forgotten.execute(begun)
    await watch.look()
    assert caplog.messages == []
    await pass_(group)
    await watch.look()
    await watch.look()  # it is no older
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert told.getMessage().startswith("old snapshot transactions=")
    assert f"session pid={forgotten.get_server_pid()} user={OWNER} application=a report" in told.getMessage()
    await pass_(group, 3 * watch.reported)
    await watch.look()
    assert len(caplog.records) == 2  # it has doubled
    await forgotten.execute("ROLLBACK")
    await forgotten.close()
    while await group.rows(f"SELECT 1 FROM pg_stat_activity WHERE pid = {forgotten.get_server_pid()}"):
        pass  # it drops its temporary tables behind the end of its line
    await watch.look()
    await watch.look()
    (gone,) = caplog.records[2:]
    assert (gone.levelname, gone.getMessage().split("=")[0]) == ("INFO", "no old snapshot any more transactions")


async def test_the_first_of_those_that_live_looks_for_all(
    group: GroupDatabase, soon_old: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "broker.sharing.members.snapshots")
    forgotten = await group.session()
    await forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    await pass_(group)
    async with Members(group, 2) as members:
        second = SnapshotWatch(members.member("QM2").database)
        await second.look()
        assert second.reported == 0
        await members.stop("QM1")
        await second.look()
        assert second.reported >= OLD
    await forgotten.close()


async def test_a_prepared_transaction_is_told_of(soon_old: None, caplog: pytest.LogCaptureFixture) -> None:
    with Postgres(max_prepared_transactions="2") as server:
        async with GroupDatabase(server) as group, Members(group) as members:
            session = await group.session()
            await session.execute("BEGIN")
            await session.execute("CREATE TABLE elsewhere ()")
            await session.execute("PREPARE TRANSACTION 'lost'")
            await pass_(group)
            await SnapshotWatch(members.member("QM1").database).look()
            assert "prepared transaction gid=lost user=evermq" in caplog.text
            await session.execute("ROLLBACK PREPARED 'lost'")
            await session.close()


async def test_a_member_looks_for_as_long_as_it_lives(
    group: GroupDatabase, soon_old: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("broker.sharing.members.snapshots.LOOK_SECONDS", 0.01)
    forgotten = await group.session()
    await forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    async with Members(group):
        while "old snapshot" not in caplog.text:
            await pass_(group)
    await forgotten.close()
