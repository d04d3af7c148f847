"""Workers in processes of their own that are frozen at a step of a transaction, by SIGSTOP, and woken (D1.3 to D1.5).

The queue manager is in this process, with a virtual clock: so a line on which nobody says anything is given up at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError, QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQOO, MQRC
from broker.server import Server
from broker.testing import VirtualClock
from tests.databases.ways import GONE, AsyncpgPool, SqlitePath
from tests.handlers.processes import PATIENCE, WorkerProcess, worker
from tests.sharing.postgres import OWNER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from broker import Connection
    from tests.databases.ways import DatabaseWay
    from tests.sharing.postgres import Postgres

TABLE = "CREATE TABLE orders (id INTEGER)"  # without a key: a row that is written twice is seen
SILENT = 120.0
IN_TRANSACTION = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{OWNER}' AND state LIKE 'idle in%'"
WAITS_FOR_LOCK = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{OWNER}' AND wait_event_type = 'Lock'"
END_IDLE = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{OWNER}' AND state LIKE 'idle in%'"

on_postgresql = pytest.mark.parametrize("driver", ["asyncpg", "psycopg"], indirect=True)
on_all = pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "aiosqlite", "sqlite3"], indirect=True)


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    package = {"psycopg": "psycopg_pool"}.get(name, name)
    if find_spec(package) is None:
        pytest.skip(f"{name} needs {package}, which comes with the extra `full`")
    return name


class Rig:
    """A queue manager, the database of its workers, and those."""

    def __init__(self, manager: QueueManager, url: str, books: DatabaseWay, driver: str, folder: Path) -> None:
        self.manager = manager
        self.connection: Connection
        self.books = books
        self.workers = AsyncExitStack()
        self._url = url
        self._driver = driver
        self._folder = folder

    async def start(self, *, behind: str = "") -> WorkerProcess:
        """Start a worker; it freezes behind this step of its first transaction."""
        address = self.books.dsn if isinstance(self.books, AsyncpgPool) else str(self.books.file)
        variables = {"FROZEN_WAY": self._driver, "FROZEN_ADDRESS": address, "FROZEN_BEHIND": behind}
        entered = worker(self._folder, self._url, "--grace", "1", module="tests.transactions.frozen:app", **variables)
        return self.workers.enter_context(entered)

    async def frozen(self, behind: str) -> WorkerProcess:
        """Have a worker take an order, and freeze behind a step; its line is given up."""
        started = await self.start(behind=behind)
        await self.until(self.defined)
        await self.connection.put1("ORDERS", b"1")
        await asyncio.to_thread(os.waitid, os.P_PID, started.process.pid, os.WSTOPPED | os.WNOWAIT | os.WEXITED)
        assert started.process.poll() is None, "".join(started.log)
        clock = self.manager.clock
        assert isinstance(clock, VirtualClock)
        await clock.advance(SILENT)
        return started

    def wake(self, process: WorkerProcess) -> None:
        process.process.send_signal(signal.SIGCONT)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait, in real time, for what processes bring about."""
        end = time.monotonic() + PATIENCE
        while not await holds():
            assert time.monotonic() < end, "it has not come true"
            await asyncio.sleep(0.01)

    async def defined(self) -> bool:
        """True if a worker has defined its queues and serves them."""
        return bool(self.manager.handler_figures())

    async def in_doubt(self) -> list[dict[str, Any]]:
        replies = await self.connection.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")
        return [attributes for reply in replies for attributes in reply.attributes]

    async def leased(self) -> bool:
        """True if a resolver has what is in doubt."""
        return ["until" in each["RESOLVER"] for each in await self.in_doubt()] == [False]

    async def invoices(self) -> list[bytes]:
        found = []
        async with self.connection.open("INVOICES", MQOO.BROWSE) as queue:
            try:
                while True:
                    found.append((await queue.get(options=MQGMO.BROWSE_NEXT)).data)
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
        return found

    async def shipped(self) -> bool:
        return await self.invoices() != []

    async def check(self) -> None:
        """The order is one row and one invoice, nothing is in doubt, nobody has it in his hands."""
        assert (self.books.orders(), await self.invoices(), await self.in_doubt()) == (["1"], [b"1"], [])
        (figures,) = self.manager.handler_figures()
        assert (figures["running"], figures["succeeded"]) == (0, 1)
        (queue,) = (await self.connection.mqsc("DISPLAY QLOCAL(ORDERS) CURDEPTH", check=True))[0].attributes
        assert int(queue["CURDEPTH"]) == 0

    def counted(self, sql: str) -> int:
        """Ask PostgreSQL, as one that sees all sessions."""
        assert self.books.postgres is not None
        return int(self.books.postgres.sql(sql, database=OWNER)[0][0])

    async def waits_for_lock(self) -> bool:
        return self.counted(WAITS_FOR_LOCK) > 0

    async def none_in_transaction(self) -> bool:
        return self.counted(IN_TRANSACTION) == 0


@pytest.fixture
async def rig(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A rig whose workers have this driver."""
    books: DatabaseWay
    if driver in ("asyncpg", "psycopg"):
        postgres: Postgres = request.getfixturevalue("postgres")
        books = AsyncpgPool(tmp_path, postgres)
        postgres.sql(GONE, f"SET ROLE {OWNER}", TABLE, database=OWNER)
    else:
        books = SqlitePath(tmp_path)
        books.look(TABLE)
    async with made_rig(books, driver, tmp_path) as made:
        yield made


@asynccontextmanager
async def made_rig(books: DatabaseWay, driver: str, folder: Path) -> AsyncIterator[Rig]:
    async with (
        QueueManager.open(name="QM1", clock=VirtualClock()) as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
        manager.connect("test") as connection,
    ):
        rig = Rig(manager, f"mq://{server.addresses[0]}", books, driver, folder)
        rig.connection = connection
        async with rig.workers:
            yield rig


@on_postgresql
async def test_d1_3_frozen_before_prepare_the_message_is_handled_elsewhere_and_the_one_that_wakes_up_rolls_back(
    rig: Rig,
) -> None:
    frozen = await rig.frozen("mark")
    await rig.start()
    await rig.until(rig.shipped)
    assert (rig.books.orders(), rig.counted(IN_TRANSACTION)) == (["1"], 1)
    rig.wake(frozen)
    await rig.until(rig.none_in_transaction)
    await rig.check()


@on_all
async def test_d1_4_frozen_behind_prepare_the_resolver_waits_and_the_one_that_wakes_up_commits(rig: Rig) -> None:
    frozen = await rig.frozen("prepare")
    (thread,) = await rig.in_doubt()
    assert "until" in thread["RESOLVER"]  # who was one has gone
    if isinstance(rig.books, AsyncpgPool):  # the frozen one holds SQLite, which another worker cannot even open
        await rig.start()
        await rig.until(rig.leased)
        await rig.until(rig.waits_for_lock)
    assert (await rig.invoices(), rig.books.orders(), rig.books.markers()) == ([], [], [])
    rig.wake(frozen)
    await rig.until(rig.shipped)
    await rig.check()
    assert "aborted" not in rig.books.markers()


@on_postgresql
async def test_d1_5_frozen_behind_prepare_and_its_session_ended_it_is_aborted_and_the_late_commit_fails(
    rig: Rig,
) -> None:
    frozen = await rig.frozen("prepare")
    await rig.start()
    await rig.until(rig.waits_for_lock)
    rig.books.look_as_judge(END_IDLE)
    await rig.until(rig.shipped)  # by the other worker
    assert (rig.books.orders(), "aborted" in rig.books.markers()) == (["1"], True)
    rig.wake(frozen)
    await asyncio.to_thread(frozen.logged, r" handled outcome=|in doubt|connects again|refused")
    await rig.check()
