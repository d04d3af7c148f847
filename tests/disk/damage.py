"""Damage to files that lie there while no process runs: bits change, sectors go, people move things.

Nothing of it is in the cache any more, and all of it is durable at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.disk.inode import Inode
    from tests.disk.machine import Machine


def copy_of(machine: Machine) -> dict[str, bytes]:
    """Return what the medium has in each file."""
    return {name: bytes(inode.medium) for name, inode in (machine.names or {}).items()}


def flip(machine: Machine, name: str, offset: int, bit: int = 0) -> None:
    """Change one bit."""
    inode = _at_rest(machine, name)
    inode.medium[offset] ^= 1 << bit
    inode.forget()


def scramble(machine: Machine, name: str, sector: int) -> None:
    """Change some bits of a sector."""
    inode = _at_rest(machine, name)
    start = sector * machine.sector_bytes
    for _ in range(machine.random.choice((1, 1, 1, 8, 64))):
        inode.medium[machine.random.randrange(start, min(start + machine.sector_bytes, len(inode.medium)))] ^= (
            1 << machine.random.randrange(8)
        )
    inode.forget()


def zero(machine: Machine, name: str, offset: int, size: int) -> None:
    """Zeros in place of some bytes."""
    replace(machine, name, bytes(size), offset)


def make_unreadable(machine: Machine, name: str, sector: int) -> None:
    """Have a sector give EIO until it is written."""
    inode = _at_rest(machine, name)
    inode.forget()
    inode.unreadable.add(sector)


def replace(machine: Machine, name: str, content: bytes, offset: int = 0) -> None:
    """Other bytes in place of those that are there."""
    inode = _at_rest(machine, name)
    inode.medium[offset : offset + len(content)] = content
    inode.forget()


def put(machine: Machine, name: str, content: bytes) -> None:
    """Another file under that name, or a new one."""
    inode = machine.new_inode()
    inode.medium[:] = content
    inode.forget()
    assert machine.names is not None
    machine.names[name] = machine.durable_names[name] = inode


def cut_short(machine: Machine, name: str, size: int) -> None:
    """Cut a file to so many bytes; 0 empties it."""
    inode = _at_rest(machine, name)
    del inode.medium[size:]
    inode.unreadable.clear()
    inode.forget()


def remove(machine: Machine, name: str) -> None:
    """Remove a file."""
    assert machine.names is not None
    machine.names.pop(name, None)
    machine.durable_names.pop(name, None)


def _at_rest(machine: Machine, name: str) -> Inode:
    assert machine.names is not None
    inode = machine.names[name]
    inode.sync()
    return inode
