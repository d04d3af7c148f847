"""What steps cost in the log, and what its tools say of them (transactions rule 7.4; log rule 2.6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker import QueueManager, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from broker.server import Server
from broker.storage.creation import LogSettings
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.tools.verify import verify
from broker.testing import VirtualClock
from tests.stores import log_store

if TYPE_CHECKING:
    from pathlib import Path

    from broker import Connection
    from broker.storage.log_store import LogStore

OPTIONS = ServiceOptions(handler="tests:handler")
BLOCK_AND_HEADER = 4096 + 64
DEFINED = "DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)"


def log_bytes(store: LogStore) -> tuple[int, int]:
    """The records of the log so far, and the bytes of their batches."""
    log = store._opened.log  # type: ignore[union-attr]
    return log.number, store._keeper.gathered


async def test_d7_6_a_hundred_steps_of_one_kib_grow_the_log_by_less_than_150_kib(tmp_path: Path) -> None:
    """Those of one turn share a write, and so the log grows in blocks too. One after the other each is a record of its
    own: the batches are no longer, but each is filled up to a block.
    """
    store = log_store(tmp_path / "data", settings=LogSettings(2, 4 * 1024 * 1024))
    opened = QueueManager.open(name="QM1", clock=VirtualClock(), store=store)
    async with opened as manager, manager.connect("test") as connection:
        await connection.mqsc(DEFINED, check=True)
        together = await steps(connection, store, at_once=True)
        apart = await steps(connection, store, at_once=False)
    records, size = together
    assert records <= 3
    assert 100 * 1024 < size < size + records * BLOCK_AND_HEADER < 150 * 1024
    records, size = apart
    assert records >= 100
    assert 100 * 1024 < size < 150 * 1024


async def test_steps_of_one_turn_share_a_write_over_a_line_too(tmp_path: Path) -> None:
    store = log_store(tmp_path / "data", settings=LogSettings(2, 4 * 1024 * 1024))
    opened = QueueManager.open(name="QM1", clock=VirtualClock(), store=store)
    async with (
        opened as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
        connect(f"mq://{server.addresses[0]}") as connection,
    ):
        await connection.mqsc(DEFINED, check=True)
        records, size = await steps(connection, store, at_once=True)
    assert records <= 10
    assert 100 * 1024 < size < 150 * 1024


async def steps(connection: Connection, store: LogStore, *, at_once: bool) -> tuple[int, int]:
    """Finish a hundred steps of a message: by how many records and bytes the log has grown."""
    await connection.put1("Q", "order")
    async with connection.deliveries("Q", options=OPTIONS) as deliveries:
        (taken,) = await deliveries.take()
        records, size = log_bytes(store)
        if at_once:
            await asyncio.gather(*(deliveries.step(taken, f"step {each}", bytes(1024)) for each in range(100)))
        else:
            for each in range(100):
                await deliveries.step(taken, f"step {each}", bytes(1024))
        after = log_bytes(store)
        await deliveries.settle([Settlement(taken.id, Outcome.DONE)])
    return after[0] - records, after[1] - size


async def test_d7_7_verify_reads_a_log_with_steps_and_one_without(tmp_path: Path) -> None:
    for number in range(2):
        store = log_store(tmp_path / "data")
        async with QueueManager.open(name="QM1", clock=VirtualClock(), store=store) as manager:
            async with manager.connect("test") as connection:
                if not number:
                    await connection.mqsc(DEFINED, check=True)
                    await connection.put1("Q", "order")
                async with connection.deliveries("Q", options=OPTIONS) as deliveries:
                    (taken,) = await deliveries.take()
                    assert taken.steps == ({"first": b"0"} if number else None)
                    await deliveries.step(taken, "second" if number else "first", b"%d" % number)
                    await deliveries.settle([Settlement(taken.id, Outcome.RETURNED)])
            backup = tmp_path / f"backup {number}"
            await store.backup(backup)
        for path in (tmp_path / "data", backup):
            found = await asyncio.to_thread(verify, SystemDisk(path))
            assert (found.findings, found.messages) == ([], 1)
    opened = QueueManager.open(name="QM1", clock=VirtualClock(), store=log_store(tmp_path / "backup 1"))
    async with (
        opened as manager,
        manager.connect("test") as connection,
        connection.deliveries("Q", options=OPTIONS) as deliveries,
    ):
        (taken,) = await deliveries.take()
        assert taken.steps == {"first": b"0", "second": b"1"}
