"""Archived messages back onto queues: `evermq pipeline replay`.

A replay is one write of the sink `mq`: its messages become visible together, in the order in which they were archived,
with the data, properties, identifiers and places in their groups that they had. It has a key, which the queue manager
keeps with it: a second replay with that key puts nothing. An audit message that tells of it is published with it, and
what was replayed is kept beside the archive:

    DIR/_evermq/replays.jsonl               a line for each replay that began, and for each that was published
    DIR/_evermq/replays/KEY/part-*.parquet  its messages: queue, position, msg_id, group_id and to_queue
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel
from pyspark.sql import functions as sql

from broker.spark.pipelines.archive import read_archive
from broker.spark.pipelines.assembly import GROUP, is_part, with_lengths
from broker.spark.pipelines.directory import ArchiveDirectory
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.jobs import watched
from broker.spark.pipelines.replaying.replay_sink import ReplaySink, Target
from broker.spark.pipelines.replaying.replays import Replays
from broker.spark.pipelines.replaying.selection import Wanted, marked
from broker.spark.schema import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

_PLACE: Final = ("queue", "position", "msg_id")
"""The columns that tell the messages of an archive apart."""

_SEEN: Final = ("queue", "position", "msg_id", "group_id", "msg_flags", "instance", "part_length", "whole")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of a replay: `messages` of so many `bytes` put, with so many `groups` among them; `left_out` were
    wanted and are of groups that are not whole. `before` tells when the same was published already, and `since` how
    many messages are wanted now that were not then: this key does not put them.
    """

    key: str
    messages: int
    bytes: int
    groups: int
    left_out: int
    before: datetime | None = None
    since: int = 0


def replay(
    spark: SparkSession,
    archive: str | os.PathLike[str],
    target: Target,
    wanted: Wanted | None = None,
    *,
    key: str | None = None,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Replayed:
    """Put messages of an archive back onto queues, once for each `key` (by default `key_of` archive, target and what is
    wanted). With `dry_run` nothing is put, and it tells what would be. `tell` is told how far it is.

    Messages in no group are replayed one by one, groups and segmented messages whole or not at all; a message that is
    in the archive twice is replayed once. Identifiers, group fields, priority, persistence, report options, properties
    and data are those that were archived, the expiry what was left of it then. The context is that of a new put.

    Raises PipelineError where there is no archive, where the audit queue is not there, where the queue manager has
    forgotten the key of a replay that the archive knows, and where nothing was put for any other reason.
    """
    place, wanted = ArchiveDirectory(archive), wanted or Wanted()
    name = key or key_of(place, target, wanted)
    with place.reading():
        messages = with_lengths(read_archive(spark, place).select(*NAMES))
        # Without the data, of which the shuffle has less to move; kept, because it is looked at several times.
        found = marked(messages.drop("body"), wanted).select(*_SEEN).persist(StorageLevel.DISK_ONLY)
        try:
            with watched(spark, "replaying", tell):
                return _replayed(messages, found, ReplaySink(target, name), Replays(place), wanted, dry_run=dry_run)
        finally:
            found.unpersist()


def key_of(place: ArchiveDirectory, target: Target, wanted: Wanted) -> str:
    """The key of a replay that nobody names: `REPLAY.` and forty digits."""
    said = {
        "archive": os.path.realpath(place.path),
        "to": os.path.realpath(target.path) if target.path is not None else target.url,
        "queue": target.queue,
        **wanted.as_json(),
    }
    return f"REPLAY.{hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:40].upper()}"


def _replayed(
    messages: DataFrame, found: DataFrame, sink: ReplaySink, replays: Replays, wanted: Wanted, *, dry_run: bool
) -> Replayed:
    done = _counted(sink.key, found)
    if dry_run or not done.messages:
        return done
    chosen = found.where("whole")
    before = _published_before(sink, replays, chosen, done)
    if before is not None:
        return before
    sink.check_audit_queue()
    reported = _reported(replays, sink.target, wanted, done)
    replays.begin(sink.key, chosen, sink.target.queue, reported)
    sink.write(messages.join(chosen.select(*_PLACE), [*_PLACE], "left_semi"), reported)
    replays.end(sink.key, reported)
    return done


def _counted(key: str, found: DataFrame) -> Replayed:
    whole = sql.col("whole")
    group = sql.when(whole & is_part(), sql.struct(*GROUP, "instance"))
    count = found.agg(
        sql.count_if(whole),
        sql.sum(sql.when(whole, sql.col("part_length"))),
        sql.count_distinct(group),
        sql.count_if(~whole),
    ).first()
    assert count is not None
    return Replayed(key=key, messages=count[0], bytes=count[1] or 0, groups=count[2], left_out=count[3])


def _published_before(sink: ReplaySink, replays: Replays, chosen: DataFrame, found: Replayed) -> Replayed | None:
    """Return the result of a replay with this key where there was one already; None where there was none."""
    key, known = found.key, replays.published(found.key)
    if sink.is_published():
        if known is None:  # the process that published it ended before it could say so
            known = replays.begun(key) or datetime.now(UTC)
            replays.end(key, {"at": known.isoformat(), "found_later": True})
        return replace(found, messages=0, bytes=0, groups=0, before=known, since=replays.others(key, chosen))
    if known is not None:
        raise PipelineError(
            f"a replay with the key {key} was published at {known:%Y-%m-%d %H:%M:%S} UTC, and the queue manager does "
            "not know of it: it is another one, or was restored, or that was more than 30 days ago. To put the "
            "messages again give another key, with --key"
        )
    return None


def _reported(replays: Replays, target: Target, wanted: Wanted, found: Replayed) -> dict[str, Any]:
    """Return what the audit message and the ledger tell of a replay."""
    return {
        "at": datetime.now(UTC).isoformat(),
        "user": getpass.getuser(),
        "archive": str(replays.archive),
        "wanted": wanted.as_json(),
        "queue": target.queue,
        "messages": found.messages,
        "bytes": found.bytes,
        "groups": found.groups,
        "left_out": found.left_out,
    }
