"""The route of docs/how-to/one-transaction.md in a process of its own, killed under load (D3.5): FastAPI with an
AsyncSession, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from broker.mqi import MQGMO, MQOO, MQRC, MQError
from tests.databases.ways import GONE
from tests.sharing.postgres import OWNER
from tests.transactions.test_page import API, DAEMON, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sharing.postgres import Postgres

PATIENCE: Final = 120.0
CLIENTS: Final = 8
FEW: Final = (3, 11)
MANY: Final = tuple(range(1, 41))
"""The numbers of answered orders behind which the process is killed, time after time."""

URL: Final = '"sqlite+aiosqlite:///orders.db"'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("sqlalchemy", "greenlet", "uvicorn", "fastapi"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("api", None)


@contextmanager
def serving(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Uvicorn with the route, on a socket in the folder; it is killed at the end, if it has not been."""
    socket = folder / "api.sock"
    socket.unlink(missing_ok=True)
    words = ["-m", "uvicorn", "api:api", "--uds", str(socket), "--log-level", "warning"]
    with (folder / "log").open("ab") as log, subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment(), stderr=log
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


class Load:
    """Clients that order, each an item of its own, until the process is gone. `answered` are the items and numbers."""

    def __init__(self, folder: Path) -> None:
        self.asked = 0
        self.answered: dict[str, int] = {}
        self._folder = folder

    async def until_killed(self, process: subprocess.Popen[bytes], answers: int) -> None:
        """Order, and kill the process when so many more have been answered, with the other orders on their way."""
        limit = len(self.answered) + answers
        transport = httpx.AsyncHTTPTransport(uds=str(self._folder / "api.sock"))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=PATIENCE) as client:
            await self._ready(client, process)
            await asyncio.gather(*(self._order(client, process, limit) for _ in range(CLIENTS)))

    async def _ready(self, client: httpx.AsyncClient, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            with suppress(httpx.TransportError):
                await client.get("/openapi.json")
                return
            assert process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < end
            await asyncio.sleep(0.02)

    async def _order(self, client: httpx.AsyncClient, process: subprocess.Popen[bytes], limit: int) -> None:
        while process.returncode is None and len(self.answered) < limit:
            self.asked += 1
            item = f"item-{self.asked}"
            try:
                answer = await client.post(f"/orders/{item}")
            except httpx.TransportError:  # it is gone, and nobody knows what has become of this one
                return
            assert answer.status_code == 200, (self._folder / "log").read_text()
            self.answered[item] = answer.json()
            if len(self.answered) >= limit:
                process.kill()


@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_d3_5_a_route_that_is_killed_under_load_loses_and_doubles_nothing(
    kind: str, kills: tuple[int, ...], folder: Path, request: pytest.FixtureRequest
) -> None:
    assert URL in API
    url = URL
    if kind == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        postgres.sql(GONE, database=OWNER)
        url = f'"postgresql+asyncpg://{OWNER}@/{OWNER}?host={postgres.folder}&port={postgres.port}"'
    (folder / "api.py").write_text(API.replace(URL, url).replace(DAEMON, '"api-data"'))  # it dies with the route
    load = Load(folder)
    for answers in kills:
        with serving(folder) as process:
            await load.until_killed(process, answers)
            assert await asyncio.to_thread(process.wait) == -9
    assert load.asked > len(load.answered) >= sum(kills)  # some were on their way
    rows, messages = await found_then()
    assert len(rows) == len(set(rows)) >= len(load.answered)
    assert messages == rows  # each row has its message, and each message its row: once
    assert set(load.answered.items()) <= {(item, number) for number, item in rows}


async def found_then() -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the rows and the messages, once a program with this database has decided what was left in doubt."""
    from sqlalchemy import select

    module: Any = importlib.import_module("api")
    async with module.api.router.lifespan_context(module.api):
        connection = await module.queues.session.connection()
        end = time.monotonic() + PATIENCE
        while any(reply.attributes for reply in await connection.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)")):
            assert time.monotonic() < end, "something is in doubt for ever"
            await asyncio.sleep(0.02)
        async with module.sessions() as session:
            found = await session.execute(select(module.Order.id, module.Order.item))
            rows = sorted((number, item) for number, item in found)
        messages = []
        async with connection.open("ORDERS", MQOO.BROWSE) as queue:
            with pytest.raises(MQError) as ended:
                while True:
                    body = decoded((await queue.get(options=MQGMO.BROWSE_NEXT)).data)
                    messages.append((body["id"], body["item"]))
        assert ended.value.reason == MQRC.NO_MSG_AVAILABLE
    return rows, sorted(messages)


def decoded(data: bytes) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads(data)
    return found
