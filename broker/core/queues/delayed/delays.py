"""The delayed messages of a queue manager, and their instants (handlers rules 2.2, 3.4, 3.5).

Each DELAYED message has one record here; when its instant has come it is handed out by `due`, once. What leaves that
state before its time takes its record with it later: until then the record is *stale*. Invariant: there are as many
records as messages that are DELAYED or taken while they were delayed, and stale records.

Instants are of the monotonic clock, but for those that follow the wall clock, which may be set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.entry import DELAYED
from broker.core.queues.delayed.wheel import Wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.core.message.entry import Entry
    from broker.core.moment import Moment

STALE_MAX: Final = 1000
"""So many stale records, and more than there are others, are swept away."""

_TICK_ERROR: Final = 1e-9  # seconds: what the monotonic clock loses as a floating-point number
_WALL_ERROR: Final = 1e-6


class Delays:
    """The delayed messages of a queue manager."""

    __slots__ = ("_by_tick", "_by_wall", "_counting", "_stale", "_stale_count", "taken")

    def __init__(self) -> None:
        self._by_tick: Wheel[Entry] = Wheel()
        self._by_wall: Wheel[Entry] = Wheel()
        self._stale: dict[Entry, int] = {}  # how many of its records are
        self._stale_count = 0
        self._counting: dict[Entry, float] = {}  # of what has stale records, the instant of the one that counts
        self.taken: dict[Entry, bool] = {}  # got while it was delayed: whether its instant has come since

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._by_tick) + len(self._by_wall)

    @property
    def follows_wall(self) -> bool:
        """True if anything is delayed until an instant of the wall clock."""
        return len(self._by_wall) > 0

    def add(self, entry: Entry, due: float | None, moment: Moment) -> None:
        """A message is DELAYED until `due` on the monotonic clock, or where that is None until the instant that it has
        on the wall clock.
        """
        if due is not None:
            self._by_tick.add(entry, due, moment.tick)
        else:
            assert entry.handling is not None
            due = entry.handling.not_before
            self._by_wall.add(entry, due, moment.wall)
        if entry in self._stale:
            self._counting[entry] = due

    def left(self, entry: Entry) -> None:
        """It is delayed no longer, before its time."""
        self._stale[entry] = self._stale.get(entry, 0) + 1
        self._stale_count += 1
        self._counting.pop(entry, None)

    # Messages that are got while they are delayed

    def take(self, entry: Entry) -> None:
        """It has been got while it was delayed, and may come back."""
        self.taken[entry] = False

    def give_back(self, entry: Entry) -> bool | None:
        """Take it back. True if its instant has come meanwhile; None if it was not got while it was delayed."""
        return self.taken.pop(entry, None)

    def remove(self, entries: Iterable[Entry]) -> None:
        """Forget these messages, got while they were delayed: they do not come back."""
        for entry in entries:
            if self.taken.pop(entry, None) is False:
                self.left(entry)

    # Their instants

    def next_look(self, moment: Moment) -> float | None:
        """In how many seconds there is something to do; None while nothing is delayed."""
        by_tick, by_wall = self._by_tick.next_look(), self._by_wall.next_look()
        looks = []
        if by_tick is not None:
            looks.append(by_tick - moment.tick)
        if by_wall is not None:
            looks.append(by_wall - moment.wall)
        return max(0.0, min(looks)) if looks else None

    def due(self, moment: Moment, count: int) -> list[Entry]:
        """The messages whose instants have come: some of them, about so many."""
        popped = self._by_tick.pop(moment.tick + _TICK_ERROR, count)
        popped += self._by_wall.pop(moment.wall + _WALL_ERROR, count)
        due = []
        for entry, instant in popped:
            if not self._counts(entry, instant):
                continue
            self._counting.pop(entry, None)
            if entry in self.taken:
                self.taken[entry] = True
            elif entry.state == DELAYED:
                due.append(entry)
        return due

    def prepare(self, moment: Moment) -> bool:
        """Take a step towards what is due soon. True if there was one."""
        by_tick, by_wall = self._by_tick.cut(moment.tick), self._by_wall.cut(moment.wall)
        return by_tick or by_wall

    # Stale records

    @property
    def littered(self) -> bool:
        """True if stale records are to be swept away."""
        return self._stale_count > STALE_MAX and 2 * self._stale_count > len(self)

    def sweep(self) -> Iterator[None]:
        """Sweep them away, in steps."""
        yield from self._by_tick.sweep(self._to_sweep)
        yield from self._by_wall.sweep(self._to_sweep)

    def _counts(self, entry: Entry, due: float) -> bool:
        """True if a message's record with this instant is the one that counts; a stale one leaves the count."""
        if entry not in self._stale or self._counting.get(entry) == due:
            return True
        self._stale_count -= 1
        self._stale[entry] -= 1
        if not self._stale[entry]:
            del self._stale[entry]
            self._counting.pop(entry, None)
        return False

    def _to_sweep(self, entry: Entry, due: float) -> bool:
        return not self._counts(entry, due)

    def check_invariants(self, delayed: int) -> None:
        """Raise AssertionError when the structure is broken, or not as many messages are delayed. For tests."""
        self._by_tick.check_invariants()
        self._by_wall.check_invariants()
        assert self._stale_count == sum(self._stale.values())
        under_way = sum(not come for come in self.taken.values())
        assert len(self) == delayed + under_way + self._stale_count
