"""A real disk of which calls fail on purpose."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from broker.storage.disk.system_disk import SystemDisk

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = ("create", "rename", "remove", "sync", "sync_names", "drop_cache", "read", "open", "connect", "occupy")


class FailingDisk(SystemDisk):
    """It notes each call that `broken` is asked about, by its name and that of the file; where that says so, the call
    fails with EIO and has done nothing.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[tuple[str, str]] = []
        self.broken: Callable[[str, str], bool] = lambda call, name: False

    def fail_from(self, number: int) -> None:
        """Fail from so many calls on, as a process that is gone."""
        self.broken = lambda call, name: len(self.calls) > number

    def _called(self, call: str, name: str) -> None:
        self.calls.append((call, name))
        if self.broken(call, name):
            raise OSError(errno.EIO, f"injected at {call} of {name}")


def _noted(call: str) -> Any:
    def called(self: FailingDisk, *args: Any) -> Any:
        self._called(call, args[0] if args else "")
        return getattr(SystemDisk, call)(self, *args)

    return called


for _call in CALLS:
    setattr(FailingDisk, _call, _noted(_call))
