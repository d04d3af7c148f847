"""The texts that everybody can read of processes that run, and of files that are left."""

from __future__ import annotations

from pathlib import Path


def command_lines() -> str:
    """Those of all processes, as ps shows them to everybody."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_text("utf-8", "replace").replace("\0", " "))
        except OSError:
            continue  # it has just ended
    return "\n".join(found)


def contents(folder: Path) -> bytes:
    """All that is in the files of a folder, and their names."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return b"".join(str(path).encode() + b"\n" + path.read_bytes() for path in files)
