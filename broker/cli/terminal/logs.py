"""The log of a process: lines in logfmt, or one JSON object a line, on standard error.

A record is one line, whatever was logged: nothing that a client has chosen can pass for a line or a field of the log.
Both forms have the same fields. A flood of records is counted (`log_floods`), and the last lines are kept in memory
(`recent_log`) where the process asks for them.
"""

from __future__ import annotations

import json
import logging
import sys
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from broker.cli.terminal.log_fields import fields_of
from broker.cli.terminal.log_floods import FloodGate
from broker.mqi.exception_text import TRACEBACK_BYTES, head, tail, traceback_of
from broker.presentation.escaping import escaped, quoted

if TYPE_CHECKING:
    from broker.cli.terminal.recent_log import RecentLog
    from broker.config import LoggingConfig


RECORD_BYTES: Final = 64 * 1024
"""The longest record of the log."""

MESSAGE_BYTES: Final = RECORD_BYTES // 2
_LINES: Final = "\n"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/,+*@#%()[]<>!?&|~^$;'")
"""The characters of a value that needs no quotes."""


class LogLines(logging.Formatter, ABC):
    """A line a record: time (RFC 3339, UTC, milliseconds), level, logger, event, message in words, the fields of the
    record (`log_fields`) and, where there is one, the exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record."""
        reported = fields_of(record)
        event = {"event": reported.pop("event")} if "event" in reported else {}
        own = {"time": _moment(record), "level": record.levelname, "logger": record.name, **event}
        fields = {"message": record.getMessage(), **reported}
        if traceback := _traceback(record):
            fields["exception"] = traceback
        size = MESSAGE_BYTES
        while True:
            line = self._line(own | {name: _bounded(name, value, size) for name, value in fields.items()})
            if len(line.encode()) <= RECORD_BYTES or not size:
                return line
            size //= 2  # what is written of a character may be twelve

    @abstractmethod
    def _line(self, fields: dict[str, Any]) -> str:
        """The line with these fields."""


class JsonLines(LogLines):
    """`{"time": "2026-11-21T10:00:00.123Z", "level": "INFO", "logger": "broker.server", "event": ..., ...}`."""

    def _line(self, fields: dict[str, Any]) -> str:
        return json.dumps(fields)


class TextLines(LogLines):
    """`time=2026-11-21T10:00:00.123Z level=INFO logger=broker.server event=line_refused message="..." name=value`.

    A value that is more than a word is a string of JSON. With `below` a traceback stands below its line, indented, as
    people read it.
    """

    def __init__(self, *, below: bool = False) -> None:
        super().__init__()
        self._below = below

    def _line(self, fields: dict[str, Any]) -> str:
        traceback = fields.pop("exception", "") if self._below else ""
        line = " ".join(f"{_key(name)}={_value(value)}" for name, value in fields.items())
        return f"{line}\n{indent(escaped(traceback, keep=_LINES), '  ')}" if traceback else line


def _bounded(name: str, value: object, size: int) -> object:
    if not isinstance(value, str):
        return value
    if 4 * len(value) <= size:
        return value  # however it is encoded
    return tail(value, size) if name == "exception" else head(value, size)


def _key(name: str) -> str:
    return "".join(each if each in _PLAIN else "_" for each in name) or "_"


def _value(value: object) -> str:
    """A value in logfmt."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list():
            text = ",".join(map(str, value))
        case _:
            text = str(value)
    return text if text and all(each in _PLAIN for each in text) else quoted(text)


def _traceback(record: logging.LogRecord) -> str:
    """The traceback of a record, bounded; "" where there is none."""
    if record.exc_text:
        return tail(record.exc_text, TRACEBACK_BYTES)
    error = record.exc_info[1] if record.exc_info else None
    return "" if error is None else traceback_of(error).rstrip("\n")


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03}Z"


def set_up(config: LoggingConfig, recent: RecentLog | None = None) -> None:
    """Send the log of the whole process to standard error, and keep the last lines in `recent`. It may be called again
    when the configuration has changed.
    """
    handler = logging.StreamHandler(sys.stderr)
    as_json = config.format == "json"
    handler.setFormatter(JsonLines() if as_json else TextLines(below=sys.stderr is not None and sys.stderr.isatty()))
    handlers: list[logging.Handler] = [handler]
    if recent is not None:
        recent.setFormatter(JsonLines() if as_json else TextLines())
        handlers.append(recent)
    root = logging.getLogger()
    root.handlers[:] = [FloodGate(handlers)]
    root.setLevel(config.level)
    # Libraries log their inner workings at DEBUG: a line for each hop to the thread of the database.
    logging.getLogger("aiosqlite").setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.INFO)
