"""The counts of a queue, one slot a figure: each is raised in the step that it counts.

A put or a get counts when it is made, under syncpoint too: what is backed out later has happened, and `backed_out`
counts it besides, as the statistics of IBM MQ do. A message of a prepared unit is put when it is published, and one
that a consumer claims is got then.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from broker.core.message.put_time import put_at
from broker.core.queues.counts.duration import Duration

if TYPE_CHECKING:
    from collections.abc import Sequence

_LENGTH = attrgetter("length")
_PACKED_MD = attrgetter("packed_md")


class GotMessage(Protocol):
    """A message that was got, as it is counted."""

    length: int
    packed_md: bytes


class QueueCounts:
    """The counts of a queue by its name: they go on where a queue of this name is deleted and defined again.

    `last_put` and `last_get` are wall-clock seconds, 0 before the first; `refused` has puts by their reason. `waited`
    is the time of messages on the queue, by their PutTime, which has hundredths of a second: None before the first get.
    """

    __slots__ = (
        "backed_out", "browses", "expired", "get_bytes", "gets", "last_get", "last_put", "put_bytes", "puts",
        "refused", "waited",
    )  # fmt: skip

    def __init__(self) -> None:
        self.puts = 0
        self.put_bytes = 0
        self.gets = 0
        self.get_bytes = 0
        self.browses = 0
        self.expired = 0
        self.backed_out = 0
        self.refused: dict[int, int] | None = None
        self.last_put = 0.0
        self.last_get = 0.0
        self.waited: Duration | None = None

    def put(self, count: int, size: int, now: float) -> None:
        """So many messages, of `size` bytes together, were put."""
        self.puts += count
        self.put_bytes += size
        self.last_put = now

    def got(self, entries: Sequence[GotMessage], now: float) -> None:
        """Messages were got."""
        self.gets += len(entries)
        self.get_bytes += sum(map(_LENGTH, entries))
        self.last_get = now
        waited = self.waited or self.waits()
        for packed_md, run in groupby(map(_PACKED_MD, entries)):  # those that were put together share it
            put = put_at(packed_md)
            if put:
                waited.add(max(0.0, now - put), len(list(run)))

    def waits(self) -> Duration:
        """Begin to count how long messages were on the queue."""
        self.waited = Duration()
        return self.waited

    def refuse(self, reason: int) -> None:
        """A put failed with this reason."""
        if self.refused is None:
            self.refused = {}
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def begin_again(self) -> QueueCounts:
        """Return the counts for another queue of the same name, which nobody has put to yet."""
        self.last_put = self.last_get = 0.0
        return self
