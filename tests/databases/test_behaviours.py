"""What every adapter does, told once for all of them: each thing twice, and after a failure."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from broker.databases.calls import AdapterCalls
from broker.databases.errors import (
    CommitRefusedError,
    DatabaseAwayError,
    DatabaseUnusableError,
    TransactionEndedError,
)
from tests.databases.flows import Q_MGR, Gate, committed, in_own_thread, marked_and_held, order, within

if TYPE_CHECKING:
    from broker.databases.opened import OpenDatabase
    from broker.databases.transaction import DatabaseTransaction
    from tests.databases.ways import DatabaseWay


async def test_d5_1_a_row_and_its_marker_are_committed_together_again_and_again(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    for number in (1, 2, 3):
        unit = await committed(opened, way, number)
        assert await opened.probe(unit, Q_MGR) is True
    assert way.orders() == ["1", "2", "3"]
    assert way.markers() == ["committed"] * 3


async def test_d5_1_what_is_rolled_back_leaves_neither_row_nor_marker_and_the_next_goes_on(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    async def rolled_back(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await transaction.mark(os.urandom(16), Q_MGR)
        await transaction.rollback()

    async def abandoned(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        raise LookupError("of the program")

    for _ in range(2):
        await within(opened, rolled_back)
        with pytest.raises(LookupError, match="of the program"):
            await within(opened, abandoned)
        assert (way.orders(), way.markers()) == ([], [])
    await committed(opened, way, 1)
    assert (way.orders(), way.markers()) == (["1"], ["committed"])


async def test_d3_2_a_transaction_without_a_marker_is_committed_as_it_is(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    async def plain(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await transaction.commit()
        assert transaction.is_committed

    await within(opened, plain)
    assert (way.orders(), way.markers()) == (["1"], [])


async def test_a_statement_of_ours_that_fails_first_in_its_transaction_breaks_no_connection(
    opened: OpenDatabase, way: DatabaseWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[bool] = []
    release = AdapterCalls.release

    async def noted(calls: AdapterCalls, connection: object, **how: bool) -> None:
        broken.append(how["broken"])
        await release(calls, connection, **how)

    monkeypatch.setattr(AdapterCalls, "release", noted)
    for number in (1, 2):
        with pytest.raises(DatabaseUnusableError):
            await opened.rows("DELETE FROM not_there")
        await committed(opened, way, number)
    assert (way.orders(), broken) == (["1", "2"], [False] * 4)


async def test_a_table_that_goes_while_it_is_used_is_told_with_its_statement(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    await committed(opened, way, 1)
    await opened.rows(f"DROP TABLE {opened.markers.name}")
    for number in (2, 3):
        with pytest.raises(CommitRefusedError, match=r"has gone; make it again.* CREATE TABLE evermq_unit \("):
            await committed(opened, way, number)
    await opened.rows(opened.markers.ddl())
    await committed(opened, way, 4)
    assert way.orders() == ["1", "4"]


@pytest.mark.parametrize("ending", ["commit", "rollback", "again"])
async def test_d1_7_a_program_that_ends_the_transaction_itself_gets_an_error_and_no_marker(
    opened: OpenDatabase, way: DatabaseWay, ending: str
) -> None:
    async def ended(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await (way.commit if ending == "commit" else way.rollback)(transaction.connection)
        if ending == "again":
            await way.begin(transaction.connection)
            await way.sql(transaction.connection, order(2))
        await transaction.mark(os.urandom(16), Q_MGR)

    with pytest.raises(TransactionEndedError, match="the program has ended the transaction itself"):
        await within(opened, ended)
    assert (way.orders(), way.markers()) == (["1"] if ending == "commit" else [], [])
    await committed(opened, way, 3)
    assert way.markers() == ["committed"]


async def test_d1_7_an_error_that_ended_the_transaction_and_is_swallowed_is_found(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    """SQLite goes on behind a statement that has failed, unless it says ON CONFLICT ROLLBACK."""
    await committed(opened, way, 1)

    async def swallowed(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(2))
        with pytest.raises(Exception, match=r"UNIQUE|duplicate"):
            await way.sql(transaction.connection, way.failing(order(1)))
        await transaction.mark(os.urandom(16), Q_MGR)

    for _ in range(2):
        with pytest.raises(TransactionEndedError, match=r"a statement .*has"):
            await within(opened, swallowed)
        assert (way.orders(), way.markers()) == (["1"], ["committed"])
    await committed(opened, way, 3)


async def test_d5_3_savepoints_of_the_program_are_its_own(opened: OpenDatabase, way: DatabaseWay) -> None:
    async def nested(transaction: DatabaseTransaction) -> None:
        await way.nested(transaction.connection, order(1))
        with pytest.raises(Exception, match=r"UNIQUE|duplicate"):
            await way.nested(transaction.connection, order(1))
        await way.undo_nested(transaction.connection)
        await way.nested(transaction.connection, order(2))
        await transaction.mark(os.urandom(16), Q_MGR)
        await transaction.commit()

    await within(opened, nested)
    assert (way.orders(), way.markers()) == (["1", "2"], ["committed"])


async def test_a_resolver_that_is_first_aborts_and_the_late_marker_is_refused(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    for number in (1, 2):
        unit = os.urandom(16)
        assert [await opened.probe(unit, Q_MGR) for _ in range(3)] == [False] * 3
        with pytest.raises(CommitRefusedError, match=r"UNIQUE|duplicate"):
            await committed(opened, way, number, unit)
    assert (way.orders(), way.markers()) == ([], ["aborted"] * 2)


async def test_a_resolver_waits_for_a_transaction_that_may_still_commit_and_takes_its_word(
    opened: OpenDatabase, way: DatabaseWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.databases.opened.LOCK_SECONDS", 0.05)
    other = await way.database(pool_wait=0.2).open()
    for number, commits in ((1, True), (2, False)):
        unit = os.urandom(16)
        gate = Gate(opened)
        task = asyncio.ensure_future(within(opened, marked_and_held(way, gate, unit, number, commits=commits)))
        await gate.reached()
        assert [await other.probe(unit, Q_MGR) for _ in range(2)] == [None, None]
        gate.open()
        await task
        assert await other.probe(unit, Q_MGR) is commits
    await other.close()
    assert (way.orders(), way.markers()) == (["1"], ["aborted", "committed"])


async def test_what_the_database_refuses_at_commit_is_definite_and_the_next_goes_on(
    opened: OpenDatabase, way: DatabaseWay
) -> None:
    if not way.checks_foreign_keys:
        pytest.skip("SQLite checks foreign keys where the program has asked for it")
    way.prepare_deferred()

    async def refused(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, "INSERT INTO lines VALUES (7)")
        await transaction.mark(os.urandom(16), Q_MGR)
        await transaction.commit()

    for _ in range(2):
        with pytest.raises(CommitRefusedError, match=r"(?i)foreign key"):
            await within(opened, refused)
    assert (way.look("SELECT * FROM lines"), way.markers()) == ([], [])
    await committed(opened, way, 1)
    assert (way.orders(), way.markers()) == (["1"], ["committed"])


async def test_many_transactions_at_once_each_have_their_turn(opened: OpenDatabase, way: DatabaseWay) -> None:
    units = await asyncio.gather(*(committed(opened, way, number) for number in range(20)))
    assert len(set(units)) == len(way.orders()) == len(way.markers()) == 20
    assert [await opened.probe(unit, Q_MGR) for unit in units] == [True] * 20


async def test_markers_are_found_by_age_and_queue_manager_and_deleted(opened: OpenDatabase, way: DatabaseWay) -> None:
    mine = [await committed(opened, way, number) for number in range(3)]
    late = opened.clock.time() + 10
    assert sorted(await opened.old_markers(Q_MGR, late, 1000)) == sorted(mine)
    assert len(await opened.old_markers(Q_MGR, late, 2)) == 2
    assert await opened.old_markers("of another queue manager", late, 1000) == []
    assert await opened.old_markers(Q_MGR, late - 1000, 1000) == []
    await opened.delete(mine[:2])
    await opened.delete(mine[:2])
    await opened.delete([])
    assert await opened.old_markers(Q_MGR, late, 1000) == mine[2:]
    reopened = await way.database().open()
    assert reopened.id == opened.id
    await reopened.close()


async def test_an_aborted_marker_stays_for_a_day(opened: OpenDatabase, way: DatabaseWay) -> None:
    unit = os.urandom(16)
    assert await opened.probe(unit, Q_MGR) is False
    now = opened.clock.time()
    assert await opened.old_markers(Q_MGR, now + 86_390, 10) == []
    assert await opened.old_markers(Q_MGR, now + 86_410, 10) == [unit]
    assert way.markers() == ["aborted"]


async def test_a_place_that_is_not_free_in_time_is_an_error_of_its_own_and_later_there_is_one(
    way: DatabaseWay,
) -> None:
    if not way.places:
        pytest.skip("Django has no pool: a thread has a connection of its own")
    opened = await way.database(pool_wait=0.1).open()
    gates = [Gate(opened) for _ in range(way.places)]
    holders = [asyncio.ensure_future(in_own_thread(opened, gate.passed)) for gate in gates]
    for gate in gates:
        await gate.reached()
    for _ in range(2):
        with pytest.raises(DatabaseAwayError):
            await committed(opened, way, 1)
    for gate in gates:
        gate.open()
    await asyncio.gather(*holders)
    await committed(opened, way, 1)
    await opened.close()
