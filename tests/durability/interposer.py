"""An interposer between a daemon and its disk: a small library in C, preloaded, that counts the calls that change
files.

It stops the daemon at the call that a test names, before it, after it or when a part of it is done, or lets that one
call fail. Or it takes all syncs away, which shows what the checks find when nothing is durable. And it tells the daemon
another boot identifier after each power cut, as after a real one.

The library is compiled with gcc; where that cannot be done, UnavailableError is raised.
"""

from __future__ import annotations

import asyncio
import mmap
import shutil
import struct
import subprocess
from contextlib import contextmanager
from enum import IntFlag
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tests.durability.outcome import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOURCE: Final = Path(__file__).with_name("interposer.c")
_LIBRARY: Final = "interposer.so"
_ORDERS_FILE: Final = "orders"
_ORDERS: Final = struct.Struct("=qqIIIIIII64s")  # `struct orders`, without its last field
_WHAT: Final = slice(_ORDERS.size, _ORDERS.size + 256)
_POLL_SECONDS: Final = 0.001


class Calls(IntFlag):
    """Kinds of system calls."""

    WRITE = 1
    SYNC = 2
    NAME = 4
    """New files, other sizes and names, and removals."""

    ANY = WRITE | SYNC | NAME


class Interposer:
    """The library between the files below `disk` and the programs that are started with `settings`."""

    def __init__(self, folder: Path, shared: mmap.mmap, disk: Path) -> None:
        self._boot = folder / "boot"
        self.settings = {
            "LD_PRELOAD": str(folder / _LIBRARY),
            "INTERPOSER_ORDERS": str(folder / _ORDERS_FILE),
            "INTERPOSER_DISK": str(disk),
            "INTERPOSER_BOOT": str(self._boot),
        }
        self._shared = shared
        self._syncless = self._indirect = False

    def stop_at(self, number: int, hundredths: int = 0, kinds: Calls = Calls.ANY, only: str = "") -> None:
        """Stop the program at the call of such a number from now on, when so much of it is done: 100 is after it.

        With `only`, calls count for files that have it in their names.
        """
        self._order(number, kinds, only, hundredths=hundredths)

    def fail_at(self, number: int, error: int, kinds: Calls, only: str = "") -> None:
        """Let the call of such a number from now on fail, and it alone. Nothing of it is done."""
        self._order(number, kinds, only, error=error)

    def fail_device_at(self, number: int, kinds: Calls, only: str = "") -> None:
        """Let the device take nothing while the call of such a number is made, and then everything again."""
        self._order(number, kinds, only, device=True)

    def let_go(self) -> None:
        """Order nothing."""
        self._order(0, Calls(0))

    def reboot(self) -> None:
        """Tell programs from now on that the system has started anew."""
        self._boot.write_text(str(uuid4()))

    def take_syncs_away(self) -> None:
        """From now on programs sync nothing, and do not notice."""
        self._syncless = True
        self.let_go()

    def refuse_direct_writes(self) -> None:
        """From now on no file can be opened for direct writes (O_DIRECT)."""
        self._indirect = True
        self.let_go()

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return int(_ORDERS.unpack_from(self._shared)[1])

    @property
    def met(self) -> str:
        """The call that was ordered, "pwrite64 log.0", if it has come; else nothing."""
        return self._shared[_WHAT].split(b"\0")[0].decode() if _ORDERS.unpack_from(self._shared)[8] else ""

    async def stopped(self) -> str:
        """Wait until the program has come to the call."""
        while True:
            if met := self.met:
                return met
            await asyncio.sleep(_POLL_SECONDS)

    def _order(
        self, number: int, kinds: Calls, only: str = "", hundredths: int = 0, error: int = 0, *, device: bool = False
    ) -> None:
        for left in (0, number):  # Calls go on meanwhile: the number comes when all else is there.
            what = (kinds, hundredths, error, self._syncless, self._indirect, device, False, only.encode())
            _ORDERS.pack_into(self._shared, 0, left, self.calls, *what)


@contextmanager
def interposer(folder: Path, disk: Path) -> Iterator[Interposer]:
    """The library, compiled into `folder`, which is not on the disk."""
    orders = folder / _ORDERS_FILE
    orders.write_bytes(bytes(mmap.PAGESIZE))
    if {" ", ":"} & set(str(folder)):
        raise UnavailableError(f"a library in {folder} cannot be preloaded: its name has a blank or a colon")
    _compile(folder / _LIBRARY)
    with orders.open("r+b") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE) as shared:
        between = Interposer(folder, shared, disk)
        between.reboot()
        yield between


def _compile(library: Path) -> None:
    found = shutil.which("gcc")
    if found is None:
        raise UnavailableError("gcc is not installed")
    command = [found, "-O1", "-Wall", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise UnavailableError(f"the library does not compile: {compiled.stderr.strip()}")
