"""Find the files that have changed: by when they were written, their length, and their identity."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    State: TypeAlias = tuple[int, int, int] | None


class FileChanges:
    """The files that are watched."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}

    def watch(self, paths: Iterable[str]) -> None:
        """Watch these too, as they are now."""
        for path in paths:
            self._states.setdefault(path, _state(path))

    def changed(self) -> list[str]:
        """The files that have changed since the last look, sorted."""
        found = []
        for path, before in self._states.items():
            now = _state(path)
            if now != before:
                self._states[path] = now
                found.append(path)
        return sorted(found)


def _state(path: str) -> State:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
