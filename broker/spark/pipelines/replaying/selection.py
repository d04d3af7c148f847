"""Select the messages of an archive to put back: those that are wanted, each once, in whole groups or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sql
from pyspark.sql.window import Window

from broker.spark.pipelines.assembly import GROUP, alone, is_part, judged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_IDENTIFIERS: Final = ("msg_id", "correl_id", "group_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The conditions on a message: it was archived from one of these queues, put at or after `since` and before
    `until`, and has one of the identifiers given. What is empty or None is not asked for.

    A group, and a message of segments, goes by the put of its first part, so that of two periods that meet just one has
    it; and one part with the identifier is enough.
    """

    queues: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    msg_ids: tuple[bytes, ...] = ()
    correl_ids: tuple[bytes, ...] = ()
    group_ids: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        for moment in (self.since, self.until):
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{moment} has no time zone")

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON has it: the same for all ways to want the same."""
        return {
            "queues": sorted(set(self.queues)),
            "since": _text(self.since),
            "until": _text(self.until),
            "msg_ids": _texts(self.msg_ids),
            "correl_ids": _texts(self.correl_ids),
            "group_ids": _texts(self.group_ids),
        }

    def has_identifier(self) -> Column:
        """True for a row with one of the identifiers."""
        given = dict(zip(_IDENTIFIERS, (self.msg_ids, self.correl_ids, self.group_ids), strict=True))
        found = sql.expr("FALSE") if any(given.values()) else sql.expr("TRUE")
        for name, values in given.items():
            if values:
                found |= sql.col(name).isin([sql.lit(value) for value in values])
        return found

    def is_in_time(self, put: Column) -> Column:
        """True for a put within the period. One that is not known is in no period but all of time."""
        found = sql.expr("TRUE")
        if self.since is not None:
            found &= put >= sql.lit(self.since)
        if self.until is not None:
            found &= put < sql.lit(self.until)
        return sql.coalesce(found, sql.expr("FALSE"))


def marked(messages: DataFrame, wanted: Wanted) -> DataFrame:
    """The messages that are wanted, with the columns of `assembly.judged` and `whole`: whether they can be put back.
    Those that cannot are of groups that are not whole in the archive. `messages` have lengths.
    """
    if wanted.queues:
        messages = messages.where(sql.col("queue").isin(list(wanted.queues)))
    asked = wanted.has_identifier() & wanted.is_in_time(sql.col("put_timestamp"))
    group = Window.partitionBy(*GROUP, "instance")
    first_put = sql.min_by("put_timestamp", sql.struct("msg_seq_number", "offset"))
    groups = (
        judged(messages)
        .withColumns(
            {
                "whole": sql.col("instance").isNotNull(),
                "group_put": first_put.over(group),
                "group_wanted": sql.bool_or(wanted.has_identifier()).over(group),
            }
        )
        .where(
            sql.when(sql.col("whole"), sql.col("group_wanted") & wanted.is_in_time(sql.col("group_put"))).otherwise(
                asked
            )
        )
        .drop("group_put", "group_wanted")
    )
    return groups.unionByName(alone(messages.where(~is_part() & asked)).withColumn("whole", sql.expr("TRUE")))


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat()


def _texts(identifiers: tuple[bytes, ...]) -> list[str]:
    return sorted({identifier.hex() for identifier in identifiers})
