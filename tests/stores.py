"""The store on disk as tests use it: with files that are quickly made, and with time from the test's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.storage.creation import LogSettings
from broker.storage.log_store import LogStore

if TYPE_CHECKING:
    from pathlib import Path

SMALL: Final = LogSettings(files=2, file_bytes=256 * 1024)
"""A log that is full after some hundred messages."""

BALLAST_BYTES: Final = 4096


def log_store(path: Path, **settings: Any) -> LogStore:
    """A store in the directory `path`, not opened yet; `settings` are those of LogStore."""
    return LogStore(path, **{"settings": SMALL, "ballast_bytes": BALLAST_BYTES, **settings})
