"""The probes by HTTP: each check by its name, as text and as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.mqi import MQRC
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import reason_of
from tests.http.client import ask
from tests.http.conftest import FREE, port_of, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATHS = ("/livez", "/readyz", "/startupz")


async def statuses(port: int) -> tuple[int, ...]:
    """The statuses of the three probes."""
    return tuple([(await ask(port, path)).status for path in PATHS])


@pytest.mark.parametrize("path", PATHS)
async def test_a_probe_of_a_queue_manager_that_works_is_ok(port: int, path: str) -> None:
    answer = await ask(port, path)
    assert (answer.status, answer.text) == (200, "ok\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    in_json = await ask(port, path, "Accept: text/html, application/json;q=0.9")
    assert (in_json.status, json.loads(in_json.text)) == (200, {"status": "ok", "checks": {}})


@pytest.mark.parametrize("path", PATHS)
async def test_a_probe_may_ask_for_the_head_alone_and_does_nothing_else(port: int, path: str) -> None:
    answer = await ask(port, path, method="HEAD")
    assert (answer.status, answer.text) == (200, "")
    assert (await ask(port, path, method="POST")).status == 405


@pytest.fixture
async def stalled() -> AsyncIterator[tuple[QueueManager, FaultStore]]:
    """A queue manager whose store can be held and filled; its queue is Q."""
    store = FaultStore(MemoryStore())
    async with QueueManager.open(name="QM1", store=store, clock=VirtualClock()) as manager:
        async with manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
        try:
            yield manager, store
        finally:
            store.release()


async def test_o2_1_a_batch_that_hangs_fails_all_probes_but_that_of_the_start(
    stalled: tuple[QueueManager, FaultStore],
) -> None:
    manager, store = stalled
    assert isinstance(manager.clock, VirtualClock)
    async with serving(manager) as server, manager.connect() as connection:
        assert await statuses(port_of(server)) == (200, 200, 200)
        store.hold()
        putting = asyncio.ensure_future(connection.put1("Q", b"A"))
        await store.wait_held()
        await manager.clock.advance(31)
        assert await statuses(port_of(server)) == (503, 503, 200)
        answer = await ask(port_of(server), "/livez")
        assert answer.text == "journal: a batch has been under way for 31 s, more than 30\n"
        store.release()
        await putting
        assert await statuses(port_of(server)) == (200, 200, 200)


async def test_o2_2_and_o2_3_until_the_start_is_over_it_is_alive_and_nothing_but_probes_is_answered(
    manager: QueueManager,
) -> None:
    manager.missing = {"starting": "the startup commands run", "listener": "nothing listens yet"}
    async with serving(manager) as server:
        port = port_of(server)
        assert await statuses(port) == (200, 503, 503)
        answer = await ask(port, "/readyz", "Accept: application/json")
        assert json.loads(answer.text) == {"status": "failing", "checks": manager.missing}
        for path in ("/metrics", "/elsewhere"):
            assert (await ask(port, path)).text == "starting: the startup commands run\n"
        manager.missing = {}
        assert await statuses(port) == (200, 200, 200)


async def test_o2_4_a_full_store_is_unready_and_alive(stalled: tuple[QueueManager, FaultStore]) -> None:
    manager, store = stalled
    async with serving(manager) as server, manager.connect() as connection:
        server.started()
        store.fill()
        assert await reason_of(connection.put1("Q", b"A")) == MQRC.STORAGE_MEDIUM_FULL
        assert await statuses(port_of(server)) == (200, 503, 200)
        answer = await ask(port_of(server), "/readyz")
        assert answer.text == "store_full: there is no room: what grows is refused, what removes goes through\n"
        store.make_room()
        assert await statuses(port_of(server)) == (200, 200, 200)


async def test_o2_5_a_queue_manager_that_quiesces_is_unready_and_alive(manager: QueueManager) -> None:
    async with serving(manager) as server:
        await manager.quiesce(0)
        assert await statuses(port_of(server)) == (200, 503, 503)
        assert (await ask(port_of(server), "/readyz")).text == "quiescing: QM1 is quiescing\n"


async def test_a_probe_leaves_no_trace_in_the_log(port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    await ask(port, "/livez")
    assert [record for record in caplog.records if record.name != "asyncio"] == []


async def test_the_address_of_the_probes_answers_them_and_figures_and_nothing_else(manager: QueueManager) -> None:
    async with serving(manager, listen=FREE, probes=FREE, probes_metrics=False) as server:
        for number in range(2):
            assert await statuses(port_of(server, number)) == (200, 200, 200)
        answer = await ask(port_of(server, 1), "/metrics")
        assert (answer.status, answer.text) == (
            404, "there is nothing at this path; there are /livez, /readyz, /startupz\n"
        )  # fmt: skip


async def test_an_unknown_path_is_answered_with_those_that_there_are(port: int) -> None:
    for path in ("/healthz", "/livez/", "/metrics/x", "/%2e%2e/etc/passwd"):
        answer = await ask(port, path)
        assert (answer.status, answer.text) == (
            404, "there is nothing at this path; there are /livez, /readyz, /startupz, /metrics, /openapi.json, "
            "/console/..., /ibmmq/rest/..., /jobs/...\n"
        )  # fmt: skip
    answer = await ask(port, "/")
    assert (answer.status, answer.headers["location"]) == (307, "/console/")
