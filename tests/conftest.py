"""What all tests share: coroutine tests run on asyncio; a PostgreSQL for those that ask for one; the suite runs in
several processes, a file in one of them.
"""

from __future__ import annotations

import gc
import os
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.sharing.fixtures import durable_group, durable_postgres, group, postgres

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

__all__ = ["durable_group", "durable_postgres", "group", "postgres"]

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("search"), derandomize=True)
settings.load_profile("suite")
"""The suite tries the same examples each time. How long one takes says little where several processes share the
processors.
"""

PROCESSES_MAX = 4

LONG = (
    "tests/spark/", "tests/hostile/", "tests/simulation/", "tests/handlers/test_worker_processes.py",
    "tests/durability/", "tests/examples/", "tests/disk/", "tests/cli/", "tests/engine/test_cancellation.py",
)  # fmt: skip
"""What takes long and has few tests is begun first, so that no process is alone at the end."""


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
    """A file's tests run in one process, in their order; all tests of Spark in one, with one session."""
    from xdist.scheduler import LoadFileScheduling

    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = _scope
    return scheduling


def _scope(nodeid: str) -> str:
    return "tests/spark" if nodeid.startswith("tests/spark/") else nodeid.partition("::")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the processes of a run the longest comes first."""
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG))


def pytest_collection_finish() -> None:
    """The seventeen thousand tests stay: no later collection of garbage goes through them again."""
    gc.collect()
    gc.freeze()
