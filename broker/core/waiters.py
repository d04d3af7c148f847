"""Waiting getters, found by what they wait for.

Served when a message becomes available: all waiting browsers, then one getter that takes it out of sight, by a
destructive get or by a browse with LOCK; among these first the ones that ask for specific messages and match, then
general ones, first come first served inside a class. A put asks the waiters for its own MsgId and CorrelId by key, so
ten thousand getters that each wait for a reply cost it nothing.

A getter that asks for both MsgId and CorrelId waits under its MsgId; one that asks for other things than these two (a
group, a token, an offset) waits among the `others`, which are asked one by one.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import merge
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.entry import Entry
    from broker.core.handles import Handle
    from broker.core.selection import Request

Line: TypeAlias = "OrderedDict[Waiter, None]"  # a queue of people; unlike a dict it gives its first in O(1) always


class Waiter:
    """A get that waits. `owner` is the engine's: it brings the outcome to the caller."""

    __slots__ = ("handle", "line", "number", "owner", "request")

    def __init__(self, handle: Handle, request: Request, owner: Any) -> None:
        self.handle = handle
        self.request = request
        self.owner = owner
        self.number = 0  # its place in the order of arrival, over all lines
        self.line: Line | None = None  # where it stands; None when it no longer waits


class Waiters:
    """The getters that wait on one queue."""

    __slots__ = ("_arrivals", "_browsers", "_by_correl_id", "_by_msg_id", "_general", "_others", "count")

    def __init__(self) -> None:
        self._by_msg_id: dict[bytes, Line] = {}
        self._by_correl_id: dict[bytes, Line] = {}
        self._others: Line = OrderedDict()
        self._general: Line = OrderedDict()
        self._browsers: Line = OrderedDict()
        self._arrivals = 0
        self.count = 0

    def add(self, waiter: Waiter) -> None:
        """Stand in line."""
        self._arrivals += 1
        waiter.number = self._arrivals
        waiter.line = self._line(waiter.request)
        waiter.line[waiter] = None
        self.count += 1

    def discard(self, waiter: Waiter) -> None:
        """Leave the line; harmless when it has."""
        line = waiter.line
        if line is None:
            return
        waiter.line = None
        del line[waiter]
        self.count -= 1
        if not line:
            request = waiter.request
            if self._by_msg_id.get(request.msg_id or b"") is line:
                del self._by_msg_id[request.msg_id or b""]
            elif self._by_correl_id.get(request.correl_id or b"") is line:
                del self._by_correl_id[request.correl_id or b""]

    def interested(self, entry: Entry) -> Iterator[Waiter]:
        """Those who may take `entry`, in the order in which they are to be asked. A snapshot of each line's head only:
        the caller stops at the first destructive getter that takes it.
        """
        yield from list(self._browsers)
        yield from self._specific(entry)
        yield from self._general

    def _specific(self, entry: Entry) -> Iterator[Waiter]:
        keyed = [self._by_msg_id.get(entry.msg_id), self._by_correl_id.get(entry.correl_id)]
        lines = [line for line in (*keyed, self._others) if line]
        if len(lines) < 2:
            for line in lines:
                yield from line
            return
        yield from merge(*lines, key=_number)

    def __iter__(self) -> Iterator[Waiter]:
        for line in (*self._by_msg_id.values(), *self._by_correl_id.values()):
            yield from line
        yield from self._others
        yield from self._general
        yield from self._browsers

    def _line(self, request: Request) -> Line:
        if request.browse and not request.lock:
            return self._browsers
        if request.narrow:
            return self._others
        if request.msg_id is not None:
            return self._by_msg_id.setdefault(request.msg_id, OrderedDict())
        if request.correl_id is not None:
            return self._by_correl_id.setdefault(request.correl_id, OrderedDict())
        return self._general


def _number(waiter: Waiter) -> int:
    return waiter.number
