"""The machine that a bundle is made on: versions, kernel, the file system of the data, the limits of the process."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
import ssl
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC: Final = Path("/proc")
_MOUNT_POINT, _OPTIONS = 4, 5  # of the fields of a line of mountinfo


def versions() -> str:
    """Return the versions of Python, of the libraries that it is linked with, and of all packages."""
    packages = sorted({f"{each.name} {each.version}" for each in distributions()}, key=str.lower)
    libraries = f"SQLite {sqlite3.sqlite_version}, {ssl.OPENSSL_VERSION}"
    return "\n".join([f"Python {sys.version}", libraries, "", *packages, ""])


def kernel() -> str:
    """Return the kernel, the processors and the memory."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"{platform.platform()}\n{' '.join(platform.uname())}\n"
        f"{os.cpu_count()} processors, {pages * size // (1 << 20):,} MiB of memory\n"
    )


def file_system(data: Path) -> str:
    """Return the file system that a directory is on, and its room. Raises OSError."""
    room = os.statvfs(data)
    size, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    held = f"{size:,} bytes, {free:,} free; {room.f_files:,} files, {room.f_favail:,} free\n"
    return f"{data.resolve()}\n{_mount(data.resolve())}\n{held}" + "".join(_files(data))


def _files(data: Path) -> Iterator[str]:
    """Yield the files of the data with their lengths."""
    for path in sorted(data.rglob("*")):
        found = path.lstat()
        yield f"{found.st_mode:o} {found.st_size:>14,} {path.relative_to(data)}\n"


def _mount(path: Path) -> str:
    """The line about the file system that a path is on, of those that the kernel has mounted; "" elsewhere."""
    found, longest = "", -1
    try:
        lines = (_PROC / "self" / "mountinfo").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        point = Path(line.split()[_MOUNT_POINT].replace("\\040", " "))
        if path.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = line, len(point.parts)
    return found


def limits(data: Path | None) -> str:
    """Return the limits of the process that has locked a directory of data; of this one, where there is none."""
    if data is not None:
        try:
            pid = int((data / "lock").read_text())
            command = (_PROC / str(pid) / "comm").read_text().strip()
            return f"process {pid} ({command})\n{(_PROC / str(pid) / 'limits').read_text()}"
        except (OSError, ValueError):
            pass  # it runs elsewhere, or not at all
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    lines = [f"{name} {resource.getrlimit(getattr(resource, name))}" for name in names]
    return "\n".join(["this process, since that of the queue manager is not known here", *lines, ""])
