"""The steps of a carry-over, in their order, beside other work; and what each failure leaves (log rules 6.3, 6.5)."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log.manifest import Manifest, ManifestFile, create
from broker.storage.snapshot.carry_over import CarryOver
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import FIRST_KEY, Snapshot
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.store import KeyRow, Rows, StoreFailedError, StoreFullError

from .samples import key, message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.storage.disk.disk import DatabaseWorker


class Bench:
    """A snapshot, a manifest, and the carry-overs between them. `steps` is what was done, in order."""

    def __init__(self, manifest: ManifestFile, snapshot: Snapshot, database: DatabaseWorker) -> None:
        self.manifest = manifest
        self.snapshot = snapshot
        self.database = database
        self.carrying = CarryOver(database, snapshot, manifest, time.time)
        self.steps: list[str] = []

    async def carry(self, number: int, *ids: int) -> Exception | None:
        """Carry over so many messages."""
        delta = Delta()
        delta.apply(Rows(inserts=[message(id, b"x" * 2000) for id in ids]))
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.carrying.start(delta, number, ended.set_result)
        return await ended

    async def keep(self, keys: list[KeyRow]) -> None:
        """Carry over keys of puts."""
        delta = Delta()
        delta.apply(Rows(keys=keys))
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.carrying.start(delta, self.carrying.number + 1, ended.set_result)
        assert await ended is None

    async def keys(self) -> list[KeyRow]:
        """All that are there, in the order in which they came."""
        found = await self.database.perform(lambda db: self.snapshot.load_keys(db, FIRST_KEY, 1000))
        return sorted(found, key=lambda row: row.id)

    async def resume(self) -> Exception | None:
        ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.carrying.resume(ended.set_result)
        return await ended

    @property
    def noted(self) -> tuple[int, bool]:
        return self.manifest.current.snap, self.manifest.current.carrying


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    disk = SystemDisk(tmp_path)
    create(disk, Manifest("QM1", b"i" * 16, b"k" * 16, 2, 64 * 4096, 4096))
    manifest = ManifestFile.open(disk)
    snapshot = Snapshot(tmp_path / "evermq-1.db", b"i" * 16, Checks(1))
    database = await disk.start_database("evermq-1.db")
    await database.perform(snapshot.create)
    bench = Bench(manifest, snapshot, database)
    for owner, name in (
        (Snapshot, "begin"), (Snapshot, "insert"), (Snapshot, "commit"), (Snapshot, "roll_back"),
        (Snapshot, "checkpoint"), (ManifestFile, "write"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, noted(bench.steps, name, getattr(owner, name)))
    yield bench
    await database.close()
    manifest.close()


def noted(steps: list[str], name: str, method: Any) -> Any:
    def called(self: object, *args: object, **kwargs: object) -> object:
        steps.append(name)
        return method(self, *args, **kwargs)

    return called


def failing(error: Exception) -> Any:
    def fails(*_: object, **__: object) -> None:
        raise error

    return fails


WHOLE = ["write", "begin", "insert", "commit", "checkpoint", "write"]


async def test_the_steps_in_their_order(bench: Bench) -> None:
    assert await bench.carry(5, 1, 2) is None
    assert bench.steps == WHOLE
    assert (bench.noted, bench.snapshot.tally.number, bench.carrying.committed) == ((5, False), 5, False)
    assert (bench.carrying.number, bench.manifest.current.durable) == (5, 5)


async def test_keys_whose_time_is_over_go_with_those_that_come(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log rule 6.7: twice as many go as come, and what is over already does not come at all."""
    monkeypatch.setattr("broker.storage.snapshot.carry_over.STEP_ROWS_MAX", 4)
    now = time.time()
    old = [key(id, b"%d" % id, until=now + 0.001 * id) for id in range(40)]
    bench.carrying._now = lambda: now - 1
    await bench.keep([*old, key(100)])
    assert len(await bench.keys()) == 41  # they were not over yet
    bench.carrying._now = lambda: now + 3600
    left = []
    for number in range(1, 10):
        await bench.keep([key(100 + number, b"new %d" % number), key(1000, b"over", until=now + 1)])
        left.append(len(await bench.keys()))
    assert left == [30, 19, 8, 5, 6, 7, 8, 9, 10]
    assert [each.id for each in await bench.keys()] == [100 + number for number in range(10)]


async def test_many_rows_are_several_pieces_of_work_and_others_have_their_turn(bench: Bench) -> None:
    seen: list[int] = []
    delta = Delta()
    delta.apply(Rows(inserts=[message(id) for id in range(600)]))
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    bench.carrying.start(delta, 1, ended.set_result)
    while not ended.done():
        bench.database.submit(lambda _: seen.append(len(bench.steps)), lambda _: None)
        await asyncio.sleep(0)
    assert bench.steps == ["write", "begin", "insert", "insert", "insert", "commit", "checkpoint", "write"]
    assert len({steps for steps in seen if steps < len(bench.steps)}) >= 3


async def test_what_was_noted_while_it_ran_is_not_taken_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Snapshot.checkpoint

    def noting(self: Snapshot, db: sqlite3.Connection) -> None:
        checkpoint(self, db)
        bench.manifest.write(durable=9)

    monkeypatch.setattr(Snapshot, "checkpoint", noting)
    assert await bench.carry(5, 1) is None
    assert (bench.manifest.current.snap, bench.manifest.current.durable) == (5, 9)


async def test_no_room_before_the_commit_leaves_everything_as_it_was(bench: Bench) -> None:
    """log rule 6.5: definite."""
    (pages,) = await bench.database.perform(lambda db: tuple(db.execute("PRAGMA page_count").fetchone()))
    await bench.database.perform(lambda db: db.execute(f"PRAGMA max_page_count = {pages + 5}").fetchall())
    assert isinstance(await bench.carry(5, *range(1, 100)), StoreFullError)
    assert bench.steps == ["write", "begin", "insert", "roll_back", "write"]
    assert (bench.noted, bench.carrying.committed, bench.carrying.running) == ((0, False), False, False)
    assert await bench.carry(5, 1) is None
    assert bench.noted == (5, False)


@pytest.mark.parametrize("error", [StoreFullError("no room"), StoreBusyError("a reader")], ids=type)
async def test_a_checkpoint_that_finds_no_room_or_a_reader_is_made_again_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """log rule 6.5: what is committed stays, `carrying` too, and the files are not free."""
    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "checkpoint", failing(error))
        assert await bench.carry(5, 1) is error
        assert await bench.resume() is error
    assert (bench.noted, bench.carrying.committed, bench.snapshot.tally.number) == ((0, True), True, 5)
    assert await bench.resume() is None
    assert (bench.noted, bench.carrying.committed) == ((5, False), False)


async def test_a_database_that_is_locked_is_tried_again_and_nothing_was_written(bench: Bench) -> None:
    with closing(sqlite3.connect(bench.snapshot.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert isinstance(await bench.carry(5, 1), StoreBusyError)
        other.execute("ROLLBACK")
    assert (bench.noted, bench.carrying.committed) == ((0, False), False)
    assert await bench.carry(5, 1) is None


@pytest.mark.parametrize("step", ["begin", "insert", "commit", "checkpoint"])
async def test_after_any_other_failure_nothing_is_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Journal rule 7: no rollback, no note, no second try."""
    monkeypatch.setattr(Snapshot, step, failing(StoreFailedError("injected")))
    before = WHOLE[: WHOLE.index(step)]
    assert isinstance(await bench.carry(5, 1), StoreFailedError)
    await bench.database.perform(lambda _: None)
    assert bench.steps == before
    assert bench.noted == (0, True)


@pytest.mark.parametrize("write", [1, 2])
async def test_a_manifest_that_cannot_be_written_is_a_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    original = ManifestFile.write
    writes: list[object] = []

    def failing_once(self: ManifestFile, **changes: object) -> None:
        writes.append(changes)
        if len(writes) == write:
            raise OSError(5, "injected")
        original(self, **changes)

    monkeypatch.setattr(ManifestFile, "write", failing_once)
    assert isinstance(await bench.carry(5, 1), StoreFailedError)
    assert (len(writes), bench.manifest.current.snap) == (write, 0)


async def test_once_stopped_it_does_nothing_more_and_answers_nothing(bench: Bench) -> None:
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    bench.carrying.start(Delta(), 5, ended.set_result)
    bench.carrying.stopped = True
    for _ in range(3):
        await bench.database.perform(lambda _: None)
    assert (bench.steps, ended.done()) == (["write"], False)
