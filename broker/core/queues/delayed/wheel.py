"""A wheel: very many things that are due at instants, in little room (handlers rule 3.4).

Only what is due in the next seconds is sorted. What is due later lies in buckets, the wider the later: of a second, of
about a minute, an hour, three days, half a year. A bucket is cut up into narrower ones, or sorted, some time before the
first instant in it, a part in each step: so no step grows with how much is due together.

What is no longer waited for stays until it is due, or until `sweep` drops it.

Invariants (`check_invariants`): what is in `_near` is a heap; each bucket has as many instants as things, all of them
within its bounds; `_marks` has each bucket, with the instant from which on it is to be cut; `_length` counts all.
"""

from __future__ import annotations

from array import array
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

SORTED_SECONDS: Final = 2.0
"""Instants so near are sorted."""

CUT_AT_ONCE: Final = 200
"""So many things of a bucket are cut off in one step."""

_WIDTHS: Final = (1.0, 64.0, 4096.0, 262144.0, 16777216.0)
_SPAN: Final = 64  # buckets of one width; what is later goes into the next wider ones
_LEADS: Final = (SORTED_SECONDS, 64.0, 64.0, 64.0, 64.0)  # seconds by which a bucket is cut before it begins
SWEPT_AT_ONCE: Final = 1000


class _Bucket(Generic[T]):
    """Things, and when each is due."""

    __slots__ = ("dues", "level", "things")

    def __init__(self, level: int) -> None:
        self.level = level
        self.things: list[T] = []
        self.dues = array("d")


class Wheel(Generic[T]):
    """Things by the instants at which they are due, in seconds of one clock, whatever that does."""

    __slots__ = ("_buckets", "_cut", "_cut_to", "_length", "_marks", "_near", "_number")

    def __init__(self) -> None:
        self._near: list[tuple[float, int, T]] = []  # a heap; the number keeps the order of things due together
        self._buckets: dict[tuple[int, int], _Bucket[T]] = {}  # by level and number
        self._marks: list[tuple[float, int, int]] = []  # a heap: from when on which bucket is to be cut
        self._cut: _Bucket[T] | None = None  # the one that is being cut
        self._cut_to = 0  # up to there
        self._length = 0
        self._number = 0

    def __len__(self) -> int:
        return self._length

    def add(self, thing: T, due: float, now: float) -> None:
        """A thing is due at an instant, past or to come."""
        self._length += 1
        self._file(thing, due, now, len(_WIDTHS) - 1)

    def _file(self, thing: T, due: float, now: float, widest: int) -> None:
        left = due - now
        if left < SORTED_SECONDS:
            self._sort_in(thing, due)
            return
        level = 0
        while level < widest and left >= _SPAN * _WIDTHS[level]:
            level += 1
        number = int(due // _WIDTHS[level])
        bucket = self._buckets.get((level, number))
        if bucket is None:
            bucket = self._buckets[level, number] = _Bucket(level)
            heappush(self._marks, (number * _WIDTHS[level] - _LEADS[level], level, number))
        bucket.things.append(thing)
        bucket.dues.append(due)

    def _sort_in(self, thing: T, due: float) -> None:
        self._number += 1
        heappush(self._near, (due, self._number, thing))

    def next_look(self) -> float | None:
        """The instant at which there is something to do: a thing is due then, or a bucket is to be cut."""
        if self._cut is not None:
            return float("-inf")
        looks = [first[0] for first in (*self._near[:1], *self._marks[:1])]
        return min(looks, default=None)

    def pop(self, now: float, count: int) -> list[tuple[T, float]]:
        """The things that are due at `now` with their instants, in order of these: at most so many."""
        popped: list[tuple[T, float]] = []
        while self._near and self._near[0][0] <= now and len(popped) < count:
            due, _, thing = heappop(self._near)
            popped.append((thing, due))
        self._length -= len(popped)
        return popped

    def cut(self, now: float) -> bool:
        """Cut the next part of a bucket up, if it is time. True if there was something to do."""
        bucket = self._cut
        if bucket is None:
            if not self._marks or self._marks[0][0] > now:
                return False
            _, level, number = heappop(self._marks)
            bucket = self._buckets.pop((level, number), None)
            if bucket is None:  # it is being swept
                return True
            self._cut, self._cut_to = bucket, 0
        end = self._cut_to + CUT_AT_ONCE
        for thing, due in zip(bucket.things[self._cut_to : end], bucket.dues[self._cut_to : end], strict=True):
            if bucket.level:
                self._file(thing, due, now, bucket.level - 1)
            else:
                self._sort_in(thing, due)
        self._cut_to = end
        if end >= len(bucket.things):
            self._cut = None
        return True

    def sweep(self, drop: Callable[[T, float], bool]) -> Iterator[None]:
        """Drop things from the buckets, in steps: those that `drop` says, which is asked once about each and its
        instant.
        """
        for level, number in list(self._buckets):
            bucket = self._buckets.pop((level, number), None)
            if bucket is None:  # it has been cut meanwhile
                continue
            left: _Bucket[T] = _Bucket(level)
            for start in range(0, len(bucket.things), SWEPT_AT_ONCE):
                end = start + SWEPT_AT_ONCE
                for thing, due in zip(bucket.things[start:end], bucket.dues[start:end], strict=True):
                    if drop(thing, due):
                        self._length -= 1
                    else:
                        left.things.append(thing)
                        left.dues.append(due)
                yield
            if left.things:
                self._take_back(left, number)

    def _take_back(self, bucket: _Bucket[T], number: int) -> None:
        """A bucket has been swept: it joins what has come in its time meanwhile."""
        new = self._buckets.get((bucket.level, number))
        if new is not None:
            bucket.things += new.things
            bucket.dues += new.dues
        self._buckets[bucket.level, number] = bucket
        heappush(self._marks, (number * _WIDTHS[bucket.level] - _LEADS[bucket.level], bucket.level, number))

    def check_invariants(self) -> None:
        """Raise AssertionError when the structure is broken, while nothing is being swept. For tests."""
        for place in range(1, len(self._near)):
            assert self._near[(place - 1) // 2][:2] <= self._near[place][:2]
        marked = {mark[1:] for mark in self._marks}
        for (level, number), bucket in self._buckets.items():
            assert (level, number) in marked
            assert bucket.level == level
            assert len(bucket.things) == len(bucket.dues)
            assert all(int(due // _WIDTHS[level]) == number for due in bucket.dues)
        being_cut = len(self._cut.things) - self._cut_to if self._cut is not None else 0
        in_buckets = sum(len(bucket.things) for bucket in self._buckets.values())
        assert self._length == len(self._near) + in_buckets + being_cut
