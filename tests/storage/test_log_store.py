"""The store on disk: its directory, its lives, and the way of a batch."""

from __future__ import annotations

import asyncio
import gc
import logging
import sqlite3
import threading
import weakref
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker.storage.creation import LogSettings
from broker.storage.log import record
from broker.storage.snapshot.database import Snapshot
from broker.storage.store import Numbering, Rows, StoreFailedError, StoreUnusableError
from broker.testing import VirtualClock
from tests.stores import SMALL, as_killed, carried_over, log_store, settled

from .failing_disk import FailingDisk
from .processes import HOLDS_THE_DIRECTORY, WRITES_A_MESSAGE, run_until_killed, running
from .samples import ORDERS, Contents, contents, message, reopened

if TYPE_CHECKING:
    from broker.storage.log_store import LogStore
    from broker.storage.store import MessageRow

FILES = {"ballast", "evermq-1.db", "evermq.db", "lock", "log.0", "log.1", "manifest"}


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def batch(number: int, count: int = 10, size: int = 2000) -> Rows:
    """So many new messages; no two batches have the same."""
    return Rows(inserts=[message(number * 1000 + at, b"x" * size) for at in range(count)])


# The directory


async def test_open_makes_missing_directories_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = log_store(tmp_path / "a" / "b")
    await store.open()
    await store.close()
    assert names(tmp_path / "a" / "b") == FILES
    (said,) = [each for each in caplog.records if each.getMessage().startswith("new store")]
    assert said.getMessage() == f"new store path={tmp_path / 'a' / 'b'}: the directory was not there and was made"
    assert said.levelno == logging.INFO


async def test_a_directory_that_is_there_is_no_reason_to_warn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = log_store(tmp_path)
    await store.open()
    await store.close()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_second_manager_is_told_who_has_the_directory(disk_store: LogStore, tmp_path: Path) -> None:
    """log case 35."""
    second = log_store(tmp_path / "data")
    with pytest.raises(StoreUnusableError, match=r"data is in use by another queue manager \(process \d+\); stop that"):
        await second.open()
    with pytest.raises(StoreUnusableError, match="is in use"):
        await disk_store.open()
    await disk_store.write(Rows(inserts=[message(1)]))
    await disk_store.close()
    await second.open()
    assert (await contents(second)).messages == [message(1)]
    await second.close()


async def test_another_process_that_has_the_directory_is_named_until_it_is_killed(tmp_path: Path) -> None:
    """log case 35."""
    store = log_store(tmp_path / "data")
    with running(HOLDS_THE_DIRECTORY, tmp_path / "data") as holder:
        with pytest.raises(StoreUnusableError, match=rf"is in use by another queue manager \(process {holder.pid}\)"):
            await store.open()
        holder.kill()
        holder.wait()
        await store.open()
    await store.close()


async def test_a_queue_manager_of_another_name_is_refused(disk_store: LogStore, tmp_path: Path) -> None:
    """log case 35."""
    await disk_store.write(Rows(inserts=[message(1)]))
    await disk_store.close()
    renamed = log_store(tmp_path / "data", name="QM2")
    with pytest.raises(StoreUnusableError, match="the data is that of queue manager QM1, not of QM2: name it, or"):
        await renamed.open()
    assert (await reopened(disk_store)).messages == [message(1)]


async def test_what_was_written_survives_the_end_of_the_process(tmp_path: Path) -> None:
    run_until_killed(WRITES_A_MESSAGE, tmp_path / "data")
    store = log_store(tmp_path / "data")
    await store.open()
    assert (await contents(store)).messages == [message(1)]
    await store.close()


async def test_a_path_that_is_no_directory_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusableError, match="file/data cannot be used"):
        await log_store(tmp_path / "file" / "data").open()


async def test_a_store_that_could_not_be_opened_lets_go_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "evermq.db").write_bytes(b"garbage" * 1000)
    store = log_store(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreUnusableError, match=r"evermq.db is damaged \(file is not a database\)"):
            await store.open()
    (tmp_path / "evermq.db").unlink()
    await store.open()
    await store.close()


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="is not open"):
        await log_store(tmp_path).write(Rows())


# Its lives


async def test_an_orderly_stop_carries_all_over_and_leaves_one_database(disk_store: LogStore, tmp_path: Path) -> None:
    await disk_store.write(batch(1))
    await disk_store.close()
    assert names(tmp_path / "data") == FILES
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db")) as db:
        assert db.execute("SELECT count(*) FROM message").fetchone() == (10,)
    db.close()


async def test_closing_answers_what_was_submitted(disk_store: LogStore) -> None:
    answers: list[Exception | None] = []
    for number in range(1, 30):
        if disk_store.submit(batch(number), answers.append):
            answers.append(None)
    await disk_store.close()
    assert answers == [None] * 29
    await disk_store.open()
    assert len((await contents(disk_store)).messages) == 290


async def test_a_kill_at_any_moment_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """Some of it in the snapshot, some in the log, over several turns of both files."""
    store = log_store(tmp_path / "data")
    expected: list[MessageRow] = []
    await store.open()
    for number in range(1, 41):
        rows = batch(number)
        rows.removals = [row.id for row in expected[-3:]]
        expected = [*expected[:-3], *rows.inserts]
        await store.write(rows)
        if number % 8 == 0:
            killed = log_store(as_killed(tmp_path / "data", tmp_path / f"killed {number}"))
            await killed.open()
            assert (await contents(killed)).messages == expected
            await killed.close()
    await store.close()


async def test_a_start_repeats_after_a_kill_in_it(disk_store: LogStore, tmp_path: Path) -> None:
    """log rule 7: what one start has begun the next one does again."""
    await disk_store.write(batch(1))
    path = as_killed(tmp_path / "data", tmp_path / "killed 0")
    for number in range(1, 4):
        store = log_store(path)
        await store.open()
        path = as_killed(path, tmp_path / f"killed {number}")
        assert len((await contents(store)).messages) == 10
        await store.close()
    assert names(path) >= FILES


async def test_a_hundred_stops_and_starts_rewrite_nothing(tmp_path: Path) -> None:
    """log case 21."""
    store = log_store(tmp_path)
    await store.open()
    await store.write(batch(1))
    await store.close()
    before = {name: (tmp_path / name).read_bytes() for name in ("log.0", "log.1", "evermq-1.db")}
    for _ in range(100):
        await store.open()
        assert store._opened is not None
        assert store._opened.manifest.current.durable == store._opened.log.number == 1
        await store.close()
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert len((await reopened(store)).messages) == 10
    await store.close()
    assert names(tmp_path) == FILES


async def test_numbers_go_on_over_starts_without_a_batch(tmp_path: Path) -> None:
    """log case 52."""
    store = log_store(tmp_path)
    for number in range(1, 6):
        await store.open()
        await store.write(Rows(inserts=[message(number)]))
        await store.close()
        for _ in range(10):
            await store.open()
            await store.close()
    await store.open()
    assert store._opened is not None
    assert store._opened.manifest.current.generation == 57
    assert store._opened.log.number == 5
    assert (await contents(store)).messages == [message(number) for number in range(1, 6)]
    await store.close()


async def test_nonpersistent_messages_are_given_once_after_an_orderly_stop_and_never_after_a_kill(
    tmp_path: Path,
) -> None:
    """log case 50: kept in the snapshot, kept in the log, and kept twice in a row."""
    kept, fleeting = message(1), message(2, persistent=0)
    for number, carry in enumerate((False, True)):
        store = log_store(tmp_path / f"data {number}")
        await store.open()
        await store.write(Rows(inserts=[kept, fleeting]))
        if carry:
            await carried_over(store)
        killed = log_store(as_killed(tmp_path / f"data {number}", tmp_path / f"killed {number}"))
        await killed.open()
        assert (await contents(killed)).messages == [kept]
        await killed.close()
        assert (await reopened(store)).messages == [kept, fleeting]
        await store.write(Rows(inserts=[fleeting]))
        assert (await reopened(store)).messages == [kept, fleeting]
        started = log_store(as_killed(tmp_path / f"data {number}", tmp_path / f"killed later {number}"))
        await started.open()
        assert (await contents(started)).messages == [kept]
        await started.close()
        assert (await reopened(store)).messages == [kept]
        await store.close()


async def test_what_the_log_held_at_the_start_is_let_go_when_it_is_carried_over(
    disk_store: LogStore, tmp_path: Path
) -> None:
    await disk_store.write(batch(1))
    killed = log_store(as_killed(tmp_path / "data", tmp_path / "killed"))
    await killed.open()
    first = weakref.ref(killed._keeper.delta)
    found = first()
    assert found is not None
    assert len(found.inserts) == 10
    del found
    await carried_over(killed)
    gc.collect()
    assert first() is None
    await killed.close()


@pytest.mark.parametrize("carry", [False, True], ids=["in the log", "in the snapshot"])
async def test_after_a_kill_messages_are_held_as_they_were(tmp_path: Path, carry: bool) -> None:
    """Log cases 54 and 55: claimed, and staged and published, some before a carry-over and some after it."""
    store = log_store(tmp_path / "data")
    await store.open()
    claimed = message(5, persistent=0)._replace(holder=20, sequence=3)
    await store.write(Rows(inserts=[message(id) for id in (1, 2, 3, 4)], held=[Numbering(20, 1, [2, 1])]))
    await store.write(Rows(inserts=[message(6, persistent=0)]))
    if carry:
        await carried_over(store)
    await store.write(Rows(inserts=[claimed, message(7)], held=[Numbering(20, 4, [3])]))
    await store.write(Rows(backouts=[(1, 1)], placed=[Numbering(0, 90, [7, 4])]))
    killed = log_store(as_killed(tmp_path / "data", tmp_path / "killed"))
    await killed.open()
    assert (await contents(killed)).messages == [
        message(1)._replace(backout_count=1),
        message(2)._replace(holder=20, sequence=1),
        message(3)._replace(holder=20, sequence=4),
        message(4)._replace(place=91),
        claimed,
        message(7)._replace(place=90),
    ]
    await killed.close()
    await store.close()


async def test_settings_are_those_the_store_was_made_with(disk_store: LogStore, tmp_path: Path) -> None:
    await disk_store.close()
    other = log_store(tmp_path / "data", settings=LogSettings(files=3, file_bytes=2 * SMALL.file_bytes))
    await other.open()
    assert other.status()["log_bytes_max"] == 2 * SMALL.file_bytes
    await other.close()
    assert names(tmp_path / "data") == FILES


# A start, or an end, that is cancelled


@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_a_cancelled_start_leaves_nothing_behind(tmp_path: Path, steps: int) -> None:
    """Natively, and by a scope that cancels every wait in it."""
    run_until_killed(WRITES_A_MESSAGE, tmp_path / "data") if steps == 0 else None
    store = log_store(tmp_path / "data")
    threads = threading.enumerate()
    opening = asyncio.ensure_future(store.open())
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    if not opening.cancelled():
        await store.close()
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await store.open()
        await store.close()
    for thread in set(threading.enumerate()) - set(threads):
        thread.join(30)  # what has told its end may still be about to end
        assert not thread.is_alive()
    await store.open()
    await store.close()


async def test_a_close_in_the_middle_of_a_load_does_not_wait_for_it(disk_store: LogStore) -> None:
    await disk_store.write(batch(1))
    load = disk_store.load_messages()
    assert len(await anext(load)) == 10
    await disk_store.close()
    del load
    assert len((await reopened(disk_store)).messages) == 10


# Loads while something goes on


async def test_a_load_waits_for_a_carry_over_that_runs(disk_store: LogStore) -> None:
    for number in range(1, 6):
        await disk_store.write(batch(number))
    await disk_store.write(Rows(objects=[ORDERS], high_water=9))
    for _ in range(3):
        disk_store._keeper.carry()
        assert disk_store._keeper.carrying.running
        found = await contents(disk_store)
        assert (len(found.messages), found.objects, found.high_water) == (50, [ORDERS], 9)
        await disk_store.write(Rows(backouts=[(1000, 1)]))


async def test_what_a_busy_carry_over_holds_is_loaded_too(disk_store: LogStore, tmp_path: Path) -> None:
    await disk_store.write(batch(1))
    await carried_over(disk_store)
    await disk_store.write(Rows(inserts=[message(1)], removals=[1000]))
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await carried_over(disk_store)
        await disk_store.write(Rows(inserts=[message(2)]))
        assert [row.id for row in (await contents(disk_store)).messages] == [1, 2, *range(1001, 1010)]
        other.execute("ROLLBACK")
    other.close()
    await carried_over(disk_store)
    assert [row.id for row in (await contents(disk_store)).messages] == [1, 2, *range(1001, 1010)]


async def test_batches_that_come_during_a_load_do_not_disturb_it(
    disk_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.storage.log_store.LOAD_CHUNK", 3)
    await disk_store.write(batch(1))
    await carried_over(disk_store)
    await disk_store.write(batch(2))
    seen: list[int] = []
    async for rows in disk_store.load_messages():
        seen += [row.id for row in rows]
        if len(seen) == 3:
            await disk_store.write(Rows(inserts=batch(3).inserts, removals=[2005]))
    assert seen == [*range(1000, 1010), *(id for id in range(2000, 2010) if id != 2005)]
    assert len((await reopened(disk_store)).messages) == 29


async def test_what_waits_for_room_during_a_load_goes_on_after_it(disk_store: LogStore) -> None:
    load = disk_store.load_messages()
    await disk_store.write(batch(1))
    await anext(load)
    answers: list[Exception | None] = []
    for number in range(2, 40):
        if disk_store.submit(batch(number), answers.append):
            answers.append(None)
    await settled(disk_store)
    assert 10 < len(answers) < 38
    async for _ in load:
        pass
    for _ in range(10):
        await settled(disk_store)
    assert answers == [None] * 38


async def test_damage_that_a_load_finds_leaves_the_files_as_they_are(disk_store: LogStore, tmp_path: Path) -> None:
    """log rule 7.4: neither the stop nor what the log holds is written to a database that is not what was written."""
    await disk_store.write(Rows(inserts=[message(1)]))
    await disk_store.close()
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db", isolation_level=None)) as db:
        db.execute("UPDATE message SET rank = 5")
    db.close()
    before = (tmp_path / "data" / "evermq-1.db").read_bytes()
    for _ in range(2):
        await disk_store.open()
        await disk_store.write(Rows(inserts=[message(2)])) if _ == 0 else None
        with pytest.raises(StoreUnusableError, match="the descriptor of message 1 is not what was written"):
            await contents(disk_store)
        await disk_store.close()
        assert (tmp_path / "data" / "evermq-1.db").read_bytes() == before


# The way of a batch


async def test_a_batch_of_everything_is_one_record(disk_store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    encode = record.encode

    def noted(payload: bytes, *args: Any, **options: Any) -> bytes:
        written.append(payload)
        return encode(payload, *args, **options)

    monkeypatch.setattr("broker.storage.log.log.encode", noted)
    rows = Rows([message(1), message(2, b"x" * 5000)], [], [(1, 1)], [2], [ORDERS], [("QUEUE", "GONE")], 17)
    await disk_store.write(rows)
    assert [record.unpack(memoryview(each)) for each in written] == [rows]


async def test_a_cancelled_write_is_whole(disk_store: LogStore) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(1, 21):
            writing = tasks.create_task(disk_store.write(batch(number)), name="writing")
            await asyncio.sleep(0)
            writing.cancel()
    await disk_store.write(Rows(inserts=[message(1)]))
    assert len((await reopened(disk_store)).messages) == 1 + 200


async def test_loop_and_thread_keep_one_order(disk_store: LogStore) -> None:
    """log case 47: long records go to the thread, short ones to the loop when nothing is under way."""
    answered: list[int] = []

    def answer(number: int, error: Exception | None) -> None:
        assert error is None
        answered.append(number)

    for number in range(1, 200):
        size = 30_000 if number % 7 == 0 else 10
        if disk_store.submit(batch(number, 10 if size > 10 else 1, size), partial(answer, number)):
            answered.append(number)
        if number % 3 == 0:
            await settled(disk_store)
    await settled(disk_store)
    assert answered == list(range(1, 200))
    status = disk_store.status()
    assert status["writes_on_loop"] > 20
    assert status["writes_on_thread"] > 20
    assert disk_store._opened is not None
    assert disk_store._opened.log.number == 199


async def test_never_means_that_no_record_is_written_on_the_loop(tmp_path: Path) -> None:
    store = log_store(tmp_path / "data", clock=VirtualClock(), settings=SMALL._replace(inline="never"))
    await store.open()
    for number in range(1, 30):
        await store.write(Rows(inserts=[message(number)]))
    assert (store.status()["writes_on_loop"], store.status()["writes_on_thread"]) == (0, 29)
    await store.close()


async def test_a_batch_of_values_that_cannot_be_written_is_refused_and_nothing_else(disk_store: LogStore) -> None:
    for wrong in (message(2)._replace(queue=2**70), message(2)._replace(descriptor=object())):  # type: ignore[arg-type]
        with pytest.raises(StoreFailedError, match="a batch cannot be written"):
            await disk_store.write(Rows(inserts=[message(1), wrong]))
    await disk_store.write(Rows(inserts=[message(3)]))
    assert (await reopened(disk_store)).messages == [message(3)]


async def test_data_is_not_logged(disk_store: LogStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await disk_store.write(Rows(inserts=[message(1, b"confidential")]))
        await carried_over(disk_store)
        await disk_store.read_data([1])
    assert "confidential" not in caplog.text


async def test_the_status_of_a_store(disk_store: LogStore, tmp_path: Path) -> None:
    await disk_store.write(batch(1))
    await carried_over(disk_store)
    await disk_store.write(batch(2))
    status = disk_store.status()
    assert status.pop("way").startswith("pwrite")
    assert status.pop("bytes") == (tmp_path / "data" / "evermq-1.db").stat().st_size
    assert status == {
        "file": str(tmp_path / "data" / "evermq-1.db"),
        "full": False,
        "ballast_held": True,
        "last_carry_over": "2026-01-01T00:00:00+00:00",
        "batches": 2,
        "batches_in_snapshot": 1,
        "log_bytes_max": 2 * SMALL.file_bytes,
        "writes_on_loop": status["writes_on_loop"],
        "writes_on_thread": 2 - status["writes_on_loop"],
        "warnings": status["warnings"],
    }


# Journal rule 7


async def test_after_a_failed_write_nothing_is_written_until_the_store_is_opened_again(
    disk_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[StoreFailedError] = []
    disk_store.watch(reported.append)
    await disk_store.write(Rows(inserts=[message(1)]))
    assert disk_store._opened is not None

    def fails(payload: bytes) -> None:
        raise OSError(5, "injected")

    monkeypatch.setattr(disk_store._opened.log, "write", fails)
    before = (tmp_path / "data" / "log.0").read_bytes()
    for rows in (Rows(inserts=[message(2)]), Rows(removals=[1])):
        with pytest.raises(StoreFailedError, match="has failed: a record of the log may or may not be written"):
            await disk_store.write(rows)
    monkeypatch.undo()
    with pytest.raises(StoreFailedError):
        await disk_store.write(Rows(removals=[1]))
    assert (tmp_path / "data" / "log.0").read_bytes() == before
    await asyncio.sleep(0)
    assert len(reported) == 1
    assert (await reopened(disk_store)).messages == [message(1)]
    await disk_store.write(Rows(removals=[1]))
    assert (await reopened(disk_store)).messages == []


async def test_a_checkpoint_that_fails_stops_the_store_and_the_next_start_writes_the_database_anew(
    disk_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Journal rule 7, log rule 7.7: the connection is not closed, its write-ahead log stays."""
    await disk_store.write(batch(1))

    def fails(self: Snapshot, db: sqlite3.Connection) -> None:
        raise StoreFailedError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "checkpoint", fails)
        with pytest.raises(StoreFailedError, match="could not be closed in order: injected"):
            await disk_store.close()
    wal = tmp_path / "data" / "evermq-1.db-wal"
    assert wal.stat().st_size > 20_000
    await disk_store.open()
    assert "evermq-2.db" in names(tmp_path / "data")
    assert "evermq-1.db" not in names(tmp_path / "data")
    assert len((await contents(disk_store)).messages) == 10


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_stop_in_which_a_write_of_the_manifest_fails_is_no_orderly_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """log case 23: the last of them, and those of the carry-over before."""
    store = log_store(tmp_path / "data")
    await store.open()
    await store.write(batch(1))
    assert store._opened is not None
    await settled(store)
    writes: list[bytes] = []
    file = store._opened.manifest._file
    original = file.write

    def fails(offset: int, data: bytes) -> None:
        writes.append(data)
        if len(writes) == number:
            raise OSError(5, "injected")
        original(offset, data)

    monkeypatch.setattr(file, "write", fails)
    if number <= 3:
        with pytest.raises(StoreFailedError, match="could not be closed in order: the manifest cannot be written"):
            await store.close()
        assert len(writes) == number + 1  # and that it has failed, in the same slot
    else:
        await store.close()
        assert len(writes) == 3
    monkeypatch.undo()
    assert len((await reopened(store)).messages) == 10
    await store.close()


# Reads


async def test_data_is_read_from_the_log_and_from_the_snapshot_at_once(disk_store: LogStore) -> None:
    await disk_store.write(batch(1, 3))
    await carried_over(disk_store)
    await disk_store.write(batch(2, 3))
    disk_store._keeper.carry()
    await disk_store.write(batch(3, 3))
    ids = [1000, 1002, 2001, 3000]
    assert await disk_store.read_data(ids) == dict.fromkeys(ids, b"x" * 2000)
    await settled(disk_store)
    assert await disk_store.read_data(ids) == dict.fromkeys(ids, b"x" * 2000)


async def test_a_store_that_has_failed_reads_nothing(disk_store: LogStore) -> None:
    await disk_store.write(batch(1))
    disk_store._fail(StoreFailedError("injected"))
    with pytest.raises(StoreFailedError, match="has failed: injected; nothing more is written"):
        await disk_store.read_data([1000])


async def test_a_start_of_which_a_call_fails_says_so_and_the_next_one_succeeds(
    disk_store: LogStore, tmp_path: Path
) -> None:
    await disk_store.write(batch(1))
    path = as_killed(tmp_path / "data", tmp_path / "killed")
    disk = FailingDisk(path)
    for number in range(100):
        disk.calls.clear()
        disk.fail_from(number)
        store = log_store(path, disk=disk)
        try:
            await store.open()
        except StoreUnusableError as error:
            assert str(path) in str(error)
            assert "injected" in str(error)
        else:
            await store.close()
            break
    assert 5 < number < 40
    store = log_store(path)
    await store.open()
    assert await contents(store) == Contents(batch(1).inserts, [], 0)
    await store.close()
