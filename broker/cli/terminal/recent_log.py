"""The last lines of the log, kept in memory for `evermq support`.

They are for somebody else to read: lines of other packages are not among them, and those about handlers are without
texts, since what a handler raises may tell of its message.
"""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import Final

from broker.cli.terminal.log_fields import fields_of, is_ours
from broker.interface.answers import LogPiece

BYTES_MAX: Final = 8 * 1024 * 1024
"""The bytes of lines that are kept, however many lines are asked for."""

_HANDLERS: Final = "triggers."
_TEXTS: Final = ("reason", "detail", "trigger")


class RecentLog(logging.Handler):
    """The last `count` lines, at most `BYTES_MAX` bytes of them. Lines have numbers, from 1."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._last = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line of a record, if it is one of ours."""
        if not is_ours(record):
            return
        try:
            line = self.format(without_texts(record) if record.name.startswith(_HANDLERS) else record).encode()
        except Exception:
            self.handleError(record)
            return
        self._last += 1
        self._lines.append(line)
        self._bytes += len(line)
        self._trim()

    def resize(self, count: int) -> None:
        """Keep so many lines from now on."""
        self.acquire()
        try:
            self._count = count
            self._trim()
        finally:
            self.release()

    def after(self, number: int, size: int) -> LogPiece:
        """Return lines behind this number: at least one, if there are any, and about `size` bytes at most."""
        self.acquire()
        try:
            first = self._last - len(self._lines)
            found: list[str] = []
            number = min(max(number, first), self._last)
            for line in islice(self._lines, number - first, None):
                if found and size < len(line):
                    break
                found.append(line.decode())
                size -= len(line)
            return LogPiece(number + len(found), self._last, found)
        finally:
            self.release()

    def _trim(self) -> None:
        while self._lines and (len(self._lines) > self._count or self._bytes > BYTES_MAX):
            self._bytes -= len(self._lines.popleft())


def without_texts(record: logging.LogRecord) -> logging.LogRecord:
    """Return a record with the event and the fields of this one, without what the code of a user may have written."""
    fields = {name: value for name, value in fields_of(record).items() if name not in _TEXTS}
    if "error" in fields:
        fields["error"] = str(fields["error"]).partition(":")[0]  # its class
    event = fields.get("event", "")
    made = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, event, (), None)
    made.created, made.msecs = record.created, record.msecs
    vars(made).update(fields)
    return made
