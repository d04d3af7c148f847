"""The log of the daemon: lines of text, or one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from textwrap import indent
from typing import TYPE_CHECKING

from broker.cli.escaping import escaped
from broker.cli.log_fields import fields_of

if TYPE_CHECKING:
    from broker.config import LoggingConfig


class TextLines(logging.Formatter):
    """`2026-11-21T10:00:00.123Z INFO broker.server message key=value`, with a traceback below where there is one.

    A record is one line, whatever was logged, and the lines of a traceback are indented: nothing that a client has
    chosen can pass for a line of the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record."""
        line = f"{_moment(record)} {record.levelname} {record.name} {escaped(record.getMessage())}"
        if not record.exc_info:
            return line
        traceback = escaped(self.formatException(record.exc_info), keep="\n")
        return f"{line}\n{indent(traceback, '  ')}"


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, the fields of the record (`log_fields`), the message in words and, where
    there is one, the exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line for a record."""
        fields = {
            "time": _moment(record),
            "level": record.levelname,
            "logger": record.name,
            **fields_of(record),
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


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
