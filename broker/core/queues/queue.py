"""A local queue: its messages, the handles that are open on it, and the getters that wait for them.

Where a message is in its life is told by the methods that bring it from one state to the next (`entry.TRANSITIONS`);
which messages a get may be given, by the shelf that holds them.

Invariants (`check_invariants`): those of the shelf and of the browse marks; `depth` counts PUT_PENDING, AVAILABLE,
LOCKED, DAMAGED, CLAIMED, PREPARED and DELAYED (MQ's CURDEPTH), the first three by effective priority in `depths`, but
for those PUT_PENDING that will be DELAYED; `uncommitted` counts PUT_PENDING and GET_PENDING, `claimed` CLAIMED,
`prepared` PREPARED, which are on no shelf; no waiting getter would be given a message that is available.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from broker.core.message.entry import (
    AVAILABLE,
    CLAIMED,
    DAMAGED,
    DELAYED,
    GET_PENDING,
    GONE,
    ID_BITS,
    LOCKED,
    MAX_PRIORITY,
    PREPARED,
    PUT_PENDING,
    Entry,
    order_key,
)
from broker.core.message.put_time import put_at
from broker.core.queues.browse_marks import BrowseMarks
from broker.core.queues.counts.duration import BOUNDS
from broker.core.queues.counts.queue_counts import QueueCounts
from broker.core.queues.queue_attributes import LocalQueueAttributes
from broker.core.queues.shelf.shelf import Shelf
from broker.core.queues.waiters import Waiters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.names.definitions import Definition
    from broker.core.queues.effects import Effects
    from broker.core.queues.handles import Handle
    from broker.core.queues.keys import Keys
    from broker.core.queues.unit import Unit


class LocalQueue(LocalQueueAttributes):
    """A local queue: the kind of `MessageQueue` whose messages are all in memory, on its shelf."""

    shared = False

    def __init__(self, definition: Definition, number: int, ids: Identifiers, effects: Effects) -> None:
        super().__init__(definition)
        self.number = number
        self.ids = ids
        self.deleted = False
        self.clearing = False  # its messages are being removed: nobody may open it
        self.shelf = Shelf(ids)
        self.browse_marks = BrowseMarks(self.shelf)
        self.waiters = Waiters()
        self._effects = effects
        self.input_count = 0
        self.output_count = 0
        self.exclusive: Handle | None = None
        self.creator: Handle | None = None  # of a temporary dynamic queue, which ends with it
        self.depth = 0
        self.depths = [0] * (MAX_PRIORITY + 1)  # by what a key has above ID_BITS: the highest rank first
        self.uncommitted = 0
        self.claimed = 0  # messages that consumers have claimed
        self.claimed_bytes = 0
        self.prepared = 0  # messages of prepared units
        self.prepared_bytes = 0
        self.bytes = 0  # of the bodies of all messages
        self.pending_starts = 0  # TPF's TriggerPendingCount
        self.last_triggered: float | None = None  # monotonic seconds: TRIGINT counts from then
        self.switched_off = False  # DEPTH has fired, and nobody has changed triggering since
        self.switch_offs = 0  # how often that has happened since the start
        self.unwritten_switch_off = False  # the store does not know of the last time
        self.keys: Keys | None = None  # of puts that had one
        self.counts = QueueCounts()

    # Where entries come from and go to

    def place(self, entry: Entry, unit: Unit) -> None:
        """A put: the message is on the queue, but nobody sees it."""
        assert entry.state in (PUT_PENDING, GONE)
        entry.state = PUT_PENDING
        entry.unit = unit
        self.shelf.entries[entry.key] = entry
        self.bytes += entry.length
        self.uncommitted += 1
        self.depth += 1
        self.depths[entry.key >> ID_BITS] += 1

    def place_all(self, entries: Sequence[Entry], unit: Unit, size: int) -> None:
        """`place` new messages of one rank, of `size` bytes together."""
        on_shelf = self.shelf.entries
        for entry in entries:
            entry.unit = unit
            on_shelf[entry.key] = entry
        self.bytes += size
        self.uncommitted += len(entries)
        self.depth += len(entries)
        self.depths[entries[0].key >> ID_BITS] += len(entries)

    def arrive(self, entries: Sequence[Entry]) -> None:
        """Puts are committed: the messages, which stand one behind the other, are available at their places."""
        self.uncommitted -= len(entries)
        if len(entries) == 1:
            assert entries[0].state == PUT_PENDING
            self.shelf.show(entries[0])
        else:
            self.shelf.show_all(entries)

    def withdraw(self, entry: Entry) -> None:
        """The put is backed out."""
        assert entry.state == PUT_PENDING
        self.uncommitted -= 1
        self.depth -= 1
        if not entry.delayed:
            self.depths[entry.key >> ID_BITS] -= 1
        self._forget(entry)

    def take(self, entry: Entry, unit: Unit, now: float = 0.0) -> None:
        """A destructive get: nobody sees the message, and it no longer counts. `now` is 0 where no program gets it."""
        if now:  # as `QueueCounts.got` has it, without a call
            counts = self.counts
            counts.gets += 1
            counts.get_bytes += entry.length
            counts.last_get = now
            if put := put_at(entry.packed_md):
                waited = counts.waited or counts.waits()
                seconds = now - put if now > put else 0.0
                waited.sum += seconds
                waited.buckets[bisect_left(BOUNDS, seconds)] += 1
        self._hide(entry)
        if entry.marks is not None:
            self.browse_marks.drop_on(entry)  # for good, even if the get is backed out
        entry.state = GET_PENDING
        entry.unit = unit
        self.uncommitted += 1
        self.depth -= 1
        self.depths[entry.key >> ID_BITS] -= 1

    def take_heads(self, entries: Sequence[Entry], unit: Unit) -> None:
        """`take` for messages that come first (`heads`) and are in no group, while there is no view."""
        self.shelf.hide_heads(entries)
        for entry in entries:
            if entry.marks is not None:
                self.browse_marks.drop_on(entry)
            entry.state = GET_PENDING
            entry.unit = unit
            self._count(entry, -1)
        self.uncommitted += len(entries)

    def remove(self, entry: Entry) -> None:
        """The get is committed: the message is gone."""
        assert entry.state == GET_PENDING
        self.uncommitted -= 1
        self._forget(entry)

    def reinstate(self, entry: Entry) -> None:
        """The get is undone: the message is back at its own place."""
        assert entry.state == GET_PENDING
        self.counts.backed_out += 1
        self.uncommitted -= 1
        self._count(entry, 1)
        self._show_again(entry)

    def discard(self, entry: Entry) -> None:
        """An available message goes, outside any unit of work: it is expired."""
        self.counts.expired += 1
        self._hide(entry)
        self.browse_marks.drop_on(entry)
        self._count(entry, -1)
        self._forget(entry)

    def lock(self, entry: Entry) -> None:
        """A browse with LOCK: only the handle that keeps the entry sees it."""
        self._hide(entry)
        entry.state = LOCKED

    def unlock(self, entry: Entry) -> None:
        """The message is available again."""
        assert entry.state == LOCKED
        self.shelf.show(entry)

    def set_aside(self, entry: Entry, why: str) -> None:
        """The data of an available message is damaged: nobody is given it. It counts in the depth, not for triggers."""
        self._hide(entry)
        self.shelf.set_aside(entry, why)
        self.depths[entry.key >> ID_BITS] -= 1

    def readmit(self, entry: Entry) -> None:
        """A damaged message is to be removed, in the same step."""
        self.depths[entry.key >> ID_BITS] += 1
        self.shelf.readmit(entry)

    # Messages that consumers claim

    def claim(self, entry: Entry) -> None:
        """A consumer claims an available message: nobody else sees it. It counts in the depth, not for triggers."""
        self._hide(entry)
        if entry.marks is not None:
            self.browse_marks.drop_on(entry)
        entry.state = CLAIMED
        self.claimed += 1
        self.claimed_bytes += entry.length
        self.depths[entry.key >> ID_BITS] -= 1

    def acknowledge(self, entry: Entry) -> None:
        """Its consumer is done with a claimed message: it is gone."""
        assert entry.state == CLAIMED
        self.claimed -= 1
        self.claimed_bytes -= entry.length
        self.depth -= 1
        self._forget(entry)

    def release(self, entry: Entry) -> None:
        """A claimed message is back at its own place."""
        assert entry.state == CLAIMED
        self.claimed -= 1
        self.claimed_bytes -= entry.length
        self.depths[entry.key >> ID_BITS] += 1
        self._show_again(entry)

    def load_claimed(self, entries: Sequence[Entry]) -> None:
        """Messages that were claimed when the queue manager ended."""
        for entry in entries:
            entry.state = CLAIMED
            self.shelf.entries[entry.key] = entry
            self.bytes += entry.length
            self.claimed_bytes += entry.length
        self.claimed += len(entries)
        self.depth += len(entries)

    # Messages of prepared units

    def prepare(self, entries: Sequence[Entry]) -> None:
        """New messages are staged by a prepared unit: the queue counts them, and that is all."""
        for entry in entries:
            assert entry.state == PUT_PENDING
            entry.state = PREPARED
            self.bytes += entry.length
            self.prepared_bytes += entry.length
        self.prepared += len(entries)
        self.depth += len(entries)

    def publish(self, entries: Sequence[Entry]) -> None:
        """The unit of these messages has been published: they are available at their places, which stand one behind
        the other.
        """
        for entry in entries:
            assert entry.state == PREPARED
            entry.state = PUT_PENDING  # in this step only
            self.prepared_bytes -= entry.length
            self.shelf.entries[entry.key] = entry
            self.depths[entry.key >> ID_BITS] += 1
        self.prepared -= len(entries)
        self.shelf.show_all(entries)

    def drop(self, entries: Sequence[Entry]) -> None:
        """The unit of these messages is discarded."""
        for entry in entries:
            assert entry.state == PREPARED
            entry.state = GONE
            self.bytes -= entry.length
            self.prepared_bytes -= entry.length
        self.prepared -= len(entries)
        self.depth -= len(entries)

    # Delayed messages

    def delay(self, entry: Entry) -> None:
        """A message that has just been placed is to be available only at an instant: it counts in the depth, not for
        triggers.
        """
        assert entry.state == PUT_PENDING
        self.depths[entry.key >> ID_BITS] -= 1

    def postpone(self, entry: Entry) -> None:
        """A put with a delay is committed, or a message that was got goes back and is delayed: it counts in the depth,
        not for triggers.
        """
        if entry.state == GET_PENDING:
            self.counts.backed_out += 1
            self.depth += 1
        else:
            assert entry.state == PUT_PENDING
        self.uncommitted -= 1
        entry.unit = None
        self.shelf.postpone(entry)

    def fall_due(self, entry: Entry) -> None:
        """Make a delayed message available at its place: its instant has come, or it is to be removed or got."""
        assert entry.state == DELAYED
        self.shelf.fall_due(entry)
        self.depths[entry.key >> ID_BITS] += 1
        self._show_again(entry)

    def load_delayed(self, entries: Sequence[Entry]) -> None:
        """Messages that were delayed when the queue manager ended, and are still."""
        for entry in entries:
            self.shelf.entries[entry.key] = entry
            self.shelf.postpone(entry)
            self.bytes += entry.length
        self.depth += len(entries)

    def load(self, entries: Sequence[Entry]) -> None:
        """Messages that were on the queue when the queue manager ended. There are no getters and no views yet."""
        self.shelf.load(entries)
        self.depth += len(entries)
        for entry in entries:
            self.bytes += entry.length
            self.depths[entry.key >> ID_BITS] += 1

    def _show_again(self, entry: Entry) -> None:
        self.shelf.show(entry)
        why = self.shelf.damaged.get(entry.key)
        if why is not None:
            self.set_aside(entry, why)

    def _count(self, entry: Entry, step: int) -> None:
        self.depth += step
        self.depths[entry.key >> ID_BITS] += step

    def _hide(self, entry: Entry) -> None:
        shelf = self.shelf
        changed = shelf.hide(entry)
        if changed and self.waiters.count and shelf.groups.first(entry.item) is not None:
            self.offer_later(shelf.entries[each] for each in changed)  # the next in the same place counts now

    def offer_later(self, entries: Iterable[Entry]) -> None:
        """Offer the getters that wait, at the next `drain`, these messages, which were hidden from them."""
        self._effects.to_offer += entries

    def _forget(self, entry: Entry) -> None:
        entry.state = GONE
        entry.unit = None
        shelf = self.shelf
        del shelf.entries[entry.key]
        if shelf.damaged:
            shelf.damaged.pop(entry.key, None)
        if self.keys is not None:
            self.keys.gone(entry)
        if entry.handling is not None and entry.handling.steps is not None:
            entry.handling.steps.drop()
        self.bytes -= entry.length

    # How many there are

    @property
    def message_count(self) -> int:
        """The number of messages that can be got now, or when a unit of work ends: not damaged, claimed, delayed."""
        shelf = self.shelf
        delayed = sum(key not in shelf.damaged for key in shelf.delayed) if shelf.damaged else len(shelf.delayed)
        return len(shelf.entries) - len(shelf.damaged) - self.claimed - delayed

    def count_available(self, priority: int) -> int:
        """Return the number of available messages of this effective priority or higher."""
        return self.shelf.available.count_below(order_key(priority - 1, 0))

    def qualifying(self) -> int:
        """Return the number of messages that count for triggering: committed or not, of effective priority TRIGMPRI or
        more, and not damaged.
        """
        return sum(self.depths[: MAX_PRIORITY - self.trigger_priority + 1])

    def check_invariants(self) -> None:
        """Raise AssertionError when a structure is broken. For tests."""
        shelf = self.shelf
        shelf.check_invariants()
        entries = shelf.entries.values()
        self.browse_marks.check_invariants(entries)
        self.waiters.check_invariants()
        states = [entry.state for entry in entries]
        to_delay = sum(entry.state == PUT_PENDING and entry.delayed for entry in entries)
        counted = sum(state in (PUT_PENDING, AVAILABLE, LOCKED) for state in states) - to_delay
        besides = states.count(DAMAGED) + self.claimed + self.prepared + len(shelf.delayed) + to_delay
        assert (self.depth, sum(self.depths)) == (counted + besides, counted)
        assert self.claimed == states.count(CLAIMED)
        assert self.uncommitted == sum(state in (PUT_PENDING, GET_PENDING) for state in states)
        assert self.bytes == self.prepared_bytes + sum(entry.length for entry in entries)
        assert self.claimed_bytes == sum(entry.length for entry in entries if entry.state == CLAIMED)
        if not self.get_inhibited:
            self.waiters.check_served(shelf)
