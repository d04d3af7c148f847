"""The sinks of a queue manager, and the prepared units of all of them."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from broker.core.message.entry import PreparedEntry
from broker.core.message.rows import Rows
from broker.core.prepared import sink as sinks
from broker.core.prepared import unit as units
from broker.core.prepared.sink import KEYED, Sink
from broker.core.prepared.unit import PreparedUnit
from broker.core.queues.unit import COMMITTED, PREPARED
from broker.core.security.rights import Right

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.message.rows import ObjectRow
    from broker.core.prepared.sink import Ledger
    from broker.core.prepared.unit import UnitName
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.queue import LocalQueue
    from broker.core.security.caller import Caller

UNITS_MAX: Final = 10_000
"""The most prepared units of a queue manager."""

KEYS_MAX: Final = 100_000
KEY_SECONDS: Final = 30 * 24 * 3600.0
"""Of sinks that stand for one batch each so many ledgers are kept, and each for so long."""

_REMEMBERED: Final = 10_000


class Sinks:
    """All sinks by name, and all prepared units by their numbers, which the store has as the holders of their messages.
    `bytes` are those of all these messages, `bytes_max` the most that may be. `shared`: they are sinks of a
    queue-sharing group, as one call knows them. The units of its group are in `of_group`, of a queue manager that has
    one.
    """

    def __init__(self, *, shared: bool = False) -> None:
        self.shared = shared
        self.by_name: dict[str, Sink] = {}
        self.units: dict[int, PreparedUnit] = {}
        self.of_group: dict[UUID, PreparedUnit] = {}  # as the group was last asked
        self.bytes = 0
        self.bytes_max = 4 * 1024 * 1024 * 1024
        self._keys: OrderedDict[str, Ledger] = OrderedDict()  # of sinks of one batch each, the oldest first
        self._remembered: OrderedDict[UnitName, None] = OrderedDict()  # published lately by sinks without ledgers
        self._expected: dict[int, int] = {}  # while units are loaded: how many messages each must have

    def sink(self, name: str) -> Sink:
        """The sink of that name; one that is new is kept for as long as there is anything to know of it."""
        return self.by_name.setdefault(name, Sink(name))

    def unit(self, name: UnitName) -> PreparedUnit | None:
        """The unit of that name; None when there is none."""
        sink = self.by_name.get(name.sink)
        return None if sink is None else sink.units.get(name)

    def all(self) -> Iterator[PreparedUnit]:
        """All prepared units, those of the group too."""
        return chain(self.units.values(), self.of_group.values())

    def has(self, name: str, units: Sequence[UnitName] = ()) -> bool:
        """True if anything is known of a sink of this name, or of its units."""
        return name in self.by_name or self.remembers(units)

    def places_to_appear(self) -> list[int]:
        """The first places of the messages of each unit that are published, or about to be, and not available yet."""
        return [unit.base + unit.shown for unit in self.units.values() if unit.base]

    def deciding(self, name: str) -> bool:
        """True if this sink is deciding a batch, so that its ledger may change soon."""
        sink = self.by_name.get(name)
        return sink is not None and sink.deciding

    def is_published(self, name: str, batch: int, query: str | None, units: Sequence[UnitName]) -> bool:
        """True when a batch of a sink has been published last: as its ledger says; where it has none, when it has
        published just these units lately. Raises SUBSCRIPTION_IN_USE (2429), UOW_COMMITTED (2408).
        """
        sink = self.by_name.get(name)
        if sink is None or sink.ledger is None:
            return self.remembers(units)
        return sink.is_published(batch, query)

    def judge(self, caller: Caller | None, name: str, wanted: Right = Right.PUT) -> None:
        """Raise NOT_AUTHORIZED (2035) for a caller who has not the wanted right on each queue for which the units of a
        sink have messages.
        """
        sink = self.by_name.get(name)
        if caller is not None and sink is not None:
            for queue in {queue.name for unit in sink.units.values() for queue in unit.counts}:
                caller.require(wanted, queue)

    # Units come and go

    def enter(self, unit: PreparedUnit) -> None:
        """The first piece of a unit is on its way."""
        self.units[unit.number] = self.sink(unit.name.sink).units[unit.name] = unit

    def enter_all(self, units: Iterable[PreparedUnit]) -> None:
        """These units are there."""
        for unit in units:
            self.enter(unit)

    def leave(self, unit: PreparedUnit) -> None:
        """There is nothing left of a unit, or all of it is on its queues."""
        del self.units[unit.number]
        self.bytes -= unit.bytes
        sink = self.by_name[unit.name.sink]
        del sink.units[unit.name]
        self.tidy(sink)

    def tidy(self, sink: Sink) -> None:
        """Forget a sink of which there is nothing to know."""
        if sink.ledger is None and not sink.units and not sink.deciding:
            self.by_name.pop(sink.name, None)

    # Ledgers

    def keep(self, sink: Sink, ledger: Ledger, number: int) -> None:
        """A batch is published, durably."""
        sink.ledger, sink.number = ledger, number
        if ledger.query == KEYED:
            self._keys[sink.name] = ledger
            self._keys.move_to_end(sink.name)

    def drop(self, ledgers: Iterable[tuple[Sink, Ledger]]) -> None:
        """These ledgers have ended, durably; one that another has replaced meanwhile has not."""
        for sink, ledger in ledgers:
            if sink.ledger is ledger:
                sink.ledger, sink.number = None, 0
                self._keys.pop(sink.name, None)
                self.tidy(sink)

    def ending(self, now: float, *, room: int = 0) -> list[tuple[Sink, Ledger]]:
        """The ledgers of sinks of one batch each whose time is up, or which are in the way of so many more."""
        over = len(self._keys) + room - KEYS_MAX
        found = []
        for index, (name, ledger) in enumerate(self._keys.items()):
            if index >= over and ledger.when + KEY_SECONDS > now:
                break
            sink = self.by_name[name]
            if not sink.deciding:
                found.append((sink, ledger))
        return found

    def remember(self, published: Iterable[UnitName]) -> None:
        """A sink without a ledger has published these units: for a while it is known, should it be asked again."""
        self._remembered.update(dict.fromkeys(published))
        for name in list(islice(self._remembered, max(0, len(self._remembered) - _REMEMBERED))):
            del self._remembered[name]

    def remembers(self, names: Sequence[UnitName]) -> bool:
        """True if a sink without a ledger has published just these lately."""
        return bool(names) and all(name in self._remembered for name in names)

    def orphans(self, before: float) -> list[PreparedUnit]:
        """The units that nobody has touched since `before` (wall clock), nor is deciding about now."""
        return [
            unit
            for unit in self.units.values()
            if unit.state == PREPARED
            and unit.touched <= before
            and not unit.coming
            and not self.deciding(unit.name.sink)
        ]

    # Loading

    def load(self, row: ObjectRow) -> None:
        """A sink or a unit as the store kept it."""
        if row.space == sinks.SPACE:
            sink = self.sink(row.name)
            sink.load(row)
            if sink.ledger is not None:
                self.keep(sink, sink.ledger, row.number)
        else:
            unit, expected = PreparedUnit.from_row(row)
            self._expected[row.number] = expected
            unit.lacks = expected > 0  # until its messages are loaded
            self.enter(unit)

    def load_messages(self, number: int, held: Sequence[tuple[int, Entry]]) -> None:
        """The messages of a unit as the store kept them, in the order of their sequences."""
        unit = self.units[number]
        unit.add([entry for _, entry in held if isinstance(entry, PreparedEntry)])
        unit.lacks = [sequence for sequence, _ in held] != list(range(1, self._expected[number] + 1))

    def loaded(self) -> Rows:
        """All is loaded. The messages of the units are with them from now on, but those of units that can never be
        published, since their batch is decided or some of their messages are gone: these are to be removed.
        """
        self._keys = OrderedDict(sorted(self._keys.items(), key=lambda each: each[1].when))
        rows = Rows()
        for unit in list(self.units.values()):
            ledger = self.by_name[unit.name.sink].ledger
            self.bytes += unit.bytes
            decided = ledger is not None and unit.name.batch <= ledger.batch
            if decided or unit.lacks:
                rows.removals += [entry.number for entry in unit.entries]
                rows.dropped.append((units.SPACE, unit.name.text))
                self.leave(unit)
                continue
            for queue, entries in by_queue(unit.entries).items():
                queue.prepare(entries)
        self._expected.clear()
        return rows

    # What else is to be known of them

    def appearing(self) -> Iterator[Entry]:
        """The messages whose publication is durable, and which are not on their queues yet."""
        for unit in self.units.values():
            if unit.state == COMMITTED:
                unit.place_all()
                yield from unit.left()

    def check_invariants(self, queues: Iterable[LocalQueue]) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        counts: dict[MessageQueue, int] = {}
        for number, unit in self.units.items():
            assert unit.number == number
            assert self.unit(unit.name) is unit
            for queue, entries in by_queue(unit.left()).items():
                counts[queue] = counts.get(queue, 0) + len(entries)
        assert self.bytes == sum(unit.bytes for unit in self.units.values())
        assert {queue: queue.prepared for queue in queues if queue.prepared and not queue.shared} == {
            queue: count for queue, count in counts.items() if not queue.deleted
        }
        assert all(sink.ledger or sink.units or sink.deciding for sink in self.by_name.values())


def by_queue(entries: Iterable[PreparedEntry]) -> dict[MessageQueue, list[PreparedEntry]]:
    """Messages by their queues."""
    found: dict[MessageQueue, list[PreparedEntry]] = {}
    for entry in entries:
        of = found.get(entry.queue)
        if of is None:
            of = found[entry.queue] = []
        of.append(entry)
    return found
