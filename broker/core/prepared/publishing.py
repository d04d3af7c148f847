"""Publishing: the batch of a sink is decided, and the messages of its winners come to their queues.

A batch is decided in one transaction: its ledger, the places of the winners' messages, the end of their units, and the
reports on their arrival. Places are given partition by partition, index by index, as if the messages were put then.
What the decision rests on has settled before it is frozen, and stays so until it has settled itself: the sink is
`deciding` meanwhile (claims rules 3.3 to 3.5).

When the decision is durable, up to SLICE messages are available in that step. More of them appear in slices, in order,
a group of one unit in one slice: nothing can stop between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.calls import arriving
from broker.core.calls.puts import sending
from broker.core.message.generated import reports
from broker.core.message.rows import Rows
from broker.core.prepared import sink as sinks
from broker.core.prepared import unit as units
from broker.core.prepared.sink import KEYED, Ledger
from broker.core.prepared.sinks import by_queue
from broker.core.queues.unit import COMMITTED, COMMITTING, PREPARED, Unit
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import PreparedEntry
    from broker.core.moment import Moment
    from broker.core.prepared.sink import Sink
    from broker.core.prepared.sinks import Sinks
    from broker.core.prepared.unit import PreparedUnit, UnitName

SLICE: Final = 5000
"""So many messages appear in one step."""

_IN_GROUPS: Final = 4  # a message of a unit with groups costs as much as so many others, where there are several slices


class PublishedUnit(NamedTuple):
    """A unit that is to be published, and how many messages were staged in it."""

    unit: UnitName
    rows: int


class Publishing:
    """One batch on its way. `units` are those that are published, in the order of their partitions; `reports` is the
    unit of work of the confirmations of their arrival, None where none is asked for.
    """

    def __init__(
        self,
        manager: Manager,
        sinks: Sinks,
        sink: Sink,
        batch: int,
        query: str | None,
        winners: Sequence[PublishedUnit],
    ) -> None:
        self._manager = manager
        self._sinks = sinks
        self._sink = sink
        self._batch = batch
        self._query = query
        self._winners = sorted(winners, key=lambda winner: winner.unit.partition)
        self._ending: list[tuple[Sink, Ledger]] = []
        self._ledger: Ledger | None = None
        self._number = 0
        self._count = 0  # of its messages, pieces of those that were cut counted singly
        self._shown = 0  # units whose messages have all appeared
        self.units: list[PreparedUnit] = []
        self.reports: Unit | None = None

    # Whether it may be decided

    @property
    def already(self) -> bool:
        """True if this batch has been published. Raises SUBSCRIPTION_IN_USE (2429), UOW_COMMITTED (2408)."""
        units = [winner.unit for winner in self._winners]
        return self._sinks.is_published(self._sink.name, self._batch, self._query, units)

    @property
    def waits(self) -> bool:
        """True if a piece of one of its units is on its way to the store."""
        found = (self._sink.units.get(winner.unit) for winner in self._winners)
        return any(unit is not None and unit.coming for unit in found)

    def check(self) -> None:
        """Raise NO_DATA_AVAILABLE (2379) for a batch that does not come next, UOW_CANCELED (2297) for winners that are
        not all there, INCOMPLETE_GROUP (2241) or INCOMPLETE_MSG (2242) for one that has left something open.
        """
        self._sink.check_next(self._batch)
        partitions = set()
        for name, rows in self._winners:
            if name.sink != self._sink.name or name.batch != self._batch or name.partition in partitions:
                raise MQError(
                    MQRC.OPERATION_NOT_ALLOWED,
                    f"batch {self._batch} of sink {self._sink.name} cannot have {name} among its winners: each of "
                    "another partition, and all of that batch",
                )
            partitions.add(name.partition)
            unit = self._sink.units.get(name)
            there = 0 if unit is None or unit.lacks or unit.state != PREPARED else unit.rows
            if there != rows:
                raise MQError(
                    MQRC.UOW_CANCELED,
                    f"{name} is said to have {rows} messages, and {there} are there: it was discarded, or never "
                    "staged, so nothing is published; write the batch again",
                )
            if unit is not None and unit.unfinished:
                raise MQError(unit.unfinished, f"{name} has left a group or a logical message open")
        found = [self._sink.units.get(name) for name, _ in self._winners]
        self.units = [unit for unit in found if unit is not None]
        self._count = sum(len(unit.entries) for unit in self.units)

    # The decision

    def ledger(self, now: float) -> Ledger | None:
        """Return the ledger of its sink from then on; None where its batches belong to no query."""
        if self._query is None:
            return None
        return Ledger(self._query, self._batch, self.messages, sum(unit.bytes for unit in self.units), now)

    def place(self) -> list[PreparedEntry]:
        """Its messages have their places from now on: those of them that ask for a confirmation of their arrival."""
        asking: list[PreparedEntry] = []
        for unit in self.units:
            unit.base = self._manager.ids.next_of(len(unit.entries))
            for index in unit.confirmed:
                unit.entries[index].stand_at(unit.base + index)
                asking.append(unit.entries[index])
        if asking:
            self.reports = Unit()
        return asking

    def report(self, entries: Sequence[PreparedEntry], moment: Moment) -> None:
        """Make the confirmations for some of these messages, whose bodies are in memory where they are wanted."""
        assert self.reports is not None
        self.reports.reports.update(dict.fromkeys(entries, reports.COA))
        sending.send_reports(self._manager, self.reports, moment)
        self.reports.reports = {}

    def freeze(self, now: float) -> Rows:
        """Decide the batch. Return the rows to write."""
        manager, sink = self._manager, self._sink
        rows = Rows() if self.reports is None else manager.commit(self.reports)
        for unit in self.units:
            unit.become(COMMITTING)
            rows.placed += unit.runs()
            rows.removals += unit.nonpersistent  # they are ordinary nonpersistent messages again
            rows.dropped.append((units.SPACE, unit.name.text))
        self._ledger = self.ledger(now)
        if self._ledger is not None:
            self._number = sink.number or manager.ids.next()
            (rows.states if sink.number else rows.objects).append(sink.row(self._ledger, self._number))
            if self._query == KEYED and sink.ledger is None:
                self._ending = self._sinks.ending(now, room=1)
                rows.dropped += [(sinks.SPACE, each.name) for each, _ in self._ending]
        return rows

    @property
    def messages(self) -> int:
        """The number of messages that it publishes."""
        return sum(unit.rows for unit in self.units)

    def settle(self, moment: Moment, *, committed: bool) -> None:
        """The decision is durable, or there was no room for it: then its units are as they were. The unit of work of
        the reports settles next.
        """
        for unit in self.units:
            unit.become(COMMITTED if committed else PREPARED)
        if not committed:
            self.give_up()
            return
        if self._ledger is not None:
            self._sinks.keep(self._sink, self._ledger, self._number)
            self._sinks.drop(self._ending)
        else:
            self._sinks.remember(winner.unit for winner in self._winners)
        self.show(moment)

    def give_up(self) -> None:
        """It is not decided after all: its messages have no places."""
        for unit in self.units:
            unit.base = 0

    # What comes of it

    @property
    def shown(self) -> bool:
        """True if all its messages are on their queues."""
        return self._shown == len(self.units)

    def show(self, moment: Moment) -> None:
        """The next slice of its messages appears."""
        manager, room, whole = self._manager, SLICE, self._count <= SLICE
        entries: list[PreparedEntry] = []
        while room > 0 and not self.shown:
            unit = self.units[self._shown]
            cost = _IN_GROUPS if unit.ends and not whole else 1
            appearing = unit.show(max(1, room // cost))
            entries += appearing
            room -= len(appearing) * cost
            if unit.shown == len(unit.entries):
                self._shown += 1
                self._sinks.leave(unit)
        found = by_queue(entries)
        for queue, appearing in found.items():
            if queue.deleted:  # a temporary dynamic queue, which nobody has open any more
                queue.drop(appearing)
                continue
            appearing.sort(key=_key)
            queue.publish(appearing)
            queue.counts.put(len(appearing), sum([entry.length for entry in appearing]), moment.wall)
            manager.events.published(queue, len(appearing), moment.wall)
        for queue, appearing in found.items():
            if not queue.deleted:
                arriving.arrived(manager, queue, appearing, moment)

    def losers(self) -> list[PreparedUnit]:
        """The other units of the sink for this batch or one before it: nothing can come of them any more."""
        winners = set(self.units)
        return [unit for unit in self._sink.units.values() if unit.name.batch <= self._batch and unit not in winners]


def _key(entry: PreparedEntry) -> int:
    return entry.key
