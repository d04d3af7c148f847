"""The sink of a replay: one write of the sink `mq`, with an audit message behind the others."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql

from broker.mqi import MQFMT, MQMT, MQOO, MQPER, MQRC, MQError
from broker.spark.daemon import line_to
from broker.spark.options import Use, parse
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.running import reason
from broker.spark.schema import NAMES, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from broker import Connection

AUDIT_QUEUE: Final = "SYSTEM.EVERMQ.REPLAY"
_UTF_8: Final = 1208


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of messages: a queue manager by `url`, or a data directory by `path`, for which a daemon is started
    meanwhile; `queue`, or each message's own. `audit` is the queue of the audit message, None for none. `options` are
    further options of the sink `mq`.
    """

    url: str | None = None
    path: str | None = None
    queue: str | None = None
    audit: str | None = AUDIT_QUEUE
    options: dict[str, str] = field(default_factory=dict)

    def as_options(self) -> dict[str, str]:
        """The options of the sink `mq`."""
        place = {"path": self.path} if self.path is not None else {"url": self.url or ""}
        return {**place, **self.options}


class ReplaySink:
    """The sink of one replay. Raises PipelineError, at once for options that are none."""

    def __init__(self, target: Target, key: str) -> None:
        self.target = target
        self.key = key
        self._given = {**target.as_options(), "idempotencyKey": key}
        try:
            self._options = parse(self._given, Use.WRITE)
            self._line = line_to(self._options)
        except ValueError as error:
            raise PipelineError(str(error)) from error

    def is_published(self) -> bool:
        """True if the queue manager knows of a replay with this key."""

        async def asked(connection: Connection) -> object:
            return await connection.sinks.ledger(self._options.sink)

        try:
            return self._line.call(asked) is not None
        except MQError as error:
            raise PipelineError(str(error)) from error

    def check_audit_queue(self) -> None:
        """Check that the audit message can be put."""
        audit = self.target.audit
        if audit is None:
            return

        async def opened(connection: Connection) -> None:
            async with connection.open(audit, MQOO.OUTPUT):
                pass

        try:
            self._line.call(opened)
        except MQError as error:
            if error.reason != MQRC.UNKNOWN_OBJECT_NAME:
                raise PipelineError(f"the audit queue {audit}: {error}") from error
            raise PipelineError(
                f"there is no queue {audit} for the audit message: DEFINE QLOCAL({audit}), or name another one with "
                "--audit, or do without by --no-audit. Nothing was put"
            ) from error

    def write(self, messages: DataFrame, reported: dict[str, Any]) -> None:
        """Put the messages in the order of their positions, and the audit message behind them: all or none."""
        rows = messages.orderBy("position", "queue").select(*NAMES)
        if self.target.queue is not None:
            rows = rows.withColumn("queue", sql.lit(self.target.queue))
        if self.target.audit is not None:
            rows = rows.unionByName(_audit(rows, self.target.audit, {"replay": self.key, **reported}))
        try:
            rows.write.format("mq").mode("append").options(**self._given).save()
        except PySparkException as error:
            raise PipelineError(
                f"the replay failed: {reason(error)}. Run it again: what was published is not put twice"
            ) from error


def _audit(like: DataFrame, queue: str, reported: dict[str, Any]) -> DataFrame:
    """The audit message, as a row."""
    fields = {
        "queue": queue,
        "msg_type": MQMT.DATAGRAM.value,
        "expiry": -1,
        "format": MQFMT.STRING.value,
        "coded_char_set_id": _UTF_8,
        "persistence": MQPER.PERSISTENT.value,
        "body": json.dumps(reported).encode(),
    }
    return like.sparkSession.createDataFrame([tuple(fields.get(name) for name in NAMES)], SCHEMA).coalesce(1)
