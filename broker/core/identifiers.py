"""Arrival numbers, message identifiers and timestamps: what a queue manager gives out and never gives twice.

One counter serves them all. It starts at the wall clock in microseconds, raised above the high-water mark of earlier
runs, so neither a restart nor a clock that is set back repeats a number (journal rule 10). The mark is reserved
ahead, a million numbers at a time: `reserve` says when a new one is to be stored.

An identifier names its queue manager by twelve characters only. Of the eight bytes behind them the counter needs
`COUNTER_BITS`; the others are the queue manager's instance, a random number that it got when it was created, so that
another one whose name begins alike makes other identifiers.
"""

from __future__ import annotations

from datetime import UTC, datetime

RESERVED_AHEAD = 1_000_000
COUNTER_BITS = 51
"""Of an identifier. They last until the year 2041; a larger number reaches into the instance, and is no less unique."""
INSTANCE_BITS = 64 - COUNTER_BITS


class Identifiers:
    """The counter of one run of a queue manager, and what is made of it."""

    __slots__ = (
        "_date", "_instance", "_prefix", "_tick", "_time", "coded_char_set_id", "last", "low_at",
        "q_mgr_name",
    )  # fmt: skip

    def __init__(self, q_mgr_name: str, now: float, high_water: int, coded_char_set_id: int) -> None:
        self.q_mgr_name = q_mgr_name
        self.coded_char_set_id = coded_char_set_id
        self._prefix = b"AMQ " + q_mgr_name.encode()[:12].ljust(12)
        self.last = max(int(now * 1_000_000), high_water)
        """The number given out last."""
        self.low_at = self.last
        """The value of `last` at which a new high-water mark is to be stored (`reserve`)."""
        self._instance = 0
        self._tick = -1
        self._date = self._time = ""

    def belong_to(self, instance: int) -> None:
        """Make identifiers that differ from those of queue managers with another instance (INSTANCE_BITS)."""
        self._instance = instance << COUNTER_BITS

    def next(self) -> int:
        """A number that was never given out before, greater than all that were."""
        self.last += 1
        return self.last

    def next_of(self, count: int) -> int:
        """The first of so many numbers as `next` gives, one behind the other."""
        first = self.last + 1
        self.last += count
        return first

    def identifier(self, number: int | None = None) -> bytes:
        """A new MsgId, CorrelId or GroupId: `AMQ `, 12 characters of the queue manager's name, 8 bytes of its
        instance and the counter. With a `number` the one that was or will be made of it.
        """
        return self._prefix + (self._instance ^ (number or self.next())).to_bytes(8, "big")

    def number_of(self, identifier: bytes) -> int | None:
        """The number in an identifier made here, or made elsewhere to look like one; None for any other."""
        if not identifier.startswith(self._prefix):
            return None
        return self._instance ^ int.from_bytes(identifier[len(self._prefix) :], "big")

    def reserve(self) -> int:
        """The high-water mark to store with the next batch, or 0 when the stored one is still far ahead."""
        if self.last < self.low_at:
            return 0
        self.low_at = self.last + RESERVED_AHEAD - RESERVED_AHEAD // 2
        return self.last + RESERVED_AHEAD

    def stamp(self, now: float) -> tuple[str, str]:
        """PutDate `YYYYMMDD` and PutTime `HHMMSSTH` of `now` (wall-clock seconds), in GMT."""
        tick = int(now * 100)
        if tick != self._tick:
            self._tick = tick
            moment = datetime.fromtimestamp(tick // 100, UTC)
            self._date = moment.strftime("%Y%m%d")
            self._time = f"{moment:%H%M%S}{tick % 100:02d}"
        return self._date, self._time
