"""Measure the cost of a call: the functions that it calls, and the bytes that it copies out of its argument."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Self, SupportsIndex, overload

if TYPE_CHECKING:
    from collections.abc import Callable


class Effort(NamedTuple):
    """Calls of functions, those of C among them, and bytes copied by slicing."""

    calls: int
    copied: int

    @classmethod
    def of(cls, call: Callable[[bytes], object], data: bytes) -> Self:
        """Return the cost of the call with this data."""
        counted, calls = _Counted(data), 0

        def count(*_: Any) -> None:
            nonlocal calls
            calls += 1

        before, collects = sys.getprofile(), gc.isenabled()
        gc.disable()  # what it finalizes is nothing that this call costs
        sys.setprofile(count)
        try:
            call(counted)
        finally:
            sys.setprofile(before)
            if collects:
                gc.enable()
        return cls(calls, counted.copied)

    def at_most(self, times: float, other: Self) -> bool:
        """True if it is no more than so many times the other, in both."""
        return self.calls <= times * other.calls and self.copied <= times * other.copied


class _Counted(bytes):
    """Bytes that know how many of them have been copied."""

    copied = 0

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> bytes: ...
    def __getitem__(self, key: SupportsIndex | slice) -> int | bytes:
        found = super().__getitem__(key)
        if isinstance(found, bytes):
            self.copied += len(found)
        return found
