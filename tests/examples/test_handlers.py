"""The examples of handlers do what they say, run as a newcomer runs them."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.examples.processes import ROOT, Shell
from tests.examples.test_readme import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_requests_are_answered(shell: Shell) -> None:
    assert shell.run(f"python {ROOT}/examples/quotes.py").splitlines() == [
        "4 x chair: 160.00",
        "1 x table: 150.00",
        "1 x chair: 40.00",
        "refused, reason 65536",
    ]


def test_what_is_delayed_comes_in_time_and_what_is_periodic_at_whole_seconds(shell: Shell) -> None:
    said = shell.run(f"python {ROOT}/examples/reminders.py").splitlines()
    assert said[:2] == ["cancelled: True", "put again: False"]
    assert sorted(said[2:]) == ["call Ann", "run at a whole second: True", "stir", "the cake is done"]
    assert said.index("stir") < said.index("the cake is done")


def test_poison_is_set_aside_with_its_reason(shell: Shell) -> None:
    said = shell.run(f"python {ROOT}/examples/poison.py").splitlines()
    assert sorted(said[:7]) == [
        "chair, attempt 1",
        *(f"fog, attempt {number}" for number in (1, 2, 3)),
        *(f"snow, attempt {number}" for number in (1, 2, 3)),
    ]
    assert said[7:] == [
        "{'why': 'unreadable', 'attempts': 1, 'exception': 'UnreadableError'}",
        "{'why': 'failed', 'attempts': 3, 'exception': 'ValueError'}",
    ]


def test_the_tasks_that_came_from_celery_run(shell: Shell) -> None:
    said = shell.run(f"python {ROOT}/examples/mail_tasks.py").splitlines()
    assert sorted(said) == ["ann is reminded", "sent to ann: welcome"]


PAGE = [
    block
    for block in blocks((ROOT / "docs" / "how-to" / "web.md").read_text("utf-8"))
    if block.purpose.startswith("title=")
]
"""The files of the page about web servers."""


@pytest.fixture
def shop(tmp_path: Path, programs: Path) -> Shell:
    """A shell in a folder with the programs of the page, for a daemon with its data elsewhere."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for block in PAGE:
        (folder / block.purpose.removeprefix("title=").strip('"')).write_text(block.text, "utf-8")
    return Shell(folder, programs, EVERMQ_QUEUE_MANAGER_DATA=str(tmp_path / "data"))


@pytest.fixture
def worker(shop: Shell) -> Iterator[subprocess.Popen[str]]:
    """A worker of the shop beside a daemon."""
    with shop.daemon("evermq run"):
        command = ["bash", "-c", "exec evermq worker shop:app"]
        with subprocess.Popen(
            command, cwd=shop.folder, env=shop.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            yield process
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0


CUSTOMER = """
from fastapi.testclient import TestClient
from web import web

with TestClient(web) as client:
    for item, count in (("chair", 3), ("fog", 1), ("table", 0)):
        told = client.post("/orders", json={"item": item, "count": count})
        print(told.status_code, sorted(told.json()))
    print(client.post("/quotes", json={"item": "chair", "count": 2}).json())
    print(client.post("/orders", json={"item": "chair"}).status_code)
"""


def test_the_page_of_the_web_server_shows_the_example() -> None:
    assert [block.purpose for block in PAGE] == ['title="shop.py"', 'title="web.py"']
    for block, name in zip(PAGE, ("shop.py", "web.py"), strict=True):
        example = (ROOT / "examples" / "shop" / name).read_text("utf-8")
        assert example.endswith(f'"""\n\n{block.text}')


@pytest.mark.skipif(
    find_spec("fastapi") is None or find_spec("httpx") is None, reason="the example needs fastapi, and this httpx"
)
def test_a_web_server_puts_orders_and_a_worker_handles_them(shop: Shell, worker: subprocess.Popen[str]) -> None:
    assert shop.run(f"python - <<'END'{CUSTOMER}END").splitlines() == [
        "202 ['order']",
        "202 ['order']",
        "202 ['order']",
        "{'price': 80.0}",
        "422",
    ]
    assert worker.stdout is not None
    wanted = {"shipped 3 x chair", "invoiced cash: 3 x chair", "shipped 1 x fog", "invoiced cash: 1 x fog"}
    for line in worker.stdout:
        wanted -= {words for words in wanted if words in line}
        if not wanted:
            break
    assert not wanted
    assert "Reject" in shop.run("evermq dead-letters list SHOP.ORDERS.DEAD --json")
