"""A file system in a file whose power can be cut: ext4 on a loop device, ended by the file system's shutdown ioctl.

What was written and not synced is gone then, as after a power failure, for nothing of it leaves the page cache any
more; the next mount replays the journal of the file system. What the kernel had sent to the device is there: the cache
of the device itself is not cut, which a simulated disk does better (`tests/disk`).

The file lies on a tmpfs of its own, of a size that the test chooses: when it is full, what the file system writes to a
place where nothing was ever written fails with EIO, as on a thin volume whose host is short of room. Or it lies on a
second ext4 and is made immutable for a while: then all writes to the device fail.

Needs Linux and root; elsewhere UnavailableError is raised.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.durability.outcome import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

MEGABYTE: Final = 1024 * 1024
_BLOCK: Final = 4096

_SHUTDOWN: Final = 0x8004587D  # FS_IOC_SHUTDOWN
_WITHOUT_FLUSHING: Final = struct.pack("I", 2)  # not even the journal of the file system
_GET_FLAGS: Final = 0x80086601  # FS_IOC_GETFLAGS
_SET_FLAGS: Final = 0x40086602  # FS_IOC_SETFLAGS
_IMMUTABLE: Final = 0x10

_libc: Final = ctypes.CDLL(None)
_WAIT: Final = 7  # SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE, _WAIT_AFTER


class CommandError(Exception):
    """An administrator's command has failed; the text says which, and why."""


class Image:
    """An ext4 file system in `file`, mounted at `path`.

    A loop device takes a write of which its file has taken a part only for done (seen on Linux 6.18). Where a part may
    be refused, the device is to be given no more than a block at a time (`by_blocks`): then it tells the truth.
    """

    def __init__(self, file: Path, path: Path, options: str = "loop", *, by_blocks: bool = False) -> None:
        self.path = path
        self._file = file
        self._options = options
        self._by_blocks = by_blocks

    def mount(self) -> None:
        """Mount it; a journal that was not finished is replayed."""
        _run("mount", "-t", "ext4", "-o", self._options, self._file, self.path)
        if self._by_blocks:
            device = Path(_run("findmnt", "--noheadings", "--output", "SOURCE", self.path).strip())
            (Path("/sys/block") / device.name / "queue" / "max_sectors_kb").write_text(str(_BLOCK // 1024))

    def unmount(self) -> None:
        """Unmount it, in order or after a cut. Every process that used it must have ended."""
        _run("umount", self.path)

    def cut(self) -> None:
        """Cut the power: from now on nothing is written any more, and every call that would write fails."""
        directory = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _SHUTDOWN, _WITHOUT_FLUSHING)
        finally:
            os.close(directory)

    def remount(self) -> None:
        """Unmount it and mount it again: what is read then comes from the device."""
        self.unmount()
        self.mount()

    def sync(self) -> None:
        """Have the device hold all that was written so far."""
        _run("sync", "--file-system", self.path)

    def write_back_some(self, random: Random) -> None:
        """Have the device hold some pages of what was written and not synced, as the kernel may at any moment."""
        pages = random.choice((1, 8, 64))
        for file in self.path.rglob("*"):
            with suppress(FileNotFoundError):
                _write_back_some(file, pages, random)
        if random.randrange(2):
            _commit_names(self.path)

    def discard(self) -> None:
        """Let go of the mount, whoever still uses it; harmless when it is not mounted."""
        with suppress(CommandError):
            _run("umount", "--lazy", self.path)


@contextmanager
def image(folder: Path, megabytes: int = 256, options: str = "") -> Iterator[Image]:
    """A file system with room for so much, with more options of mount, if any."""
    with (
        _tmpfs(folder / "image", megabytes + 8) as store,
        _mounted(store / "image", folder, megabytes, options) as disk,
    ):
        yield disk


class ThinImage:
    """A file system that believes it has more room than there is. `disk` is it."""

    def __init__(self, disk: Image, store: Path) -> None:
        self.disk = disk
        self._filler = store / "filler"

    @contextmanager
    def short_of_room(self) -> Iterator[None]:
        """For a while the device takes only what is written over something else."""
        with self._filler.open("wb") as file:
            size, step = 0, os.statvfs(self._filler).f_bavail * _BLOCK
            while step >= _BLOCK:
                try:
                    os.posix_fallocate(file.fileno(), size, step)
                    size += step
                except OSError:
                    step //= 2
        try:
            yield
        finally:
            self._filler.unlink()


@contextmanager
def thin_image(folder: Path, megabytes: int = 2048, room_megabytes: int = 256) -> Iterator[ThinImage]:
    """A file system of such a size, with room for less. Its own tables and journal have theirs for certain."""
    with (
        _tmpfs(folder / "image", room_megabytes) as store,
        _mounted(store / "image", folder, megabytes, thin=True) as disk,
    ):
        yield ThinImage(disk, store)


class FailingImage:
    """A file system whose device can fail. `disk` is it."""

    def __init__(self, disk: Image, file: Path) -> None:
        self.disk = disk
        self._file = file

    @property
    def settings(self) -> dict[str, str]:
        """The settings by which an interposer has the device fail (`Interposer.fail_device_at`)."""
        return {"INTERPOSER_DEVICE": str(self._file)}

    @contextmanager
    def failing(self) -> Iterator[None]:
        """For a while every write to the device fails with EIO, but for the journal of the file system."""
        _set_immutable(self._file, immutable=True)
        try:
            yield
        finally:
            _set_immutable(self._file, immutable=False)


@contextmanager
def failing_image(folder: Path, megabytes: int = 256) -> Iterator[FailingImage]:
    """A file system with room for so much, whose journal is on another device."""
    outer = folder / "outer"
    outer.mkdir()
    with image(outer, megabytes + 64) as host, _loop(_sized(host.path / "journal", 8)) as journal:
        _run("mkfs.ext4", "-q", "-b", str(_BLOCK), "-O", "journal_dev", journal)
        file = _sized(host.path / "image", megabytes)
        _make(file, "-J", f"device={journal}")
        disk = Image(file, _directory(folder / "disk"), f"loop,journal_path={journal}")
        with _allowed():
            disk.mount()
        try:
            yield FailingImage(disk, file)
        finally:
            disk.discard()


@contextmanager
def _mounted(file: Path, folder: Path, megabytes: int, options: str = "", *, thin: bool = False) -> Iterator[Image]:
    """A new file system in `file`, mounted in `folder`."""
    _make(_sized(file, megabytes))
    if thin:
        _occupy_what_is_used(file)
    disk = Image(file, _directory(folder / "disk"), f"loop,{options}" if options else "loop", by_blocks=thin)
    with _allowed():
        disk.mount()
    try:
        yield disk
    finally:
        disk.discard()


def _make(file: Path, *options: str) -> None:
    """A new file system, with all its tables written at once."""
    journal = options or ("-J", "size=8")
    _run(
        "mkfs.ext4", "-q", "-F", "-m", "0", "-N", "512", "-b", str(_BLOCK), *journal,
        "-E", "lazy_itable_init=0,lazy_journal_init=0", file,
    )  # fmt: skip


def _occupy_what_is_used(file: Path) -> None:
    """Have the blocks of a new file system that are not free occupy room: its tables and its journal."""
    reported = _run("dumpe2fs", file)
    blocks = file.stat().st_size // _BLOCK
    free: set[int] = set()
    for line in re.findall(r"^  Free blocks: (.*)$", reported, re.MULTILINE):
        for each in line.split(", ") if line else ():
            first, _, last = each.partition("-")
            free.update(range(int(first), int(last or first) + 1))
    with file.open("r+b", buffering=0) as image:
        for block in set(range(blocks)) - free:
            image.seek(block * _BLOCK)
            data = image.read(_BLOCK)
            image.seek(block * _BLOCK)
            image.write(data)


def _write_back_some(file: Path, pages: int, random: Random) -> None:
    """Have the device hold some pages of a file: a half of them, so many at a time."""
    if not file.is_file():
        return
    descriptor = os.open(file, os.O_RDONLY)
    try:
        for place in range(0, os.fstat(descriptor).st_size, pages * _BLOCK):
            if random.randrange(2):
                _libc.sync_file_range(descriptor, ctypes.c_int64(place), ctypes.c_int64(pages * _BLOCK), _WAIT)
    finally:
        os.close(descriptor)


def _commit_names(path: Path) -> None:
    """Have the file system commit its journal, as it does every five seconds: names and sizes of all files."""
    other = path / "other"
    descriptor = os.open(other, os.O_WRONLY | os.O_CREAT)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    other.unlink()


@contextmanager
def _tmpfs(path: Path, megabytes: int) -> Iterator[Path]:
    """A file system in memory."""
    with _allowed():
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", _directory(path))
    try:
        yield path
    finally:
        _run("umount", "--lazy", path)


@contextmanager
def _loop(file: Path) -> Iterator[str]:
    """A block device whose content is a file."""
    with _allowed():
        device = _run("losetup", "--find", "--show", file).strip()
    try:
        yield device
    finally:
        _run("losetup", "--detach", device)


def _set_immutable(file: Path, *, immutable: bool) -> None:
    """Let nobody write to a file, not even who has it open; or let all write again."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        before = bytearray(8)
        fcntl.ioctl(descriptor, _GET_FLAGS, before)
        (flags,) = struct.unpack("l", before)
        flags = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", flags))
    finally:
        os.close(descriptor)


def _sized(file: Path, megabytes: int) -> Path:
    with file.open("wb") as made:
        made.truncate(megabytes * MEGABYTE)
    return file


def _directory(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


@contextmanager
def _allowed() -> Iterator[None]:
    """Raise UnavailableError where the system does not allow what root may do elsewhere, as in a container."""
    try:
        yield
    except CommandError as error:
        raise UnavailableError(str(error)) from error


def _run(command: str, *arguments: str | Path) -> str:
    """Return what an administrator's command prints. Raises CommandError; UnavailableError where there is none."""
    if sys.platform != "linux":
        raise UnavailableError("there are no loop devices on this system")
    if os.geteuid():
        raise UnavailableError("only root can mount a file system")
    found = shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise UnavailableError(f"{command} is not installed")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise CommandError(f"{command}: {done.stderr.strip()}")
    return done.stdout
