"""What is left of a damaged store goes on (log rule 8, log cases 46, 51)."""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import msgpack
import pytest

from broker import QueueManager
from broker.mqi import MQOO
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log.manifest import newest, read_slots
from broker.storage.log.record import LogPlace, Record
from broker.storage.snapshot.database import PAGE_BYTES
from broker.storage.store import (
    MessageRow,
    Numbering,
    ObjectRow,
    Rows,
    StoreFailedError,
    StoreFullError,
    StoreUnusableError,
)
from broker.storage.tools.recover import Recovery, recover
from broker.storage.tools.remains import _counted
from broker.storage.tools.verify import verify
from tests.storage.history import History
from tests.storage.processes import environment
from tests.storage.ruins import change, change_data, content, place_of, started, stored
from tests.storage.samples import ARCHIVE, ORDERS, UNIT, message
from tests.storage.test_backup import TroubledDisk, full
from tests.stores import log_store

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.0
FOLDER = "damaged-20270115T080000Z"
LOST = "the definition of a queue; its messages are on RECOVERED.7 now"


def recovered(path: Path, disk: SystemDisk | None = None) -> Recovery:
    """Recover a store, told before what that would be, and see that it is whole then."""
    before = content(path)
    plan = recover(SystemDisk(path), NOW, b"attributes", accept_loss=False)
    assert content(path) == before
    done = recover(disk or SystemDisk(path), NOW, b"attributes", accept_loss=True)
    assert done._replace(folder=None) == plan
    assert verify(SystemDisk(path)).findings == []
    return done


def numbers(path: Path) -> int:
    """The number of the last batch of a stopped store."""
    kept = newest(read_slots(SystemDisk(path)))
    assert kept is not None
    return kept.last


@pytest.mark.parametrize("crashed", [False, True])
def test_where_nothing_is_lost_nothing_is_changed(tmp_path: Path, crashed: bool) -> None:
    """Log case 51."""
    history = stored(tmp_path / "data", crashed=crashed)
    before = content(tmp_path / "data")
    for accept_loss in (False, True):
        found = recover(SystemDisk(tmp_path / "data"), NOW, b"", accept_loss=accept_loss)
        assert (found.findings, found.missing, found.lost, found.folder) == ([], [], [], None)
        assert found.messages == len(history.after(250).messages)
    assert content(tmp_path / "data") == before


def test_batches_that_are_lost_are_counted_and_those_behind_them_kept(tmp_path: Path) -> None:
    history = stored(tmp_path / "data", crashed=True)
    for number in (200, 230, 231, 250):
        place = place_of(number, tmp_path / "data")
        change(tmp_path / "data" / f"log.{place.file}", place.block * 4096 + 60)
    found = recovered(tmp_path / "data")
    assert found.missing == [(200, 200), (230, 231)]  # nothing vouches for the last one, nor lies behind it
    expected = history.after(249, without=(200, 230, 231))
    kept = started(tmp_path / "data")
    assert kept == expected
    assert (found.messages, found.definitions) == (len(expected.messages), 4)


@pytest.mark.parametrize("name", ["log.0", "log.1"])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_log_file_that_is_gone_takes_its_batches_along(tmp_path: Path, name: str, crashed: bool) -> None:
    history = stored(tmp_path / "data", crashed=crashed)
    (tmp_path / "data" / name).unlink()
    found = recovered(tmp_path / "data")
    missing = {number for first, last in found.missing for number in range(first, last + 1)}
    held = numbers(tmp_path / "data")
    kept = started(tmp_path / "data")
    assert kept.messages == history.after(held, without=missing).messages
    if not crashed:
        assert (missing, held) == (set(), 250)


def test_the_numbers_of_batches_go_on_above_all_that_were_seen(tmp_path: Path) -> None:
    stored(tmp_path / "data", crashed=True)
    (tmp_path / "data" / "evermq-1.db").unlink()
    recovered(tmp_path / "data")
    assert numbers(tmp_path / "data") == 250

    async def write() -> None:
        store = log_store(tmp_path / "data")
        await store.open()
        await store.write(Rows(inserts=[message(10_000)]))
        await store.close()

    asyncio.run(write())
    assert numbers(tmp_path / "data") == 251


def test_numbers_of_messages_are_not_given_again(tmp_path: Path) -> None:
    """The high-water mark is lost with the database; the messages that are left show what was given."""
    history = stored(tmp_path / "data")
    (tmp_path / "data" / "evermq-1.db").unlink()
    recovered(tmp_path / "data")
    assert started(tmp_path / "data").high_water == max(row.place or row.id for row in history.after(250).messages)


def test_d7_7_steps_are_kept_with_their_messages_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    """Log case 56. It was never finished then: the report says that it runs again."""
    history = stored(tmp_path / "data")
    expected = history.after(250)
    assert len(expected.steps) > 10
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db")) as db, db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        ((id, place),) = db.execute("SELECT id, max(place) FROM step WHERE id = (SELECT min(id) FROM step)")
        db.execute("UPDATE step SET value = x'00' WHERE id = ? AND place = ?", (id, place))
    found = recovered(tmp_path / "data")
    assert f"1 finished steps of a message on ORDERS, MsgId unknown (message {id}); they run again" in found.lost
    left = tuple(each for each in expected.steps if each[:2] != (id, place))
    assert started(tmp_path / "data") == expected._replace(steps=left)


def test_who_holds_messages_is_kept_where_it_can_be_read(tmp_path: Path) -> None:
    """Log case 46. Where neither the database nor the log can say it of a message any more, nobody holds it."""
    rows = [message(id, persistent=id % 2)._replace(place=id + 50 if id == 3 else 0) for id in range(1, 7)]

    async def write() -> None:
        store = log_store(tmp_path / "written")
        await store.open()
        await store.write(Rows(rows, objects=[ORDERS, ARCHIVE, UNIT], held=[Numbering(ARCHIVE.number, 5, [6, 3, 2])]))
        await store.write(Rows(held=[Numbering(UNIT.number, 1, [5, 4])]))
        await store.backup(tmp_path / "data")  # its log is empty
        await store.close()

    asyncio.run(write())
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db")) as db, db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.execute("UPDATE message SET sequence = 'x' WHERE id = 5")
    found = recovered(tmp_path / "data")
    assert "the holder of a message is not what was written: ORDERS, MsgId unknown (message 5)" in found.findings[-1]
    assert found.lost == []
    by_archive = {6: 5, 3: 6, 2: 7}
    assert started(tmp_path / "data").messages == [
        rows[0],
        *(rows[id - 1]._replace(holder=ARCHIVE.number, sequence=by_archive[id]) for id in (2, 3)),
        rows[3]._replace(holder=UNIT.number, sequence=2),
        rows[4],
        rows[5]._replace(holder=ARCHIVE.number, sequence=5),
    ]


@pytest.mark.parametrize("stopped", [True, False])
def test_nonpersistent_messages_are_kept_over_an_orderly_stop_alone(tmp_path: Path, stopped: bool) -> None:
    kept = message(5000, persistent=0)

    async def write() -> None:
        store = log_store(tmp_path / "written")
        await store.open()
        await store.write(Rows(inserts=[message(1), kept]))
        if not stopped:
            shutil.copytree(tmp_path / "written", tmp_path / "data")
        await store.close()
        if stopped:
            shutil.copytree(tmp_path / "written", tmp_path / "data")

    asyncio.run(write())
    (tmp_path / "data" / "log.1").unlink()
    assert recovered(tmp_path / "data").messages == 1 + stopped
    assert (kept in started(tmp_path / "data").messages) == stopped


def test_a_record_of_an_older_generation_behind_one_of_a_newer_is_of_the_past() -> None:
    def record(number: int, generation: int) -> Record:
        return Record(number, generation, LogPlace(0, number), 1, memoryview(b""))

    older, newer = [record(number, 1) for number in (4, 5, 6)], [record(number, 2) for number in (5, 7)]
    assert list(_counted([*older, *newer])) == [4, 5, 7]


def test_what_was_replaced_is_set_aside(tmp_path: Path) -> None:
    stored(tmp_path / "data", crashed=True)
    change(tmp_path / "data" / "log.0", 30)
    before = content(tmp_path / "data")
    assert recovered(tmp_path / "data").folder == FOLDER
    aside = content(tmp_path / "data" / FOLDER)
    assert aside == {name: before[name] for name in ("manifest", "log.0", "log.1", "evermq-1.db", "evermq-1.db-wal",
                                                     "evermq-1.db-shm")}  # fmt: skip
    names = {each.name for each in (tmp_path / "data").iterdir()}
    assert names == {"manifest", "log.0", "log.1", "evermq-2.db", "evermq.db", "lock", "ballast", FOLDER}


def put(path: Path, data: bytes) -> None:
    """Make a queue manager at `path` with a message on its queue ORDERS."""

    async def work() -> None:
        async with QueueManager.open(name="SHOP", data=path) as manager, manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(ORDERS)")
            await connection.put1("ORDERS", data)

    asyncio.run(work())


def got(path: Path, name: str) -> bytes:
    """The first message of a queue of that queue manager."""

    async def work() -> bytes:
        async with (
            QueueManager.open(name="SHOP", data=path) as manager,
            manager.connect() as connection,
            connection.open(name, MQOO.INPUT_SHARED) as queue,
        ):
            return (await queue.get()).data

    return asyncio.run(work())


# The database


def test_a_message_whose_data_is_damaged_comes_from_the_log_if_that_still_has_it(tmp_path: Path) -> None:
    history = stored(tmp_path / "data")
    first, last = history.after(250).messages[0], history.batches[-2].inserts[0]
    for row in (first, last):
        assert row.data
        change_data(tmp_path / "data" / "evermq-1.db", row.data[:20])
    found = recovered(tmp_path / "data")
    assert found.lost == [f"a message on ORDERS, MsgId unknown (message {first.id})"]
    assert started(tmp_path / "data").messages == history.after(250).messages[1:]


def test_a_database_with_a_page_that_is_gone_gives_all_the_others(tmp_path: Path) -> None:
    history = stored(tmp_path / "data")
    everything = history.after(250)
    size = (tmp_path / "data" / "evermq-1.db").stat().st_size
    for page in range(1, size // PAGE_BYTES, 3):
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        data = bytearray((tmp_path / "copy" / "evermq-1.db").read_bytes())
        data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
        (tmp_path / "copy" / "evermq-1.db").write_bytes(data)
        found = recovered(tmp_path / "copy")
        if found.findings:
            kept = started(tmp_path / "copy")
            assert set(free(kept.messages)) <= set(free(everything.messages))
            if {each.kind for each in kept.objects} >= {"CONSUMER", "UNIT"}:
                assert set(kept.messages) <= set(everything.messages)
            in_log = [row for batch in history.batches[-50:] for row in batch.inserts if row in everything.messages]
            assert set(free(in_log)) <= set(free(kept.messages))
        shutil.rmtree(tmp_path / "copy")


def free(messages: list[MessageRow]) -> list[MessageRow]:
    """The messages as if nobody held them."""
    return [row._replace(holder=0, sequence=0) for row in messages]


@pytest.mark.parametrize("damage", [None, b"", b"this is no database" * 1000])
def test_without_a_database_the_messages_of_the_log_are_kept(tmp_path: Path, damage: bytes | None) -> None:
    history = stored(tmp_path / "data")
    if damage is None:
        (tmp_path / "data" / "evermq-1.db").unlink()
    else:
        (tmp_path / "data" / "evermq-1.db").write_bytes(damage)
    found = recovered(tmp_path / "data")
    kept, everything = started(tmp_path / "data"), history.after(250)
    units = [row for row in kept.messages if not row.persistent]  # what it was is lost, but they are not
    held = f"the definition of what held {len(units)} messages; nobody holds them now"
    assert (found.snapshot_lost, found.missing, found.lost) == (True, [], [held, LOST])
    assert 0 < len(units) <= sum(not row.persistent for row in everything.messages)
    assert units == free(units)
    messages = [row for row in kept.messages if row.persistent]
    assert len(messages) > 50
    assert messages == [row for row in everything.messages if row.persistent][-len(messages) :]
    (archive,) = [each for each in everything.objects if each.kind == "CONSUMER"]  # the log says again how it is
    assert kept.objects == [archive, ObjectRow("QUEUE", "RECOVERED.7", 7, "QLOCAL", b"attributes")]


def test_an_older_database_gets_what_the_log_still_has(tmp_path: Path) -> None:
    history = History(1)

    async def write() -> None:
        store = log_store(tmp_path / "data")
        for count in (30, 220):
            if count == 220:
                shutil.copy(tmp_path / "data" / "evermq-1.db", tmp_path / "old.db")
            await store.open()
            await history.write(store, count)
            await store.close()

    asyncio.run(write())
    shutil.copy(tmp_path / "old.db", tmp_path / "data" / "evermq-1.db")
    found = recovered(tmp_path / "data")
    assert "is older than it must be: it holds 30 of 250 batches" in "".join(found.findings)
    ((first, last),) = found.missing
    assert first == 31
    assert last < 250
    expected = history.after(250, without=range(first, last + 1))
    assert started(tmp_path / "data").messages == expected.messages


def test_a_definition_that_is_lost_leaves_the_messages_of_its_queue(tmp_path: Path) -> None:
    put(tmp_path / "data", b"kept")
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db")) as db, db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        (packed, number) = db.execute("SELECT attributes, number FROM object WHERE name = 'ORDERS'").fetchone()
        db.execute("UPDATE object SET kind = 'QALIAS' WHERE name = 'ORDERS'")
    for log in ("log.0", "log.1"):  # which has the definition too
        disk = SystemDisk(tmp_path / "data")
        data = bytearray(disk.read(log))
        data[4096:] = bytes(len(data) - 4096)
        (tmp_path / "data" / log).write_bytes(data)
    found = recover(SystemDisk(tmp_path / "data"), NOW, packed, accept_loss=True)
    assert found.lost == [f"the definition of a queue; its messages are on RECOVERED.{number} now"]
    assert msgpack.unpackb(packed)

    assert got(tmp_path / "data", f"RECOVERED.{number}") == b"kept"


# The manifest


@pytest.mark.parametrize("gone", [("manifest",), ("manifest", "log.0"), ("manifest", "log.1")])
def test_a_manifest_that_is_gone_is_made_up_of_the_other_files(tmp_path: Path, gone: tuple[str, ...]) -> None:
    put(tmp_path / "data", b"kept")
    for name in gone:
        (tmp_path / "data" / name).unlink()
    found = recovered(tmp_path / "data")
    assert "manifest is missing" in found.findings[0]
    assert "nobody can tell" in found.notes[0]
    assert (found.messages, found.missing, found.lost) == (1, [], [])

    assert got(tmp_path / "data", "ORDERS") == b"kept"


def test_without_manifest_log_and_state_row_nothing_can_be_checked(tmp_path: Path) -> None:
    stored(tmp_path / "data")
    for name in ("manifest", "log.0", "log.1"):
        (tmp_path / "data" / name).unlink()
    before = content(tmp_path / "data")
    with pytest.raises(StoreUnusableError, match="manifest is gone, and with it the key of all checks; too little"):
        recover(SystemDisk(tmp_path / "data"), NOW, b"", accept_loss=True)
    assert content(tmp_path / "data") == before


def test_without_a_name_nothing_is_made(tmp_path: Path) -> None:
    stored(tmp_path / "data")  # it has no definition of a queue manager
    (tmp_path / "data" / "manifest").unlink()
    before = content(tmp_path / "data")
    with pytest.raises(StoreUnusableError, match="tells whose data it is"):
        recover(SystemDisk(tmp_path / "data"), NOW, b"", accept_loss=True)
    assert content(tmp_path / "data") == before


# What ends a recovery before its end

RECOVERED_UNTIL_KILLED = """
import os, signal, sys
from functools import partial
from pathlib import Path
from broker.storage.tools.recover import recover
from tests.storage.test_backup import TroubledDisk

folder = Path(sys.argv[1])
kill = partial(os.kill, os.getpid(), signal.SIGKILL)
recover(TroubledDisk(folder, int(folder.name), kill), 1.8e9, b"attributes", accept_loss=True)
"""


def damaged(path: Path) -> tuple[History, set[int]]:
    """A store that has lost two batches and a database that is half gone; what it was told, and what is lost."""
    history = stored(path, crashed=True)
    for number in (220, 240):
        place = place_of(number, path)
        change(path / f"log.{place.file}", place.block * 4096 + 60)
    return history, {220, 240}


def ends_of(folders: list[Path]) -> list[int]:
    """The exit codes of recoveries of these folders, each killed at the step that the folder is named for."""
    processes = [
        subprocess.Popen([sys.executable, "-c", RECOVERED_UNTIL_KILLED, str(folder)], env=environment())
        for folder in folders
    ]
    return [process.wait(60) for process in processes]


def test_a_recovery_that_is_killed_at_any_step_can_be_made_again(tmp_path: Path) -> None:
    """Log case 46. Then the power fails: what was set aside may be in its old place again, and nothing comes back."""
    history, lost = damaged(tmp_path / "data")
    expected = history.after(250, without=lost).messages
    folders = [tmp_path / str(number) for number in range(1, 31)]
    for folder in folders:
        shutil.copytree(tmp_path / "data", folder)
    ends = ends_of(folders)
    assert ends.index(0) > 14
    assert set(ends) == {0, -signal.SIGKILL}
    for folder in folders:
        again = recover(SystemDisk(folder), NOW + 1, b"attributes", accept_loss=True)
        assert again.messages == len(expected)
        assert started(folder).messages == expected
        logs_of_the_past(tmp_path / "data", folder)
        assert started(folder).messages == expected


def logs_of_the_past(data: Path, folder: Path) -> None:
    for name in ("log.0", "log.1"):
        shutil.copy(data / name, folder / name)


@pytest.mark.parametrize("what", ["logs", "database", "all"])
def test_what_a_power_cut_brings_back_of_the_old_files_is_of_no_meaning(tmp_path: Path, what: str) -> None:
    history, lost = damaged(tmp_path / "data")
    expected = history.after(250, without=lost).messages
    shutil.copytree(tmp_path / "data", tmp_path / "old")
    recovered(tmp_path / "data")
    if what != "database":
        logs_of_the_past(tmp_path / "old", tmp_path / "data")
    if what != "logs":
        for name in ("evermq-1.db", "evermq-1.db-wal"):
            shutil.copy(tmp_path / "old" / name, tmp_path / "data" / name)
    assert started(tmp_path / "data").messages == expected


def test_a_recovery_without_room_changes_nothing(tmp_path: Path) -> None:
    """Log case 36, of recover."""
    damaged(tmp_path / "data")
    before = content(tmp_path / "data")
    number = refused = 0
    while True:
        number += 1
        disk = FullDisk(tmp_path / "data", number, full)
        try:
            recover(disk, NOW, b"attributes", accept_loss=True)
        except StoreUnusableError as error:
            refused += 1
            assert "make room for a second copy of it" in str(error)
            after = content(tmp_path / "data")
            assert {name: after[name] for name in before} == before
        else:
            break
    assert refused >= 4
    assert verify(SystemDisk(tmp_path / "data")).findings == []


@pytest.mark.parametrize(
    ("error", "no_room"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (StoreFullError("database or disk is full"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (StoreFailedError("disk I/O error"), False),
    ],
    ids=["disk", "quota", "database", "disk fails", "database fails"],
)
def test_a_recovery_that_fails_asks_for_room_where_that_is_what_it_lacks(
    tmp_path: Path, error: Exception, no_room: bool
) -> None:
    """Log case 36, of recover: whoever has told it, the disk or the database."""

    class Failing(SystemDisk):
        def create(self, name: str, first: bytes, size: int) -> None:
            raise error

    async def write() -> None:
        store = log_store(tmp_path / "data")
        await store.open()
        await store.close()

    asyncio.run(write())
    (tmp_path / "data" / "log.1").unlink()
    with pytest.raises(StoreUnusableError, match=re.escape(f"cannot be recovered: {error}")) as caught:
        recover(Failing(tmp_path / "data"), NOW, b"attributes", accept_loss=True)
    assert str(caught.value).endswith("; make room for a second copy of it") == no_room


class FullDisk(TroubledDisk):
    """A disk on which what needs room may fail, and what needs none does not."""

    def remove(self, name: str) -> None:
        SystemDisk.remove(self, name)

    def rename(self, name: str, to: str) -> None:
        SystemDisk.rename(self, name, to)

    def sync(self, name: str) -> None:
        SystemDisk.sync(self, name)


def test_the_ballast_is_given_up_for_a_database_that_finds_no_room(tmp_path: Path) -> None:
    class Small(SystemDisk):
        def connect(self, name: str) -> sqlite3.Connection:
            db = super().connect(name)
            if "ballast" in self.names():
                db.execute("PRAGMA page_size = 8192")
                db.execute("PRAGMA max_page_count = 8").fetchall()
            return db

    history, lost = damaged(tmp_path / "data")
    recover(Small(tmp_path / "data"), NOW, b"attributes", accept_loss=True)
    assert not (tmp_path / "data" / "ballast").exists()
    assert started(tmp_path / "data").messages == history.after(250, without=lost).messages


async def test_a_store_that_runs_is_not_recovered(tmp_path: Path) -> None:
    store = log_store(tmp_path / "data")
    await store.open()
    try:
        with pytest.raises(StoreUnusableError, match="runs"):
            recover(SystemDisk(tmp_path / "data"), NOW, b"", accept_loss=True)
    finally:
        await store.close()
