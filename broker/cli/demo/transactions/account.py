"""The account of a trial: what became of each order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.cli.demo.transactions.death import DeathPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES_MAX: Final = 3


@dataclass(kw_only=True)
class TransactionAccount:
    """Each order is to be one row, and one message on each of the queues."""

    kills: int
    """The number of workers that were to be killed."""
    orders: int
    rows: Counter[int]
    messages: tuple[Counter[int], ...]
    died: Counter[DeathPlace] = field(default_factory=Counter)
    server_kills: int = 0
    resolved: Counter[bool] = field(default_factory=Counter)
    waiting: int = 0
    """Orders that are still on their queue, or are dead letters."""
    in_doubt: int = 0
    cleaned: int = 0
    """Markers that were left by workers that died, and were deleted by a cleaner."""
    markers: int = 0

    @property
    def lost(self) -> list[int]:
        """The orders that lack their row or a message."""
        return [n for n in range(1, self.orders + 1) if any(not each[n] for each in (self.rows, *self.messages))]

    @property
    def doubled(self) -> list[int]:
        """The orders that have two rows, or a message twice."""
        return sorted({n for each in (self.rows, *self.messages) for n, count in each.items() if count > 1})

    @property
    def exact(self) -> bool:
        """True if all died that were to, each order is there once, whole, and nothing is left over."""
        strange = any(n not in range(1, self.orders + 1) for each in (self.rows, *self.messages) for n in each)
        alive = self.died.total() != self.kills
        return not (alive or self.lost or self.doubled or strange or self.waiting or self.in_doubt or self.markers)

    def report(self) -> Iterator[str]:
        """The account as lines of text."""
        where = ", ".join(f"{place} {self.died[place]}" for place in DeathPlace)
        yield _entry("workers killed", self.died.total())
        yield f"  {where}"
        if self.died.total() != self.kills:
            yield _entry("  not killed", self.kills - self.died.total(), "nothing went on any more")
        yield _entry("daemon killed", self.server_kills)
        yield _entry("orders", self.orders)
        yield _entry("  rows", self.rows.total())
        yield _entry("  messages", sum(each.total() for each in self.messages), "two an order")
        yield _entry("  lost", len(self.lost), _some(self.lost))
        yield _entry("  doubled", len(self.doubled), _some(self.doubled))
        if self.waiting:
            yield _entry("  not handled", self.waiting, "on their queue, or dead letters")

    def report_units(self) -> Iterator[str]:
        """Report the units of work, for the app that has them."""
        how = f"{self.resolved[True]} committed, {self.resolved[False]} backed out"
        yield _entry("decided by resolvers", self.resolved.total(), how)
        yield _entry("in doubt", self.in_doubt)
        yield _entry("markers left", self.markers, f"a cleaner deleted {self.cleaned:,} of those who died")


def _entry(name: str, count: int, remark: str = "") -> str:
    return f"{name:<24}{count:>10,}{'  ' if remark else ''}{remark}"


def _some(numbers: list[int]) -> str:
    shown = ", ".join(f"{n:,}" for n in numbers[:EXAMPLES_MAX])
    return f"order {shown}{', ...' if len(numbers) > EXAMPLES_MAX else ''}" if numbers else ""
