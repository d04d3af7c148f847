"""Apps, queue managers and connections in programs whose tasks come and go: fixtures, notebooks, web frameworks."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from broker import MQError, QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQOO
from broker.server import Server
from triggers import App, NotServableError, TriggerMonitor

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def elsewhere(work: Awaitable[Any]) -> Any:
    """Await this in a task of its own, which ends with it."""

    async def do() -> Any:
        return await work

    return await asyncio.create_task(do())


class Shipping:
    """Handlers of one queue on an app; `shipped` is what they had, `one` is set with each."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.shipped: list[str] = []
        self.one = asyncio.Event()

        @app.handler("ORDERS")
        async def ship(order: str) -> None:
            self.shipped.append(order)
            self.one.set()

        @app.handler("QUOTES")
        def quote(order: str) -> str:
            return f"{order}: 40"


@asynccontextmanager
async def in_process(tmp_path: Path) -> AsyncIterator[App]:
    async with QueueManager.open(name="QM1") as manager:
        yield App(manager)


@asynccontextmanager
async def in_a_folder(tmp_path: Path) -> AsyncIterator[App]:
    yield App(tmp_path / "data")


@asynccontextmanager
async def over_tcp(tmp_path: Path) -> AsyncIterator[App]:
    async with (
        QueueManager.open(name="QM1") as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
    ):
        yield App(f"mq://{server.addresses[0]}")


DOORS = pytest.mark.parametrize("source", [in_process, in_a_folder, over_tcp])


@DOORS
async def test_an_app_starts_and_stops_in_any_task(source: Any, tmp_path: Path) -> None:
    async with source(tmp_path) as app:
        shipping = Shipping(app)
        await app.stop()  # harmless when it does not run
        for order in ("3 chairs", "a table"):
            shipping.one.clear()
            await elsewhere(app.start())
            with pytest.raises(RuntimeError, match="runs already"):
                await app.start()
            await elsewhere(app.put("ORDERS", order))
            await shipping.one.wait()
            assert await elsewhere(app.request("QUOTES", order, timeout=60, type=str)) == f"{order}: 40"
            await elsewhere(app.stop())
            await app.close()  # twice is harmless
        assert shipping.shipped == ["3 chairs", "a table"]


@DOORS
async def test_an_app_is_left_in_another_task_than_it_was_entered_in(source: Any, tmp_path: Path) -> None:
    async with source(tmp_path) as app:
        shipping = Shipping(app)
        running = app.running()
        await elsewhere(running.__aenter__())
        await app.put("ORDERS", "3 chairs")
        await shipping.one.wait()
        await elsewhere(running.__aexit__(None, None, None))
        with pytest.raises(RuntimeError, match="does not run"):
            await app.put("ORDERS", "4 chairs")


@DOORS
async def test_nothing_is_put_while_an_app_starts_and_the_error_says_so(source: Any, tmp_path: Path) -> None:
    """As another thread does that cannot await the start."""
    async with source(tmp_path) as app:
        Shipping(app)
        start = asyncio.ensure_future(app.start())
        refused = 0
        while not start.done():
            try:
                await elsewhere(app.put("ORDERS", "3 chairs"))
            except RuntimeError as error:
                assert "does not run" in str(error)
                refused += 1
        assert refused
        await start
        await app.put("ORDERS", "4 chairs")
        await app.stop()


async def test_a_queue_manager_and_its_app_are_left_in_the_order_of_entering() -> None:
    manager = await QueueManager.open(name="QM1")
    app = App(manager)
    Shipping(app)
    await app.start()
    await app.put("ORDERS", "3 chairs")
    await manager.close()
    await app.stop()
    await app.stop()


async def test_a_monitor_is_left_in_another_task_than_it_was_entered_in() -> None:
    async with QueueManager.open(name="QM1") as manager:
        monitor = TriggerMonitor(manager, handlers=[])
        await elsewhere(monitor.__aenter__())
        await elsewhere(monitor.__aexit__(None, None, None))


async def test_a_start_that_fails_leaves_the_app_to_be_started_again() -> None:
    async with QueueManager.open(name="QM1") as manager:
        app = App(manager)
        shipping = Shipping(app)
        async with manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(ORDERS) DEFPSIST(YES) PUT(ENABLED) GET(DISABLED)", check=True)
            with pytest.raises((NotServableError, MQError)):
                await app.start()
            await connection.mqsc("DELETE QLOCAL(ORDERS)", check=True)
        await app.start()
        await app.put("ORDERS", "3 chairs")
        await shipping.one.wait()
        await app.stop()


async def test_an_app_whose_task_is_cancelled_while_it_stops_stops_at_once() -> None:
    async with QueueManager.open(name="QM1") as manager:
        app = App(manager)
        began, ended = asyncio.Event(), asyncio.Event()

        @app.handler("LONG")
        async def long(order: str) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        await app.start(grace=3600)
        await app.put("LONG", "a ship")
        await began.wait()
        stopping = asyncio.create_task(app.stop())
        await asyncio.sleep(0)
        assert not ended.is_set()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert ended.is_set()
        assert app.running_session is None


DROPPED = """
import asyncio, sys
from triggers import App

app = App(sys.argv[1])

async def main():
    await app.start(handlers=False)  # line 8
    await app.put("ORDERS", "3 chairs")


@app.handler("ORDERS")
async def ship(order: str) -> None: ...

asyncio.run(main())
"""


def test_an_app_that_is_never_stopped_warns_with_its_line_and_loses_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DROPPED)
    command = [sys.executable, "-W", "always::ResourceWarning", str(program), str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"{program}:8: ResourceWarning: the app program was opened here and never closed" in done.stderr
    assert done.stderr.count("ResourceWarning") == 1

    async def look() -> bytes:
        async with (
            QueueManager.open(data=tmp_path / "data") as manager,
            manager.connect() as connection,
            connection.open("ORDERS", MQOO.INPUT_SHARED) as queue,
        ):
            return bytes((await queue.get()).data)

    assert asyncio.run(look()) == b"3 chairs"


# Fixtures of pytest

FIXTURES = """
import {plugin}
import pytest
from broker import QueueManager, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQOO
from broker.server import Server
from triggers import App

fixture = {fixture}


@fixture
async def manager():
    async with QueueManager.open(name="QM1") as manager:
        yield manager


@fixture
async def second():
    manager = await QueueManager.open(name="QM2")
    yield manager
    await manager.close()


@fixture
async def connection(manager):
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        connection = await connect("mq://" + server.addresses[0])
        yield connection
        await connection.close()


@fixture
async def embedded(manager):
    async with manager.connect() as connection:
        yield connection


@fixture
async def app(manager):
    app = App(manager, name="shop")
    app.handler("ORDERS")(ship)
    async with app.running():
        yield app


SHIPPED = []


async def ship(order: str) -> None:
    SHIPPED.append(order)


@pytest.mark.{mark}
async def test_messages(manager, second, connection, embedded):
    await connection.mqsc("DEFINE QLOCAL(Q)", check=True)
    await connection.put1("Q", "A")
    async with embedded.open("Q", MQOO.INPUT_SHARED) as queue:
        assert (await queue.get()).data == b"A"
    async with second.connect() as other:
        await other.mqsc("DEFINE QLOCAL(Q)", check=True)


@pytest.mark.{mark}
async def test_an_app(app):
    await app.put("ORDERS", "3 chairs")
    while not SHIPPED:
        await anyio.sleep(0.001)


@pytest.mark.{mark}
async def test_a_test_of_an_app():
    app = App("mq://127.0.0.1:1", name="shop")
    app.handler("ORDERS")(ship)
    async with app.test() as t:
        await t.put("ORDERS", "3 chairs")
        await t.idle()
"""

PLUGINS = {
    "pytest-asyncio": {
        "plugin": "pytest_asyncio, anyio",
        "fixture": "pytest_asyncio.fixture",
        "mark": "asyncio",
        "ini": "asyncio_default_fixture_loop_scope = function",
    },
    "pytest-anyio": {"plugin": "anyio", "fixture": "pytest.fixture", "mark": "anyio", "ini": "addopts = -p no:asyncio"},
}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_fixtures_that_yield_are_entered_and_left(plugin: str, tmp_path: Path) -> None:
    (tmp_path / "test_fixtures.py").write_text(FIXTURES.format(**PLUGINS[plugin]))
    (tmp_path / "conftest.py").write_text(
        'import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return "asyncio"\n'
    )
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\n{PLUGINS[plugin]['ini']}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


# Cells of a notebook, each a task of one event loop

CELLS = """
    from broker import QueueManager
    from broker.mqi import MQOO
    from triggers import App
    manager = await QueueManager.open(name="QM1", data=folder)
---
    connection = await manager.connect()
    _ = await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)", check=True)
    queue = await connection.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT)
---
    await queue.put("A")
---
    app = App(manager, name="notebook")
    done = []
    @app.handler("ORDERS")
    async def ship(order: str) -> None:
        done.append(order)
    await app.start()
---
    import asyncio
    await app.put("ORDERS", "3 chairs")
    while not done:
        await asyncio.sleep(0)
    data = (await queue.get()).data
---
    entered = app.test()
    t = await entered.__aenter__()
---
    await entered.__aexit__(None, None, None)
---
    await manager.close()
---
    await app.stop()
    await connection.close()
---
    again = await QueueManager.open(name="QM1", data=folder)
---
    await again.close()
"""


async def test_cells_of_a_notebook_open_use_and_close(tmp_path: Path) -> None:
    names: dict[str, Any] = {"folder": tmp_path / "data", "__name__": "__main__"}
    for number, text in enumerate(CELLS.split("---\n")):
        code = compile(textwrap.dedent(text), f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        run = eval(code, names)
        if run is not None:
            await asyncio.create_task(run)
    assert (names["data"], names["done"]) == (b"A", ["3 chairs"])


# A web framework


@asynccontextmanager
async def served(web: FastAPI) -> AsyncIterator[AsyncClient]:
    """As a server of ASGI does: the lifespan is a task of its own, and each request is."""
    reported: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    life = asyncio.create_task(web(scope, reported.get, said.put))
    await reported.put({"type": "lifespan.startup"})
    assert (await said.get())["type"] == "lifespan.startup.complete"
    async with AsyncClient(transport=ASGITransport(web), base_url="http://shop") as client:
        yield client
    await reported.put({"type": "lifespan.shutdown"})
    assert (await said.get())["type"] == "lifespan.shutdown.complete"
    await life


@pytest.mark.parametrize("way", ["with a block", "without"])
def test_an_app_lives_in_the_lifespan_of_fastapi(way: str, tmp_path: Path) -> None:
    app = App(tmp_path / "data", name="shop")
    shipped: list[str] = []

    @app.handler("ORDERS")
    async def ship(order: str) -> None:
        shipped.append(order)

    @app.handler("QUOTES")
    async def quote(order: str) -> str:
        return order

    @asynccontextmanager
    async def lifespan(web: FastAPI) -> AsyncIterator[None]:
        if way == "without":
            await app.start()
            yield
            await app.stop()
            return
        async with app.running():
            yield

    web = FastAPI(lifespan=lifespan)

    @web.post("/orders/{order}")
    async def take(order: str) -> str:
        await app.put("ORDERS", order)
        reply: str = await app.request("QUOTES", order, timeout=60, type=str)
        return reply

    async def serve() -> None:
        async with served(web) as client:
            assert (await client.post("/orders/chair")).json() == "chair"

    for _ in range(2):  # the server starts again, on another event loop
        asyncio.run(serve())
    assert shipped == ["chair", "chair"]
