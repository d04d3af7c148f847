"""The systems on which every scenario runs: each way to reach a queue manager, each store."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.storage.memory import MemoryStore
from tests.conformance.crashes import DurableSystem
from tests.conformance.exempt import told_of_shared_queues
from tests.conformance.expect import ALL
from tests.conformance.system import System
from tests.conformance.ways import JUDGED, WAYS
from tests.rows import ROWS_IN_HALF, row_of, system_of
from tests.stores import log_store
from tests.tiers import is_full

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from broker import Connection, Queue
    from broker.storage.store import Store
    from tests.conformance.kept import KeptGroups

STORES: dict[str, Callable[[Path], Callable[[], Store]]] = {
    "memory": lambda path: MemoryStore,
    "log": lambda path: partial(log_store, path / "data"),
}

SHARING = {"shared": ("embedded", 1), "shared-two": ("tcp", 2), "shared-judged": ("judged", 1)}
"""The systems with shared queues: the way in which they are reached, and how many members there are."""

IN_MEMORY = Path("/dev/shm")

LENT, LENT_IN_FULL = 50, 10
"""To so many scenarios a group is lent, in a quick run and in a full one."""

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tables each row runs on two of the four systems, which together have both ways and both stores, and on one of
    the two that are shared, and the next row on the others. The rest is `slow`.
    """
    left_out = [item for item in items if not _is_told(item)]
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=left_out)
    scenarios: dict[str, dict[str, list[tuple[pytest.Item, str, str]]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        system = system_of(item)
        if system is not None:
            scenarios[item.nodeid.partition("[")[0]][row_of(item)].append((item, *system))
    for rows in scenarios.values():
        if len(rows) >= ROWS_IN_HALF:
            for number, reported in enumerate(rows.values()):
                for item, way, store in reported:
                    if (number + (way == "tcp") + (store == "log")) % 2:
                        item.add_marker("slow")


def _is_told(item: pytest.Item) -> bool:
    """True if a test of a scenario is not one of a system with shared queues, for which the scenario is not meant."""
    system = system_of(item)
    if system is None or system[1] not in SHARING:
        return True
    return told_of_shared_queues(item.path.stem, getattr(item, "originalname", item.name))


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where the system has such a folder: what a disk does with a sync is for others to test."""
    if not os.access(IN_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=IN_MEMORY, prefix="evermq-") as path:
        yield Path(path)


PRIVATE = [*((way, store) for store in STORES for way in WAYS), *((way, "memory") for way in JUDGED)]
SHARED = [pytest.param((way, store), marks=pytest.mark.postgres) for store, (way, _) in SHARING.items()]


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """All scenarios share an event loop, and so groups that stay joined."""
    return "asyncio"


@pytest.fixture(scope="package")
async def kept_groups(request: pytest.FixtureRequest) -> AsyncIterator[KeptGroups]:
    """The groups that scenarios have one after the other."""
    from tests.conformance.kept import KeptGroups

    groups = KeptGroups(LENT_IN_FULL if is_full(request.config) else LENT)
    yield groups
    await groups.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        item.stash[FAILED] = True


@pytest.fixture(params=[*PRIVATE, *SHARED], ids="-".join)
async def system(request: pytest.FixtureRequest, tmp_path: Path, kept_groups: KeptGroups) -> AsyncIterator[System]:
    """A queue manager without queues of ours, or a group of them. With a store on disk, and in a group of two, messages
    are persistent by default.
    """
    way, store = request.param
    if store in SHARING:
        async with kept_groups.lend(request.getfixturevalue("postgres"), way, SHARING[store][1]) as (system, loan):
            yield system
            loan.failed = FAILED in request.node.stash
    else:
        async with System(STORES[store](tmp_path), way) as system:
            if store == "log":
                await system.mqsc("ALTER QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) DEFPSIST(YES)")
            yield system


@pytest.fixture(params=WAYS)
async def durable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DurableSystem]:
    """A queue manager that may crash. QLOCAL(Q) and QLOCAL(ST) are defined, with messages persistent by default."""
    async with DurableSystem(tmp_path, request.param) as system:
        await system.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES) MSGDLVSQ(FIFO)\nDEFINE QLOCAL(ST) DEFPSIST(YES)")
        yield system


@pytest.fixture
async def connection(system: System) -> Connection:
    """A connection; QLOCAL(Q) is defined."""
    await system.mqsc("DEFINE QLOCAL(Q)")
    return await system.connect("scenario")


@pytest.fixture
async def queue(connection: Connection) -> Queue:
    """QLOCAL(Q), open for everything on `connection`."""
    return await connection.open("Q", ALL)


@pytest.fixture
async def other(system: System, connection: Connection) -> Connection:
    """The connection of another program."""
    return await system.connect("other")


@pytest.fixture
async def beside(system: System, connection: Connection) -> Connection:
    """The connection of another program, at the same queue manager even where there are several: for what each of them
    knows for itself.
    """
    return await system.connect("other", connection)


@pytest.fixture
async def beside_queue(beside: Connection) -> Queue:
    """QLOCAL(Q), open for everything on `beside`."""
    return await beside.open("Q", ALL)


@pytest.fixture
async def other_queue(other: Connection) -> Queue:
    """QLOCAL(Q), open for everything on `other`."""
    return await other.open("Q", ALL)
