"""Filters that Spark pushes down to a batch read. The queue manager heeds them; times the reader does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from broker.interface.claims import QueueRange, Wanted
from broker.spark.schema import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_IDENTIFIERS: Final = frozenset(("msg_id", "correl_id", "group_id"))
_NEVER_NULL: Final = frozenset(NAMES) - {"put_timestamp", "properties", "body"}
_NUMBER_MAX: Final = 2**63 - 1
_ID_BYTES: Final = 24
ANY: Final = Wanted()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages a read wants: those with arrival numbers in (after, last], on these queues (None for all), with
    these identifiers, and with a time of the put in [since, until], in microseconds since 1970.
    """

    after: int = 0
    last: int = _NUMBER_MAX
    q_names: frozenset[str] | None = None
    wanted: Wanted = ANY
    since: int | None = None
    until: int | None = None

    def has_queue(self, q_name: str) -> bool:
        return self.q_names is None or q_name in self.q_names

    def narrowed(self, range: QueueRange) -> QueueRange:
        """The part of a range of arrival numbers that is wanted."""
        return range._replace(first=max(range.first, self.after), last=min(range.last, self.last))

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows put at a wanted time."""
        if self.since is None and self.until is None:
            return batch
        put = batch.column("put_timestamp").cast("int64")
        kept = pc.is_valid(put)
        if self.since is not None:
            kept = pc.and_kleene(kept, pc.greater_equal(put, self.since))
        if self.until is not None:
            kept = pc.and_kleene(kept, pc.less_equal(put, self.until))
        return batch.filter(kept)


def selection(filters: Iterable[Filter]) -> tuple[Selection, list[Filter]]:
    """What filters say together, and those of them that Spark has to heed itself."""
    found, left = Selection(), []
    for each in filters:
        narrowed = _narrowed(found, each)
        if narrowed is None:
            left.append(each)
        else:
            found = narrowed
    return found, left


def _narrowed(selection: Selection, filter: Filter) -> Selection | None:
    """The selection with one more filter; None where it cannot say it."""
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1:
        return None
    name = path[0]
    if isinstance(filter, IsNotNull):
        return selection if name in _NEVER_NULL else None
    value = getattr(filter, "value", None)
    match name:
        case "position":
            return _of_position(selection, filter, value)
        case "queue":
            return _of_queue(selection, filter, value)
        case "put_timestamp":
            return _of_time(selection, filter, value)
        case _ if name in _IDENTIFIERS:
            return _of_identifier(selection, filter, name, value)
    return None


def _of_position(selection: Selection, filter: Filter, value: Any) -> Selection | None:
    bounds = _bounds(filter, value) if isinstance(value, int) else None
    if bounds is None:
        return None
    least, most = bounds
    after = selection.after if least is None else max(selection.after, least - 1)
    last = selection.last if most is None else min(selection.last, most)
    return replace(selection, after=after, last=last)


def _of_time(selection: Selection, filter: Filter, value: Any) -> Selection | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    bounds = _bounds(filter, (value - _EPOCH) // timedelta(microseconds=1))
    if bounds is None:
        return None
    since = max((each for each in (selection.since, bounds[0]) if each is not None), default=None)
    until = min((each for each in (selection.until, bounds[1]) if each is not None), default=None)
    return replace(selection, since=since, until=until)


def _bounds(filter: Filter, value: int) -> tuple[int | None, int | None] | None:
    """The least and the most value that a comparison lets through; None for what is no comparison."""
    match filter:
        case EqualTo() | EqualNullSafe():
            return value, value
        case GreaterThan():
            return value + 1, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value - 1
        case LessThanOrEqual():
            return None, value
    return None


def _of_queue(selection: Selection, filter: Filter, value: Any) -> Selection | None:
    if isinstance(filter, EqualTo | EqualNullSafe) and isinstance(value, str):
        names = frozenset((value,))
    elif isinstance(filter, In) and all(isinstance(each, str) for each in value):
        names = frozenset(value)
    else:
        return None
    return replace(selection, q_names=names if selection.q_names is None else names & selection.q_names)


def _of_identifier(selection: Selection, filter: Filter, name: str, value: Any) -> Selection | None:
    """An identifier of all zeros stands for no group, or none of a request: what has none cannot be asked for."""
    value = bytes(value) if isinstance(value, bytes | bytearray) else b""
    before = getattr(selection.wanted, name)
    if not isinstance(filter, EqualTo | EqualNullSafe) or len(value) != _ID_BYTES or not any(value):
        return None
    if before is not None and before != value:
        return replace(selection, last=0)  # no message has both
    return replace(selection, wanted=selection.wanted._replace(**{name: value}))
