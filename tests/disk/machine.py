"""A computer: one directory on one disk, which outlives the processes, and loses its cache with the power.

What fails is in `faults`; what chance decides comes from one seed. A name that was made, given to another file or
removed is durable once the directory was synced; when the power goes before, any of those changes are there, in any
order. What is left out against a real file system: a journal that keeps the order of changes, directories that find no
room for a name, files that are open without a name and take room, holes.
"""

from __future__ import annotations

import errno
from random import Random
from typing import TYPE_CHECKING

from tests.disk.faults import Crash, Faults, fail
from tests.disk.inode import Inode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.disk.simulated import SimulatedDisk

ROOM_BLOCK = 4096
"""A file takes room in blocks of so many bytes."""

_HEARD_BY_THE_NEXT = 0.5  # how likely the next process hears of a write that failed after the last one was killed


class Machine:
    """The computer. A process is started with `start`, and ends with `kill` or `cut`, if it has not crashed before.

    `direct` is how files are written: past the cache, or through it and then synced. `boot_known` is whether a process
    can tell that the computer was started anew.
    """

    def __init__(self, seed: int, *, sector_bytes: int = 512, block_bytes: int = 4096, direct: bool = True) -> None:
        self.random = Random(seed)
        self.sector_bytes = sector_bytes
        self.block_bytes = block_bytes
        self.direct = direct
        self.boot_known = True
        self.faults = Faults()
        self.connected = False  # whether SQLite draws its random numbers for this computer
        self.names: dict[str, Inode] | None = None
        self.durable_names: dict[str, Inode] = {}
        self.directory_number = 0
        self.free: int | None = None
        self.work_seconds = 0.0  # of the loop's time that each piece of a worker's work takes
        self.steps = 0
        self.written: set[str] = set()  # the files that the last process to start has written to
        self.trace: list[str] | None = None
        self.processes: list[SimulatedDisk] = []
        self.lock: SimulatedDisk | None = None
        self._changes: list[dict[str, Inode | None]] = []  # of names, since the directory was synced
        self._boots = 1
        self._numbers = 0

    def start(self, *, direct: bool | None = None) -> SimulatedDisk:
        """Return the disk as a new process sees it."""
        from tests.disk.simulated import SimulatedDisk

        process = SimulatedDisk(self, direct=self.direct if direct is None else direct)
        self.processes.append(process)
        self.written = set()
        return process

    @property
    def boot(self) -> str:
        """The identifier of this start of the computer, or nothing."""
        return f"boot {self._boots}" if self.boot_known else ""

    # The ends

    def kill(self) -> None:
        """End all processes. What they wrote stays in the cache; to write it back may fail."""
        self._end_processes()
        for inode in self.inodes():
            if not inode.settled and self.random.random() < self.faults.background_failures:
                self.faults.struck += 1
                inode.fail_sync(self.random)
                inode.error = self.random.random() < _HEARD_BY_THE_NEXT

    def cut(self) -> None:
        """Cut the power, then start the computer again."""
        self._end_processes()
        self.random.shuffle(self._changes)
        for change in self._changes:
            if self.random.random() < 0.5:
                self._make_durable(change)
        self._changes.clear()
        for inode in self.inodes():
            inode.cut(self.random)
        self.names = None if self.names is None else dict(self.durable_names)
        self._boots += 1

    def _end_processes(self) -> None:
        for process in self.processes:
            process.end()
        self.processes.clear()
        self.lock = None

    # Steps and failures

    def step(self, process: SimulatedDisk, what: str) -> None:
        """One step of a process; raises Crash when it is its last."""
        if not process.alive:
            raise Crash(what)
        self.steps += 1
        if self.trace is not None:
            self.trace.append(what)
        faults = self.faults
        if self._is_last(what):
            faults.crash_in = faults.crash_on = None
            process.die()
            raise Crash(what)
        if faults.fills_in is not None:
            faults.fills_in -= 1
            if faults.fills_in <= 0:
                faults.fills_in = None
                self.fill()
        if faults.background and self.random.random() < faults.background:
            self._write_back()

    def _is_last(self, what: str) -> bool:
        """True if the process ends at this step."""
        faults = self.faults
        if faults.crash_in is not None:
            faults.crash_in -= 1
        due = faults.crash_in is not None and faults.crash_in <= 0
        return due or (faults.crash_on is not None and what.startswith(faults.crash_on))

    def _write_back(self) -> None:
        """The system writes a file back when it wants to, and it may fail."""
        waiting = [inode for inode in self.inodes() if inode.dirty]
        if not waiting:
            return
        inode = self.random.choice(waiting)
        if self.random.random() < self.faults.background_failures:
            self.faults.struck += 1
            inode.fail_sync(self.random)
            inode.error = True
        else:
            inode.write_back(self.random)

    def sync_fails(self, name: str, inode: Inode | None) -> bool:
        """True if this sync, or direct write, is one that fails."""
        late = inode is not None and inode.error
        if inode is not None:
            inode.error = False
        if late or self.faults.syncs.strikes(name):
            self.faults.struck += 1
            return True
        return False

    # Room

    def fill(self) -> None:
        """Another program takes all the room there is, but for a few blocks."""
        self.free = self.random.choice((0, 0, 0, 1, 2, 7)) * ROOM_BLOCK

    def give_room(self) -> None:
        """Room again."""
        self.free = None

    def take_room(self, inode: Inode, size: int, what: str) -> None:
        """Let a file have room for `size` bytes; raises OSError."""
        if self.free is None:
            return
        wanted = room_of(size) - room_of(len(inode.view))
        if wanted > self.free:
            self.faults.no_room += 1
            fail(errno.ENOSPC, what)
        self.free -= wanted

    def no_room_behind(self) -> bool:
        """True if the volume under the file system has no room for blocks that the file system has given away."""
        thin = self.faults.thin and self.free is not None
        self.faults.struck += thin
        return thin

    # Names

    def make_directory(self) -> None:
        """Make the directory, durably."""
        self.names = {}
        self.directory_number = self._number()

    def remove_directory(self) -> None:
        """Somebody removes the directory with all that is in it."""
        self.names = None
        self.durable_names.clear()
        self._changes.clear()

    def new_inode(self) -> Inode:
        """A file that is empty and has no name."""
        return Inode(self._number(), self.sector_bytes)

    def change_names(self, change: dict[str, Inode | None]) -> None:
        """Give names to files, or to none, all at once."""
        assert self.names is not None
        for name, inode in change.items():
            before = self.names.get(name)
            if inode is None:
                self.names.pop(name, None)
            else:
                self.names[name] = inode
            if before is not None and self.free is not None and before not in self.names.values():
                self.free += room_of(len(before.view))
        self._changes.append(change)

    def sync_names(self) -> None:
        """Make durable which name leads to which file."""
        for change in self._changes:
            self._make_durable(change)
        self._changes.clear()

    def _make_durable(self, change: dict[str, Inode | None]) -> None:
        for name, inode in change.items():
            if inode is None:
                self.durable_names.pop(name, None)
            else:
                self.durable_names[name] = inode

    def inodes(self) -> Iterator[Inode]:
        """All files that a name leads to, now or after a cut, in order of age."""
        found = {inode.number: inode for names in (self.names or {}, self.durable_names) for inode in names.values()}
        return (found[number] for number in sorted(found))

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers


def room_of(size: int) -> int:
    """The bytes of the disk that a file of this size takes."""
    return -(-size // ROOM_BLOCK) * ROOM_BLOCK
