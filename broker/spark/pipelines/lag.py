"""The lag of an archive behind its queues: messages that are there and were not read yet."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQError
from broker.spark.daemon import line_to
from broker.spark.options import parse, stream_use
from broker.spark.pipelines.running import BatchLag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from broker import Connection
    from broker.interface.claims.claims import Cut, QueueRange
    from broker.spark.connecting import SparkLine

logger = logging.getLogger(__name__)

_EVERYTHING: Final = 2**60


class LagOf:
    """The lag of a stream with these options of the source `mq`: it is asked of the queue manager, after each batch.
    None where that cannot be reached: the stream itself goes on trying.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._options = parse({**options, "retryTimeout": "1"}, stream_use(options))

    def __call__(self, offsets: list[Any]) -> BatchLag | None:
        """The lag behind these offsets."""
        try:
            line = line_to(self._options)
            ranges = line.call(lambda connection: connection.claims.queue_ranges(self._options.queues))
            if not self._options.consumer:
                ranges = [each for found in offsets for each in _behind(line, ranges, json.loads(found))]
        except (MQError, OSError) as error:
            logger.warning("lag unknown: %s", error)
            return None
        return BatchLag(sum(each.messages for each in ranges), sum(each.bytes for each in ranges))


def _behind(line: SparkLine, ranges: Sequence[QueueRange], offset: dict[str, Any]) -> list[QueueRange]:
    """Return the parts of these ranges behind an offset of a stream that browses."""
    found = []
    for each in ranges:
        after = max(offset.get("queues", {}).get(each.q_name, offset.get("behind", 0)), each.first)
        if after == each.first:
            found.append(each)
        elif after < each.last:
            cuts = line.call(_cuts(each.q_name, after, each.last))
            size = sum(cut.bytes for cut in cuts)
            found.append(each._replace(first=after, messages=sum(cut.messages for cut in cuts), bytes=size))
    return found


def _cuts(q_name: str, after: int, last: int) -> Callable[[Connection], Awaitable[list[Cut]]]:
    return lambda connection: connection.claims.browse_cuts(q_name, after, last, _EVERYTHING, _EVERYTHING)
