"""The store on disk as tests use it: with files that are quickly made, and with time from the test's clock."""

from __future__ import annotations

from contextlib import suppress
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


def as_killed(path: Path, to: Path) -> Path:
    """A copy of a data directory as it is at one moment: what the kill of its queue manager would leave. The threads of
    the store write on meanwhile, so it is read until nothing has changed from one time to the next.
    """
    seen, before = _contents(path), None
    while seen != before:
        seen, before = _contents(path), seen
    to.mkdir()
    for name, data in seen.items():
        (to / name).write_bytes(data)
    return to


def _contents(path: Path) -> dict[str, bytes]:
    """Return what the files of a directory hold, each read at a moment of its own."""
    contents = {}
    for each in path.iterdir():
        with suppress(FileNotFoundError):  # the log of a database that was just removed
            if each.is_file():
                contents[each.name] = each.read_bytes()
    return contents


async def settled(store: LogStore) -> None:
    """Return when the threads of an open store have done what they had to do, and what followed from that."""
    quiet = 0
    while quiet < 3:
        assert store._worker is not None
        await store._worker.perform(lambda: None)
        await store._keeper.database.perform(lambda _: None)
        quiet = 0 if _carries_over(store) or _writes(store) else quiet + 1


def _carries_over(store: LogStore) -> bool:
    return store._keeper.working and not store._keeper.carrying.stopped


def _writes(store: LogStore) -> bool:
    """A record is on its way; behind it all others go that have room."""
    return store._writer._busy and store._writer._in_snapshot is None


async def carried_over(store: LogStore) -> None:
    """Have an open store carry over what its log has gathered, and what came meanwhile."""
    for _ in range(2):
        store._keeper.carry()
        await settled(store)
