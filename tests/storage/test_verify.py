"""Whether a stopped store is whole (log rule 8, log case 45)."""

from __future__ import annotations

import asyncio
import errno
import random
import shutil
import sqlite3
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING

import msgpack
import pytest

from broker import QueueManager
from broker.mqi import MessageDescriptor
from broker.storage.creation import UNFINISHED
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log import manifest as manifests
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import PAGE_BYTES
from broker.storage.store import Numbering, ObjectRow, Rows, StoreUnusableError
from broker.storage.tools import reading
from broker.storage.tools.naming import Naming
from broker.storage.tools.verify import verify
from tests.storage.old_stores import old_store
from tests.storage.ruins import change, change_data, content, place_of, started, stored
from tests.storage.samples import ARCHIVE, ORDERS, SHIPPING, message
from tests.stores import log_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.history import History

FILES = ["evermq-1.db", "evermq-1.db-wal", "log.0", "log.1", "manifest"]


@pytest.fixture(params=["orderly", "crashed"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    """A store in `data`, stopped in order or as a crash leaves it."""
    return stored(tmp_path / "data", crashed=request.param == "crashed")


def findings(path: Path) -> list[str]:
    return verify(SystemDisk(path)).findings


def test_a_whole_store_is_whole_and_no_byte_of_it_is_changed(history: History, tmp_path: Path) -> None:
    before = content(tmp_path / "data")
    found = verify(SystemDisk(tmp_path / "data"))
    assert (found.findings, found.definitions, found.batches) == ([], 4, 250)
    assert content(tmp_path / "data") == before
    assert started(tmp_path / "data") == history.after(250)


def test_it_counts_what_a_start_finds_wherever_that_is(history: History, tmp_path: Path) -> None:
    """In the snapshot, in the log, in both, and in neither any more."""
    found = verify(SystemDisk(tmp_path / "data"))
    messages, objects, *_ = started(tmp_path / "data")
    assert (found.messages, found.definitions) == (len(messages), len(objects))


def test_messages_that_are_in_the_log_alone_are_counted(tmp_path: Path) -> None:
    async def write() -> None:
        async with QueueManager.open(name="QM1", data=tmp_path / "written") as manager, manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(ORDERS)")
            for _ in range(200):
                await connection.put1("ORDERS", b"5 chairs")
            shutil.copytree(tmp_path / "written", tmp_path / "data")

    asyncio.run(write())
    assert verify(SystemDisk(tmp_path / "data")).messages == 200


@pytest.mark.parametrize("killed", [False, True])
def test_a_store_of_version_1_is_looked_at(tmp_path: Path, killed: bool) -> None:
    old_store(tmp_path, [message(number, b"x" * 3000) for number in (1, 2)], [ORDERS], 2, killed=killed)
    before = content(tmp_path)
    found = verify(SystemDisk(tmp_path))
    assert (found.findings, found.messages, found.definitions, found.batches) == ([], 2, 1, 0)
    assert found.notes == [f"{tmp_path} has a store of an older release; a start upgrades it"]
    assert content(tmp_path) == before


def test_damage_of_a_store_of_version_1_is_found(tmp_path: Path) -> None:
    old_store(tmp_path, [message(1, b"x" * 3000)], [ORDERS], 2, killed=False)
    with closing(sqlite3.connect(tmp_path / "evermq.db")) as db:
        db.execute("DELETE FROM body")
        db.commit()
    assert findings(tmp_path) == [f"{tmp_path / 'evermq.db'}: 1 messages have no data"]
    (tmp_path / "evermq.db").write_bytes((tmp_path / "evermq.db").read_bytes()[:-8192])
    assert findings(tmp_path)


def test_what_stands_in_the_place_of_the_old_store_is_looked_at(history: History, tmp_path: Path) -> None:
    file = tmp_path / "data" / "evermq.db"
    before = verify(SystemDisk(tmp_path / "data")).notes
    file.write_bytes(b"no database")
    found = verify(SystemDisk(tmp_path / "data"))
    assert found.findings == []
    assert next(each for each in found.notes if each not in before).startswith("an older release would not see")
    file.unlink()
    assert verify(SystemDisk(tmp_path / "data")).notes == before


def test_a_store_that_was_never_written_is_whole(tmp_path: Path) -> None:
    stored(tmp_path / "data", batches=0)
    assert findings(tmp_path / "data") == []


async def test_a_store_that_runs_says_so(tmp_path: Path) -> None:
    store = log_store(tmp_path / "data")
    await store.open()
    try:
        with pytest.raises(StoreUnusableError, match=r"the queue manager in .*data runs \(process \d+\); stop it, or"):
            verify(SystemDisk(tmp_path / "data"))
    finally:
        await store.close()


async def test_no_queue_manager_starts_while_a_store_is_looked_at(tmp_path: Path) -> None:
    stored_before = log_store(tmp_path / "data")
    await stored_before.open()
    await stored_before.close()
    with reading.stopped(tmp_path / "data"):
        with reading.stopped(tmp_path / "data"):  # others may look too
            pass
        with pytest.raises(StoreUnusableError, match="in use"):
            await stored_before.open()
    await stored_before.open()
    await stored_before.close()


@pytest.mark.parametrize("name", FILES)
def test_a_bit_that_changes_what_a_start_gives_is_found(history: History, tmp_path: Path, name: str) -> None:
    """Log case 24, for verify: what it calls whole starts, with all that was acknowledged."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    if not (data / name).exists():
        pytest.skip("an orderly stop removes the write-ahead log")
    chance = random.Random(name)
    size = (data / name).stat().st_size
    orderly = not (data / "evermq-1.db-wal").exists()
    reported = 0
    for _ in range(25):
        shutil.copytree(data, copy)
        change(copy / name, chance.randrange(size), bit=chance.randrange(8))
        if findings(copy):
            reported += 1
        else:
            assert started(copy) == history.after(250)
        shutil.rmtree(copy)
    assert reported or name != "evermq-1.db" or not orderly  # The others are full of what does not count.


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_there_or_cut_is_told_by_name(history: History, tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    file = data / name
    if not file.exists() or name.endswith("-wal"):
        pytest.skip("a write-ahead log may be missing, unless it is being carried over")
    (data / "evermq-1.db-wal").unlink(missing_ok=True)  # It has every page that is cut off.
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    if name == "manifest":
        file.write_bytes(bytes(1000))
    assert any(name in found for found in findings(data))
    file.unlink()
    assert any(name in found for found in findings(data))


def test_a_database_that_is_shorter_than_its_pages_is_told(tmp_path: Path) -> None:
    """Also where the write-ahead log has all of what is cut off: a start refuses it."""
    stored(tmp_path / "data", crashed=True)
    file = tmp_path / "data" / "evermq-1.db"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[: size - PAGE_BYTES])
    assert findings(tmp_path / "data")
    with pytest.raises(StoreUnusableError, match=rf"evermq-1.db has {size - PAGE_BYTES} bytes in place of {size}"):
        started(tmp_path / "data")


def test_what_cannot_be_read_is_told(history: History, tmp_path: Path) -> None:
    class FailingDisk(SystemDisk):
        def read(self, name: str) -> memoryview:
            if name == "log.1":
                raise OSError(errno.EIO, "Input/output error")
            return super().read(name)

    found = verify(FailingDisk(tmp_path / "data")).findings
    assert "log.1 cannot be read ([Errno 5] Input/output error)" in found[0]


def test_a_log_that_lacks_batches_is_told(tmp_path: Path) -> None:
    stored(tmp_path / "data", crashed=True)
    found = place_of(240, tmp_path / "data")
    change(tmp_path / "data" / f"log.{found.file}", found.block * 4096 + 60)
    (reported,) = findings(tmp_path / "data")
    assert "it ends at batch 239 and has held 250; 11 batches are missing or cut off" in reported


def test_each_row_that_was_changed_is_told(tmp_path: Path) -> None:
    """Log cases 29 and 30, for verify."""
    stored(tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db")) as db, db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        ids = [id for (id,) in db.execute("SELECT id FROM message ORDER BY id")]
        db.execute("UPDATE message SET backout_count = backout_count + 1 WHERE id = ?", (ids[0],))
        db.execute("UPDATE message SET rank = 7 WHERE id = ?", (ids[1],))
        db.execute("UPDATE message SET descriptor = 'text' WHERE id = ?", (ids[2],))
        db.execute("UPDATE message SET data = x'00' WHERE id = ? AND data IS NOT NULL", (ids[3],))
        db.execute("DELETE FROM message WHERE id = ?", (ids[4],))
        db.execute("UPDATE object SET attributes = x'00' WHERE name = 'SHIPPING'")
        ((put,),) = db.execute("SELECT id FROM put_key ORDER BY id DESC LIMIT 1")
        db.execute("UPDATE put_key SET digest = x'00' WHERE id = ?", (put,))
        db.execute("DELETE FROM put_key WHERE id = (SELECT min(id) FROM put_key)")
        ((stepped,),) = db.execute("SELECT max(id) FROM step")
        db.execute("UPDATE step SET value = x'00' WHERE id = ?", (stepped,))
    reported = "\n".join(findings(tmp_path / "data"))
    for each in (
        f"backout count or the holder of a message is not what was written: ORDERS, MsgId unknown (message {ids[0]})",
        f"descriptor of message {ids[1]} is not what",
        f"descriptor of message {ids[2]} is not what",
        "messages, and they are not the",
        "the definition of SHIPPING is not what was written",
        f"the key of the put of message {put} is not what was written",
        "keys of puts and ",
        f"a step of message {stepped} is not what was written",
    ):
        assert each in reported


def test_a_message_is_named_by_the_msg_id_of_its_place() -> None:
    """Of the same queue manager: one that a prepared unit has published has the MsgId of its place."""
    manager = ObjectRow("QMGR", "SHOP", 1, "QMGR", msgpack.packb({"INSTANCE": 5}))
    naming = Naming([ORDERS, manager])
    descriptor = msgpack.packb((0, None, None, b""))
    put, published = (message(id)._replace(descriptor=descriptor, place=place) for id, place in ((50, 0), (7, 50)))
    assert naming.message(put).replace("message 50", "message 7") == naming.message(published)


async def test_a_body_that_was_changed_is_told_by_queue_and_msg_id(tmp_path: Path) -> None:
    async with QueueManager.open(name="SHOP", data=tmp_path / "data") as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(ORDERS)")
        made = await connection.put1("ORDERS", b"a message with a MsgId of its own making")
        await connection.put1("ORDERS", b"a message with a given MsgId", MessageDescriptor(msg_id=b"M" * 24))
    for text in (b"its own making", b"a given MsgId"):
        change_data(tmp_path / "data" / "evermq-1.db", text)
    reported = findings(tmp_path / "data")
    assert len(reported) == 2
    assert f"the data of a message is missing or not what was put: ORDERS, MsgId {made.md.msg_id.hex()} " in reported[0]
    assert f"ORDERS, MsgId {(b'M' * 24).hex()} " in reported[1]


def test_pages_that_cannot_be_read_hide_nothing_behind_them(tmp_path: Path) -> None:
    history = stored(tmp_path / "data")
    file = tmp_path / "data" / "evermq-1.db"
    before, all_of_them = file.read_bytes(), len(history.after(250).messages)
    fewer = 0
    for page in range(2, len(before) // PAGE_BYTES):
        data = bytearray(before)
        data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = random.Random(page).randbytes(PAGE_BYTES)
        file.write_bytes(data)
        found = verify(SystemDisk(tmp_path / "data"))
        assert found.findings
        assert found.messages > all_of_them // 2
        fewer += found.messages < all_of_them
    assert fewer


def small(path: Path) -> Path:
    """The database of a store with three messages and three definitions, stopped in order."""

    async def write() -> None:
        store = log_store(path)
        await store.open()
        await store.write(Rows([message(id) for id in (1, 2, 3)], objects=[ORDERS, SHIPPING, ARCHIVE]))
        await store.close()

    asyncio.run(write())
    return path / "evermq-1.db"


def test_rows_in_a_wrong_order_do_not_lead_back_to_what_was_read(tmp_path: Path) -> None:
    """SQLite gives the rows of a page as they lie in it. Numbers that fall are damage: who read on behind the last of
    them would read the same rows for ever.
    """
    file = small(tmp_path / "data")
    with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as db:
        ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'message'")
    data = bytearray(file.read_bytes())
    at = (page - 1) * PAGE_BYTES + 8  # behind the head of a leaf are the places of its rows, two bytes each
    data[at + 2 : at + 6] = data[at + 4 : at + 6] + data[at + 2 : at + 4]
    file.write_bytes(data)
    with reading.connected(SystemDisk(file.parent), file.name) as db:
        database = reading.DamagedDatabase(db, Checks(7))
        assert [each.row.id for each in islice(database.messages(), 4)] == [1, 3]
        assert database.unreadable == 1


def test_a_definition_whose_number_is_none_is_passed_over(tmp_path: Path) -> None:
    """Those before it are read."""
    file = small(tmp_path / "data")
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.execute("UPDATE object SET number = 'text' WHERE name = 'SHIPPING'")
    found = verify(SystemDisk(file.parent))
    assert found.definitions == 2
    (reported,) = found.findings
    assert "it has 2 definitions and 0 keys of puts, and they are not the 3 written" in reported


@pytest.mark.parametrize(
    "rows",
    [Rows(removals=[1]), Rows(held=[Numbering(20, 1, [1])]), Rows(placed=[Numbering(0, 9, [1])])],
    ids=["got", "held", "placed"],
)
def test_a_log_that_changes_what_the_database_lacks_is_told(tmp_path: Path, rows: Rows) -> None:
    async def write() -> None:
        store = log_store(tmp_path / "written")
        await store.open()
        await store.write(Rows(inserts=[message(1)]))
        await store._keeper.carry_over()
        await store.write(rows)
        shutil.copytree(tmp_path / "written", tmp_path / "data")
        await store.close()

    asyncio.run(write())
    assert findings(tmp_path / "data") == []
    with closing(sqlite3.connect(tmp_path / "data" / "evermq-1.db")) as db, db:
        db.execute("DELETE FROM message")
    assert any("it lacks 1 messages that the log changes or removes" in each for each in findings(tmp_path / "data"))


# What is not looked at


def test_a_slot_of_the_manifest_that_a_crash_has_torn_is_no_damage(history: History, tmp_path: Path) -> None:
    data = tmp_path / "data"
    slots = manifests.read_slots(SystemDisk(data))
    kept = manifests.newest(slots)
    assert kept is not None
    other = next(number for number, slot in enumerate(slots) if slot.manifest != kept)
    change(data / "manifest", manifests.SLOTS[other] + 20)
    found = verify(SystemDisk(data))
    torn = [each for each in (*found.findings, *found.notes) if f"slot {other} is not valid" in each]
    assert torn
    assert (torn[0] in found.findings) == (kept.state == manifests.ORDERLY)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "has no store"),
        (["evermq.db"], "has a store of an older release; a start upgrades it"),
        ([UNFINISHED, "log.0"], "is a backup that was cut short"),
    ],
)
def test_what_is_no_store_is_told(tmp_path: Path, names: list[str], text: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(StoreUnusableError, match=text):
        verify(SystemDisk(tmp_path))


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusableError, match="there is no directory"):
        verify(SystemDisk(tmp_path / "data"))
    assert not (tmp_path / "data").exists()


def test_a_copy_that_finds_no_room_names_the_folder_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path / "data", crashed=True)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(StoreUnusableError, match=r"has \d+ bytes and is read in a copy, .* set TMPDIR to a folder"):
        verify(SystemDisk(tmp_path / "data"))
