"""The common part of all tests: coroutine tests run on asyncio; a PostgreSQL for those that ask for one; the suite runs
in several processes, a file in one of them.
"""

from __future__ import annotations

import gc
import os
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import tiers
from tests.sharing.fixtures import durable_group, durable_postgres, group, postgres
from tests.tries import register_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

__all__ = ["durable_group", "durable_postgres", "group", "postgres"]

register_profiles()

PROCESSES_MAX = 4

LONG = (
    "tests/spark/", "tests/hostile/", "tests/simulation/", "tests/handlers/test_worker_processes.py",
    "tests/durability/", "tests/transactions/", "tests/examples/", "tests/disk/", "tests/cli/",
    "tests/engine/test_cancellation.py",
)  # fmt: skip
"""What takes long and has few tests is begun first, so that no process is alone at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run what the quick tier leaves out too (tests/tiers.py)")


def pytest_configure(config: pytest.Config) -> None:
    os.umask(0o022)  # where another may write a file with a secret, it is refused
    tiers.settle_rotation()
    settings.load_profile("quick" if tiers.is_quick(config) else "suite")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return tiers.is_left_out(collection_path, config) or None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell of a quick run that it was one, and how it is done again."""
    if tiers.is_quick(config):
        rotation = tiers.settle_rotation()
        terminalreporter.write_line(f"quick tier, {tiers.ROTATION}={rotation}; --full runs what it leaves out")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process for each processor. Files that are named, tests whose output is to be seen, soaks and measurements
    run in the process that was started.
    """
    asked = re.search(r"(?<!not )\b(slow|benchmark)\b", config.option.markexpr)
    if asked or config.option.capture == "no" or all(".py" in each for each in config.args):
        return 0
    return min(os.cpu_count() or 1, PROCESSES_MAX)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    from tests.scheduling import FileScheduling

    return FileScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop what is left to the full run. In the processes of a run the longest comes first."""
    left = tiers.left_to_full(config, items)
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG))


def pytest_collection_finish() -> None:
    """The seventeen thousand tests stay: no later collection of garbage goes through them again."""
    gc.collect()
    gc.freeze()
