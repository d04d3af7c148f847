"""The fixtures of pytest that come with EverMQ (handlers rule 11.3), in runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHOP = """
from triggers import App

app = App("mq://127.0.0.1:1", name="shop")
DONE = []


@app.handler("ORDERS")
async def ship(order: str) -> None:
    if order == "fog":
        raise ValueError(order)
    DONE.append(order)
"""

TESTS = """
import pytest
import shop
from broker.mqi import MQOO, MQError

pytestmark = pytest.mark.anyio


async def test_a_manager_and_a_connection(evermq_manager, evermq_connection):
    await evermq_connection.mqsc("DEFINE QLOCAL(Q)", check=True)
    async with evermq_connection.open("Q", MQOO.INPUT_SHARED) as queue:
        await evermq_manager.clock.advance(5)
        with pytest.raises(MQError):
            await queue.get()


async def test_an_app(evermq_app):
    await evermq_app.put("ORDERS", "5 chairs")
    await evermq_app.idle()
    assert shop.DONE == ["5 chairs"]
    await shop.app.put("ORDERS", "again")
    await evermq_app.idle()
    assert shop.DONE == ["5 chairs", "again"]


async def test_a_failure(evermq_app):
    await evermq_app.put("ORDERS", "fog")
"""


def run(
    folder: Path, *arguments: str, ini: str = "evermq_app = shop:app\nevermq_seed = 3\n"
) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(SHOP, "utf-8")
    (folder / "test_shop.py").write_text(TESTS, "utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}", "utf-8")
    (folder / "conftest.py").write_text(
        "import pytest\n\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n", "utf-8"
    )
    plugin = ["-p", "triggers.pytest_plugin"]  # as its entry point would, were this installed
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "anyio", *plugin, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_fixtures_serve_tests_that_are_coroutines(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "2 passed" in done.stdout or "3 passed" in done.stdout, done.stdout + done.stderr
    assert "ValueError: fog" in done.stdout, "leaving the fixture raises what the handler raised"
    assert "the test of shop ran with seed=3" in done.stdout


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("", 'is "module:name", as in "shop.orders:app"'),
        ("evermq_app = shop:nothing\n", "has no attribute 'nothing'"),
        ("evermq_app = nowhere:app\n", "No module named 'nowhere'"),
        ("evermq_app = shop:DONE\n", "that is no App but []"),
    ],
)
def test_an_app_that_is_not_there_is_told_in_a_line(tmp_path: Path, ini: str, words: str) -> None:
    done = run(tmp_path, "-k", "test_an_app", ini=ini)
    assert words in done.stdout, done.stdout + done.stderr


def test_the_plugin_is_loaded_by_its_entry_point() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '[project.entry-points.pytest11]\nevermq = "triggers.pytest_plugin"' in text


def test_a_run_that_does_not_use_it_loads_little() -> None:
    program = "import triggers.pytest_plugin, sys; print('broker.engine' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
