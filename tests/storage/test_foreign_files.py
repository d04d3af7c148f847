"""Files that somebody else has put in the place of a queue manager's: nothing is written to what they lead to."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from broker.storage.disk.system_disk import SystemDisk
from broker.storage.store import BackupFailedError, StoreUnusableError
from tests.stores import log_store

PRECIOUS = b"of another program"


@pytest.mark.parametrize("name", ["log.0", "log.1", "lock", "evermq-1.db.new", "evermq.db.new"])
@pytest.mark.parametrize("place", [os.symlink, os.link], ids=["link", "hard link"])
async def test_a_start_writes_over_no_file_that_a_link_leads_to(tmp_path: Path, name: str, place: object) -> None:
    assert callable(place)
    data, precious = tmp_path / "data", tmp_path / "precious"
    data.mkdir(mode=0o700)
    precious.write_bytes(PRECIOUS)
    place(precious, data / name)
    store = log_store(data)
    if name.endswith(".new"):  # which is removed, as a name, before it is made
        await store.open()
        await store.close()
    else:
        with pytest.raises(StoreUnusableError, match=r"is a link|hard link"):
            await store.open()
        assert (data / name).exists()
    assert precious.read_bytes() == PRECIOUS


def test_a_file_of_another_user_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SystemDisk(tmp_path)
    disk.create("log.0", PRECIOUS, 4096)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    for touch in (
        lambda: disk.create("log.0", b"", 4096),
        lambda: disk.open("log.0", 4096),
        lambda: disk.occupy("log.0", 8192),
        lambda: disk.connect("log.0"),
    ):
        with pytest.raises(PermissionError, match=f"belongs to another user .uid {uid}, not {uid + 1}"):
            touch()
    assert bytes(disk.read("log.0")[: len(PRECIOUS)]) == PRECIOUS  # who only looks may


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.0")
    with pytest.raises(PermissionError, match="is no file"):
        SystemDisk(tmp_path).read("log.0")


@pytest.mark.parametrize(("mode", "reported"), [(0o700, 0), (0o755, 0), (0o775, 1), (0o777, 1)], ids=str)
def test_a_directory_that_others_may_write_to_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, reported: int
) -> None:
    tmp_path.chmod(mode)
    disk = SystemDisk(tmp_path)
    disk.claim()
    disk.release()
    found = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(found) == reported
    assert all(f"others may write to the data directory path={tmp_path} mode=0{mode:o}" in each for each in found)


async def test_no_backup_goes_into_the_data_or_through_a_link(tmp_path: Path) -> None:
    store = log_store(tmp_path / "data")
    await store.open()
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "to data").symlink_to(tmp_path / "data")
    for path in ("data", "data/copy", "to data/copy"):
        with pytest.raises(BackupFailedError, match="within the data that is copied"):
            await store.backup(tmp_path / path)
    with pytest.raises(BackupFailedError, match="it is a link"):
        await store.backup(tmp_path / "link")
    await store.backup(tmp_path / "empty")
    await store.close()
