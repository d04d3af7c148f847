"""The remains of a damaged store, put together: the messages and definitions that a recovery keeps.

It is the messages of the snapshot whose checks hold, and then the effect of all valid records above it, by number,
whatever is missing between them: so a message whose get was in a lost batch is back. Where the snapshot is damaged, or
older in one place than in another, the records below it that the log still has without a gap have their effect too:
they say again what the snapshot should, and bring back what it has lost.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.storage.log import manifest as manifests
from broker.storage.log.record import unpack
from broker.storage.snapshot.delta import Delta
from broker.storage.store import ObjectRow, StoreUnusableError
from broker.storage.tools.naming import Naming

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.storage.log.record import Record
    from broker.storage.store import KeyRow, MessageRow, StepRow
    from broker.storage.tools.inspection import Inspection
    from broker.storage.tools.reading import FoundMessage


class Remains:
    """The remains of a store that was inspected to its end. `queue_attributes` are those of a local queue, packed, for
    queues whose definitions are lost.

    `last` is the highest number that the store is known to have given a batch, `missing` the batches that are lost, as
    ranges. `messages`, `lost` and `definitions` are complete when `each_message` and `each_object` have come to their
    ends, in this order.
    """

    def __init__(self, inspection: Inspection, queue_attributes: bytes) -> None:
        self._inspection = inspection
        self._queue_attributes = queue_attributes
        records = _counted(inspection.records)
        held, first = self._numbers(records)
        self._delta = _delta(each for number, each in sorted(records.items()) if number >= first)
        kept = inspection.kept
        self.last = max([held, kept.snap, kept.durable, kept.last, *records])
        self.generation = max([1, kept.generation, *(each.generation for each in inspection.records)])
        if inspection.tally is not None:
            self.generation = max(self.generation, inspection.tally.generation)
        self.missing = _ranges(number for number in range(held + 1, self.last + 1) if number not in records)
        self._steps = {id: each for id, each in inspection.steps.items() if id not in self._delta.removals}
        for id, later in self._delta.steps.items():
            self._steps[id] = self._steps.get(id, {}) | later
        self.high_water = max(self._delta.high_water, inspection.tally.high_water if inspection.tally else 0)
        self.begin()
        self._objects = self._put_together_objects()
        self._defined = {row.number for row in self._objects.values()}
        self._naming = Naming(self._objects.values())

    @property
    def name(self) -> str:
        """The name of the queue manager; raises StoreUnusableError when nothing tells it."""
        if self._inspection.kept.name:
            return self._inspection.kept.name
        for row in self._objects.values():
            if row.kind == "QMGR":
                return row.name
        raise StoreUnusableError(
            f"nothing in {self._inspection.disk.path} tells whose data it is: the manifest and the definition of the "
            "queue manager are gone; restore the directory from a backup"
        )

    def begin(self) -> None:
        """Count anew: what has been given is given again."""
        self.messages = 0
        self.definitions = 0
        self.lost: list[str] = []
        self._queues: set[int] = set()  # that messages are on
        self._stepped: list[int] = []  # messages that have steps
        self._freed: Counter[int] = Counter()  # messages by who has held them, and is lost

    def each_message(self) -> Iterator[MessageRow]:
        """The messages to keep."""
        delta, freed = self._delta, self._freed
        lost: list[FoundMessage] = []
        for each, data in self._inspection.stored_messages():
            if each.row.id in delta.removals or each.row.id in delta.inserts:
                continue
            if each.head and data is not None:
                yield from self._kept(delta.left(_read(each, data)))
            else:
                lost.append(each)
        for row in delta.inserts.values():
            yield from self._kept(delta.left(row))
        self.lost += [self._reported(each) for each in lost]
        self.lost += [
            f"the definition of what held {count} messages; nobody holds them now" for count in freed.values()
        ]

    def each_object(self) -> Iterator[ObjectRow]:
        """The definitions to keep, after the messages: a queue that has messages and no definition any more gets one
        with the attributes of a new queue.
        """
        objects = dict(self._objects)
        if self._may_lack_objects:
            for number in sorted(self._queues - self._defined):
                name = f"RECOVERED.{number}"
                objects["QUEUE", name] = ObjectRow("QUEUE", name, number, "QLOCAL", self._queue_attributes)
                self.lost.append(f"the definition of a queue; its messages are on {name} now")
        self.definitions = len(objects)
        yield from objects.values()

    def each_key(self) -> Iterator[KeyRow]:
        """The keys of puts to keep."""
        for row in (self._inspection.keys | self._delta.keys).values():
            if row is not None:
                yield row

    def each_step(self) -> Iterator[StepRow]:
        """The steps of the messages that were kept. A lost one has never been: its handler runs it again."""
        for id in self._stepped:
            for _, row in sorted(self._steps[id].items()):
                yield row

    def _kept(self, row: MessageRow) -> Iterator[MessageRow]:
        if not (row.persistent or row.holder) and self._inspection.kept.state != manifests.ORDERLY:
            return
        if row.holder and row.holder not in self._defined and self._may_lack_objects:
            self._freed[row.holder] += 1
            row = row._replace(holder=0, sequence=0)
        self.messages += 1
        self.high_water = max(self.high_water, row.id, row.place)
        self._queues.add(row.queue)
        if row.id in self._steps:
            self._stepped.append(row.id)
        if row.id in self._inspection.lost_steps:
            count = self._inspection.lost_steps[row.id]
            self.lost.append(f"{count} finished steps of a message on {self._naming.message(row)}; they run again")
        yield row

    @property
    def _may_lack_objects(self) -> bool:
        """True if a definition may be lost."""
        return bool(self._inspection.lost_objects or self._inspection.database is None or self.missing)

    def _reported(self, each: FoundMessage) -> str:
        if not each.head:
            return f"message {each.row.id}, whose descriptor is damaged"
        return f"a message on {self._naming.message(each.row)}"

    def _numbers(self, records: dict[int, Record]) -> tuple[int, int]:
        """Up to which batch the snapshot holds all, and from which on the log is to have its effect."""
        inspection = self._inspection
        if inspection.database is None:
            first = min(records, default=inspection.kept.snap + 1)
            return first - 1, first
        if inspection.database_whole and inspection.tally is not None:
            return inspection.tally.number, inspection.tally.number + 1
        if inspection.tally is not None:
            held = inspection.tally.number
            return held, _run_to(records, held if inspection.rebuilt else min(held, inspection.kept.snap))
        if not inspection.rebuilt:
            return inspection.kept.snap, _run_to(records, inspection.kept.snap)
        first = _run_to(records, max(records, default=0))
        return first - 1, first

    def _put_together_objects(self) -> dict[tuple[str, str], ObjectRow]:
        objects = dict(self._inspection.objects)
        for key, row in self._delta.objects.items():
            objects.pop(key, None)
            if row is not None:
                objects[key] = row
        by_number = {row.number: row for row in objects.values()}  # the later of two
        return {(row.space, row.name): row for row in by_number.values()}


def _read(each: FoundMessage, data: bytes) -> MessageRow:
    """A row of the snapshot. Where the backout count or the holder is not what was written, the one begins anew,
    nobody holds the message, and it waits for nothing.
    """
    row = each.row._replace(data=data)
    if each.counters:
        return row
    return row._replace(backout_count=0, hardened=0, holder=0, sequence=0, place=0, handling=b"")


def _counted(records: Iterable[Record]) -> dict[int, Record]:
    """The records that may have an effect, by number: of two of one number the one of the higher generation, and none
    of a generation below that of an earlier number.
    """
    best: dict[int, Record] = {}
    for each in records:
        other = best.get(each.number)
        if other is None or each.generation > other.generation:
            best[each.number] = each
    generation = 0
    for number, each in sorted(best.items()):
        if each.generation < generation:
            del best[number]
        generation = max(generation, each.generation)
    return best


def _run_to(records: dict[int, Record], number: int) -> int:
    """The first number from which on there are all records up to this one; if that is not there, the next."""
    while number in records:
        number -= 1
    return number + 1


def _delta(records: Iterable[Record]) -> Delta:
    delta = Delta()
    for each in records:
        delta.apply(unpack(each.payload))
    return delta


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
