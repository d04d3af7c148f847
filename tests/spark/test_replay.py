"""Archived messages back onto queues: each once, in their order, whole groups or none, and told of."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta, timezone
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker.mqi import MQGMO, MQOO
from broker.spark.pipelines.assembly import with_lengths
from broker.spark.pipelines.directory import ArchiveDirectory
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.replay import Replayed, key_of, replay
from broker.spark.pipelines.replaying.replay_sink import Target
from broker.spark.pipelines.replaying.replays import Replays
from broker.spark.pipelines.replaying.selection import Wanted, marked
from tests.spark.archives import START, WHOLE, everything, frame, lay_down, part, queue_and_gets, row
from tests.spark.daemons import Daemon
from tests.spark.groups import LMIG, MIG, shuffled_groups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from broker import Connection, Message

pytestmark = pytest.mark.spark

AUDIT = "SYSTEM.EVERMQ.REPLAY"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that the tests of this file share."""
    with Daemon(tmp_path_factory.mktemp("daemon")) as daemon:
        yield daemon


@pytest.fixture
def daemon(running: Daemon) -> Iterator[Daemon]:
    """With empty queues Q, R and that of the audit messages."""
    names = ("Q", "R", AUDIT)
    running.mqsc(*(f"DEFINE QLOCAL({name}) MAXDEPTH(999999) MSGDLVSQ(FIFO)" for name in names))
    yield running
    running.mqsc(*(f"DELETE QLOCAL({name}) PURGE" for name in names))


@pytest.fixture
def target(daemon: Daemon) -> Target:
    return Target(url=daemon.url)


def found(daemon: Daemon, queue: str, options: int = MQGMO.BROWSE_NEXT) -> list[Message]:
    """The messages of a queue, by browsing, or by gets with other options."""

    async def look(connection: Connection) -> list[Message]:
        async with connection.open(queue, MQOO.BROWSE | MQOO.INPUT_SHARED) as opened:
            return await everything(opened, options)

    return daemon.call(look)


def kept(message: Message) -> dict[str, Any]:
    """Return what a replay keeps of a message."""
    md = message.md
    names = ("msg_id", "correl_id", "group_id", "msg_seq_number", "offset", "msg_flags", "original_length", "format",
             "coded_char_set_id", "encoding", "priority", "persistence", "expiry", "msg_type", "report", "feedback",
             "reply_to_q")  # fmt: skip
    properties = {name: str(value) for name, value in message.properties.items()}
    return {name: getattr(md, name) for name in names} | {"data": message.data, "properties": properties}


Y, Z, W = b"Y", b"Z", b"W"

FEW = (
    row(1, b"A", correl_id=b"C" * 24),
    part(2, Y, 1, MIG, b"Y1"),
    part(3, Z, 2, MIG | LMIG, b"Z2"),
    part(4, Y, 2, MIG | LMIG, b"Y2"),
    row(5, b"R", queue="R"),
    part(6, W, 1, MIG, b"W1"),
    part(7, Z, 1, MIG, b"Z1"),
    row(8, b"A", msg_id=(1).to_bytes(24, "big")),
)
"""Two groups, one that lacks its last message, messages in no group, one of them archived twice."""


@pytest.fixture
def few(spark: SparkSession, tmp_path: Path) -> Path:
    return lay_down(spark, frame(spark, FEW), tmp_path / "kept")


def test_messages_go_back_in_their_order_each_once(
    spark: SparkSession, few: Path, daemon: Daemon, target: Target
) -> None:
    done = replay(spark, few, target)
    assert replace(done, key="") == Replayed(key="", messages=6, bytes=10, groups=2, left_out=1)
    assert daemon.bodies("Q") == [b"A", b"Y1", b"Z2", b"Y2", b"Z1"]
    assert daemon.bodies("R") == [b"R"]
    assert [message.data for message in found(daemon, "Q", WHOLE)] == [b"A", b"Y1", b"Y2", b"Z1", b"Z2"]

    (audit,) = daemon.messages(AUDIT)
    reported = json.loads(audit.data)
    assert (reported["replay"], reported["archive"], reported["messages"], reported["groups"]) == (
        done.key,
        str(few),
        6,
        2,
    )
    assert (audit.md.format, audit.md.persistence) == ("MQSTR", 1)
    listed = spark.read.parquet(str(few / "_evermq" / "replays" / done.key)).orderBy("position").collect()
    assert [(row.position, row.to_queue) for row in listed] == [
        (1, "Q"),
        (2, "Q"),
        (3, "Q"),
        (4, "Q"),
        (5, "R"),
        (7, "Q"),
    ]

    again = replay(spark, few, target)
    assert (again.messages, again.before, again.since) == (0, Replays(ArchiveDirectory(few)).published(done.key), 0)
    assert daemon.bodies("R") == [b"R"]


def test_a_replay_whose_end_was_not_heard_of_is_not_made_again(
    spark: SparkSession, few: Path, daemon: Daemon, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies when the queue manager has published, before the archive's ledger has it. K56"""
    wanted = Wanted(queues=("R",))
    with monkeypatch.context() as patch:
        patch.setattr(Replays, "end", _dies)
        with pytest.raises(KeyboardInterrupt):
            replay(spark, few, target, wanted, key="A KEY / WITH BLANKS")
    more = lay_down(spark, frame(spark, [*FEW, row(9, b"S", queue="R")]), few.with_name("more"))
    (few / "_evermq" / "replays").rename(more / "_evermq" / "replays")
    (few / "_evermq" / "replays.jsonl").rename(more / "_evermq" / "replays.jsonl")
    again = replay(spark, more, target, wanted, key="A KEY / WITH BLANKS")
    assert (again.messages, again.since) == (0, 1)
    assert again.before == Replays(ArchiveDirectory(more)).published(again.key)
    assert daemon.bodies("R") == [b"R"]
    assert daemon.depth(AUDIT) == 1


def _dies(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_key_that_the_queue_manager_has_forgotten_is_refused(
    spark: SparkSession, few: Path, daemon: Daemon, target: Target
) -> None:
    Replays(ArchiveDirectory(few)).end("OLD", {"at": START.isoformat()})
    with pytest.raises(PipelineError, match=r"key OLD was published at 2026-01-31 23:00:00 UTC, .* give another key"):
        replay(spark, few, target, key="OLD")
    assert daemon.bodies("Q") == []


def test_nothing_is_put_without_the_audit_queue(spark: SparkSession, few: Path, daemon: Daemon, target: Target) -> None:
    with pytest.raises(PipelineError, match=r"no queue NONE for the audit message: DEFINE QLOCAL\(NONE\)"):
        replay(spark, few, replace(target, audit="NONE"), Wanted(queues=("R",)))
    assert daemon.bodies("R") == []
    done = replay(spark, few, replace(target, audit=None, queue="Q"), Wanted(queues=("R",)))
    assert (done.messages, daemon.bodies("Q"), daemon.bodies("R"), daemon.depth(AUDIT)) == (1, [b"R"], [], 0)


def test_a_replay_that_finds_no_room_puts_nothing(
    spark: SparkSession, few: Path, daemon: Daemon, target: Target
) -> None:
    daemon.mqsc("ALTER QLOCAL(Q) MAXDEPTH(3)")
    with pytest.raises(PipelineError, match=r"the replay failed: .*2053.*put twice"):
        replay(spark, few, replace(target, options={"putTimeout": "0"}))
    assert (daemon.bodies("Q"), daemon.bodies("R"), daemon.depth(AUDIT)) == ([], [], 0)


def test_a_dry_run_tells_and_puts_nothing(spark: SparkSession, few: Path, daemon: Daemon, target: Target) -> None:
    done = replay(spark, few, target, dry_run=True)
    assert (done.messages, done.left_out, daemon.bodies("Q")) == (6, 1, [])
    assert not (few / "_evermq" / "replays").exists()


def test_queues_come_back_as_they_were(spark: SparkSession, tmp_path: Path, daemon: Daemon, target: Target) -> None:
    """Random groups, some not whole: gets in logical order are given the same of the queue and of its replay."""
    random = Random(7)
    puts = shuffled_groups(random, 30, messages_max=8, mishaps=0.4)
    for _, md in puts:
        md.correl_id, md.priority, md.expiry = random.randbytes(24), 4, -1
        md.reply_to_q = random.choice(("", "REPLIES"))
    rows, gets = anyio.run(partial(queue_and_gets, puts))
    archive = lay_down(spark, frame(spark, random.sample(rows, len(rows))), tmp_path / "kept")
    done = replay(spark, archive, target)
    assert done.messages + done.left_out == len(rows) > done.messages
    there = [message.md.msg_id for message in daemon.messages("Q")]
    assert there == [each["msg_id"] for each in rows if each["msg_id"] in set(there)]
    assert [kept(message) for message in found(daemon, "Q", WHOLE)] == [kept(message) for message in gets]
    assert daemon.depth("Q") == 0  # nothing of what could not be given


SECOND = timedelta(seconds=1)
W_ALONE = Wanted(since=START + 6 * SECOND, until=START + 7 * SECOND)
W_BY_NAME = Wanted(group_ids=(W.ljust(24, b"\0"),))
LACKING = (Wanted(), W_ALONE, W_BY_NAME)
"""Those that want W1 by itself."""


@pytest.mark.parametrize(
    ("wanted", "positions"),
    [
        (Wanted(), [1, 2, 3, 4, 5, 7]),
        (Wanted(queues=("Q",), until=START + 2 * SECOND), [1]),
        (Wanted(since=START + 2 * SECOND, until=START + 4 * SECOND), [2, 4]),  # Y stands where Y1 was put, Z later
        (Wanted(since=START + 7 * SECOND), [3, 7, 8]),  # of the one archived twice that which is in the period
        (W_ALONE, []),
        (Wanted(msg_ids=((3).to_bytes(24, "big"),)), [3, 7]),  # one part stands for its group
        (Wanted(correl_ids=(b"C" * 24,), group_ids=(Y.ljust(24, b"\0"),)), [1, 2, 4]),
        (W_BY_NAME, []),
    ],
)
def test_what_is_wanted_is_selected_in_whole_groups(spark: SparkSession, wanted: Wanted, positions: list[int]) -> None:
    found = marked(with_lengths(frame(spark, FEW)), wanted).select("position", "whole").collect()
    assert sorted(each.position for each in found if each.whole) == positions
    assert [each.position for each in found if not each.whole] == ([6] if wanted in LACKING else [])


def test_a_key_is_made_of_the_archive_what_is_wanted_and_the_target(tmp_path: Path) -> None:
    place, target = ArchiveDirectory(tmp_path), Target(url="mq://h:1")
    wanted = Wanted(msg_ids=(b"a" * 24, b"b" * 24), since=START)
    same = Wanted(msg_ids=(b"b" * 24, b"a" * 24), since=START.astimezone(timezone(timedelta(hours=2))))
    assert key_of(place, target, wanted) == key_of(place, replace(target, audit=None), same)
    others = {
        key_of(place, target, Wanted()),
        key_of(place, target, wanted),
        key_of(place, replace(target, queue="Q"), wanted),
        key_of(place, replace(target, url="mq://h:2"), wanted),
        key_of(ArchiveDirectory(tmp_path / "other"), target, wanted),
    }
    assert len(others) == 5
    assert all(len(key) <= 48 for key in others)


def test_a_time_of_day_without_a_zone_is_none() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        Wanted(since=START.replace(tzinfo=None))
