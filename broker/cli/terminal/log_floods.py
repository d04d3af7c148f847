"""Floods of log records: of one event and origin ten a second are written, and what is more is counted.

The last record of those that were not written is written a second later, with `repeated`, the number of those that it
stands for. Records of other packages, and those at DEBUG, are written all.
"""

from __future__ import annotations

import logging
import time
from threading import Timer
from typing import TYPE_CHECKING, Final

from broker.cli.terminal.log_fields import fields_of, is_ours, origin_of
from broker.log_rate import LogRate

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

COUNT_SECONDS: Final = 1.0
"""The time for which a flood is counted before the count is written."""

_FLOODS_MAX: Final = 1000


class FloodGate(logging.Handler):
    """Passes records on to `handlers`, floods of them as one. `later` has a function called after so many seconds."""

    def __init__(
        self,
        handlers: Sequence[logging.Handler],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] | None = None,
    ) -> None:
        super().__init__()
        self._handlers = handlers
        self._monotonic = monotonic
        self._later = later or _in_a_thread
        self._rate = LogRate()
        self._held: dict[Hashable, tuple[int, logging.LogRecord]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        if record.levelno <= logging.DEBUG or not is_ours(record):
            self._write(record)
            return
        fields = fields_of(record)
        flood = fields.get("event", record.msg), origin_of(fields)
        if self._rate.allows(flood, self._monotonic()):
            self._write(record)
        else:
            self._hold(flood, record)

    def flush(self) -> None:
        """Write the counts of all floods; at the end of the process too."""
        self.acquire()
        try:
            held, self._held = self._held, {}
            for count, record in held.values():
                vars(record)["repeated"] = count
                self._write(record)
        finally:
            self.release()

    def _hold(self, flood: Hashable, record: logging.LogRecord) -> None:
        if not self._held:
            self._later(COUNT_SECONDS, self.flush)
        count, _ = self._held.get(flood, (0, record))
        self._held[flood] = count + 1, record
        if len(self._held) > _FLOODS_MAX:
            self.flush()

    def _write(self, record: logging.LogRecord) -> None:
        for each in self._handlers:
            each.handle(record)


def _in_a_thread(seconds: float, call: Callable[[], None]) -> None:
    timer = Timer(seconds, call)
    timer.daemon = True  # what is held at the end of the process is written by `flush`
    timer.start()
