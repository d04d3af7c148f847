"""The tables of a report, made of the messages of an archive.

Each is small, whatever the archive: a row for a queue, and for a bucket of time, a size or a reason on it. Percentiles
come of KLL sketches, whose error in rank is below 1 % at any number of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
RANKS: Final = tuple(rank / 100 for rank in range(1, 100))
BUCKETS_MAX: Final = 120
_BUCKET_SECONDS: Final = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    172_800, 604_800,
)  # fmt: skip
_MONTH: Final = 2_592_000


def bucket_seconds(span: float) -> float:
    """Return the length of buckets of time of which at most BUCKETS_MAX cover the span."""
    fitting = (each for each in _BUCKET_SECONDS if span / each <= BUCKETS_MAX)
    return float(next(fitting, None) or _MONTH * max(1, -(-span // (_MONTH * BUCKETS_MAX))))


def queues(messages: DataFrame) -> DataFrame:
    """A row for each queue: its messages and bytes, the first and last put, sizes, and how many were backed out."""
    sketched = messages.groupBy("queue").agg(
        *_columns(
            messages="count(*)",
            bytes="sum(data_length)",
            first_put="min(put_timestamp)",
            last_put="max(put_timestamp)",
            size_min="min(data_length)",
            size_max="max(data_length)",
            backed_out="count_if(backout_count > 0)",
            backouts="sum(backout_count)",
            sketch="kll_sketch_agg_double(CAST(data_length AS DOUBLE))",
        )
    )
    return _with_percentiles(sketched, {name: f"size_{name}" for name in PERCENTILES}).orderBy("queue")


def arrivals(messages: DataFrame, seconds: float) -> DataFrame:
    """The messages and bytes put in each bucket of so many seconds; no row where there were none."""
    us = round(seconds * 1_000_000)
    return (
        messages.where("put_timestamp IS NOT NULL")
        .selectExpr("queue", "data_length", f"timestamp_micros(unix_micros(put_timestamp) DIV {us} * {us}) AS since")
        .groupBy("queue", "since")
        .agg(*_columns(messages="count(*)", bytes="sum(data_length)"))
        .selectExpr("*", f"CAST({seconds} AS DOUBLE) AS seconds")
        .orderBy("queue", "since")
    )


def sizes(messages: DataFrame) -> DataFrame:
    """Count the messages by size, from `size_from` on and below `size_below`: a quarter of the way from one power of
    two to the next.
    """
    width = "greatest(1L, CAST(pow(2, floor(log2(greatest(data_length, 1))) - 2) AS BIGINT))"
    return (
        messages.selectExpr("queue", "data_length", f"{width} AS width")
        .selectExpr("queue", "data_length DIV width * width AS size_from", "width")
        .groupBy("queue", "size_from", "width")
        .agg(*_columns(messages="count(*)"))
        .selectExpr("queue", "size_from", "size_from + width AS size_below", "messages")
        .orderBy("queue", "size_from")
    )


def backouts(messages: DataFrame) -> DataFrame:
    """Count the messages by how often they were backed out."""
    return (
        messages.groupBy("queue", "backout_count").agg(*_columns(messages="count(*)")).orderBy("queue", "backout_count")
    )


def time_on_queue(messages: DataFrame) -> DataFrame:
    """Return the time of moved messages on their queue, in seconds: from the put until their batch began."""
    return _with_percentiles(_times(messages), {name: name for name in PERCENTILES}).orderBy("queue")


def time_curve(messages: DataFrame) -> DataFrame:
    """The same by percentile: how long the quickest hundredth was on the queue at most, the next, and so on."""
    ranks = ", ".join(f"{rank}D" for rank in RANKS)
    times = f"kll_sketch_get_quantile_double(sketch, array({ranks}))"
    pairs = f"posexplode({times}) AS (place, seconds)"
    return _times(messages).selectExpr("queue", pairs).selectExpr("queue", "place + 1 AS percentile", "seconds")


def dead_letters(messages: DataFrame) -> DataFrame:
    """The messages with a dead-letter header (MQDLH): how many for which reason, and of which queue they were."""
    little = "substr(body, 5, 4) = X'01000000'"
    big = "hex(substr(body, 9, 4))"
    turned = (
        "concat(hex(substr(body, 12, 1)), hex(substr(body, 11, 1)), hex(substr(body, 10, 1)), hex(substr(body, 9, 1)))"
    )
    return (
        messages.where("format = 'MQDEAD' AND octet_length(body) >= 172 AND substr(body, 1, 4) = X'444C4820'")
        .selectExpr(
            "queue",
            "put_timestamp",
            f"CAST(conv(IF({little}, {turned}, {big}), 16, 10) AS INT) AS reason",
            "trim(BOTH '\\0 ' FROM decode(substr(body, 13, 48), 'ISO-8859-1')) AS dest_q_name",
        )
        .groupBy("queue", "dest_q_name", "reason")
        .agg(*_columns(messages="count(*)", first_put="min(put_timestamp)", last_put="max(put_timestamp)"))
        .orderBy("queue", "dest_q_name", "reason")
    )


def handlers(messages: DataFrame) -> DataFrame:
    """The dead letters that handlers made: why, of which queue and which handler, after how many attempts and crashes,
    and what was raised last. They bear that as properties, beside an MQDLH or without one.
    """
    text = {name: f"properties['evermq.{name}']" for name in ("why", "queue", "handler", "exception")}
    number = {name: f"coalesce(CAST(properties['evermq.{name}'] AS BIGINT), 0)" for name in ("attempts", "crashes")}
    failed = "timestamp_micros(CAST(CAST(properties['evermq.last_failed'] AS DOUBLE) * 1e6D AS BIGINT))"
    return (
        messages.where("properties['evermq.why'] IS NOT NULL")
        .selectExpr(
            "queue",
            f"coalesce({text['queue']}, '') AS from_queue",
            f"coalesce({text['handler']}, '') AS handler",
            f"{text['why']} AS why",
            f"coalesce({text['exception']}, '') AS exception",
            f"{number['attempts']} AS attempts",
            f"{number['crashes']} AS crashes",
            f"{failed} AS failed",
        )
        .groupBy("queue", "from_queue", "handler", "why", "exception")
        .agg(
            *_columns(
                messages="count(*)",
                attempts="sum(attempts)",
                attempts_max="max(attempts)",
                crashes="sum(crashes)",
                first_failed="min(failed)",
                last_failed="max(failed)",
            )
        )
        .orderBy("queue", "from_queue", "handler", "why", "exception")
    )


def _times(messages: DataFrame) -> DataFrame:
    seconds = "greatest((unix_micros(archived) - unix_micros(put_timestamp)) / 1e6D, 0D)"
    return (
        messages.where("put_timestamp IS NOT NULL")
        .selectExpr("queue", f"{seconds} AS seconds")
        .groupBy("queue")
        .agg(
            *_columns(
                messages="count(*)",
                least="min(seconds)",
                most="max(seconds)",
                sketch="kll_sketch_agg_double(seconds)",
            )
        )
    )


def _with_percentiles(sketched: DataFrame, names: Mapping[str, str]) -> DataFrame:
    found = [
        f"kll_sketch_get_quantile_double(sketch, {PERCENTILES[name]}D) AS {named}" for name, named in names.items()
    ]
    return sketched.selectExpr("* EXCEPT (sketch)", *found)


def _columns(**expressions: str) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.expr(expression).alias(name) for name, expression in expressions.items()]
