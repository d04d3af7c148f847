"""The programs of docs/how-to/one-transaction.md, as they stand there."""

from __future__ import annotations

import importlib
import os
import sqlite3
import subprocess
import sys
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import httpx
import pytest

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from tests.examples.test_readme import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = blocks((ROOT / "docs/how-to/one-transaction.md").read_text("utf-8"))
WORKER, API, ORDERS, WSGI, WORK = [block.text for block in PAGE if block.language == "python"]
DAEMON: Final = '"mq://127.0.0.1:1414"'
[SHOWN] = [block.text for block in PAGE if block.language == "text"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("api", "working"):
        sys.modules.pop(name, None)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_the_worker_ships_the_order(folder: Path) -> None:
    (folder / "worker.py").write_text(WORKER)
    done = subprocess.run(
        [sys.executable, "worker.py"], capture_output=True, text=True, timeout=60, check=False, env=environment()
    )
    assert (done.stdout, done.returncode) == (SHOWN, 0), done.stderr


async def test_the_route_writes_a_row_and_puts_a_message_and_the_worker_ships_it(folder: Path) -> None:
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("greenlet")
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(QueueManager.open(name="QM1"))
        server = await stack.enter_async_context(Server(manager, ListenerConfig(port=0), LimitsConfig()))
        assert DAEMON in API
        for name in ("api", "working"):  # the web server, and the worker
            (folder / f"{name}.py").write_text(API.replace(DAEMON, f'"mq://{server.addresses[0]}"'))
        module = importlib.import_module("api")
        await stack.enter_async_context(module.api.router.lifespan_context(module.api))
        transport = httpx.ASGITransport(module.api)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            answers = [await client.post(f"/orders/{item}") for item in ("chair", "table")]
        assert [each.json() for each in answers] == [1, 2]
        connection = await module.queues.session.connection()
        [reply] = await connection.mqsc("DISPLAY QLOCAL(ORDERS) CURDEPTH", check=True)
        assert int(reply.attributes[0]["CURDEPTH"]) == 2
        await stack.enter_async_context(importlib.import_module("working").queues.running())
        with closing(sqlite3.connect("orders.db")) as orders:
            while orders.execute("SELECT id FROM orders WHERE shipped ORDER BY id").fetchall() != [(1,), (2,)]:  # noqa: ASYNC110  # a file tells nobody
                await anyio.sleep(0.01)


SETTINGS = """
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
"""

VIEWS = """
import time
from concurrent.futures import ThreadPoolExecutor

from mysite.wsgi import application

from django.db import connection

from shop.models import Order
from shop.orders import order

with connection.schema_editor() as editor:
    editor.create_model(Order)
connection.close()

with ThreadPoolExecutor(2) as threads:  # as a server has them
    made = list(threads.map(order, ["chair", "table"]))
while len(items := Order.objects.filter(pk__in=made, shipped=True).order_by("item")) < 2:
    connection.close()
    time.sleep(0.05)  # a file tells nobody
print([each.item for each in items])
"""

MODELS = """
from django.db import models


class Order(models.Model):
    item = models.TextField()
    shipped = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"
"""


async def test_the_view_orders_and_the_handler_ships(folder: Path) -> None:
    pytest.importorskip("django")
    for package in ("shop", "mysite"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("")
    async with (
        QueueManager.open(name="QM1") as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
    ):
        files = {
            "shop/models.py": MODELS, "shop/orders.py": ORDERS.replace(DAEMON, f'"mq://{server.addresses[0]}"'),
            "mysite/settings.py": SETTINGS, "mysite/wsgi.py": WSGI, "work.py": WORK, "views.py": VIEWS,
        }  # fmt: skip
        for name, text in files.items():
            (folder / name).write_text(text)
        worker = [sys.executable, "-c", "from broker.cli import main; main()", "worker", "work:queues"]
        async with await anyio.open_process(worker, env=environment(), stdout=None, stderr=None) as serving:
            done = await anyio.run_process([sys.executable, "views.py"], check=False, env=environment())
            serving.terminate()
    assert (done.stdout.decode(), done.returncode) == ("['chair', 'table']\n", 0), done.stderr.decode()


def test_nothing_of_the_page_is_left_out() -> None:
    assert [block.language for block in PAGE] == ["python", "text", "python", *["sh"] * 4, *["python"] * 3, "sh"]
