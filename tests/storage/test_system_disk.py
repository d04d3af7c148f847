"""The disk of an operating system, on real files: how they are written, read back, made, told apart and removed."""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.storage.disk import file_system, system_disk, system_file, ways
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.store import StoreUnusableError

from .processes import HOLDS_THE_DIRECTORY, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from broker.storage.disk.disk import DiskFile

MIB = 1024 * 1024
FILE_BYTES = 4 * MIB

DIRECT = "pwritev with O_DIRECT and O_DSYNC"
BUFFERED = "pwritev and fdatasync"


def blocks(count: int, of: bytes = b"abc", block_bytes: int = 4096) -> bytes:
    """So many blocks of a pattern whose period is no power of two."""
    return (of * (count * block_bytes // len(of) + 1))[: count * block_bytes]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    """A new data directory that is held."""
    disk = SystemDisk(tmp_path / "data")
    disk.claim()
    yield disk
    disk.release()


@pytest.fixture
def log(disk: SystemDisk) -> str:
    """The name of a file of zeros behind a block of As."""
    disk.create("log.0", b"A" * 4096, FILE_BYTES)
    return "log.0"


@pytest.fixture
def takes_direct(disk: SystemDisk, log: str) -> None:
    """The disk of the tests takes writes past the cache; a test that needs it is skipped elsewhere."""
    with opened(disk) as file:
        file.write(4096, bytes(4096))
        if file.way != DIRECT:
            pytest.skip("the file system of the tests does not take O_DIRECT")


@contextmanager
def opened(disk: SystemDisk, block_bytes: int = 4096) -> Iterator[DiskFile]:
    with closing(disk.open("log.0", block_bytes)) as file:
        yield file


class Calls:
    """A stand-in for a function of `os`: it calls the function itself, unless a fault is due."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self._call = getattr(os, name)
        self.made: list[tuple[Any, ...]] = []
        self.faults: list[Callable[..., int] | OSError | None] = []
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments: Any) -> Any:
        self.made.append(arguments)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, OSError):
            raise fault
        return (fault or self._call)(*arguments)


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def refuse_direct(monkeypatch: pytest.MonkeyPatch, number: int = errno.EINVAL) -> None:
    """Have no file opened past the cache."""
    open_file = os.open

    def refusing(path: str, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            raise error(number)
        return open_file(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refusing)


def only_blocks_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a disk whose blocks have this size: what goes past the cache keeps to them."""
    write, read = os.pwritev, os.preadv

    def checked(call: Callable[..., int], fd: int, buffers: list[Any], offset: int) -> int:
        if is_direct(fd) and (offset % size or sum(map(len, buffers)) % size):
            raise error(errno.EINVAL)
        return call(fd, buffers, offset)

    monkeypatch.setattr(os, "pwritev", partial(checked, write))
    monkeypatch.setattr(os, "preadv", partial(checked, read))


def is_direct(fd: int) -> bool:
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)


def open_descriptors(path: Path) -> list[bool]:
    """The descriptors that this process has of a file: whether each is past the cache."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}") == str(path):
                found.append(is_direct(int(name)))
        except FileNotFoundError:  # that of the listing itself
            continue
    return found


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of Linux alone")


# How a file is written and read

WAYS = {
    "direct": ways.DirectWay,
    "buffered": ways.BufferedWay,
    "full sync": ways.FullSyncWay,  # Elsewhere than on macOS it falls back to fsync, so that much of it runs anywhere.
}


@pytest.fixture(params=WAYS)
def any_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, takes_direct: None) -> str:
    """Each way in turn, as the only one there is."""
    monkeypatch.setattr(system_file, "ways", lambda: [WAYS[request.param]])
    return str(request.param)


@pytest.mark.parametrize("count", [1, 3, 16, 17, 200, 700], ids=lambda count: f"{count} blocks")
def test_what_was_written_is_read_and_the_rest_is_as_it_was(
    disk: SystemDisk, log: str, any_way: str, count: int
) -> None:
    written = blocks(count)
    with opened(disk) as file:
        file.write(8192, written)
        assert file.read(8192, len(written)) == written
    whole = b"A" * 4096 + bytes(4096) + written
    assert (disk.path / log).read_bytes() == whole + bytes(FILE_BYTES - len(whole))
    with opened(disk) as file:
        assert file.read(0, FILE_BYTES) == whole + bytes(FILE_BYTES - len(whole))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_record_may_be_any_bytes_and_may_change_when_the_write_has_returned(
    disk: SystemDisk, log: str, any_way: str, kind: type[bytearray]
) -> None:
    record = bytearray(blocks(2))
    with opened(disk) as file:
        file.write(4096, kind(record))
        record[:] = bytes(8192)
        file.write(16384, blocks(1, b"shorter"))
        assert file.read(4096, 8192) == blocks(2)
        assert file.read(16384, 8192) == blocks(1, b"shorter") + bytes(4096)


def test_a_read_is_short_at_the_end_and_empty_behind_it(disk: SystemDisk, log: str, any_way: str) -> None:
    with opened(disk) as file:
        assert file.read(FILE_BYTES - 4096, 12288) == bytes(4096)
        assert file.read(FILE_BYTES + 4096, 4096) == b""


def test_a_file_that_lost_its_end_is_read_as_far_as_it_goes(disk: SystemDisk, log: str, any_way: str) -> None:
    with opened(disk) as file:
        os.truncate(disk.path / log, 8192)
        assert (file.size, file.read(0, FILE_BYTES)) == (FILE_BYTES, b"A" * 4096 + bytes(4096))


@pytest.mark.parametrize(("offset", "size"), [(4096, 100), (100, 4096)])
def test_what_is_not_whole_blocks_is_a_mistake_of_the_caller(
    disk: SystemDisk, log: str, any_way: str, offset: int, size: int
) -> None:
    with opened(disk) as file:
        with pytest.raises(ValueError, match="not whole blocks of 4096"):
            file.write(offset, bytes(size))
        with pytest.raises(ValueError, match="not whole blocks of 4096"):
            file.read(offset, size)


def test_a_file_may_be_closed_twice(disk: SystemDisk, log: str, any_way: str) -> None:
    file = disk.open(log, 4096)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(4096, bytes(4096))


def test_a_file_that_is_not_there_is_not_made(disk: SystemDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("log.1", 4096)
    assert disk.names() == {"lock"}


# The ways, and the next one (log case 48)


@linux
def test_a_record_is_one_write_past_the_cache_from_whole_pages(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, syncs = Calls(monkeypatch, "pwritev"), Calls(monkeypatch, "fdatasync")
    with opened(disk) as file:
        file.write(4096, blocks(300))
        assert open_descriptors(disk.path / "log.0") == [True]
        ((fd, (buffer,), offset),) = write.made
        assert (len(buffer), offset, syncs.made) == (300 * 4096, 4096, [])
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_DIRECT | os.O_DSYNC) == os.O_DIRECT | os.O_DSYNC
    assert open_descriptors(disk.path / "log.0") == []


@linux
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_that_cannot_be_opened_past_the_cache_is_written_through_it(
    disk: SystemDisk, log: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refuse_direct(monkeypatch, number)
    syncs = Calls(monkeypatch, "fdatasync")
    with opened(disk) as file:
        file.write(4096, blocks(1))
        assert (file.way, len(syncs.made), open_descriptors(disk.path / log)) == (BUFFERED, 1, [False])
        assert file.read(4096, 4096) == blocks(1)


@linux
def test_another_error_of_opening_is_not_taken_for_a_refusal(
    disk: SystemDisk, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_direct(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        disk.open(log, 4096)


@linux
def test_a_first_write_that_is_refused_past_the_cache_is_made_through_it(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write = Calls(monkeypatch, "pwritev")
    write.faults = [error(errno.EINVAL)]
    with opened(disk) as file:
        file.write(4096, blocks(2))
        file.write(12288, blocks(1, b"next"))
        assert (file.way, open_descriptors(disk.path / "log.0")) == (BUFFERED, [False])
        assert file.read(4096, 12288) == blocks(2) + blocks(1, b"next")
    assert [offset for _, _, offset in write.made] == [4096, 4096, 12288]
    assert f"way={DIRECT} next={BUFFERED}" in caplog.text


@linux
def test_a_first_read_that_is_refused_past_the_cache_is_made_through_it(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Calls(monkeypatch, "preadv").faults = [error(errno.EINVAL)]
    with opened(disk) as file:
        assert file.read(0, 8192) == b"A" * 4096 + bytes(4096)
        assert file.way == BUFFERED


@linux
def test_a_refusal_behind_the_first_write_is_an_error_and_is_not_tried_again(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Calls(monkeypatch, "pwritev")
    write.faults = [None, error(errno.EINVAL)]
    with opened(disk) as file:
        file.write(4096, blocks(1))
        with pytest.raises(OSError, match="Invalid argument"):
            file.write(8192, blocks(1))
        assert (file.way, len(write.made)) == (DIRECT, 2)


@linux
def test_a_refusal_of_the_last_way_is_an_error(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Calls(monkeypatch, "pwritev").faults = [error(errno.EINVAL), error(errno.EINVAL)]
    with opened(disk) as file, pytest.raises(OSError, match="Invalid argument"):
        file.write(4096, blocks(1))


@linux
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EOPNOTSUPP])
def test_another_error_of_the_first_write_is_not_taken_for_a_refusal(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write = Calls(monkeypatch, "pwritev")
    write.faults = [error(number)]
    with opened(disk) as file:
        with pytest.raises(OSError, match=os.strerror(number)) as failure:
            file.write(4096, blocks(1))
        assert (failure.value.errno, len(write.made), file.way) == (number, 1, DIRECT)


def test_another_error_of_the_first_write_is_an_error_and_is_not_tried_again(
    disk: SystemDisk, log: str, any_way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Calls(monkeypatch, "pwrite" if any_way == "full sync" else "pwritev")
    write.faults = [error(errno.ENOSPC)]
    with opened(disk) as file, pytest.raises(OSError, match="No space left"):
        file.write(4096, blocks(1))
    assert len(write.made) == 1


def test_a_short_write_is_an_error_and_the_rest_is_not_written(
    disk: SystemDisk, log: str, any_way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "pwrite" if any_way == "full sync" else "pwritev"
    call = getattr(os, name)

    def half(fd: int, data: Any, offset: int) -> int:
        return int(call(fd, data[:4096] if name == "pwrite" else [data[0][:4096]], offset))

    write = Calls(monkeypatch, name)
    write.faults = [half]
    with opened(disk) as file:
        with pytest.raises(OSError, match="only 4096 of 8192 bytes were written") as failure:
            file.write(4096, blocks(2))
        assert (failure.value.errno, len(write.made)) == (errno.EIO, 1)
        assert file.read(4096, 8192) == blocks(2)[:4096] + bytes(4096)


@linux
def test_a_sync_that_fails_is_an_error_and_is_not_tried_again(
    disk: SystemDisk, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_direct(monkeypatch)
    syncs = Calls(monkeypatch, "fdatasync")
    syncs.faults = [error(errno.EIO)]
    with opened(disk) as file, pytest.raises(OSError, match="Input/output error"):
        file.write(4096, blocks(1))
    assert len(syncs.made) == 1


@linux
def test_the_way_may_change_between_two_starts(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start, way in enumerate([DIRECT, BUFFERED, DIRECT, BUFFERED]):
        with monkeypatch.context() as patch:
            if way == BUFFERED:
                refuse_direct(patch)
            with opened(disk) as file:
                assert file.read(0, (start + 1) * 4096) == b"A" * 4096 + b"".join(
                    blocks(1, b"start %d" % earlier) for earlier in range(start)
                )
                file.write((start + 1) * 4096, blocks(1, b"start %d" % start))
                assert file.way == way


@linux
def test_a_disk_of_larger_blocks_is_written_in_these(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    only_blocks_of(16384, monkeypatch)
    size = disk.block_bytes()
    assert size == 16384
    disk.create("log.0", bytes(size), 64 * size)
    with opened(disk, size) as file:
        file.write(size, blocks(3, block_bytes=size))
        assert (file.way, file.read(size, 3 * size)) == (DIRECT, blocks(3, block_bytes=size))


@linux
def test_a_log_of_small_blocks_on_a_disk_of_larger_ones_is_written_through_the_cache(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_blocks_of(16384, monkeypatch)
    with opened(disk) as file:
        file.write(4096, blocks(1))
        assert (file.way, file.read(4096, 4096)) == (BUFFERED, blocks(1))


# How large a block must be


def test_a_block_has_at_least_4_kib_and_finding_out_leaves_nothing(disk: SystemDisk) -> None:
    assert disk.block_bytes() == 4096
    assert disk.names() == {"lock"}


@linux
def test_a_disk_that_takes_no_block_past_the_cache_gets_pages(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_blocks_of(128 * 1024, monkeypatch)
    assert disk.block_bytes() == 4096


@linux
def test_a_file_system_without_a_way_past_the_cache_gets_pages(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = fcntl.fcntl

    def refusing(fd: Any, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETFL and argument & os.O_DIRECT:
            raise error(errno.EINVAL)
        return control(fd, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refusing)
    assert disk.block_bytes() == 4096


@linux
def test_a_disk_that_fails_is_not_taken_for_one_of_larger_blocks(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    Calls(monkeypatch, "pwritev").faults = [error(errno.ENOSPC)]
    with pytest.raises(OSError, match="No space left"):
        disk.block_bytes()


# macOS, whose calls other systems do not have


def test_a_sync_of_macos_reaches_the_drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = full_sync(monkeypatch)
    syncs = Calls(monkeypatch, "fsync")
    (tmp_path / "file").write_bytes(bytes(8192))
    with closing(ways.FullSyncWay(tmp_path / "file")) as way:
        syncs.made.clear()
        way.write(0, blocks(1))
        assert (way.name, seen, syncs.made) == ("pwrite and F_FULLFSYNC", [51], [])
    assert (tmp_path / "file").read_bytes() == blocks(1) + bytes(4096)


def test_where_macos_refuses_that_the_file_is_synced_as_elsewhere_and_the_way_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_sync(monkeypatch, error(errno.ENOTSUP))
    syncs = Calls(monkeypatch, "fsync")
    (tmp_path / "file").write_bytes(bytes(8192))
    with closing(ways.FullSyncWay(tmp_path / "file")) as way:
        syncs.made.clear()
        way.write(0, blocks(1))
        assert (way.name, len(syncs.made)) == ("pwrite and fsync", 1)


def test_a_full_sync_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(8192))
    with closing(ways.FullSyncWay(tmp_path / "file")) as way:
        full_sync(monkeypatch, error(errno.EIO))
        syncs = Calls(monkeypatch, "fsync")
        with pytest.raises(OSError, match="Input/output error"):
            way.write(0, blocks(1))
        assert syncs.made == []


def full_sync(monkeypatch: pytest.MonkeyPatch, fault: OSError | None = None) -> list[int]:
    """Have a system that knows F_FULLFSYNC; the commands that were given."""
    seen = []

    def control(fd: int, command: int, argument: int = 0) -> int:
        seen.append(command)
        if fault is not None:
            raise fault
        return 0

    monkeypatch.setattr(fcntl, "fcntl", control)
    return seen


# Past the cache


TRIES = 5
"""The kernel keeps a page in its cache that is in use just then, whatever it is told."""


def is_cached(path: Path) -> bool:
    """True if the first page of a file is in the cache; the test is skipped where nobody can tell."""
    with path.open("rb", buffering=0) as file:
        try:
            return os.preadv(file.fileno(), [bytearray(4096)], 0, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False
        except OSError:
            return pytest.skip("the file system of the tests does not tell what is cached")


def cached(path: Path) -> None:
    """Have the file in the cache, on a file system that lets what is synced go from it."""
    if file_system.warnings(path.parent):
        pytest.skip("the file system of the tests may have no medium behind its cache")
    path.read_bytes()
    assert is_cached(path)


@linux
def test_what_is_read_next_comes_from_the_medium_when_the_cache_was_dropped(disk: SystemDisk, log: str) -> None:
    path = disk.path / log

    def stays_cached() -> bool:
        path.write_bytes(blocks(1024, b"in the cache"))  # and nowhere else yet
        cached(path)
        disk.drop_cache(log)
        return is_cached(path)

    assert not all(stays_cached() for _ in range(TRIES))
    assert path.read_bytes() == blocks(1024, b"in the cache")


@linux
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "buffered"])
def test_the_log_is_read_from_the_medium(
    disk: SystemDisk, takes_direct: None, monkeypatch: pytest.MonkeyPatch, direct: bool
) -> None:
    path = disk.path / "log.0"
    if not direct:
        refuse_direct(monkeypatch)
    dropped = Calls(monkeypatch, "posix_fadvise")

    def stays_cached() -> bool:
        path.write_bytes(blocks(1024, b"in the cache"))
        cached(path)
        dropped.made.clear()
        with opened(disk) as file:
            assert file.read(0, FILE_BYTES) == blocks(1024, b"in the cache")
        assert [call[1:] for call in dropped.made] == [(0, 0, os.POSIX_FADV_DONTNEED)]
        return is_cached(path)

    assert all(stays_cached() for _ in range(TRIES)) is not direct  # read past it, or into it anew


@linux
def test_earlier_writes_that_have_failed_do_not_hide_what_the_medium_has(
    disk: SystemDisk, log: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse_direct(monkeypatch)
    with opened(disk) as file:
        Calls(monkeypatch, "fsync").faults = [error(errno.EIO)]
        assert file.read(0, 4096) == b"A" * 4096
    assert "earlier writes to a file have failed" in caplog.text


def test_what_is_not_there_need_not_be_dropped(disk: SystemDisk) -> None:
    disk.drop_cache("evermq-1.db-wal")
    assert disk.names() == {"lock"}


@linux
def test_a_sync_that_fails_is_told(disk: SystemDisk, log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for sync in (partial(disk.sync, log), partial(disk.drop_cache, log), disk.sync_names):
        Calls(monkeypatch, "fsync").faults = [error(errno.EIO)]
        with pytest.raises(OSError, match="Input/output error"):
            sync()


# Files


def test_a_new_file_has_its_content_and_zeros_on_blocks_of_its_own(disk: SystemDisk) -> None:
    first = blocks(2, b"header")
    disk.create("log.1", first, FILE_BYTES)
    assert disk.read("log.1") == first + bytes(FILE_BYTES - len(first))
    assert os.stat(disk.path / "log.1").st_blocks * 512 >= FILE_BYTES


def test_a_file_may_be_no_longer_than_its_first_bytes(disk: SystemDisk) -> None:
    disk.create("manifest.new", b"short", 5)
    disk.create("empty", b"", 0)
    assert (bytes(disk.read("manifest.new")), bytes(disk.read("empty"))) == (b"short", b"")


def test_a_file_that_is_there_is_made_anew(disk: SystemDisk, log: str) -> None:
    with opened(disk) as file:
        file.write(4096, blocks(100))
    disk.create(log, b"B" * 4096, MIB)
    assert disk.read(log) == b"B" * 4096 + bytes(MIB - 4096)


def test_a_new_file_is_synced_when_it_is_whole(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    sync = os.fsync

    def observed(fd: int) -> None:
        lengths.append(os.fstat(fd).st_size)
        sync(fd)

    monkeypatch.setattr(os, "fsync", observed)
    disk.create("log.1", b"header", FILE_BYTES)
    assert lengths == [FILE_BYTES]


@linux
def test_where_the_file_system_copies_a_file_is_to_be_written_in_place_before_anything_is_in_it(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    control = fcntl.ioctl

    def noted(fd: int, request: int, flags: bytearray) -> int:
        asked.append((hex(request), hex(int.from_bytes(flags[:4], sys.byteorder)), os.fstat(fd).st_size))
        return int(control(fd, request, flags))

    monkeypatch.setattr(fcntl, "ioctl", noted)
    disk.create("plain", b"", 4096)
    assert asked == []
    monkeypatch.setattr(file_system, "copies", lambda path: True)
    disk.create("log.0", b"header", FILE_BYTES)  # Others refuse the attribute, and the file is made all the same.
    get, (request, flags, length) = asked
    assert (get[0][-4:], get[2]) == ("6601", 0)
    assert (request[-4:], int(flags, 16) & 0x00800000, length) == ("6602", 0x00800000, 0)
    assert disk.read("log.0") == b"header" + bytes(FILE_BYTES - 6)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_file_that_cannot_be_made_is_not_there(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    Calls(monkeypatch, call).faults = [error(errno.ENOSPC)]
    with pytest.raises(OSError, match="No space left"):
        disk.create("log.1", b"header", FILE_BYTES)
    assert disk.names() == {"lock"}


def test_a_file_is_made_whole_by_a_system_that_writes_it_in_pieces(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:1000]))
    disk.create("manifest", b"header" * 500, 5000)
    assert (disk.path / "manifest").read_bytes() == b"header" * 500 + bytes(2000)


@pytest.mark.parametrize("size", [0, 1, 4095, 4097, 1_500_000])
def test_a_file_of_any_length_is_read_whole_and_not_opened_to_be_written(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = disk.path / "file"
    path.write_bytes(blocks(400)[:size])
    calls = Calls(monkeypatch, "open")
    assert disk.read("file") == blocks(400)[:size]
    assert {flags & os.O_ACCMODE for _, flags, *_ in calls.made} == {os.O_RDONLY}


@pytest.mark.parametrize("name", WAYS)
def test_what_is_read_lies_in_pages_of_its_own(tmp_path: Path, takes_direct: None, name: str) -> None:
    """In the heap a file of the log, once read, would stay: the allocator keeps pieces of such a size from then on."""
    (tmp_path / "file").write_bytes(blocks(400))
    way: ways.Way = WAYS[name](tmp_path / "file")  # type: ignore[assignment]
    with closing(way):
        content = way.read(4096, 399 * 4096)
        assert isinstance(content.obj, mmap.mmap)
        assert content.readonly
        assert content == blocks(400)[4096:]


def test_names_come_and_go(disk: SystemDisk, log: str) -> None:
    disk.create("manifest.new", b"new", 3)
    disk.create("manifest", b"old", 3)
    disk.rename("manifest.new", "manifest")
    disk.remove(log)
    disk.remove(log)
    disk.sync_names()
    disk.sync("manifest")
    assert (disk.names(), bytes(disk.read("manifest"))) == ({"lock", "manifest"}, b"new")


def test_whatever_the_umask_all_files_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        disk = SystemDisk(tmp_path / "new" / "data")
        disk.claim()
        disk.create("log.0", b"", 4096)
        disk.occupy("ballast", 4096)
        with closing(disk.connect("evermq-1.db")) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE message (id)")
            made = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in disk.path.iterdir()}
    finally:
        os.umask(before)
    names = {"lock", "log.0", "ballast", "evermq-1.db", "evermq-1.db-wal", "evermq-1.db-shm"}
    assert made == dict.fromkeys(names, "0o600")
    assert oct(stat.S_IMODE(disk.path.stat().st_mode)) == "0o700"
    disk.release()


def test_files_that_others_may_read_are_made_private(disk: SystemDisk, log: str) -> None:
    disk.connect("evermq-1.db").close()
    for name in (log, "evermq-1.db"):
        (disk.path / name).chmod(0o644)
    with opened(disk), closing(disk.connect("evermq-1.db")):
        assert {oct(stat.S_IMODE((disk.path / name).stat().st_mode)) for name in (log, "evermq-1.db")} == {"0o600"}


# The ballast


def test_the_ballast_is_there_until_it_is_given_up(disk: SystemDisk) -> None:
    disk.occupy("ballast", MIB)
    disk.occupy("ballast", 2 * MIB)
    disk.occupy("ballast", MIB)
    occupied = os.stat(disk.path / "ballast")
    assert (occupied.st_size, occupied.st_blocks * 512 >= 2 * MIB) == (2 * MIB, True)
    disk.remove("ballast")
    assert disk.names() == {"lock"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SystemDisk]:
    """A data directory on a disk of 4 MiB; skipped where none can be mounted."""
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root mounts a tmpfs")
    try:
        disk = SystemDisk(path / "data")
        disk.claim()
        yield disk
        disk.release()
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def test_on_a_full_disk_neither_ballast_nor_file_is_left_half_made(small_disk: SystemDisk) -> None:
    small_disk.occupy("ballast", 2 * MIB)
    for make in (
        partial(small_disk.occupy, "more", 4 * MIB),
        partial(small_disk.create, "log.0", b"header", 4 * MIB),
    ):
        with pytest.raises(OSError, match="No space left") as failure:
            make()
        assert failure.value.errno == errno.ENOSPC
        assert small_disk.names() == {"lock", "ballast"}
    small_disk.remove("ballast")
    small_disk.create("log.0", b"header", 3 * MIB)


@linux
def test_a_disk_in_memory_takes_the_log_too(small_disk: SystemDisk) -> None:
    small_disk.create("log.0", bytes(4096), MIB)
    assert small_disk.block_bytes() == 4096
    with opened(small_disk) as file:
        file.write(4096, blocks(2))
        assert file.read(4096, 8192) == blocks(2)
    assert "in memory" in small_disk.warnings()[0]


# The directory, its lock, and what its names lead to


def test_a_directory_is_made_once(tmp_path: Path) -> None:
    for made in (True, False):
        disk = SystemDisk(tmp_path / "new" / "data")
        disk.claim()
        assert (disk.made, disk.names()) == (made, {"lock"})
        disk.release()
        disk.release()


def test_a_directory_that_another_process_holds_is_refused_until_that_ends(tmp_path: Path) -> None:
    disk = SystemDisk(tmp_path / "data")
    with running(HOLDS_THE_DIRECTORY, disk.path) as holder:
        with pytest.raises(StoreUnusableError, match=rf"in use by another queue manager \(process {holder.pid}\)"):
            disk.claim()
        assert disk.held_lock() is None
        holder.kill()
        holder.wait()
        disk.claim()
    assert (disk.path / "lock").read_bytes() == b"%d\n" % os.getpid()
    disk.release()


def test_the_lock_that_is_held_is_the_file_of_that_name_until_that_is_another(disk: SystemDisk) -> None:
    held = disk.held_lock()
    assert held is not None
    assert held == disk.identity("lock")
    (disk.path / "other").write_bytes(b"")
    disk.rename("other", "lock")
    replaced = disk.held_lock()
    assert replaced == held._replace(links=0)
    found = disk.identity("lock")
    assert found is not None
    assert (found.inode != held.inode, found.links) == (True, 1)
    disk.release()
    assert disk.held_lock() is None


def test_a_name_leads_to_another_file_when_that_is_replaced_and_nowhere_when_it_is_removed(
    disk: SystemDisk, log: str
) -> None:
    with opened(disk):  # as while it runs: no other file can get the number of one that is open
        before = disk.identity(log)
        assert before is not None
        assert (before.links, before.size) == (1, FILE_BYTES)
        assert disk.identity(log) == before
        (disk.path / "copy").write_bytes((disk.path / log).read_bytes())
        disk.rename("copy", log)
        after = disk.identity(log)
        assert after is not None
        assert (after.inode != before.inode, after._replace(inode=before.inode)) == (True, before)
        os.truncate(disk.path / log, 4096)
        assert disk.identity(log) == after._replace(size=4096)
        os.link(disk.path / log, disk.path / "link")
        assert disk.identity(log) == after._replace(size=4096, links=2)
        disk.remove(log)
        assert disk.identity(log) is None


def test_a_directory_that_was_removed_leads_nowhere(disk: SystemDisk) -> None:
    assert disk.identity("") is not None
    disk.remove("lock")
    disk.path.rmdir()
    assert (disk.identity(""), disk.identity("lock")) == (None, None)
    held = disk.held_lock()
    assert held is not None
    assert held.links == 0
    disk.path.write_text("a file where the directory was")
    assert disk.identity("lock") is None


# The system


@linux
def test_the_start_of_the_system_is_known_and_stays(disk: SystemDisk) -> None:
    assert disk.boot() == disk.boot() == Path("/proc/sys/kernel/random/boot_id").read_text().strip() != ""


def test_a_system_that_does_not_tell_its_start_has_none(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_disk, "_BOOT_ID", tmp_path / "none")
    assert disk.boot() == ""


# Databases

WRITES_TO_A_DATABASE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0)
try:
    db.execute("INSERT INTO message VALUES (2)")
    db.commit()
    print("written")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_second_connection_leaves_the_locks_of_the_first(disk: SystemDisk) -> None:
    """Any descriptor of the file that this process closes would give them up."""
    with closing(disk.connect("evermq-1.db")) as writer:
        writer.execute("CREATE TABLE message (id)")
        writer.execute("BEGIN IMMEDIATE")
        disk.connect("evermq-1.db").close()
        command = [sys.executable, "-c", WRITES_TO_A_DATABASE, str(disk.path / "evermq-1.db")]
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"database is locked\n"
        writer.execute("ROLLBACK")
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"written\n"


def test_each_statement_is_a_transaction_of_its_own(disk: SystemDisk) -> None:
    with closing(disk.connect("evermq-1.db")) as db:
        db.execute("CREATE TABLE message (id)")
        db.execute("INSERT INTO message VALUES (1)")
        assert not db.in_transaction
    with closing(sqlite3.connect(disk.path / "evermq-1.db")) as other:
        assert other.execute("SELECT id FROM message").fetchall() == [(1,)]


async def test_a_database_that_cannot_be_opened_is_told(disk: SystemDisk) -> None:
    (disk.path / "evermq-1.db").mkdir()
    with pytest.raises(PermissionError, match="is no file"):
        await disk.start_database("evermq-1.db")
    assert "evermq-snapshot" not in {thread.name for thread in threading.enumerate()}
