"""`evermq worker` where the program's database cannot be used: it ends, with what somebody has to do."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Final

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from tests.cli.conftest import environment

if TYPE_CHECKING:
    from pathlib import Path

SHOP: Final = """
import sqlite3

from broker import Database
from triggers import App

app = App("mq://{address}")


@app.handler("ORDERS", database=Database("orders.db", create=False))
def ship(order: str, connection: sqlite3.Connection) -> None: ...
"""


async def test_a_worker_without_its_table_ends_with_the_statement_that_makes_it(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    async with (
        QueueManager.open(name="QM1") as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
    ):
        (tmp_path / "shop.py").write_text(SHOP.format(address=server.addresses[0]))
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "broker", "worker", "shop"),
            cwd=tmp_path,
            env=environment(),
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await worker.communicate()
    lines = [line for line in told.decode().splitlines() if " level=" not in line]
    assert worker.returncode == 20
    assert lines[0].startswith("evermq: shop:app: there is no table evermq_unit, and it is not made here. EverMQ needs")
    assert [line for line in lines if "CREATE TABLE evermq_unit" in line]
    assert "Traceback" not in told.decode()
