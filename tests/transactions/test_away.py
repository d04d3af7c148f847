"""A database that does not answer: at the start, in COMMIT, and while an app stops (D3.4)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from broker import Database, MQError
from broker.databases.opened import OpenDatabase
from broker.databases.transaction import DatabaseTransaction
from broker.mqi import MQRC
from broker.transactions import DatabaseAwayError, OutcomeUnknownError
from tests.transactions.test_handlers import seen

if TYPE_CHECKING:
    from tests.transactions.shops import OrderShop


async def test_d3_4_no_word_in_time_is_2124_and_the_unit_is_decided_when_the_database_is_back(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, probe = DatabaseTransaction.commit, OpenDatabase.probe

    async def lost(self: DatabaseTransaction) -> None:
        monkeypatch.setattr(DatabaseTransaction, "commit", commit)
        await commit(self)
        self._lose()
        raise OutcomeUnknownError("the connection was lost in COMMIT")

    async def away(self: OpenDatabase, unit: bytes, q_mgr: str) -> None:
        return None

    monkeypatch.setattr(DatabaseTransaction, "commit", lost)
    monkeypatch.setattr(OpenDatabase, "probe", away)
    async with shop.running():
        producing = asyncio.ensure_future(shop.produce(1))
        for _ in range(200):
            if producing.done():
                break
            await asyncio.sleep(0.01)
            await shop.clock.advance(1)
        with pytest.raises(MQError, match="decided when a program with this database asks again") as raised:
            await producing
        assert raised.value.reason == MQRC.OUTCOME_PENDING
        assert await shop.invoices() == []
        await shop.clock.advance(600)
        assert await shop.invoices() == []
        monkeypatch.setattr(OpenDatabase, "probe", probe)

        async def decided() -> bool:
            await shop.clock.advance(5)
            return await shop.invoices() == ["1"]

        await shop.until(decided)
        await shop.come_true([1])
        await shop.no_markers()


async def test_a_commit_that_hangs_is_named_and_a_stop_leaves_it_to_a_resolver(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if shop.threaded:
        pytest.skip("a thread cannot be cancelled: told by the driver's own time")
    commit, hangs = DatabaseTransaction.commit, list[Any]()

    async def hang(self: DatabaseTransaction) -> None:
        await commit(self)
        self._open = False
        hangs.append(self)
        try:
            await asyncio.Event().wait()
        finally:
            self._lose()

    monkeypatch.setattr(DatabaseTransaction, "commit", hang)
    shop.handle()
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await seen(shop, hangs, 1)
        with caplog.at_level(logging.WARNING, "triggers.transactions"):
            await shop.clock.advance(130)
        assert [getattr(each, "event", "") for each in caplog.records].count("commit_hangs") == 2
        stopping = asyncio.ensure_future(shop.app.running_session.close())  # type: ignore[union-attr]
        for _ in range(60):
            await asyncio.sleep(0.005)
            await shop.clock.advance(1)
        assert stopping.done()
    monkeypatch.setattr(DatabaseTransaction, "commit", commit)
    assert await shop.depth("INVOICES") == 1
    assert await shop.invoices() == []
    async with shop.running(handlers=False):
        await shop.come_true([1])
    assert len(hangs) == 1


async def test_a_database_that_is_away_at_the_start_is_an_error_or_waited_for(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens, tries = Database.open, list[None]()

    async def away(self: Database, clock: Any = None) -> OpenDatabase:
        tries.append(None)
        raise DatabaseAwayError("connection refused")

    monkeypatch.setattr(Database, "open", away)
    with pytest.raises(DatabaseAwayError):
        await shop.app.start()
    starting = asyncio.ensure_future(shop.app.start(wait=True))
    for _ in range(20):
        await shop.clock.advance(5)
    assert not starting.done()
    assert len(tries) > 10
    monkeypatch.setattr(Database, "open", opens)

    async def started() -> bool:
        await shop.clock.advance(5)
        return starting.done()

    await shop.until(started)
    await starting
    await shop.produce(1)
    await shop.come_true([1])
    await shop.app.stop()
