"""`app.transaction`: a row of the program's own database and a message, both or neither (D3.1 to D3.4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.mqi import MQRC
from broker.transactions import CommitRefusedError, OutcomeUnknownError

if TYPE_CHECKING:
    from tests.transactions.shops import OrderShop


class StopError(Exception):
    """A failure of a program, in a test."""


async def test_d3_1_a_row_and_a_message_are_there_when_the_block_is_left(shop: OrderShop) -> None:
    async with shop.running():
        await shop.produce(1)
        assert await shop.invoices() == ["1"]
        assert shop.books.orders() == ["1"]
        await shop.no_markers()


async def test_d3_1_an_exception_rolls_both_back_and_goes_on(shop: OrderShop) -> None:
    def stop(_: object) -> None:
        raise StopError

    async with shop.running():
        with pytest.raises(StopError):
            await shop.produce(1, stop)
        assert (await shop.invoices(), shop.books.orders(), shop.books.markers()) == ([], [], [])
        await shop.produce(2)
        await shop.come_true([2])


async def test_d3_1_what_says_so_stays_outside(shop: OrderShop) -> None:
    def stop(_: object) -> None:
        raise StopError

    async with shop.running():
        with pytest.raises(StopError):
            await shop.produce(1, stop, syncpoint=False)
        assert (await shop.invoices(), shop.books.orders()) == (["1"], [])


async def test_d3_1_a_program_is_cancelled_at_each_await_and_nothing_is_done_by_half(shop: OrderShop) -> None:
    if shop.threaded:
        pytest.skip("a thread is not cancelled")
    done: list[int] = []
    async with shop.running():
        for turns in range(60):
            order = turns + 1
            task = asyncio.ensure_future(shop.produce(order))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            if order in map(int, shop.books.orders()):
                done.append(order)
            else:
                assert task.cancelled()
        assert await shop.invoices() == list(map(str, done))
        await shop.produce(100)
        await shop.come_true([*done, 100])


async def test_d3_2_nothing_put_is_a_plain_commit_without_marker_and_prepare(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Any] = []
    monkeypatch.setattr("broker.interface.connection.Connection.prepare", prepared.append)

    async with shop.running():
        if shop.threaded:

            def produce() -> None:
                with shop.app.transaction(shop.database) as t:
                    t.connection.execute("INSERT INTO orders VALUES (1)")

            await asyncio.to_thread(produce)
        else:
            async with shop.app.transaction(shop.database) as t:
                await shop.books.sql(t.connection, "INSERT INTO orders VALUES (1)")
        assert (shop.books.orders(), shop.books.markers(), prepared) == (["1"], [], [])


async def test_d3_3_a_full_queue_raises_at_the_put_and_nothing_is_committed(shop: OrderShop) -> None:
    async with shop.running():
        await shop.mqsc("ALTER QLOCAL(INVOICES) MAXDEPTH(0)")
        with pytest.raises(MQError) as raised:
            await shop.produce(1)
        assert raised.value.reason == MQRC.Q_FULL
        assert (shop.books.orders(), shop.books.markers()) == ([], [])


async def test_transactions_are_not_nested(shop: OrderShop) -> None:
    database = shop.database
    async with shop.running():
        if shop.threaded:

            def nest() -> None:
                with shop.app.transaction(database), shop.app.transaction(database):
                    pass

            with pytest.raises(RuntimeError, match="not nested"):
                await asyncio.to_thread(nest)
        else:
            with pytest.raises(RuntimeError, match="not nested"):
                async with shop.app.transaction(database), shop.app.transaction(database):
                    pass
        await shop.produce(1)
        await shop.come_true([1])


async def test_a_blocking_database_never_begins_on_the_thread_of_the_loop(shop: OrderShop) -> None:
    async with shop.running():
        with pytest.raises(RuntimeError, match="would hold the event loop"), shop.app.transaction(shop.database):
            pass
        if shop.threaded:
            with pytest.raises(TypeError, match="BEGIN would hold the event loop"):
                async with shop.app.transaction(shop.database):
                    pass
        else:

            def enter() -> None:
                with shop.app.transaction(shop.database):
                    pass

            with pytest.raises(TypeError, match="is asynchronous"):
                await asyncio.to_thread(enter)


async def test_what_goes_on_behind_a_transaction_may_not_put_in_it(shop: OrderShop) -> None:
    if shop.threaded:
        pytest.skip("threads start no tasks")
    late: list[asyncio.Task[Any]] = []
    left = asyncio.Event()

    async def put_late() -> None:
        await left.wait()
        await shop.app.put("INVOICES", "late")

    async with shop.running():
        await shop.produce(1, lambda _: late.append(asyncio.ensure_future(put_late())))
        left.set()
        with pytest.raises(MQError) as raised:
            await late[0]
        assert raised.value.reason == MQRC.HCONN_ERROR
        await shop.come_true([1])


async def test_d3_4_a_commit_without_an_answer_is_asked_for_and_found_committed(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, committed=True)
    async with shop.running():
        await shop.produce(1)
        assert await shop.invoices() == ["1"]
        assert shop.books.orders() == ["1"]


async def test_d3_4_a_commit_that_never_arrived_is_asked_for_and_is_an_error(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, committed=False)
    async with shop.running():
        with pytest.raises(CommitRefusedError, match="never will be"):
            await shop.produce(1)
        assert (await shop.invoices(), shop.books.orders(), shop.books.markers()) == ([], [], ["aborted"])


def lose_answers(monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> None:
    """Have the next COMMIT of a program's transaction lose its answer, done or not."""
    from broker.databases.transaction import DatabaseTransaction

    commit = DatabaseTransaction.commit

    async def lost(self: DatabaseTransaction) -> None:
        monkeypatch.setattr(DatabaseTransaction, "commit", commit)
        if committed:
            await commit(self)
        self._lose()
        raise OutcomeUnknownError("the connection was lost in COMMIT")

    monkeypatch.setattr(DatabaseTransaction, "commit", lost)
