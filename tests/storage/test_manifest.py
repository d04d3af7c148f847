"""The manifest: two slots, of which one is good at every instant (log rule 5, invariant L9)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import msgpack
import pytest

from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log import manifest as manifests
from broker.storage.log.manifest import FILE, FILE_BYTES, SLOTS, Manifest, ManifestFile, create, decode, encode
from broker.storage.store import StoreUnusableError

BLOCK = 4096
MADE = Manifest("QM1", b"i" * 16, b"k" * 16, 2, 64 * BLOCK, BLOCK)


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    """The disk of a directory with a manifest."""
    disk = SystemDisk(tmp_path)
    create(disk, MADE)
    return disk


@pytest.fixture
def file(disk: SystemDisk) -> ManifestFile:
    return ManifestFile.open(disk)


def slots(disk: SystemDisk) -> list[Manifest | None]:
    content = (disk.path / FILE).read_bytes()
    return [decode(content[at : at + BLOCK]) for at in SLOTS]


def spoil(disk: SystemDisk, slot: int, byte: int = 100) -> None:
    with (disk.path / FILE).open("r+b") as file:
        file.seek(SLOTS[slot] + byte)
        changed = bytes([file.read(1)[0] ^ 1])
        file.seek(SLOTS[slot] + byte)
        file.write(changed)


def test_every_field_comes_back() -> None:
    changed = replace(
        MADE, version=7, generation=8, state="failed", cause="no room: ä", db=3, snap=4, carrying=True, durable=5,
        last=6, boot="boot",
    )  # fmt: skip
    assert len(encode(changed)) == BLOCK
    assert decode(encode(changed)) == changed


def test_every_bit_of_a_slot_that_changes_makes_it_invalid() -> None:
    slot = bytearray(encode(MADE))
    for bit in range(8 * len(slot.rstrip(b"\0"))):
        slot[bit // 8] ^= 1 << bit % 8
        assert decode(bytes(slot)) is None, f"bit {bit}"
        slot[bit // 8] ^= 1 << bit % 8


def test_a_slot_of_a_newer_format_is_refused_by_both_numbers() -> None:
    body = msgpack.packb((2, {"something": "new"}))
    slot = b"EVMQMANI" + len(body).to_bytes(4, "little") + body
    slot += crc32(slot).to_bytes(4, "little")
    with pytest.raises(StoreUnusableError, match="has format 2, and this program knows 1; start a newer one"):
        decode(slot)


def test_a_field_that_a_later_version_adds_is_passed_over() -> None:
    (form, values) = msgpack.unpackb(encode(MADE)[12 : 12 + int.from_bytes(encode(MADE)[8:12], "little")])
    body = msgpack.packb((form, values | {"later": 1}))
    slot = b"EVMQMANI" + len(body).to_bytes(4, "little") + body
    assert decode(slot + crc32(slot).to_bytes(4, "little")) == MADE


def test_a_new_manifest_has_one_slot_and_its_length(disk: SystemDisk) -> None:
    assert slots(disk) == [MADE, None]
    assert (disk.path / FILE).stat().st_size == FILE_BYTES
    assert disk.names() == {FILE}


def test_slots_are_written_in_turn_and_the_highest_version_counts(disk: SystemDisk, file: ManifestFile) -> None:
    for number in (1, 2, 3):
        file.write(durable=number)
    found = slots(disk)
    assert [each and each.durable for each in found] == [2, 3]
    assert ManifestFile.open(disk).current == file.current == replace(MADE, version=3, durable=3)


def test_a_slot_is_written_over_only_when_the_other_one_was_written_by_this_process(
    disk: SystemDisk, file: ManifestFile
) -> None:
    """log rule 5: else two starts that are cut short leave two torn slots (log case 18)."""
    file.write(durable=1)
    for _ in range(3):
        start = ManifestFile.open(disk)
        assert start.current.durable == 1
        start.renew()
        assert slots(disk)[1] == file.current
        spoil(disk, 0)  # its first write is cut short
        assert ManifestFile.open(disk).current == file.current


def test_a_torn_slot_leaves_the_other_and_is_in_doubt(disk: SystemDisk, file: ManifestFile) -> None:
    file.write(durable=1)
    assert not ManifestFile.open(disk).doubtful
    spoil(disk, 1)
    found = ManifestFile.open(disk)
    assert (found.current, found.doubtful) == (MADE, True)


def test_a_slot_that_was_never_written_is_not_in_doubt(disk: SystemDisk, file: ManifestFile) -> None:
    assert not file.doubtful


def test_a_manifest_without_a_valid_slot_is_refused(disk: SystemDisk, file: ManifestFile) -> None:
    file.write(durable=1)
    spoil(disk, 0)
    spoil(disk, 1)
    with pytest.raises(StoreUnusableError, match="manifest holds no valid manifest; restore"):
        ManifestFile.open(disk)


def test_a_write_that_failed_changes_nothing_and_is_repeated_in_the_same_slot(
    disk: SystemDisk, file: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """log rule 5: the slot that may be torn is the only one that may be written."""
    file.write(durable=1)

    def torn(offset: int, data: bytes) -> None:
        raise OSError(5, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(file._file, "write", torn)
        with pytest.raises(OSError, match="injected"):
            file.write(durable=2)
    assert file.current.durable == 1
    spoil(disk, 0)
    file.write(state=manifests.FAILED, cause="why")
    assert [each and (each.version, each.state) for each in slots(disk)] == [(2, "failed"), (1, "orderly")]


def test_names_of_files() -> None:
    assert (MADE.database, MADE.logs, replace(MADE, db=12).database) == (
        "evermq-1.db", ["log.0", "log.1"], "evermq-12.db",
    )  # fmt: skip
