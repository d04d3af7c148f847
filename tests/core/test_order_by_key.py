"""Order by key against what it means: of each key the first message, unless one is in flight or waits for its next
attempt (handlers rule 6.2); of messages without a key all.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.core.deliveries.order import Order
from broker.core.message.entry import AVAILABLE
from broker.core.queues.unit import Unit
from broker.mqi import MessageDescriptor
from broker.mqi.structures import NO_ID
from tests.core.world import World, name_of

if TYPE_CHECKING:
    from broker.core.message.entry import Entry

STEPS = 400
KEYS = (NO_ID, NO_ID, name_of("A"), name_of("B"))


class Walk:
    """Random steps of a queue whose messages are ordered by CorrelId."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.world = World()
        self.queue = self.world.define("Q", MAXDEPTH=1000)
        self.access = self.world.open()
        self.order = self.queue.shelf.views["deliveries",] = Order("correl_id")
        self.in_flight: list[Entry] = []
        self.retried: list[Entry] = []

    def step(self) -> None:
        kind = self.draw.randrange(10)
        if kind < 4:
            md = MessageDescriptor(correl_id=self.draw.choice(KEYS), priority=self.draw.randrange(3))
            self.access.put(b"x", 0, md)
        elif kind < 6:
            self.take()
        elif self.in_flight and kind < 9:
            self.end(self.in_flight.pop(self.draw.randrange(len(self.in_flight))))
        elif self.retried:
            self.queue.reinstate(self.retried.pop(self.draw.randrange(len(self.retried))))

    def take(self) -> None:
        """As a delivery is made."""
        keys = list(self.order.keys)
        if keys:
            entry = self.queue.shelf.entries[self.draw.choice(keys)]
            self.order.hold(self.order.value(entry))
            self.queue.take(entry, Unit())
            self.in_flight.append(entry)

    def end(self, entry: Entry) -> None:
        """It has gone, is back at once, or waits for its next attempt."""
        become = self.draw.choice(("gone", "back", "waits"))
        if become == "gone":
            self.queue.remove(entry)
        elif become == "back":
            self.queue.reinstate(entry)
        else:
            self.order.hold_retried(entry)
            self.retried.append(entry)
        self.order.free(entry.key if entry.correl_id == NO_ID else entry.correl_id)

    def expected(self) -> list[int]:
        """The keys of what may be taken, one message after the other judged by itself."""
        held = Counter(each.correl_id for each in self.in_flight + self.retried)
        entries = self.queue.shelf.entries
        may: list[int] = []
        for key in sorted(key for key, entry in entries.items() if entry.state == AVAILABLE):
            value = entries[key].correl_id
            if value == NO_ID or not held[value]:
                may.append(key)
                held[value] += 1
        return may


@pytest.mark.parametrize("seed", range(20))
def test_of_each_key_the_first_may_be_taken_and_all_without_a_key(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        walk.order.keys.check_invariants()
        assert list(walk.order.keys) == walk.expected()
