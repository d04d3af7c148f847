"""What keeps the files of a store in order: carry-overs, room, other programs, free room, files that are replaced.

Time is the test's, and `settled` waits for the threads.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.storage import shrinking, upkeep
from broker.storage.disk import heap
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log.manifest import ManifestFile
from broker.storage.log.record import HEADER_BYTES, pack
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.store import Numbering, Rows, StoreFailedError, StoreFullError
from broker.testing import VirtualClock
from tests.stores import SMALL, as_killed, carried_over, log_store, settled

from .samples import ARCHIVE, ORDERS, contents, message, reopened

if TYPE_CHECKING:
    from broker.storage.log_store import LogStore

KIB = 1024
DATABASE = "evermq-1.db"


def batch(number: int, count: int = 10, size: int = 2000) -> Rows:
    """So many new messages; no two batches have the same."""
    return Rows(inserts=[message(number * 1000 + at, b"x" * size) for at in range(count)])


async def passed(store: LogStore, clock: VirtualClock, seconds: float, step: float = 0.1) -> None:
    """Let time pass, a step at a time, and the threads do what is due."""
    for _ in range(round(seconds / step)):
        await clock.advance(step)
        await settled(store)


class Answers:
    """The outcomes of batches, by number."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.order: list[int] = []
        self.errors: dict[int, Exception | None] = {}

    def submit(self, number: int, rows: Rows | None = None) -> None:
        def answer(error: Exception | None) -> None:
            self.order.append(number)
            self.errors[number] = error

        if self._store.submit(batch(number) if rows is None else rows, answer):
            answer(None)


def hang(may_end: threading.Event) -> None:
    """Keep a thread from all other work."""
    assert may_end.wait(60)


def snap(store: LogStore) -> int:
    return store._keeper._log.snap


# When a carry-over comes


async def test_a_log_that_is_worth_it_is_carried_over_when_no_batch_comes(
    disk_store: LogStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """log rule 6.4."""
    monkeypatch.setattr(upkeep, "IDLE_BYTES", 50 * KIB)
    await disk_store.write(batch(1))
    await passed(disk_store, clock, 0.5)
    assert snap(disk_store) == 0
    for number in range(2, 5):
        await disk_store.write(batch(number))
    await clock.advance(0.05)
    assert snap(disk_store) == 0
    await passed(disk_store, clock, 0.3)
    assert snap(disk_store) == 4


async def test_memory_goes_back_when_no_batch_comes_once_for_what_a_start_or_a_carry_over_has_left(
    disk_store: LogStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[None] = []
    monkeypatch.setattr(heap, "give_back", lambda: given.append(None))
    for number in range(1, 9):  # under load, even when something is carried over
        await disk_store.write(batch(number))
        await carried_over(disk_store)
        await clock.advance(0.05)
    assert len(given) == 0
    await passed(disk_store, clock, 1)
    assert len(given) == 1
    await disk_store.write(batch(9))
    await passed(disk_store, clock, 1)
    assert len(given) == 1  # nothing was carried over since
    await carried_over(disk_store)
    await passed(disk_store, clock, 1)
    assert len(given) == 2


async def test_a_file_that_is_full_is_carried_over_while_batches_go_on(disk_store: LogStore) -> None:
    number = 0
    while not disk_store._keeper.carrying.running:
        number += 1
        await disk_store.write(batch(number))
    await disk_store.write(batch(number + 1))
    await settled(disk_store)
    assert 0 < snap(disk_store) <= number


async def test_what_comes_while_it_runs_is_carried_over_when_it_is_worth_it(
    disk_store: LogStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "IDLE_BYTES", 10 * KIB)
    await disk_store.write(batch(1))
    disk_store._keeper.carry()
    await disk_store.write(batch(2))
    await passed(disk_store, clock, 0.5)
    assert snap(disk_store) == 2


async def test_the_files_of_the_log_are_written_over_only_when_the_snapshot_has_them(disk_store: LogStore) -> None:
    """Invariant L5, log case 17: a carry-over that hangs, the log full; what waits is written in order afterwards."""
    may_end = threading.Event()
    disk_store._keeper.database.submit(lambda _: hang(may_end), lambda _: None)
    answers = Answers(disk_store)
    for number in range(1, 60):
        answers.submit(number)
        assert disk_store._worker is not None
        await disk_store._worker.perform(lambda: None)
    written = len(answers.order)
    assert 15 < written < 25
    assert snap(disk_store) == 0
    may_end.set()
    for _ in range(10):
        await settled(disk_store)
    assert answers.order == list(range(1, 60))
    assert set(answers.errors.values()) == {None}
    assert len((await reopened(disk_store)).messages) == 59 * 10


@pytest.mark.parametrize("point", ["begin", "insert", "commit", "checkpoint", "write"])
async def test_a_kill_at_any_step_of_a_carry_over_loses_nothing(
    disk_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """log case 16, log case 40: with a batch of the log, and with one that no file of it could hold."""
    left: list[Path] = []
    owner: Any = ManifestFile if point == "write" else Snapshot
    method = getattr(owner, point)

    def called(self: object, *args: object, **kwargs: object) -> object:
        left.append(as_killed(tmp_path / "data", tmp_path / f"before {len(left)}"))
        result = method(self, *args, **kwargs)
        left.append(as_killed(tmp_path / "data", tmp_path / f"after {len(left)}"))
        return result

    await disk_store.write(batch(1))
    with monkeypatch.context() as patch:
        patch.setattr(owner, point, called)
        await disk_store.write(Rows(inserts=[message(2000, b"l" * 300_000)], removals=[1000], objects=[ORDERS]))
    assert len(left) >= 4
    first = batch(1).inserts
    seen = set()
    for path in left:
        store = log_store(path)
        await store.open()
        found = await contents(store)
        await store.close()
        whole = found.messages == [*first[1:], message(2000, b"l" * 300_000)] and found.objects == [ORDERS]
        assert whole or (found.messages, found.objects) == (first, [])
        seen.add(whole)
    assert False in seen


# Batches that no file can hold


@pytest.mark.parametrize("size", [300_000, 5_000_000])
async def test_a_batch_that_no_file_can_hold_goes_to_the_snapshot(disk_store: LogStore, size: int) -> None:
    """log case 40: between others, one after the other, with a number of its own."""
    answers = Answers(disk_store)
    for number in range(1, 10):
        answers.submit(number, Rows(inserts=[message(number, b"l" * size)]) if number in (3, 4, 7) else None)
    await settled(disk_store)
    assert answers.order == list(range(1, 10))
    assert set(answers.errors.values()) == {None}
    assert disk_store._keeper._log.number == disk_store._keeper.number == 9
    assert await disk_store.read_data([3, 7]) == {3: b"l" * size, 7: b"l" * size}
    assert len((await reopened(disk_store)).messages) == 3 + 6 * 10


@pytest.mark.parametrize(("more", "straight"), [(0, False), (1, True)])
async def test_a_batch_that_fills_a_file_to_the_last_block_and_one_byte_more(
    disk_store: LogStore, more: int, straight: bool
) -> None:
    """log case 41."""
    payload = SMALL.file_bytes - 4096 - HEADER_BYTES
    empty = len(pack(Rows(inserts=[message(1, b"x" * 100_000)]))) - 100_000
    row = message(1, b"x" * (payload - empty + more))
    assert len(pack(Rows(inserts=[row]))) == payload + more
    for _ in range(3):  # into the file that is in use, and as the turn comes
        await disk_store.write(Rows(inserts=[row]))
        assert (snap(disk_store) == disk_store._keeper.number) is straight
        await disk_store.write(Rows(inserts=[message(2)]))
        assert (await reopened(disk_store)).messages == [row, message(2)]
        await disk_store.write(Rows(removals=[1, 2]))


async def test_the_store_fails_while_a_batch_is_on_its_way_to_the_snapshot(
    disk_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant L13: nothing is acknowledged after a failure, though it may be there."""

    def fails(self: Snapshot, db: sqlite3.Connection) -> None:
        raise StoreFailedError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "checkpoint", fails)
        with pytest.raises(StoreFailedError, match="has failed: injected"):
            await disk_store.write(Rows(inserts=[message(1, b"l" * 300_000)]))
    assert (await reopened(disk_store)).messages == [message(1, b"l" * 300_000)]


# How far the log reaches


async def test_the_manifest_learns_how_far_the_log_reaches(disk_store: LogStore, clock: VirtualClock) -> None:
    """log rule 5: after 0.1 s of rest, and once a second under load."""
    manifest = disk_store._keeper._manifest
    await disk_store.write(Rows(inserts=[message(1)]))
    assert manifest.current.durable == 0
    await passed(disk_store, clock, 0.3)
    assert manifest.current.durable == 1
    for number in range(2, 32):
        await disk_store.write(Rows(inserts=[message(number)]))
        await passed(disk_store, clock, 0.05, 0.05)
    assert 10 <= manifest.current.durable < 31
    version = manifest.current.version
    await passed(disk_store, clock, 5)
    assert (manifest.current.durable, manifest.current.version) == (31, version + 1)


# Another program: log case 42


@contextmanager
def another_program(store: LogStore, *statements: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(store.status()["file"], isolation_level=None)) as other:
        for sql in statements:
            other.execute(sql).fetchall()
        yield other
    other.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement waits for another program."""
    monkeypatch.setattr("broker.storage.disk.database_thread.BUSY_SECONDS", 0)


@pytest.fixture
async def store(impatient: None, tmp_path: Path, clock: VirtualClock) -> AsyncIterator[LogStore]:
    """A store on disk that is full of patience only by the clock."""
    store = log_store(tmp_path / "data", clock=clock)
    await store.open()
    yield store
    await store.close()


async def test_a_database_that_is_locked_for_5_seconds_costs_nobody_anything(
    store: LogStore, clock: VirtualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """log case 42: batches that need room wait."""
    caplog.clear()
    answers, tries = Answers(store), list[int]()
    begin = Snapshot.begin

    def counted(self: Snapshot, db: sqlite3.Connection) -> None:
        tries.append(1)
        begin(self, db)

    monkeypatch.setattr(Snapshot, "begin", counted)
    with another_program(store, "BEGIN IMMEDIATE") as other:
        for number in range(1, 40):
            answers.submit(number)
            await settled(store)
        assert len(tries) <= 2  # the others each second
        waiting = 39 - len(answers.order)
        assert waiting > 10
        await passed(store, clock, 5, 1)
        assert len(answers.order) == 39 - waiting
        other.execute("ROLLBACK")
    await passed(store, clock, 2, 1)
    await settled(store)
    assert answers.order == list(range(1, 40))
    assert set(answers.errors.values()) == {None}
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert len((await reopened(store)).messages) == 390


async def test_a_database_that_is_locked_for_60_seconds_is_named_and_batches_are_refused_after_30(
    store: LogStore, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """log case 42, log rule 6.5."""
    caplog.clear()
    answers = Answers(store)
    with another_program(store, "BEGIN IMMEDIATE") as other:
        for number in range(1, 40):
            answers.submit(number)
            await settled(store)
        written = len(answers.order)
        await passed(store, clock, 9, 1)
        assert "database busy" not in caplog.text
        await passed(store, clock, 3, 1)
        assert "database busy path=" in caplog.text
        assert len(answers.order) == written
        await passed(store, clock, 48, 1)
        other.execute("ROLLBACK")
    assert answers.order == list(range(1, 40))
    refused = [number for number, error in answers.errors.items() if isinstance(error, StoreFullError)]
    assert refused == list(range(written + 1, 40))
    await passed(store, clock, 2, 1)
    await store.write(batch(50))
    assert len((await reopened(store)).messages) == (written + 1) * 10


async def test_a_batch_for_the_snapshot_waits_for_a_locked_database_too(store: LogStore, clock: VirtualClock) -> None:
    """log case 42, log case 40."""
    large = Rows(inserts=[message(1, b"l" * 300_000)])
    answers = Answers(store)
    with another_program(store, "BEGIN IMMEDIATE") as other:
        answers.submit(1, large)
        answers.submit(2)
        await passed(store, clock, 5, 1)
        assert answers.order == []
        other.execute("ROLLBACK")
        await passed(store, clock, 2, 1)
        assert answers.errors == {1: None, 2: None}
        other.execute("BEGIN IMMEDIATE")
        answers.submit(3, Rows(inserts=[message(3, b"l" * 300_000)]))
        await passed(store, clock, 33, 1)
        assert isinstance(answers.errors[3], StoreFullError)
        other.execute("ROLLBACK")
    assert len((await reopened(store)).messages) == 11


async def test_a_reader_that_stays_lets_batches_go_on_until_the_log_is_full(
    store: LogStore, clock: VirtualClock
) -> None:
    """log case 42: a carry-over cannot end under a reader, so files stay in use; nothing is lost."""
    answers = Answers(store)
    with another_program(store, "BEGIN", "SELECT count(*) FROM message") as other:
        for number in range(1, 60):
            answers.submit(number)
            await passed(store, clock, 1, 1)
        other.execute("ROLLBACK")
    await passed(store, clock, 3, 1)
    assert answers.order == list(range(1, 60))
    there = [number for number, error in answers.errors.items() if error is None]
    assert there[:10] == list(range(1, 11))
    assert 10 < len(there) < 59
    answers.submit(100)
    await settled(store)
    assert answers.errors[100] is None
    assert len((await reopened(store)).messages) == (len(there) + 1) * 10


async def test_bodies_are_read_while_another_program_has_the_database_locked(store: LogStore) -> None:
    await store.write(batch(1))
    await carried_over(store)
    await store.write(batch(2))
    with another_program(store, "BEGIN IMMEDIATE") as other:
        store._keeper.carry()
        assert await store.read_data([1000, 2000]) == {1000: b"x" * 2000, 2000: b"x" * 2000}
        other.execute("ROLLBACK")


@pytest.mark.parametrize("statements", [["BEGIN IMMEDIATE"], ["BEGIN", "SELECT count(*) FROM message"]])
async def test_an_orderly_stop_while_another_program_has_the_database_leaves_the_rest_in_the_log(
    store: LogStore, statements: list[str]
) -> None:
    await store.write(batch(1))
    await carried_over(store)
    await store.write(batch(2))
    with another_program(store, *statements) as other:
        await store.close()
        other.execute("ROLLBACK")
    await store.open()
    assert len((await contents(store)).messages) == 20


# A full disk


class Full:
    """Room in the database, and for the ballast, as the test has it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._insert, self._occupy, self._remove = Snapshot.insert, SystemDisk.occupy, SystemDisk.remove
        self.removed: list[str] = []
        self.inserts = self.ballast = False  # whether there is none for that
        patch.setattr(Snapshot, "insert", lambda *args, **kwargs: self._try(self.inserts, self._insert, args, kwargs))
        patch.setattr(SystemDisk, "occupy", lambda *args: self._try(self.ballast, self._occupy, args, {}))

    def _try(self, full: bool, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if full and method is self._occupy:
            raise OSError(28, "No space left on device")
        if full:
            raise StoreFullError("there is no room on the disk: injected")
        return method(*args, **kwargs)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Full:
    return Full(monkeypatch)


async def test_a_carry_over_that_finds_no_room_makes_the_store_full_until_one_goes_through_and_the_ballast_is_back(
    disk_store: LogStore, clock: VirtualClock, full: Full, tmp_path: Path
) -> None:
    """log rule 9, journal rule 6."""
    ballast = tmp_path / "data" / "ballast"
    await disk_store.write(batch(1))
    full.inserts = full.ballast = True
    await carried_over(disk_store)
    assert (disk_store.status()["full"], disk_store.status()["ballast_held"], ballast.exists()) == (True, False, False)
    for grows in (batch(2), Rows(objects=[ORDERS])):
        with pytest.raises(StoreFullError):
            await disk_store.write(grows)
    with pytest.raises(StoreFullError):
        await disk_store.write(Rows(held=[Numbering(20, 1, [1003])]))
    await disk_store.write(Rows(removals=[1000], hardened=[1001], backouts=[(1002, 1)]))
    await disk_store.write(Rows(placed=[Numbering(0, 9000, [1004])], states=[ARCHIVE]))
    full.inserts = False
    await passed(disk_store, clock, 2, 1)
    assert (snap(disk_store), disk_store.status()["full"]) == (3, True)
    full.ballast = False
    await passed(disk_store, clock, 2, 1)
    assert (disk_store.status()["full"], ballast.exists()) == (False, True)
    await disk_store.write(batch(2))
    found = await reopened(disk_store)
    assert (len(found.messages), found.objects) == (19, [ARCHIVE])
    assert {(row.id, row.holder, row.place) for row in found.messages if row.holder or row.place} == {(1004, 0, 9000)}


async def test_claims_of_what_is_in_the_snapshot_are_carried_over_before_they_need_more_room_than_there_is(
    disk_store: LogStore,
) -> None:
    """log rule 6.4: three that are only held need the room of one that is removed."""
    for number in (1, 2, 3):
        await disk_store.write(batch(number, count=100, size=10))
    await carried_over(disk_store)
    ids = [row.id for number in (1, 2, 3) for row in batch(number, count=100).inserts]
    limit = disk_store._keeper._changes_max * 3
    await disk_store.write(Rows(held=[Numbering(20, 1, ids[: limit - 1])]))
    await settled(disk_store)
    assert snap(disk_store) == 3
    await disk_store.write(Rows(held=[Numbering(20, limit, ids[limit - 1 : limit])]))
    await settled(disk_store)
    assert snap(disk_store) == 5
    assert sum(row.holder == 20 for row in (await reopened(disk_store)).messages) == limit


async def test_messages_that_are_got_meanwhile_need_no_room(
    disk_store: LogStore, clock: VirtualClock, full: Full
) -> None:
    await disk_store.write(batch(1))
    full.inserts = full.ballast = True
    await carried_over(disk_store)
    await disk_store.write(Rows(removals=[row.id for row in batch(1).inserts]))
    await passed(disk_store, clock, 2, 1)
    assert snap(disk_store) == 2


async def test_when_the_log_is_full_too_even_removals_are_refused_and_nothing_is_lost(
    disk_store: LogStore, clock: VirtualClock, full: Full
) -> None:
    answers = Answers(disk_store)
    for number in range(1, 17):
        answers.submit(number)
        await settled(disk_store)
    await carried_over(disk_store)
    await disk_store.write(batch(20))
    full.inserts = full.ballast = True
    refused = 0
    removals = [Rows(removals=[row.id], backouts=[(-1, 0)] * 6000) for n in range(1, 17) for row in batch(n).inserts]
    for rows in removals:
        rows.backouts = [(20_000, count) for _ in range(8000) for count in (1,)]
        try:
            await disk_store.write(rows)
        except StoreFullError:
            refused += 1
        await settled(disk_store)
    assert 0 < refused < len(removals)
    full.inserts = full.ballast = False
    await passed(disk_store, clock, 3, 1)
    assert not disk_store.status()["full"]
    await disk_store.write(batch(30))
    assert len((await reopened(disk_store)).messages) == 160 - (len(removals) - refused) + 20


async def test_removals_behind_a_record_that_is_being_written_are_not_refused(disk_store: LogStore, full: Full) -> None:
    """log rule 9: while the log has room, they need no other."""
    await disk_store.write(batch(1))
    await carried_over(disk_store)
    await disk_store.write(batch(2))
    full.inserts = full.ballast = True
    await carried_over(disk_store)
    assert not disk_store.status()["ballast_held"]
    may_end, answers = threading.Event(), Answers(disk_store)
    assert disk_store._worker is not None
    disk_store._worker.submit(lambda: hang(may_end), lambda _: None)
    disk_store._writer._pace.took(1.0, 0.0)  # so that it goes to the thread
    answers.submit(1, Rows(removals=[1000]))
    answers.submit(2, Rows(removals=[1001]))
    disk_store._keeper.carry()
    while disk_store._keeper.carrying.running:
        await disk_store._keeper.database.perform(lambda _: None)
    assert answers.order == []
    may_end.set()
    await settled(disk_store)
    assert answers.errors == {1: None, 2: None}


async def test_an_orderly_stop_on_a_full_disk_leaves_the_log_and_the_start_is_complete(
    disk_store: LogStore, tmp_path: Path, full: Full
) -> None:
    """log case 22."""
    await disk_store.write(batch(1))
    full.inserts = full.ballast = True
    await disk_store.close()
    assert not (tmp_path / "data" / "ballast").exists()
    await disk_store.open()
    assert disk_store.status()["full"]
    assert len((await contents(disk_store)).messages) == 10
    await disk_store.write(Rows(removals=[1000]))
    await disk_store.close()
    full.inserts = full.ballast = False
    await disk_store.open()
    assert not disk_store.status()["full"]
    assert len((await contents(disk_store)).messages) == 9


async def test_an_orderly_stop_takes_the_room_of_the_ballast(
    disk_store: LogStore, tmp_path: Path, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = SystemDisk.remove

    def removed(self: SystemDisk, name: str) -> None:
        remove(self, name)
        full.inserts = False

    monkeypatch.setattr(SystemDisk, "remove", removed)
    await disk_store.write(batch(1))
    full.inserts = True
    await disk_store.close()
    with closing(sqlite3.connect(tmp_path / "data" / DATABASE)) as db:
        assert db.execute("SELECT count(*) FROM message").fetchone() == (10,)
    db.close()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting needs root")
async def test_a_disk_that_is_really_full(tmp_path: Path, clock: VirtualClock) -> None:
    """log case 22, log rule 9: puts are refused, all gets go through, over a kill and a stop; then there is room."""
    with mounted(tmp_path / "small", 3) as path:
        store = log_store(path / "data", clock=clock, ballast_bytes=512 * KIB)
        await store.open()
        there: list[int] = []
        number = 0
        while not store.status()["full"]:
            number += 1
            try:
                await store.write(batch(number))
            except StoreFullError:
                break
            there += [row.id for row in batch(number).inserts]
            await settled(store)
        assert len(there) > 300
        killed = as_killed(path / "data", tmp_path / "killed")
        while len(there) > 150:
            await store.write(Rows(removals=there[:10]))
            del there[:10]
            await settled(store)
        await store.close()
        await store.open()
        assert [row.id for row in (await contents(store)).messages] == there
        while there:
            await store.write(Rows(removals=there[:10]))
            del there[:10]
        await passed(store, clock, 3, 1)
        assert not store.status()["full"]
        await store.write(batch(1))
        assert len((await reopened(store)).messages) == 10
        await store.close()
    other = log_store(killed)
    await other.open()
    assert len((await contents(other)).messages) > 300
    await other.close()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("ballast", [True, False])
async def test_a_start_on_a_disk_that_is_full_to_the_last_byte_needs_no_room(tmp_path: Path, ballast: bool) -> None:
    """log case 38, invariant L14: not even for the index of a write-ahead log, which an orderly stop has removed."""
    with mounted(tmp_path / "small", 2) as path:
        store = log_store(path / "data", clock=VirtualClock())
        await store.open()
        await store.write(batch(1))
        await store.close()
        if not ballast:
            (path / "data" / "ballast").unlink()
        with suppress(OSError), (path / "fills").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        for there in (10, 9):
            await store.open()
            assert len((await contents(store)).messages) == there
            assert await store.read_data([1009]) == {1009: b"x" * 2000}
            await store.write(Rows(removals=[1010 - there]))
            await store.close()
        (path / "fills").unlink()
        await store.open()
        await store.write(batch(2))
        assert len((await reopened(store)).messages) == 18
        await store.close()


@contextmanager
def mounted(path: Path, mebibytes: int) -> Iterator[Path]:
    """A file system of so many MiB."""
    path.mkdir()
    if shutil.which("mount") is None or os.system(f"mount -t tmpfs -o size={mebibytes}m none {path}") != 0:
        pytest.skip("no file system can be mounted")
    try:
        yield path
    finally:
        os.system(f"umount -l {path}")


# Files that are replaced while it runs: log case 34


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize("name", ["lock", "manifest", "log.0", "log.1", DATABASE])
@pytest.mark.parametrize("how", [remove, replace])
async def test_a_file_that_is_removed_or_replaced_stops_the_store_within_a_second(
    disk_store: LogStore, tmp_path: Path, clock: VirtualClock, how: Callable[[Path], None], name: str
) -> None:
    """log case 34."""
    reported: list[StoreFailedError] = []
    disk_store.watch(reported.append)
    await passed(disk_store, clock, 2, 1)
    assert reported == []
    how(tmp_path / "data" / name)
    await passed(disk_store, clock, 1, 1)
    await asyncio.sleep(0)
    (failure,) = reported
    assert f"{tmp_path / 'data' / name} was removed or replaced while the queue manager runs" in str(failure)
    with pytest.raises(StoreFailedError):
        await disk_store.write(batch(1))


@pytest.mark.parametrize("name", ["log.0", "manifest"])
async def test_a_file_that_is_cut_stops_the_store(
    disk_store: LogStore, tmp_path: Path, clock: VirtualClock, name: str
) -> None:
    """log case 34."""
    reported: list[StoreFailedError] = []
    disk_store.watch(reported.append)
    os.truncate(tmp_path / "data" / name, 8192)
    await passed(disk_store, clock, 1, 1)
    await asyncio.sleep(0)
    assert "has 8192 bytes in place of" in str(reported)


async def test_a_directory_that_is_moved_away_stops_the_store_and_an_orderly_stop_says_so(
    disk_store: LogStore, tmp_path: Path
) -> None:
    """log case 34."""
    await disk_store.write(batch(1))
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreFailedError, match="removed or replaced"):
        await disk_store.close()
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    await disk_store.open()
    assert len((await contents(disk_store)).messages) == 10


# Free room: log rule 6.6


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "FREE_BYTES_MIN", 400 * KIB)
    monkeypatch.setattr(shrinking, "USED_BYTES_MAX", 256 * KIB)


async def filled_and_drained(store: LogStore, left: int) -> None:
    """Have most of the database free, and so many messages in it."""
    for number in range(1, 41):
        await store.write(batch(number))
    await settled(store)
    ids = [row.id for number in range(1, 41) for row in batch(number).inserts]
    await store.write(Rows(removals=ids[left:], high_water=7, objects=[ORDERS]))
    await carried_over(store)


async def shrunk(store: LogStore, clock: VirtualClock) -> None:
    """Let no batch come for a while, and what follows from that end."""
    await clock.advance(0.25)
    task = store._keeper.shrinking._task
    if task is not None:
        await task
    await settled(store)


@pytest.mark.usefixtures("eager")
async def test_a_database_that_is_nearly_all_free_room_is_written_anew(
    disk_store: LogStore, clock: VirtualClock, tmp_path: Path
) -> None:
    await filled_and_drained(disk_store, left=5)
    before = (tmp_path / "data" / DATABASE).stat().st_size
    await shrunk(disk_store, clock)
    assert {each.name for each in (tmp_path / "data").glob("evermq-*.db")} == {"evermq-2.db"}
    assert disk_store.status()["file"].endswith("evermq-2.db")
    assert (tmp_path / "data" / "evermq-2.db").stat().st_size < before - 400 * KIB
    assert await disk_store.read_data([1000]) == {1000: b"x" * 2000}
    await disk_store.write(batch(50))
    await passed(disk_store, clock, 2, 1)
    killed = log_store(as_killed(tmp_path / "data", tmp_path / "killed"))
    await killed.open()
    for store in (disk_store, killed):
        found = await reopened(store)
        assert [row.id for row in found.messages] == [*range(1000, 1005), *range(50_000, 50_010)]
        assert (found.objects, found.high_water) == ([ORDERS], 7)
    await killed.close()


async def test_batches_and_reads_go_on_while_it_is_written_anew_and_nothing_is_carried_over(
    disk_store: LogStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, eager: None
) -> None:
    await filled_and_drained(disk_store, left=5)
    begun, may_end = asyncio.Event(), threading.Event()
    loop, verify = asyncio.get_running_loop(), Snapshot.verify

    def slow(self: Snapshot, db: sqlite3.Connection) -> list[int]:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(60)
        return verify(self, db)

    monkeypatch.setattr(Snapshot, "verify", slow)
    before, carried = snap(disk_store), disk_store._keeper.carrying
    await clock.advance(0.25)
    await begun.wait()
    answers = Answers(disk_store)
    for number in range(50, 90):
        answers.submit(number)
    assert await disk_store.read_data([1000, 1001]) == {1000: b"x" * 2000, 1001: b"x" * 2000}
    assert disk_store._worker is not None
    for _ in range(60):
        await disk_store._worker.perform(lambda: None)
    assert 15 < len(answers.order) < 40
    assert (snap(disk_store), carried.running) == (before, False)
    may_end.set()
    assert disk_store._keeper.shrinking._task is not None
    await disk_store._keeper.shrinking._task
    async with asyncio.timeout(60):
        while len(answers.order) < 40:
            await settled(disk_store)
    assert answers.order == list(range(50, 90))
    assert disk_store.status()["file"].endswith("evermq-2.db")
    assert len((await reopened(disk_store)).messages) == 405


@pytest.mark.parametrize(
    ("free_min", "used_max"), [(1024, 0), (2048 * KIB, 256 * KIB)], ids=["much is used", "little free"]
)
async def test_a_database_is_not_written_anew_otherwise(
    disk_store: LogStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, free_min: int, used_max: int
) -> None:
    monkeypatch.setattr(shrinking, "FREE_BYTES_MIN", free_min)
    monkeypatch.setattr(shrinking, "USED_BYTES_MAX", used_max)
    await filled_and_drained(disk_store, left=5)
    await shrunk(disk_store, clock)
    assert disk_store.status()["file"].endswith(DATABASE)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "error",
    [StoreFullError("no room"), StoreFailedError("injected"), OSError(5, "injected"), StoreBusyError("busy")],
    ids=type,
)
async def test_what_keeps_it_from_being_written_anew_is_a_warning(
    disk_store: LogStore,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    await filled_and_drained(disk_store, left=5)

    def fails(self: Snapshot, db: sqlite3.Connection) -> list[int]:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "verify", fails)
        await shrunk(disk_store, clock)
    assert "database not written anew path=" in caplog.text
    assert disk_store.status()["file"].endswith(DATABASE)
    assert {each.name for each in disk_store._disk.path.glob("evermq-*.db")} == {DATABASE}
    await disk_store.write(batch(50))
    assert len((await reopened(disk_store)).messages) == 15


@pytest.mark.usefixtures("eager")
async def test_a_manifest_that_cannot_name_the_new_database_is_a_failure(
    disk_store: LogStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal rule 7: it is not known which one it names; each has everything."""
    await filled_and_drained(disk_store, left=5)
    reported: list[StoreFailedError] = []
    disk_store.watch(reported.append)
    write = ManifestFile.write

    def fails(self: ManifestFile, **changes: Any) -> None:
        if "db" in changes:
            raise OSError(5, "injected")
        write(self, **changes)

    with monkeypatch.context() as patch:
        patch.setattr(ManifestFile, "write", fails)
        await shrunk(disk_store, clock)
    assert "the manifest cannot be written" in str(reported)
    assert len((await reopened(disk_store)).messages) == 5


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("orderly", [True, False])
async def test_a_stop_while_it_is_written_anew(
    disk_store: LogStore, clock: VirtualClock, tmp_path: Path, orderly: bool
) -> None:
    await filled_and_drained(disk_store, left=5)
    threads = threading.enumerate()
    await clock.advance(0.25)
    assert disk_store._keeper.shrinking.running
    if not orderly:
        disk_store._fail(StoreFailedError("injected"))
    await disk_store.close()
    for thread in set(threading.enumerate()) - set(threads):
        thread.join(30)
        assert not thread.is_alive()
    assert len((await reopened(disk_store)).messages) == 5
    assert len(list((tmp_path / "data").glob("evermq-*.db"))) == 1


@pytest.mark.usefixtures("eager")
async def test_a_kill_at_each_step_of_writing_it_anew(
    disk_store: LogStore, clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Path] = []

    def leaving(owner: Any, name: str) -> None:
        method = getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            left.append(as_killed(tmp_path / "data", tmp_path / f"killed {len(left)}"))
            return method(*args, **kwargs)

        monkeypatch.setattr(owner, name, called)

    await filled_and_drained(disk_store, left=5)
    with monkeypatch.context():
        for owner, name in (
            (SystemDisk, "create"), (SystemDisk, "sync"), (SystemDisk, "drop_cache"), (Snapshot, "verify"),
            (ManifestFile, "write"), (SystemDisk, "remove"),
        ):  # fmt: skip
            leaving(owner, name)
        await shrunk(disk_store, clock)
        monkeypatch.undo()
    assert len(left) >= 8
    for path in left:
        store = log_store(path)
        await store.open()
        assert len((await contents(store)).messages) == 5
        await store.close()
        assert len(list(path.glob("evermq-*.db"))) == 1


# Figures


async def test_the_status_of_a_queue_manager_has_that_of_its_store(tmp_path: Path) -> None:
    async with QueueManager.open(data=tmp_path) as manager, manager.connect() as connection:
        store = (await connection.status())["store"]
    assert store["file"] == str(tmp_path / DATABASE)
    assert store["full"] is False
