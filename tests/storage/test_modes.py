"""The files of a queue manager are their owner's alone."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.storage.store import Rows, StoreFailedError
from tests.stores import log_store

from .samples import contents, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(directory: Path) -> dict[str, str]:
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in directory.iterdir()}


async def used(directory: Path, id: int = 1) -> dict[str, str]:
    """A store that is opened, written to and closed; the modes of its files while it is open."""
    store = log_store(directory)
    await store.open()
    await contents(store)
    await store.write(Rows(inserts=[message(id, b"x")]))
    found = modes(directory)
    await store.close()
    return found


DATABASE = "evermq-1.db"
OPEN = {DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "evermq.db", "ballast", "lock", "log.0", "log.1", "manifest"}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777], ids=oct)
async def test_whatever_the_umask_all_files_are_their_owners_alone(tmp_path: Path, mask: int) -> None:
    directory = tmp_path / "new" / "data"
    with umask(mask):
        assert await used(directory) == dict.fromkeys(OPEN, "0o600")
    assert set(modes(directory).values()) == {"0o600"}
    assert oct(stat.S_IMODE(directory.stat().st_mode)) == "0o700"


async def test_files_and_a_directory_that_are_there_already_are_used_and_the_files_made_private(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    with umask(0):
        await used(tmp_path)
        (tmp_path / "notes.txt").touch()
        for name in os.listdir(tmp_path):
            (tmp_path / name).chmod(0o666)
        store = log_store(tmp_path)
        await store.open()
        found = modes(tmp_path)
        await store.close()
    assert found.pop("notes.txt") == "0o666"  # not ours
    assert found == dict.fromkeys(OPEN, "0o600")
    assert oct(stat.S_IMODE(os.stat(tmp_path).st_mode)) == "0o755"


async def test_a_database_written_anew_is_private_too(tmp_path: Path) -> None:
    with umask(0):
        await used(tmp_path / "data")
        store = log_store(tmp_path / "data")
        await store.open()
        store._fail(StoreFailedError("injected"))
        await store.close()
        await store.open()
        assert modes(tmp_path / "data")["evermq-2.db"] == modes(tmp_path / "data")["evermq-2.db-wal"] == "0o600"
        await store.close()


async def test_a_mode_that_cannot_be_changed_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await used(tmp_path)
    (tmp_path / DATABASE).chmod(0o644)

    def refused(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(type(tmp_path), "chmod", refused)
    await used(tmp_path, 2)
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"path={tmp_path / DATABASE}: [Errno 1]" in record.getMessage()
