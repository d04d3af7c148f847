"""Waiting getters, found by what they wait for.

Served when a message becomes available: all waiting browsers, then one getter that takes it out of sight, by a
destructive get or by a browse with LOCK; among these first the ones that ask for specific messages and match, then
general ones, first come first served inside a class.

Those who ask the same stand in one FIFO, and whom a message is for is asked by FIFO: where the first of one
cannot be given the message, nobody in it can. The fifos are found by the identifiers and numbers that they ask for, so
ten thousand getters that each wait for a reply, or for a group, cost a put of something else nothing. What cannot be
looked up (a selector, a place in logical order) is judged once for each fifo.

A get that wants a whole group or logical message may be given another message than the one that has come, which made
it whole. So its fifo is looked up by all that has become whole.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.core.message.entry import GONE
from broker.core.queues.shelf.selection import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.shelf.shelf import Shelf

Names: TypeAlias = tuple[str, ...]
Judge: TypeAlias = "Callable[[Request], Entry | None]"
"""Says which message a request may be given because of the one that is offered, if any."""

_NAMES: Names = ("msg_id", "correl_id", "group_id", "msg_seq_number", "offset", "token")
"""The fields that both a request and a message have: fifos are found by them."""

_CORREL_ID: Names = ("correl_id",)
_ALL_BUT_ONE = len(_NAMES) - 1

_fields = attrgetter(*_NAMES)
_PLAIN: tuple[object, ...] = ()
_NOTHING_ASKED: tuple[Names, object] = (), ()


class Waiter:
    """A get that waits. `owner` is the engine's: it brings the outcome to the caller."""

    __slots__ = ("fifo", "handle", "number", "owner", "request")

    def __init__(self, handle: Handle, request: Request, owner: Any) -> None:
        self.handle = handle
        self.request = request
        self.owner = owner
        self.number = 0  # its place in the order of arrival, over all fifos
        self.fifo: Fifo | None = None  # where it stands; None when it no longer waits


class Waiters:
    """The getters that wait on one queue."""

    __slots__ = ("_arrivals", "_browsers", "_general", "_specific", "count", "outside", "wholes")

    def __init__(self) -> None:
        self._browsers = _ServiceClass()
        self._specific = _ServiceClass()
        self._general = _ServiceClass()
        self._arrivals = 0
        self.count = 0
        self.wholes = 0  # those among them that want a whole group or logical message
        self.outside = 0  # those that are outside syncpoint, whatever the message

    def add(self, waiter: Waiter) -> None:
        """Begin to wait."""
        request = waiter.request
        self._arrivals += 1
        waiter.number = self._arrivals
        names, value = _NOTHING_ASKED if request.anything else _key(request)
        if request.browse and not request.lock:
            service_class = self._browsers
        else:
            service_class = self._specific if names or request.selector is not None else self._general
        waiter.fifo = fifo = service_class.fifo(request, names, value)
        fifo.waiters[waiter] = None
        self.count += 1
        if request.syncpoint == NEVER:
            self.outside += 1
        if request.whole:
            self.wholes += 1

    def discard(self, waiter: Waiter) -> None:
        """Wait no longer; harmless when it does not."""
        fifo = waiter.fifo
        if fifo is None:
            return
        waiter.fifo = None
        del fifo.waiters[waiter]
        self.count -= 1
        if waiter.request.syncpoint == NEVER:
            self.outside -= 1
        if waiter.request.whole:
            self.wholes -= 1
        if not fifo.waiters:
            fifo.table.drop(fifo)

    def takers(self, entry: Entry, shelf: Shelf, judge: Judge) -> Iterator[tuple[Waiter, Entry]]:
        """Yield the waiters that may be given a message because of `entry`, and which, in the order in which they are
        to be served. The message is on `shelf`, and so are all that they may be given.

        Each is judged when the ones before it have been served. Nobody may come or leave meanwhile: the caller stops
        at the first that takes `entry` out of sight.
        """
        for each in (self._browsers, self._specific, self._general):
            if (each.tables or each.wholes) and entry.state != GONE:  # as one that is found expired
                fifos = each.fifos(entry, shelf)
                yield from _in_fifo(fifos[0], judge) if len(fifos) == 1 else _in_turn(fifos, judge)

    def check_invariants(self) -> None:
        """Raise AssertionError when a count is wrong. For tests."""
        requests = [waiter.request for waiter in self]
        assert self.count == len(requests)
        assert self.wholes == sum(bool(request.whole) for request in requests)
        assert self.outside == sum(request.syncpoint == NEVER for request in requests)

    def check_served(self, shelf: Shelf) -> None:
        """Raise AssertionError when a getter waits beside an available message that it would be given. For tests."""
        for waiter in self:
            request = waiter.request
            starved = [entry.key for entry in shelf.candidates(request) if request.accepts(entry, shelf)]
            assert not starved, f"{request} waits beside {starved}"

    def __iter__(self) -> Iterator[Waiter]:
        for each in (self._specific, self._general, self._browsers):
            for table in (*each.tables.values(), *each.wholes.values()):
                for fifo in table.all():
                    yield from fifo.waiters


class Fifo:
    """The waiters with one request, first come, first served. `value` and `question`: its place in its table."""

    __slots__ = ("question", "table", "value", "waiters")

    def __init__(self, table: _Table, value: object, question: tuple[object, ...]) -> None:
        self.table = table
        self.value = value
        self.question = question
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()  # unlike a dict it gives its first in O(1) always


class _Table:
    """The fifos that ask for certain fields: by the values of these, then by what else they ask."""

    __slots__ = ("_fifos", "_values_of", "count")

    def __init__(self, names: Names) -> None:
        self._fifos: dict[object, dict[tuple[object, ...], Fifo]] = {}
        self._values_of = _values_of(names)
        self.count = 0

    def fifo(self, value: object, question: tuple[object, ...]) -> Fifo:
        """The fifo of this value and question; made if there is none."""
        fifos = self._fifos.setdefault(value, {})
        fifo = fifos.get(question)
        if fifo is None:
            fifo = fifos[question] = Fifo(self, value, question)
            self.count += 1
        return fifo

    def drop(self, fifo: Fifo) -> None:
        """Nobody stands in the fifo any more."""
        fifos = self._fifos[fifo.value]
        del fifos[fifo.question]
        self.count -= 1
        if not fifos:
            del self._fifos[fifo.value]

    def matching(self, entry: Entry) -> Iterable[Fifo]:
        """The fifos whose fields are those of `entry`."""
        fifos = self._fifos.get(self._values_of(entry))
        return fifos.values() if fifos else ()

    def all(self) -> Iterator[Fifo]:
        for fifos in self._fifos.values():
            yield from fifos.values()


class _ServiceClass:
    """The fifos of those who are served alike. A table that has become empty stays: there are at most 64."""

    __slots__ = ("tables", "wholes")

    def __init__(self) -> None:
        self.tables: dict[Names, _Table] = {}
        self.wholes: dict[tuple[int, Names], _Table] = {}  # of those who want a whole group or logical message

    def fifo(self, request: Request, names: Names, value: object) -> Fifo:
        """Return the FIFO of a request for these values of these fields."""
        if request.whole:
            table = self.wholes.setdefault((request.whole, names), _Table(names))
        else:
            table = self.tables.get(names) or self.tables.setdefault(names, _Table(names))
        return table.fifo(value, _question(request))

    def fifos(self, entry: Entry, shelf: Shelf) -> list[Fifo]:
        """The fifos of those who may want a message because of `entry`."""
        fifos = [fifo for table in self.tables.values() for fifo in table.matching(entry)]
        if self.wholes:
            fifos += self._fifos_of_wholes(entry, shelf)
        return fifos

    def _fifos_of_wholes(self, entry: Entry, shelf: Shelf) -> Iterable[Fifo]:
        fifos: dict[Fifo, None] = {}
        for (whole, names), table in self.wholes.items():
            keys = shelf.groups.whole_with(entry, whole)
            if keys and (not names or table.count < len(keys)):  # it takes less to ask them all
                fifos.update(dict.fromkeys(table.all()))
                continue
            for key in keys:
                fifos.update(dict.fromkeys(table.matching(shelf.entries[key])))
        return fifos


def _key(request: Request) -> tuple[Names, object]:
    """The names of the fields that a request asks for, and their values as a message would have them."""
    fields = _fields(request)
    if request.item is not None:
        msg_id, correl_id, *_, token = fields
        fields = (msg_id, correl_id, *request.item, token)
    elif fields.count(None) == _ALL_BUT_ONE and fields[1] is not None:
        return _CORREL_ID, fields[1]  # the most frequent, at once
    names = _names(tuple([value is not None for value in fields]))
    values = tuple([value for value in fields if value is not None])
    return names, values[0] if len(values) == 1 else values


@lru_cache
def _names(asked: tuple[bool, ...]) -> Names:
    return tuple(compress(_NAMES, asked))


@lru_cache
def _values_of(names: Names) -> Callable[[Entry], object]:
    """A function that gives the values of these fields of a message."""
    return attrgetter(*names) if names else _nothing


def _nothing(_: Entry) -> tuple[()]:
    return ()


def _question(request: Request) -> tuple[object, ...]:
    """All by which a request judges messages that have the fields that it asks for."""
    if request.anything:
        return _PLAIN
    return (
        request.start,
        request.whole,
        request.selector,
        request.unmarked_by,
        request.after,
        request.item is not None and (request.group_id, request.msg_seq_number, request.offset),
    )


def _in_fifo(fifo: Fifo, judge: Judge) -> Iterator[tuple[Waiter, Entry]]:
    """`_in_turn` for one fifo."""
    for waiter in fifo.waiters:
        found = judge(waiter.request)
        if found is None:
            return
        yield waiter, found


def _in_turn(fifos: list[Fifo], judge: Judge) -> Iterator[tuple[Waiter, Entry]]:
    """Yield, in the order of their arrival, the waiters in these FIFOs to whom the judge gives something."""
    heads = [_Head(fifo) for fifo in fifos]
    heapify(heads)
    while heads:
        head = heads[0]
        found = judge(head.waiter.request)
        if found is None:
            heappop(heads)
            continue
        yield head.waiter, found
        if head.advance():
            heapreplace(heads, head)
        else:
            heappop(heads)


class _Head:
    """The first in a fifo who has not been judged."""

    __slots__ = ("_rest", "waiter")

    def __init__(self, fifo: Fifo) -> None:
        self._rest = iter(fifo.waiters)
        self.waiter = next(self._rest)

    def advance(self) -> bool:
        """Go on to the next one. True if there is one."""
        waiter = next(self._rest, None)
        if waiter is None:
            return False
        self.waiter = waiter
        return True

    def __lt__(self, other: _Head) -> bool:
        return self.waiter.number < other.waiter.number
