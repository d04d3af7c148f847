"""Names transactions that are open for long (transactions rule 7.6): others wait for the rows that they have locked."""

from __future__ import annotations

import asyncio
import logging
from threading import get_ident
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.clock import Clock, Timer

logger = logging.getLogger(__name__)

OPEN_SECONDS: Final = 10.0
"""A transaction is named that is open for so long."""

INTERVAL: Final = 60.0
"""Seconds between two records about those of one handler or program."""


class _Open(NamedTuple):
    by: str
    began: float  # monotonic


class OpenTransactions:
    """Those of one database, from BEGIN to COMMIT or ROLLBACK. While there are any, one timer runs.

    `add` and `discard` are called in any thread, all else on the event loop that makes this.
    """

    def __init__(self, clock: Clock, label: str) -> None:
        self._clock = clock
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self._open: dict[object, _Open] = {}
        self._timer: Timer | None = None
        self._named: dict[str, float] = {}  # when, monotonic, by whose they are

    def add(self, transaction: object, by: str) -> None:
        """A transaction has begun; `by` is its handler or program, for people."""
        self._open[transaction] = _Open(by, self._clock.monotonic())
        if self._timer is None:
            if get_ident() == self._thread:
                self._watch()
            else:
                self._loop.call_soon_threadsafe(self._watch)

    def discard(self, transaction: object) -> None:
        """A transaction has ended; this may be called again."""
        self._open.pop(transaction, None)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(OPEN_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        there = list(self._open.values())  # at once: threads add and discard
        old = [each for each in there if now - each.began >= OPEN_SECONDS]
        self._name(old, now)
        again = [each.began + OPEN_SECONDS for each in there if now - each.began < OPEN_SECONDS]
        again += [named + INTERVAL for named in self._named.values()]
        if again:
            self._timer = self._clock.call_later(min(again) - now, self._look)

    def _name(self, old: Sequence[_Open], now: float) -> None:
        """Name those that are open for long, each handler and program once in the interval."""
        for by in {each.by: None for each in old}:
            if now - self._named.get(by, -INTERVAL) >= INTERVAL:
                self._named[by] = now
                found = [each.began for each in old if each.by == by]
                logger.warning(
                    "transactions are open for long, and others wait for what they have locked: by=%s database=%s "
                    "transactions=%d open_s=%.0f; work that takes long belongs before them, or behind",
                    by, self._label, len(found), now - min(found), extra={"event": "transactions_open"},
                )  # fmt: skip
        self._named = {by: named for by, named in self._named.items() if now - named < INTERVAL}
