"""The end of a query that consumes: Spark does not acknowledge the last batch of a trigger AvailableNow."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

from broker.mqi import MQRC, MQError
from broker.spark.connecting import line
from broker.spark.offsets import ClaimOffset
from broker.spark.options import credentials_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from broker.spark.credentials import JobCredentials

logger = logging.getLogger(__name__)

PATIENCE: Final = 60.0

_NOBODY: Final[Mapping[str, str]] = {}


def finish(query: StreamingQuery, *, url: str | None = None, credentials: Mapping[str, str] = _NOBODY) -> int:
    """Acknowledge the last batch of a query that has ended well, so that its messages leave their queues now and not at
    its next start: how many consumers that were.

    Call it when `awaitTermination` has returned, before the query is started again. `url` is the queue manager's, if it
    is another than the query had; `credentials` are the options `user` to `tokenFile` that the query had. It is
    harmless to call it for any query, and again. Raises RuntimeError for a query that is active, or has failed: its
    last batch may not be in its sink.
    """
    if query.isActive:
        raise RuntimeError(f"query {query.id} is active: finish() comes after awaitTermination()")
    error = query.exception()
    if error is not None:
        raise RuntimeError(f"query {query.id} has failed: its next start goes on with its last batch") from error
    known = credentials_of(credentials)
    return sum(_acknowledge(offset, url or offset.url, known) for offset in _last_offsets(query))


def _last_offsets(query: StreamingQuery) -> Iterator[ClaimOffset]:
    """The offsets up to which the query has read consumers."""
    progress = query.lastProgress
    for source in progress["sources"] if progress else []:
        try:
            offset = json.loads(source["endOffset"] or "null")
        except ValueError:
            continue
        if isinstance(offset, dict) and "consumer" in offset and offset.get("lineage"):
            yield ClaimOffset.from_json(offset)


def _acknowledge(offset: ClaimOffset, url: str, credentials: JobCredentials) -> bool:
    to = line(url, PATIENCE, credentials=credentials)
    try:
        registered = to.call(
            lambda connection: connection.claims.register(offset.uuid, offset.lineage, offset.sequence, None)
        )
        to.call(lambda connection: connection.claims.acknowledge(offset.uuid, registered.generation, offset.sequence))
    except MQError as error:
        if error.reason != MQRC.UOW_COMMITTED:
            raise
        return False  # it has been acknowledged, and more
    return True
