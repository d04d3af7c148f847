"""The store in figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.core.queues.counts.duration import Duration

if TYPE_CHECKING:
    from broker.storage.disk.disk import DiskSpace


@dataclass(slots=True)
class LogCounts:
    """Records of the log since the store was opened: how many bytes, and how long each took to be durable."""

    bytes: int = 0
    syncs: Duration = field(default_factory=Duration)


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """`log_fill` is the written share of the file of the log that is being written. `carry_overs` are the durations of
    those that went through.
    """

    full: bool
    log: LogCounts
    log_fill: float
    carry_overs: Duration
    database_bytes: int
    disk: DiskSpace
