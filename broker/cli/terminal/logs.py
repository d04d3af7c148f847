"""The log of the daemon: lines of text, or one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from textwrap import indent
from typing import TYPE_CHECKING, Final

from broker.cli.terminal.escaping import escaped
from broker.cli.terminal.log_fields import fields_of
from broker.mqi.exception_text import TRACEBACK_BYTES, head, tail, traceback_of

if TYPE_CHECKING:
    from broker.config import LoggingConfig


RECORD_BYTES: Final = 64 * 1024
"""The longest record of the log."""

MESSAGE_BYTES: Final = RECORD_BYTES // 2
_HEAD: Final = 1024  # of a record: time, level, logger
_LINES: Final = "\n"


class TextLines(logging.Formatter):
    """`2026-11-21T10:00:00.123Z INFO broker.server message key=value`, with a traceback below where there is one.

    A record is one line, whatever was logged, and the lines of a traceback are indented: nothing that a client has
    chosen can pass for a line of the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record."""
        text = head(escaped(record.getMessage()[:MESSAGE_BYTES]), MESSAGE_BYTES)
        line = f"{_moment(record)} {record.levelname} {record.name} {text}"
        traceback = _traceback(record)
        if not traceback:
            return line
        return f"{line}\n{tail(indent(escaped(traceback, keep=_LINES), '  '), MESSAGE_BYTES - _HEAD)}"


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, the fields of the record (`log_fields`), the message in words and, where
    there is one, the exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record."""
        fields: dict[str, object] = {"time": _moment(record), "level": record.levelname, "logger": record.name}
        reported = {**fields_of(record), "message": record.getMessage()}
        size = MESSAGE_BYTES
        while True:
            fields |= {name: head(value, size) if isinstance(value, str) else value for name, value in reported.items()}
            if traceback := _traceback(record):
                fields["exception"] = tail(traceback, size)
            line = json.dumps(fields)
            if len(line) <= RECORD_BYTES or not size:
                return line
            size //= 2  # what JSON writes of a character may be twelve


def _traceback(record: logging.LogRecord) -> str:
    """The traceback of a record, bounded; "" where there is none."""
    if record.exc_text:
        return tail(record.exc_text, TRACEBACK_BYTES)
    error = record.exc_info[1] if record.exc_info else None
    return "" if error is None else traceback_of(error).rstrip("\n")


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03}Z"


def set_up(config: LoggingConfig) -> None:
    """Send the log of the whole process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if config.format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(config.level)
    # Libraries log their inner workings at DEBUG: a line for each hop to the thread of the database.
    logging.getLogger("aiosqlite").setLevel(logging.INFO)
    logging.getLogger("asyncio").setLevel(logging.INFO)
