"""SortedKeys: an ordered set that stays quick when it is long and full of holes.

A queue takes messages from the front, skips those that are not available, and puts back what is backed out at its old
place. A heap cannot delete in the middle, a deque cannot insert there, and a dict must walk the holes at its front.
This is a list of short sorted lists: every operation is a binary search over the lists and one move of a few
kilobytes.

Most keys come behind all others, and most go from the front. So a chunk that is full at the end is left full, and a
new one begun; only one that grows in its middle is split.

Invariants (`check_invariants`): no chunk is empty; no chunk is longer than `2 * LOAD`; the keys ascend through the
chunks; `_lasts[i]` is the last key of chunk i; `_length` counts the keys.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

K = TypeVar("K", bound=int)

LOAD = 512


class SortedKeys(Generic[K]):
    """Distinct keys in ascending order."""

    __slots__ = ("_chunks", "_lasts", "_length")

    def __init__(self) -> None:
        self._chunks: list[list[K]] = []
        self._lasts: list[K] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, key: K) -> bool:
        where = bisect_left(self._lasts, key)
        if where == len(self._lasts):
            return False
        chunk = self._chunks[where]
        return chunk[bisect_left(chunk, key)] == key

    def __iter__(self) -> Iterator[K]:
        for chunk in self._chunks:
            yield from chunk

    def add(self, key: K) -> None:
        """Add a key that is not there yet."""
        lasts, chunks = self._lasts, self._chunks
        self._length += 1
        if lasts and key < lasts[-1]:
            where = bisect_left(lasts, key)
            insort(chunks[where], key)
            if len(chunks[where]) > 2 * LOAD:
                self._split(where)
        elif lasts and len(chunks[-1]) < 2 * LOAD:
            chunks[-1].append(key)
            lasts[-1] = key
        else:
            chunks.append([key])
            lasts.append(key)

    def add_all(self, keys: Sequence[K]) -> None:
        """Add ascending keys that are not there yet."""
        if keys and (not self._lasts or keys[0] > self._lasts[-1]):
            self._length += len(keys)
            room = 2 * LOAD - len(self._chunks[-1]) if self._chunks else 0
            if room:
                self._chunks[-1] += keys[:room]
                self._lasts[-1] = self._chunks[-1][-1]
            for start in range(room, len(keys), LOAD):
                self._chunks.append(list(keys[start : start + LOAD]))
                self._lasts.append(self._chunks[-1][-1])
        else:
            for key in keys:
                self.add(key)

    def discard_first(self, count: int) -> None:
        """Remove the lowest keys, so many of them."""
        self._length -= count
        while count:
            chunk = self._chunks[0]
            if len(chunk) > count:
                del chunk[:count]
                return
            count -= len(chunk)
            del self._chunks[0], self._lasts[0]

    def discard(self, key: K) -> None:
        """Remove a key, if it is there."""
        where = bisect_left(self._lasts, key)
        if where == len(self._lasts):
            return
        chunk = self._chunks[where]
        place = bisect_left(chunk, key)
        if chunk[place] != key:
            return
        del chunk[place]
        self._length -= 1
        if not chunk:
            del self._chunks[where], self._lasts[where]
        elif place == len(chunk):
            self._lasts[where] = chunk[-1]

    def first(self) -> K | None:
        """The lowest key, or None."""
        return self._chunks[0][0] if self._chunks else None

    def last(self) -> K | None:
        """The highest key, or None."""
        return self._lasts[-1] if self._lasts else None

    def count_below(self, key: K) -> int:
        """Return the number of keys lower than `key`."""
        where = bisect_left(self._lasts, key)
        whole = sum(map(len, self._chunks[:where]))
        return whole + (bisect_left(self._chunks[where], key) if where < len(self._chunks) else 0)

    def after(self, key: K) -> Iterator[K]:
        """The keys greater than `key`, ascending. The set must not change while this runs."""
        where = bisect_right(self._lasts, key)
        if where == len(self._lasts):
            return
        chunk = self._chunks[where]
        for place in range(bisect_right(chunk, key), len(chunk)):
            yield chunk[place]
        for later in range(where + 1, len(self._chunks)):
            yield from self._chunks[later]

    def _split(self, where: int) -> None:
        chunk = self._chunks[where]
        self._chunks.insert(where + 1, chunk[LOAD:])
        del chunk[LOAD:]
        self._lasts.insert(where, chunk[-1])

    def check_invariants(self) -> None:
        """Raise AssertionError when the structure is broken. For tests."""
        keys = list(self)
        assert len(keys) == self._length
        assert all(before < behind for before, behind in itertools.pairwise(keys))
        assert self._lasts == [chunk[-1] for chunk in self._chunks]
        assert all(0 < len(chunk) <= 2 * LOAD for chunk in self._chunks)
