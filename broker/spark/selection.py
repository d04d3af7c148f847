"""The messages that a batch read wants by its options: the queue manager handles all but times, which the reader does.

Filters of a DataFrame are Spark's to handle. Spark plans a DataFrame that was loaded once for all that is made of it: a
filter that were pushed down for one of these uses would hold for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from broker.interface.claims.claims import BrowseSelection

if TYPE_CHECKING:
    from broker.interface.claims.claims import QueueRange
    from broker.spark.options import Options

_TIME: Final = "put_timestamp"
_PUT_AT: Final = pa.field(_TIME, pa.timestamp("us", "UTC"))
ANY: Final = BrowseSelection()
POSITION_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The messages that a read wants: those with arrival numbers in (after, last], with these identifiers, and put at
    `since` or later, in microseconds since 1970 (None for any time).
    """

    after: int = 0
    last: int = POSITION_MAX
    ids: BrowseSelection = ANY
    since: int | None = None

    @classmethod
    def of(cls, options: Options) -> Self:
        """Return the selection by the options of a read."""
        last = POSITION_MAX if options.position_to is None else options.position_to
        selection = BrowseSelection(options.msg_id, options.correl_id, options.group_id)
        return cls(max(options.position_from - 1, 0), last, selection, options.since)

    def narrowed(self, range: QueueRange) -> QueueRange:
        """The part of a range of arrival numbers that is wanted."""
        return range._replace(first=max(range.first, self.after), last=min(range.last, self.last))

    def columns(self, schema: pa.Schema) -> pa.Schema:
        """The columns to make of messages for a read of `schema`: the time of the put too, where it decides."""
        return schema if self.since is None or _TIME in schema.names else schema.append(_PUT_AT)

    def rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """The rows put at a wanted time, with the columns of `schema`. One whose time of the put is not known has none
        that is wanted.
        """
        if self.since is None:
            return batch
        kept = batch.filter(pc.greater_equal(batch.column(_TIME).cast("int64"), self.since))  # drops nulls
        return kept.select(schema.names)
