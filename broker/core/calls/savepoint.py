"""A savepoint: the state of a connection before a call whose effects may have to be taken back, to be made again.

The calls on shared queues are made inside a transaction of a database, which may fail and is then tried anew. The call
must find everything as it was: the unit of work, and where its handle stands (queue-sharing rule 10.2.7).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle, Hconn
    from broker.core.queues.unit import Unit


T = TypeVar("T")


class Savepoint:
    """The state that a call on these handles may change: the connection's unit of work, and their positions."""

    __slots__ = ("_hconn", "_positions", "_unit")

    def __init__(self, hconn: Hconn, handles: Iterable[Handle]) -> None:
        self._hconn = hconn
        self._unit = None if hconn.unit is None else _UnitState(hconn.unit)
        self._positions = [(handle, handle.position) for handle in handles]

    def restore(self) -> None:
        """Take all back that the call has changed."""
        begun = self._hconn.unit
        if self._unit is not None:
            self._unit.restore()  # which the connection has still, unless it was broken meanwhile
        elif begun is not None:
            _withdraw(begun, 0)
            self._hconn.unit = None
        for handle, position in self._positions:
            handle.position = position


class _UnitState:
    """A unit of work that was open already. What calls add to it comes behind what is there."""

    __slots__ = ("_bytes", "_calls", "_counts", "_last_gets", "_last_puts", "_unit", "_unwritten")

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._bytes = unit.bytes
        self._calls = unit.calls
        self._counts = len(unit.puts), len(unit.gets), len(unit.reports), len(unit.triggers)
        self._last_puts = dict(unit.last_puts)
        self._last_gets = dict(unit.last_gets)
        part = unit.shared
        self._unwritten = None if part is None else (part.id, len(part.placed), len(part.taken))

    def restore(self) -> None:
        unit = self._unit
        puts, gets, reports, triggers = self._counts
        _withdraw(unit, puts)
        _cut(unit.gets, gets)
        _cut(unit.reports, reports)
        del unit.triggers[triggers:]
        unit.bytes, unit.calls = self._bytes, self._calls
        unit.last_puts, unit.last_gets = self._last_puts, self._last_gets
        if self._unwritten is None:
            unit.shared = None
        elif unit.shared is not None:
            unit.shared.id, placed, taken = self._unwritten
            del unit.shared.placed[placed:]
            del unit.shared.taken[taken:]


def _withdraw(unit: Unit, kept: int) -> None:
    """Take back all puts of a unit but the first ones: those of a distribution list may be on private queues too."""
    extras = unit.extras
    for entry in unit.puts[kept:]:
        entry.queue.withdraw(entry)
        if extras is not None:
            extras.delayed.pop(entry, None)
    del unit.puts[kept:]


def _cut(entries: dict[Entry, T], length: int) -> None:
    """Leave the first ones only."""
    for entry in list(islice(entries, length, None)):
        del entries[entry]
