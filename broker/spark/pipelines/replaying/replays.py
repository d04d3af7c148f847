"""The ledger of replays from an archive, kept beside it. The queue manager's own ledger decides what is replayed: this
one tells people, and knows of replays that the queue manager has forgotten.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sql

from broker.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from broker.spark.pipelines.directory import ArchiveDirectory

BEGUN: Final = "begun"
PUBLISHED: Final = "published"
_KEPT: Final = ("queue", "position", "msg_id", "group_id")


class Replays:
    """The ledger of the replays of an archive."""

    def __init__(self, archive: ArchiveDirectory) -> None:
        self.archive = archive.path
        self._lines = archive.path / "_evermq" / "replays.jsonl"
        self._tables = archive.path / "_evermq" / "replays"

    def begin(self, key: str, messages: DataFrame, to: str | None, reported: dict[str, Any]) -> None:
        """A replay is going to be published, of these messages, all to one queue or each to its own."""
        target = sql.col("queue") if to is None else sql.lit(to)
        rows = messages.select(*_KEPT, target.alias("to_queue"))
        rows.write.mode("overwrite").option("compression", "zstd").parquet(str(self._table(key)))
        self._add(key, BEGUN, reported)

    def end(self, key: str, reported: dict[str, Any]) -> None:
        """It is published."""
        self._add(key, PUBLISHED, reported)

    def published(self, key: str) -> datetime | None:
        """Return when a replay was published; None for one that was not, as far as is known here."""
        return self._last(key, PUBLISHED)

    def begun(self, key: str) -> datetime | None:
        """Return when a replay was begun last; None for one that never was."""
        return self._last(key, BEGUN)

    def others(self, key: str, messages: DataFrame) -> int:
        """Return the number of messages that are not among those of a replay."""
        if not (self._table(key) / "_SUCCESS").exists():
            return 0
        then = messages.sparkSession.read.parquet(str(self._table(key)))
        return messages.join(then.select("queue", "position"), ["queue", "position"], "left_anti").count()

    def _last(self, key: str, state: str) -> datetime | None:
        moments = [line["at"] for line in self._read() if line["key"] == key and line["state"] == state]
        return datetime.fromisoformat(moments[-1]) if moments else None

    def _read(self) -> list[dict[str, Any]]:
        if not self._lines.exists():
            return []
        whole = [line for line in self._lines.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]
        try:
            return [json.loads(line) for line in whole]
        except ValueError as error:
            raise PipelineError(f"{self._lines}: not a ledger of replays: {error}") from error

    def _add(self, key: str, state: str, reported: dict[str, Any]) -> None:
        """Have a line more on the disk."""
        line = json.dumps({"key": key, "state": state, **reported}).encode() + b"\n"
        with self._lines.open("a+b") as out:
            out.seek(0)
            out.truncate(out.read().rfind(b"\n") + 1)  # what was cut off when it was written
            out.write(line)
            out.flush()
            os.fsync(out.fileno())

    def _table(self, key: str) -> Path:
        return self._tables / key.replace("/", "%2F")
