"""The machine that was measured, in words."""

from __future__ import annotations

import os
import platform
import sqlite3
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("evermq", "uvloop", "msgpack", "aiosqlite", "anyio")


def machine() -> dict[str, str]:
    """Return the facts about the machine that a reader must know to compare figures, by name."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "processor": f"{os.cpu_count()} x {_processor()}",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system": _file_system(Path(tempfile.gettempdir()).resolve()),
        "python": f"{platform.python_implementation()} {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        "packages": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    }


def _processor() -> str:
    reported = Path("/proc/cpuinfo")
    lines = reported.read_text().splitlines() if reported.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _file_system(folder: Path) -> str:
    """That of a folder, where the system tells it: on `tmpfs`, a sync costs nothing."""
    reported = Path("/proc/mounts")
    mounts = [line.split()[1:3] for line in reported.read_text().splitlines()] if reported.exists() else []
    holding = [(place, kind) for place, kind in mounts if folder.is_relative_to(place)]
    return max(holding, key=lambda mount: len(mount[0]))[1] if holding else "unknown"
