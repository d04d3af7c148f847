"""How a store comes to be: empty, or from one of version 1; at whatever step that is cut short, and without room."""

from __future__ import annotations

import errno
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from broker.storage.creation import KEPT_FILE, LogSettings
from broker.storage.snapshot.database import Snapshot
from broker.storage.store import Rows, StoreFullError, StoreUnusableError
from tests.stores import as_killed, log_store

from .failing_disk import FailingDisk
from .old_stores import is_refused_by_old_releases, old_store
from .samples import ORDERS, SHIPPING, Contents, contents, message

TINY = LogSettings(2, 16 * 1024)
EMPTY = Contents([], [], 0)
OLD = Contents(
    [
        message(1),
        message(2, b""),
        message(5, b"x" * 5000)._replace(backout_count=3),
        message(7, b"y" * 1024)._replace(hardened=1),
        *(message(id, b"z" * 3000) for id in range(10, 60)),
    ],
    [SHIPPING, ORDERS],
    99,
)


async def found(path: Path) -> Contents:
    store = log_store(path, settings=TINY)
    await store.open()
    found = await contents(store)
    await store.close()
    return found


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


# A new store


async def test_an_older_release_refuses_the_directory_of_a_store(tmp_path: Path) -> None:
    await found(tmp_path)
    assert is_refused_by_old_releases(tmp_path)
    (tmp_path / "evermq.db").unlink()
    await found(tmp_path)
    assert is_refused_by_old_releases(tmp_path)


async def test_a_creation_that_ends_at_any_step_is_begun_again(tmp_path: Path) -> None:
    """log case 32."""
    for steps in range(40):
        path = tmp_path / f"{steps}"
        path.mkdir()
        disk = FailingDisk(path)
        disk.fail_from(steps)
        store = log_store(path, settings=TINY, disk=disk)
        try:
            await store.open()
        except StoreUnusableError as error:
            assert "cannot be" in str(error)
            assert ("manifest" in names(path)) is (("rename", "manifest.new") in disk.calls[:-1])
        else:
            await store.close()
            break
        assert await found(path) == EMPTY
        assert is_refused_by_old_releases(path)
    assert steps > 10


@pytest.mark.parametrize("used", [False, True])
async def test_a_store_without_its_manifest_is_not_taken_for_a_new_one(tmp_path: Path, used: bool) -> None:
    """log case 32: rows in the database, or records in the log."""
    store = log_store(tmp_path / "data")
    await store.open()
    await store.write(Rows(inserts=[message(1)]))
    path = tmp_path / "data" if used else as_killed(tmp_path / "data", tmp_path / "killed")
    await store.close()
    (path / "manifest").unlink()
    for name in ("log.0", "log.1"):
        if used:
            (path / name).unlink()
    with pytest.raises(
        StoreUnusableError, match=r"manifest is missing, and (log\.0|evermq-1\.db) is that of a store; put"
    ):
        await found(path)


async def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "evermq.db")) as db:
        db.execute("CREATE TABLE theirs (id INTEGER)")
    db.close()
    before = (tmp_path / "evermq.db").read_bytes()
    with pytest.raises(StoreUnusableError, match="the database of another program"):
        await found(tmp_path)
    assert (tmp_path / "evermq.db").read_bytes() == before
    assert names(tmp_path) <= {"evermq.db", "lock"}


# An upgrade: log case 43


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
async def test_a_store_of_version_1_is_taken_over_whole_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, killed: bool
) -> None:
    """log case 43: also what is in its write-ahead log alone."""
    old_store(tmp_path, *OLD[:3], killed=killed)
    assert ("evermq.db-wal" in names(tmp_path)) is killed
    assert await found(tmp_path) == OLD
    assert is_refused_by_old_releases(tmp_path)
    assert names(tmp_path) == {
        "ballast", "evermq-1.db", "evermq.db", KEPT_FILE, "lock", "log.0", "log.1", "manifest",
    }  # fmt: skip
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert line == f"store upgraded path={tmp_path}: {tmp_path / KEPT_FILE} is kept until you remove it"
    with closing(sqlite3.connect(tmp_path / KEPT_FILE)) as db:
        assert db.execute("SELECT count(*) FROM message").fetchone() == (len(OLD.messages),)
    db.close()
    (tmp_path / KEPT_FILE).unlink()
    assert await found(tmp_path) == OLD


async def test_nonpersistent_messages_that_an_old_store_has_kept_are_given_once(tmp_path: Path) -> None:
    """log case 50, over an upgrade."""
    kept, fleeting = message(1), message(2, persistent=0)
    old_store(tmp_path, [kept, fleeting], [], 0, killed=False)
    assert (await found(tmp_path)).messages == [kept, fleeting]
    assert (await found(tmp_path)).messages == [kept]


async def test_an_upgrade_that_ends_at_any_step_is_begun_again_or_done(tmp_path: Path) -> None:
    """log case 43: before there is a manifest, the old store is as it was. Every other one was killed before."""
    for steps in range(60):
        path = tmp_path / f"{steps}"
        old_store(path, *OLD[:3], killed=bool(steps % 2))
        disk = FailingDisk(path)
        disk.fail_from(steps)
        store = log_store(path, settings=TINY, disk=disk)
        try:
            await store.open()
        except StoreUnusableError:
            if "manifest" not in names(path):
                assert not is_refused_by_old_releases(path)
        else:
            await store.close()
            break
        assert await found(path) == OLD
        assert is_refused_by_old_releases(path)
        assert KEPT_FILE in names(path)
    assert steps > 10


async def test_an_upgrade_without_room_leaves_the_old_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """log case 43: for the rows, for the log."""
    old_store(tmp_path, *OLD[:3], killed=False)
    before = (tmp_path / "evermq.db").read_bytes()

    def full(*_: object) -> None:
        raise StoreFullError("no room")

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, name, fails in (
        (Snapshot, "insert", full),
        (Snapshot, "commit", full),
        (FailingDisk, "create", no_space),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fails)
            with pytest.raises(StoreUnusableError, match=r"the store in .* cannot be made: .*(room|space)"):
                await log_store(tmp_path, disk=FailingDisk(tmp_path)).open()
        assert (tmp_path / "evermq.db").read_bytes() == before
        assert "manifest" not in names(tmp_path)
    assert await found(tmp_path) == OLD


async def test_an_old_store_that_is_damaged_is_refused_and_left_alone(tmp_path: Path) -> None:
    old_store(tmp_path, *OLD[:3], killed=False)
    content = bytearray((tmp_path / "evermq.db").read_bytes())
    content[3 * 8192 : 5 * 8192] = b"\xa5" * (2 * 8192)
    (tmp_path / "evermq.db").write_bytes(content)
    with pytest.raises(StoreUnusableError, match=r"evermq\.db is damaged"):
        await found(tmp_path)
    assert (tmp_path / "evermq.db").read_bytes() == content
    assert "manifest" not in names(tmp_path)


async def test_an_old_store_that_another_program_has_locked_is_refused(tmp_path: Path) -> None:
    old_store(tmp_path, *OLD[:3], killed=False)
    with closing(sqlite3.connect(tmp_path / "evermq.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnusableError, match=r"another program has .*evermq\.db locked"):
            await found(tmp_path)
        other.execute("ROLLBACK")
    other.close()
    assert await found(tmp_path) == OLD


@pytest.mark.parametrize("content", [b"", b"This is not a database. " * 1000])
async def test_an_old_store_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "evermq.db").write_bytes(content)
    with pytest.raises(StoreUnusableError, match=r"evermq\.db is (empty|damaged)"):
        await found(tmp_path)
    assert (tmp_path / "evermq.db").read_bytes() == content


async def test_a_write_ahead_log_that_could_not_be_carried_over_stays_with_the_old_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """log case 43, log rule 1: nothing takes over a name that has one, for SQLite would apply it."""
    old_store(tmp_path, *OLD[:3], killed=True)
    wal = (tmp_path / "evermq.db-wal").read_bytes()
    connect = FailingDisk.connect

    def leaving(self: FailingDisk, name: str) -> sqlite3.Connection:
        db = connect(self, name)
        if name == "evermq.db":  # Another program that has it open keeps the log from being carried over.
            others.append(sqlite3.connect(tmp_path / name, isolation_level=None, check_same_thread=False))
            others[-1].execute("SELECT count(*) FROM message").fetchone()
        return db

    others: list[sqlite3.Connection] = []
    with monkeypatch.context() as patch:
        patch.setattr(FailingDisk, "connect", leaving)
        store = log_store(tmp_path, disk=FailingDisk(tmp_path))
        await store.open()
    assert (tmp_path / f"{KEPT_FILE}-wal").read_bytes() == wal
    assert "evermq.db-wal" not in names(tmp_path)
    assert is_refused_by_old_releases(tmp_path)
    assert await contents(store) == OLD
    await store.close()
    for other in others:
        other.close()
