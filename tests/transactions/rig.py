"""A rig that kills: workers and producers die at drawn steps, the queue manager is killed, and all is counted.

    python -m tests.transactions.rig --deaths 100 [--postgres] [--by-hand]

Each life of a worker has one step at which it kills itself (SIGKILL), in its first transactions. Rows have no key, so
that what is done twice is seen twice. With `--by-hand` the handler writes and commits by itself, and puts then.
"""

from __future__ import annotations

import argparse
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple

import broker
from broker.mqi import MQOO, MQError
from tests.cli.conftest import command, environment, ready
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from tests.cli.conftest import RunningDaemon

STEPS: Final = ("begin", "work", "mark", "prepare", "in commit", "commit", "decide")
WORKERS: Final = 2
PATIENCE: Final = 240.0

PROGRAM: Final = """
import asyncio, os, random, signal, sys, threading, time

kind, url, source, step, by_hand = sys.argv[1:6]

from broker import Database
from triggers import App, Retry

if kind == "sqlite":
    import aiosqlite
    from aiosqlite import Connection
    made = lambda: aiosqlite.connect(source, timeout=30)
else:
    import asyncpg
    from asyncpg import Connection
    made = lambda: asyncpg.create_pool(source, min_size=1, max_size=4)

app = App(url, name="RIG")
db = app.database(Database(made, name="rig"))
left = random.randint(1, 4)


def die():
    with open("deaths.txt", "a") as deaths:
        deaths.write(step + chr(10))
    os.kill(os.getpid(), signal.SIGKILL)


def die_soon():
    time.sleep(random.random() * 0.004)
    die()


async def reached(made):
    global left
    at = "prepare" if step == "in commit" else step
    if made.value == at:
        left -= 1
        if left == 0:
            threading.Thread(target=die_soon).start() if step == "in commit" else die()


async def write(connection, order):
    if kind == "sqlite":
        await connection.execute("INSERT INTO orders VALUES (?)", (int(order),))
    else:
        await connection.execute("INSERT INTO orders VALUES ($1)", int(order))


options = {"retry": Retry(None, backoff=0.01, crashes=1000), "concurrency": 4}

if by_hand == "yes":
    own = None

    @app.handler("ORDERS", **options)
    async def handle(order: str) -> None:
        global left, own
        if kind == "sqlite":
            async with aiosqlite.connect(source, timeout=30) as connection:
                await write(connection, order)
                await connection.commit()
        else:
            own = own or await made()
            async with own.acquire() as connection:
                await write(connection, order)
        left -= 1
        if left == 0 and step != "none":
            die()
        await app.put("INVOICES", order)
        await app.put("INVOICES", order)
else:

    @app.handler("ORDERS", database=db, **options)
    async def handle(order: str, connection: Connection) -> None:
        await write(connection, order)
        await app.put("INVOICES", order)
        await app.put("INVOICES", order)


async def main():
    session = app.running(wait=True)
    session.databases.reached_step = reached
    async with session:
        if kind != "producer":
            await session.wait()


app.queue("INVOICES")
asyncio.run(main())
"""


class Account(NamedTuple):
    """What has come of the orders."""

    orders: int
    rows: int
    doubled: int
    lost: int
    messages: int
    wrong_messages: int
    deaths: Counter[str]
    daemon_deaths: int
    markers: list[str]

    @property
    def exact(self) -> bool:
        """True if each order is a row and two messages, once."""
        return not (self.doubled or self.lost or self.wrong_messages) and self.rows == self.orders


class Rig:
    """One run, in a folder of its own."""

    def __init__(self, folder: Path, postgres: Postgres | None, *, by_hand: bool) -> None:
        self.folder = folder
        self.postgres = postgres
        self.by_hand = by_hand
        self.daemon: RunningDaemon
        self.daemon_deaths = 0
        self._port = 0
        (folder / "program.py").write_text(PROGRAM, "utf-8")
        self._sql("CREATE TABLE orders (id INTEGER)")

    def run(self, orders: int, deaths: int) -> Account:
        """Handle orders while workers die so often at each step."""
        plan = [step for _ in range(deaths) for step in (STEPS if not self.by_hand else ("work",) * len(STEPS))]
        with ExitStack() as stack:
            self.start_daemon()
            stack.callback(self._end_daemon)
            self._define()
            self._put(range(orders))
            workers = [self._worker(plan) for _ in range(WORKERS)]
            stack.callback(_kill, workers)
            daemon_kills = [len(plan) * 2 // 3, len(plan) // 3]
            end = time.monotonic() + PATIENCE + len(plan)
            topped_up = orders
            while True:
                assert time.monotonic() < end, (self._counts(), len(plan), self._tail())
                time.sleep(0.02)
                for place, each in enumerate(workers):
                    if each.poll() is not None:
                        workers[place] = self._worker(plan)
                if daemon_kills and len(plan) <= daemon_kills[0]:
                    daemon_kills.pop(0)
                    self._kill_daemon()
                waiting, invoices = self._counts()
                if plan and waiting < 8:
                    self._put(range(topped_up, topped_up + 20))
                    topped_up += 20
                elif not plan and not waiting and (self.by_hand or invoices >= 2 * topped_up):
                    break
            time.sleep(2.5)  # markers of the last second are deleted
            bodies = Counter(self._invoices())
            for each in workers:
                each.send_signal(signal.SIGTERM)
                each.wait(40)
        rows = Counter(int(row[0]) for row in self._sql("SELECT id FROM orders"))
        return Account(
            topped_up,
            sum(rows.values()),
            sum(count - 1 for count in rows.values()),
            topped_up - len(rows),
            sum(bodies.values()),
            sum(bodies[order] != 2 * rows[order] for order in range(topped_up)),
            Counter(self._deaths()),
            self.daemon_deaths,
            [str(row[0]) for row in self._sql("SELECT outcome FROM evermq_unit WHERE outcome <> 'database'")],
        )

    # Processes

    def start_daemon(self) -> None:
        (self.folder / "broker.toml").write_text(
            f'[queue_manager]\ndata = "data"\n[listener]\nport = {self._port}\n', "utf-8"
        )
        process = subprocess.Popen(
            command("run", "--config", "broker.toml"), stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env=environment(),
        )  # fmt: skip
        assert process.stderr is not None
        self.daemon = ready(process, process.stderr)
        self._port = int(self.daemon.url.rpartition(":")[2])
        Thread(target=process.stderr.read, daemon=True).start()  # a pipe that is full would hold the daemon

    def _kill_daemon(self) -> None:
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon_deaths += 1
        self.start_daemon()

    def _end_daemon(self) -> None:
        self.daemon.process.send_signal(signal.SIGTERM)
        self.daemon.process.wait(30)

    def _worker(self, plan: list[str]) -> subprocess.Popen[bytes]:
        step = plan.pop() if plan else "none"
        kind, source = ("sqlite", str(self.folder / "orders.db"))
        if self.postgres is not None:
            kind, source = "postgres", self.postgres.dsn()
        words = [kind, self.daemon.url, source, step, "yes" if self.by_hand else "no"]
        with (self.folder / "workers.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "program.py", *words], cwd=self.folder, env=environment(), stderr=log
            )

    # What there is

    def _define(self) -> None:
        with broker.connect_sync(self.daemon.url) as connection:
            for name in ("ORDERS", "INVOICES"):
                connection.mqsc(
                    f"DEFINE PROCESS({name})\nDEFINE QLOCAL({name}) DEFPSIST(YES) MAXDEPTH(999999) TRIGGER "
                    f"TRIGTYPE(EVERY) PROCESS({name})", check=True
                )  # fmt: skip

    def _put(self, orders: range) -> None:
        with broker.connect_sync(self.daemon.url) as connection, connection.open("ORDERS", MQOO.OUTPUT) as queue:
            for order in orders:
                queue.put(str(order))

    def _counts(self) -> tuple[int, int]:
        """The orders that wait, and the invoices."""
        try:
            with broker.connect_sync(self.daemon.url) as connection:
                replies = connection.mqsc("DISPLAY QLOCAL(ORDERS) CURDEPTH\nDISPLAY QLOCAL(INVOICES) CURDEPTH")
        except MQError:
            return 1, 0
        orders, invoices = (int(reply.attributes[0]["CURDEPTH"]) for reply in replies)
        return orders, invoices

    def _invoices(self) -> list[int]:
        found = []
        with (
            broker.connect_sync(self.daemon.url) as connection,
            connection.open("INVOICES", MQOO.INPUT_SHARED) as queue,
        ):
            try:
                while True:
                    found.append(int(queue.get().data))
            except MQError:
                return found

    def _sql(self, text: str) -> list[tuple[str, ...]]:
        if self.postgres is not None:
            return [tuple(row) for row in self.postgres.sql(f"SET ROLE {OWNER}", text, database=OWNER)]
        with closing(sqlite3.connect(self.folder / "orders.db", timeout=30)) as connection, connection:
            connection.execute("PRAGMA journal_mode = WAL")
            return [tuple(map(str, row)) for row in connection.execute(text).fetchall()]

    def _deaths(self) -> list[str]:
        file = self.folder / "deaths.txt"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def _tail(self) -> str:
        return (self.folder / "workers.log").read_text("utf-8")[-3000:]


def _kill(workers: list[subprocess.Popen[bytes]]) -> None:
    for each in workers:
        each.kill()
        each.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deaths", type=int, default=100, help="at each step")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--by-hand", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(Postgres(in_memory=False)) if options.postgres else None
        account = Rig(folder, postgres, by_hand=options.by_hand).run(50, options.deaths)
        print(account, "exact" if account.exact else "NOT EXACT")  # noqa: T201


if __name__ == "__main__":
    main()
