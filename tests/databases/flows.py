"""What a program does in a transaction, as one flow for all ways: in the thread of a threaded one, else on the loop."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

from broker.databases.calls import driven

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.databases.opened import OpenDatabase
    from broker.databases.transaction import DatabaseTransaction
    from tests.databases.ways import DatabaseWay

Q_MGR = "5f0e7a52-6a57-4f5e-a9a5-3f8b8b6f0c11"


def order(number: int) -> str:
    return f"INSERT INTO orders VALUES ({number})"


async def within(opened: OpenDatabase, work: Callable[[DatabaseTransaction], Awaitable[Any]]) -> Any:
    """Begin a transaction, do `work` in it, and give its connection back."""

    async def flow() -> Any:
        transaction = opened.transaction()
        await transaction.begin()
        try:
            return await work(transaction)
        finally:
            await transaction.release()

    return await opened.run(flow())


async def committed(opened: OpenDatabase, way: DatabaseWay, number: int, unit: bytes | None = None) -> bytes:
    """Commit an order with its marker; the unit."""
    name = unit or os.urandom(16)

    async def work(transaction: DatabaseTransaction) -> bytes:
        await way.sql(transaction.connection, order(number))
        await transaction.mark(name, Q_MGR)
        await transaction.commit()
        return name

    result: bytes = await within(opened, work)
    return result


class Gate:
    """A place in a transaction where it is held: in its thread, or suspended on the loop."""

    def __init__(self, opened: OpenDatabase) -> None:
        self._threaded = opened.threaded
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._opened = asyncio.Event()
        self._opened_for_thread = threading.Event()

    async def reached(self) -> None:
        """Wait until the transaction is there."""
        await self._reached.wait()

    def open(self) -> None:
        self._opened.set()
        self._opened_for_thread.set()

    async def passed(self, _: object = None) -> None:
        """Called in the transaction."""
        self._loop.call_soon_threadsafe(self._reached.set)
        if self._threaded:
            assert self._opened_for_thread.wait(60)
        else:
            await self._opened.wait()


def marked_and_held(
    way: DatabaseWay, gate: Gate, unit: bytes, number: int, *, commits: bool
) -> Callable[[DatabaseTransaction], Awaitable[None]]:
    """Work that is held between its marker and its end."""

    async def work(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(number))
        await transaction.mark(unit, Q_MGR)
        await gate.passed()
        await (transaction.commit() if commits else transaction.rollback())

    return work


async def in_own_thread(opened: OpenDatabase, work: Callable[[DatabaseTransaction], Awaitable[None]]) -> None:
    """As `within`, a threaded one in a thread of its own."""

    async def flow() -> None:
        transaction = opened.transaction()
        await transaction.begin()
        try:
            await work(transaction)
        finally:
            await transaction.release()

    await (asyncio.to_thread(lambda: driven(flow())) if opened.threaded else flow())
