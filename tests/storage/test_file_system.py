"""Which file systems a start warns of, and in what words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.storage.disk import file_system
from broker.storage.disk.system_disk import SystemDisk

DATA = Path("/var/lib/evermq")

WARNINGS = {
    0xEF53: "",  # ext4
    0x58465342: "",  # XFS
    0xF2F52010: "",  # F2FS
    0: "",
    0x6969: "/var/lib/evermq is on NFS, whose locks and syncs are not those of a local disk",
    0x517B: "/var/lib/evermq is on SMB, whose",
    0xFF534D42: "/var/lib/evermq is on CIFS, whose",
    0xFE534D42: "/var/lib/evermq is on SMB, whose",
    0x65735546: "/var/lib/evermq is on FUSE, whose",
    0x01021997: "/var/lib/evermq is on 9p, whose",
    0x00C36400: "/var/lib/evermq is on Ceph, whose",
    0x794C7630: "/var/lib/evermq is on overlay, the file system of a container, and is gone when",
    0x01021994: "/var/lib/evermq is on tmpfs, in memory, and is gone when the machine stops",
    0x9123683E: "/var/lib/evermq is on btrfs, which writes changed blocks to new places",
    0x2FC12FC1: "/var/lib/evermq is on ZFS, which",
    0xCA451A4E: "/var/lib/evermq is on bcachefs, which",
}


@pytest.mark.parametrize(
    ("type", "begins"), WARNINGS.items(), ids=lambda value: hex(value) if isinstance(value, int) else ""
)
def test_a_file_system_that_cannot_be_trusted_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, type: int, begins: str
) -> None:
    monkeypatch.setattr(file_system, "_type", lambda path: type)
    found = file_system.warnings(DATA)
    if not begins:
        assert found == []
    else:
        (warning,) = found
        assert warning.startswith(begins)
        assert any(advice in warning for advice in ("; move it to", "; mount a volume there", "or move it to"))


@pytest.mark.parametrize("name", ["btrfs", "ZFS", "bcachefs"])
def test_the_file_systems_that_copy_are_those_whose_warning_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (type,) = [each for each, begins in WARNINGS.items() if f"on {name}," in begins]
    monkeypatch.setattr(file_system, "_type", lambda path: type)
    assert file_system.copies(DATA)
    monkeypatch.setattr(file_system, "_type", lambda path: 0xEF53)
    assert not file_system.copies(DATA)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of Linux alone")
@pytest.mark.parametrize("path", ["/proc", "/sys", "/dev/shm", "."])
def test_the_kind_of_file_system_is_the_one_that_the_system_tells(path: str) -> None:
    reported = subprocess.run(
        ["stat", "--file-system", "--format=%t", path], capture_output=True, text=True, check=True
    )
    assert file_system._type(Path(path)) == int(reported.stdout, 16)


def test_of_a_directory_that_is_not_there_nothing_is_said(tmp_path: Path) -> None:
    assert SystemDisk(tmp_path / "missing").warnings() == []


def test_an_old_sqlite_is_noted() -> None:
    note = file_system.sqlite_note((3, 51, 2))
    assert note is not None
    assert note.startswith("SQLite 3.51.2 is older than 3.51.3")
    assert file_system.sqlite_note((3, 51, 3)) is None
    assert file_system.sqlite_note((3, 9, 0)) is not None
