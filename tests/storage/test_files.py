"""What a start makes of files that a power failure or a bad disk has left.

Nothing that was durable is missing, and what was torn is not there at all; or it says that the database is damaged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from broker.storage.sqlite import SqliteStore

from broker.storage import database
from broker.storage.store import MessageRow, Rows, StoreUnusableError

from .samples import contents, message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FRAME_BYTES = 24 + database.PAGE_BYTES

KEPT = [message(id, b"x" * 3000) for id in range(1, 11)]
LAST = [message(id, b"y" * 3000) for id in range(11, 21)]


@pytest.fixture
async def cut_off(tmp_path: Path) -> tuple[Path, int]:
    """The files of a store as a power failure leaves them behind the last of three batches, and where in the log that
    one begins.
    """
    directory = tmp_path / "cut off"
    store = SqliteStore(tmp_path / "data", ballast_bytes=0)
    await store.open()
    await store.write(Rows(inserts=KEPT[:5]))
    await store.write(Rows(inserts=KEPT[5:]))
    start = (tmp_path / "data" / "evermq.db-wal").stat().st_size
    await store.write(Rows(inserts=LAST, removals=[1, 2]))
    directory.mkdir()
    for name in ("evermq.db", "evermq.db-wal"):
        shutil.copy(tmp_path / "data" / name, directory)
    await store.close()
    return directory, start


async def found(directory: Path) -> list[MessageRow]:
    """The messages that a start finds; the check that it makes ends well."""
    store = SqliteStore(directory, ballast_bytes=0)
    await store.open()
    messages = (await contents(store)).messages
    assert store._upkeep._thread is not None
    await store._upkeep._thread.perform(lambda db: None)
    assert store.status()["last_check"] == "passed"
    await store.close()
    return messages


BEFORE, AFTER = KEPT, [*KEPT[2:], *LAST]


async def test_a_whole_log_has_the_last_batch(cut_off: tuple[Path, int]) -> None:
    directory, _ = cut_off
    assert await found(directory) == AFTER


# Shares of the last batch, from its beginning to all but its last byte.
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.35, 0.5, 0.75, 0.9, 0.999])
@pytest.mark.parametrize("rest", ["nothing", "zeros", "garbage"])
async def test_a_batch_that_is_torn_is_not_there_at_all(cut_off: tuple[Path, int], share: float, rest: str) -> None:
    directory, start = cut_off
    log = directory / "evermq.db-wal"
    whole = log.read_bytes()
    cut = start + int(share * (len(whole) - start))
    missing = len(whole) - cut
    log.write_bytes(whole[:cut] + {"nothing": b"", "zeros": bytes(missing), "garbage": b"\xa5" * missing}[rest])
    assert await found(directory) == BEFORE


async def test_a_batch_with_one_page_that_did_not_reach_the_disk_is_not_there_at_all(cut_off: tuple[Path, int]) -> None:
    directory, start = cut_off
    log = directory / "evermq.db-wal"
    whole = bytearray(log.read_bytes())
    whole[start + FRAME_BYTES + 24 : start + 2 * FRAME_BYTES] = bytes(database.PAGE_BYTES)
    log.write_bytes(whole)
    assert await found(directory) == BEFORE


@pytest.mark.parametrize("tail", [bytes(3 * FRAME_BYTES), b"\xa5" * 5000], ids=["zeros", "garbage"])
async def test_what_follows_the_last_batch_is_passed_over(cut_off: tuple[Path, int], tail: bytes) -> None:
    directory, _ = cut_off
    with (directory / "evermq.db-wal").open("ab") as log:
        log.write(tail)
    assert await found(directory) == AFTER


# Damage


async def stored(directory: Path) -> Path:
    """The database of a store of some hundred messages that was stopped in order."""
    store = SqliteStore(directory, ballast_bytes=0)
    await store.open()
    await store.write(Rows(inserts=[message(id, b"x" * 1000) for id in range(1, 300)]))
    await store.close()
    return directory / "evermq.db"


def spoil_the_header(file: Path) -> None:
    file.write_bytes(b"This is not a database. " * 1000)


def spoil_a_page(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    middle = len(whole) // 2 // database.PAGE_BYTES * database.PAGE_BYTES
    whole[middle : middle + database.PAGE_BYTES] = b"\xa5" * database.PAGE_BYTES
    file.write_bytes(whole)


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.parametrize("damage", [spoil_the_header, spoil_a_page, cut_in_half])
async def test_a_damaged_database_is_named_with_what_to_do(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(await stored(tmp_path))
    store = SqliteStore(tmp_path, ballast_bytes=0)
    with pytest.raises(StoreUnusableError, match=r"evermq.db is damaged \(.*\); restore its directory from a copy, or"):
        await store.open()
        await contents(store)
    await store.close()


def test_the_daemon_does_not_start_on_a_damaged_database(tmp_path: Path) -> None:
    spoil_the_header(tmp_path / "evermq.db")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "EVERMQ_QUEUE_MANAGER_DATA": str(tmp_path),
        "EVERMQ_LISTENER_PORT": "0",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "broker", "run"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 20
    assert f"{tmp_path / 'evermq.db'} is damaged" in ended.stderr
    assert "restore its directory from a copy" in ended.stderr
    assert "Traceback" not in ended.stderr
