"""A computer's disk as one process sees it: the protocol `Disk`, each operation in steps at which it may end.

A read through the cache, a buffered write and a sync are those of a file that is written through the cache; the
sectors of a direct write reach the medium, and no more than some of them if it fails or is cut. What stands here for
the system call is atomic for the other workers of the process: they take turns between whole pieces of work, and no
piece runs beside another.
"""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from broker.storage.disk.disk import DiskSpace, Identity
from broker.storage.store import StoreUnusableError
from tests.disk.faults import Crash, fail
from tests.disk.inode import some
from tests.disk.machine import room_of
from tests.disk.sqlite_vfs import PROCESSES, SimulatedConnection, open_connection
from tests.disk.workers import SimulatedDatabaseWorker, SimulatedWorker

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from broker.storage.disk.disk import DatabaseWorker, Disk, DiskFile, DiskThread
    from tests.disk.inode import Inode
    from tests.disk.machine import Machine

_numbers = iter(range(1, 1 << 62))


class SimulatedDisk:
    """The disk as a process sees it, until the process ends: from then on every call raises Crash and does nothing."""

    def __init__(self, machine: Machine, *, direct: bool) -> None:
        self.machine = machine
        self.alive = True
        self.direct = direct
        number = next(_numbers)
        self.path = Path(f"/simulated/{number}")
        self.connections: list[SimulatedConnection] = []
        self._made = False
        self._at_end: list[Callable[[], None]] = []
        PROCESSES[number] = self

    # The life of the process

    def die(self) -> None:
        """The process is at its end: it does nothing more."""
        if self.alive:
            self.alive = False
            for call in self._at_end:
                call()

    def end(self) -> None:
        """End the process, and forget what it had open: its connections cannot write any more."""
        self.die()
        for connection in self.connections:
            connection.forget()
        self.connections.clear()

    def at_end(self, call: Callable[[], None]) -> None:
        """Have this called when the process ends."""
        self._at_end.append(call)

    def ended(self) -> asyncio.Future[None]:
        """A future that is done when the process is at its end."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note() -> None:
            if not future.done() and not future.get_loop().is_closed():
                future.set_result(None)

        self.at_end(note)
        if not self.alive:
            note()
        return future

    def step(self, what: str) -> None:
        """One step; raises Crash when the process ends at it, or has ended."""
        self.machine.step(self, what)

    # The directory

    def claim(self) -> None:
        """Make the directory when it is missing, and take its lock; raises StoreUnusableError."""
        self.step("claim")
        if self.machine.names is None:
            self.machine.make_directory()
            self._made = True
        if self.machine.lock is not None:
            raise StoreUnusableError(f"the data directory {self.path} is in use by another queue manager")
        if "lock" not in self._names:
            self.machine.change_names({"lock": self.machine.new_inode()})
        self.machine.lock = self

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self.machine.lock is self:
            self.machine.lock = None

    @property
    def made(self) -> bool:
        """True if `claim` has made the directory."""
        return self._made

    def names(self) -> set[str]:
        """The names of all that is in the directory."""
        self.step("names")
        return set(self._names)

    def identity(self, name: str) -> Identity | None:
        """Return the identity of the file that a name leads to, or None; "" is the directory itself."""
        if self.machine.names is None:
            return None
        if not name:
            return Identity(1, self.machine.directory_number, 2, 0)
        inode = self.machine.names.get(name)
        return None if inode is None else Identity(1, inode.number, 1, len(inode.view))

    def held_lock(self) -> Identity | None:
        """The file that the lock is held on, or None."""
        return self.identity("lock") if self.machine.lock is self else None

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in place of what has it."""
        inode = self.inode(name)
        self.step(f"rename {name} {to}")
        self.machine.change_names({name: None, to: inode})
        self.step(f"renamed {name} {to}")

    def remove(self, name: str) -> None:
        """Remove a name; harmless when it is not there."""
        self.step(f"remove {name}")
        if name in self._names:
            self.machine.change_names({name: None})
            self.step(f"removed {name}")

    def make_folder(self, name: str) -> None:
        """Nothing to make: a name may have a slash."""

    def sync_names(self) -> None:
        """Have the medium hold the names in the directory as they are."""
        self.step("sync names")
        if self.machine.sync_fails("", None):
            fail(errno.EIO, str(self.path))
        self.machine.sync_names()
        self.step("synced names")

    @property
    def _names(self) -> dict[str, Inode]:
        if self.machine.names is None:
            fail(errno.ENOENT, str(self.path))
        return self.machine.names

    def inode(self, name: str) -> Inode:
        """The file that a name leads to; raises FileNotFoundError."""
        inode = self._names.get(name)
        if inode is None:
            fail(errno.ENOENT, str(self.path / name))
        return inode

    # Whole files

    def create(self, name: str, first: bytes, size: int) -> None:
        """A new file, or the one of that name anew: `first`, then zeros up to `size`, all of it written and synced."""
        inode = self.new_file(name)
        try:
            self.resize(name, inode, 0)
            self.write(name, inode, 0, first.ljust(size, b"\0"))
            self.sync_inode(name, inode)
        except OSError:
            self.remove(name)
            raise

    def new_file(self, name: str) -> Inode:
        """The file of that name, made when it is missing."""
        self.step(f"create {name}")
        if name not in self._names:
            self.machine.change_names({name: self.machine.new_inode()})
            self.step(f"created {name}")
        return self._names[name]

    def open(self, name: str, block_bytes: int) -> DiskFile:
        """Open a file that is there, to write and read whole blocks."""
        self.step(f"open {name}")
        way = DirectFile if self.direct else BufferedFile
        return way(self, name, self.inode(name), block_bytes)

    def block_bytes(self) -> int:
        """The size of a block that this disk can write by itself."""
        return self.machine.block_bytes

    def read(self, name: str) -> bytes:
        """The whole content of a file, of what is on the medium."""
        inode = self.inode(name)
        read = self.read_through if self.direct else self.read_dropped
        return read(name, inode, 0, len(inode.view))

    def sync(self, name: str) -> None:
        """Have the medium hold what was written to a file, by whomever."""
        self.sync_inode(name, self.inode(name))

    def space(self) -> DiskSpace:
        return DiskSpace(2**39, 2**40)

    def drop_cache(self, name: str) -> None:
        """Sync a file and let its pages go from the cache, nearly all of them. Harmless when there is none."""
        inode = self._names.get(name)
        if inode is not None:
            self.sync_inode(name, inode)
            inode.drop(self.machine.random)

    def is_on_medium(self, name: str) -> bool:
        """True if the medium has all that the cache shows of a file; False also where the disk cannot tell."""
        self.step(f"compare {name}")
        inode = self.inode(name)
        self.sync_inode(name, inode)  # as a system does before it reads past the cache
        return self.direct and not inode.unreadable and inode.view == inode.medium

    def occupy(self, name: str, size: int) -> None:
        """Have a file that occupies `size` bytes of the disk; raises OSError when there is no room, and leaves none."""
        inode = self.new_file(name)
        if len(inode.view) == size:
            return
        try:
            self.resize(name, inode, size)
            self.sync_inode(name, inode)
        except OSError:
            self.remove(name)
            raise

    def boot(self) -> str:
        """Return the identifier of this start of the system: "" when nobody can tell."""
        return self.machine.boot

    def warnings(self) -> list[str]:
        """Return no reason why the file system of the directory cannot be trusted: it can."""
        return []

    # The database, and what waits for the disk

    def connect(self, name: str) -> sqlite3.Connection:
        """A connection to the database of that name, on which every statement is a transaction unless one is begun."""
        self.step(f"connect {name}")
        connection = open_connection(self, name)
        self.connections.append(connection)
        return cast("sqlite3.Connection", connection)

    def start_worker(self) -> DiskThread:
        """Start a worker that does one piece of work after the other."""
        return SimulatedWorker(self)

    async def start_database(self, name: str) -> DatabaseWorker:
        """The same with a connection made by `connect`; raises what that raises."""
        worker = SimulatedWorker(self)
        connection = await worker.perform(lambda: self.connect(name))
        return SimulatedDatabaseWorker(worker, connection)

    # System calls on a file

    def write(self, name: str, inode: Inode, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write through the cache. A process that ends within it has written some of it, from its beginning."""
        self.step(f"write {name}+{offset}")
        self.machine.written.add(name)
        size = self._room(name, inode, offset, len(data))
        part = data[: self.machine.random.randrange(size + 1)]
        try:
            self.step(f"writing {name}+{offset}")
        except Crash:
            inode.write(offset, part)
            raise
        inode.write(offset, data[:size])
        if size < len(data):
            fail(errno.ENOSPC, name)
        self.step(f"wrote {name}+{offset}")

    def _room(self, name: str, inode: Inode, offset: int, size: int) -> int:
        """Return how many of so many bytes find room."""
        try:
            self.machine.take_room(inode, max(offset + size, len(inode.view)), name)
        except OSError:
            assert self.machine.free is not None
            end = room_of(len(inode.view)) + self.machine.free
            fits = min(size, max(0, end - offset)) if self.machine.random.random() < 0.5 else 0
            self.machine.take_room(inode, max(offset + fits, len(inode.view)) if fits else len(inode.view), name)
            return fits
        return size

    def resize(self, name: str, inode: Inode, size: int) -> None:
        """Cut a file, or let it grow by zeros that have room."""
        if size == len(inode.view):
            return
        self.step(f"resize {name} {size}")
        self.machine.take_room(inode, size, name)
        inode.resize(size)
        self.step(f"resized {name} {size}")

    def sync_inode(self, name: str, inode: Inode) -> None:
        """Have the medium hold what the cache has; raises OSError, and then nobody knows what the medium has."""
        self.step(f"sync {name}")
        try:
            self.step(f"syncing {name}")
        except Crash:
            inode.write_back(self.machine.random)
            raise
        if self.machine.sync_fails(name, inode):
            inode.fail_sync(self.machine.random)
            fail(errno.EIO, name)
        if inode.dirty and self.machine.no_room_behind():
            inode.fail_sync(self.machine.random)
            fail(errno.ENOSPC, name)
        inode.sync()
        self.step(f"synced {name}")

    def write_direct(self, name: str, inode: Inode, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write to the medium; raises OSError, and then nobody knows what the medium has of it."""
        self.step(f"direct {name}+{offset}")
        machine = self.machine
        machine.written.add(name)
        machine.take_room(inode, max(offset + len(data), len(inode.view)), name)
        sectors = inode.sectors(offset, len(data))
        number = 0
        if machine.sync_fails(name, inode):
            number = errno.EIO
        elif machine.no_room_behind():
            number = errno.ENOSPC
        if number:
            inode.write_through(offset, data, some(list(sectors), machine.random))
            fail(number, name)
        try:
            self.step(f"within direct {name}+{offset}")
        except Crash:
            inode.write_through(offset, data, some(list(sectors), machine.random))
            raise
        inode.write_through(offset, data, sectors)
        self.step(f"directly wrote {name}+{offset}")

    def read_cached(self, name: str, inode: Inode, offset: int, size: int) -> bytes:
        """Return what the cache shows, and where it has nothing the medium; raises OSError."""
        return self._read(name, inode.read(offset, size, self.machine.random))

    def read_through(self, name: str, inode: Inode, offset: int, size: int) -> bytes:
        """Return what the medium has, after what is dirty was written there; raises OSError."""
        if not inode.settled:
            with suppress(OSError):  # a direct read that cannot write back first reads what is there
                self.sync_inode(name, inode)
        return self._read(name, inode.read_through(offset, size))

    def read_dropped(self, name: str, inode: Inode, offset: int, size: int) -> bytes:
        """Return what the cache shows after it was written back, if that went well, and dropped; raises OSError."""
        with suppress(OSError):
            self.sync_inode(name, inode)
        inode.drop(self.machine.random)
        return self.read_cached(name, inode, offset, size)

    def _read(self, name: str, data: bytes | None) -> bytes:
        self.step(f"read {name}")
        if data is None or self.machine.faults.reads.strikes(name):
            self.machine.faults.struck += 1
            fail(errno.EIO, name)
        return data


class DirectFile:
    """A file that is written past the cache: a write is on the medium when it returns."""

    way = "O_DIRECT|O_DSYNC"

    def __init__(self, disk: SimulatedDisk, name: str, inode: Inode, block_bytes: int) -> None:
        self.name = name
        self.size = len(inode.view)
        self._disk = disk
        self._inode = inode
        self._block_bytes = block_bytes
        self._open = True

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write whole blocks."""
        self._check(offset, len(data))
        self._disk.write_direct(self.name, self._inode, offset, data)

    def read(self, offset: int, size: int) -> bytes:
        """Read whole blocks of what is on the medium. Short at the end of the file."""
        self._check(offset, size)
        return self._disk.read_through(self.name, self._inode, offset, size)

    def close(self) -> None:
        """Let go; harmless when already closed."""
        self._open = False

    def _check(self, offset: int, size: int) -> None:
        if not self._open:
            fail(errno.EBADF, self.name)
        if offset % self._block_bytes or size % self._block_bytes:
            fail(errno.EINVAL, self.name)


class BufferedFile(DirectFile):
    """A file that is written through the cache, and synced after each write."""

    way = "pwritev, fdatasync"

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write whole blocks."""
        self._check(offset, len(data))
        self._disk.write(self.name, self._inode, offset, data)
        self._disk.sync_inode(self.name, self._inode)

    def read(self, offset: int, size: int) -> bytes:
        """Read whole blocks of what is on the medium, nearly always. Short at the end of the file."""
        self._check(offset, size)
        return self._disk.read_dropped(self.name, self._inode, offset, size)


if TYPE_CHECKING:
    _disk: type[Disk] = SimulatedDisk
    _file: type[DiskFile] = DirectFile
