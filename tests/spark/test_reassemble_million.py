"""A million archived messages in groups of 1 to 50, with segments, shuffled, put together again.

    pytest -m slow -s tests/spark/test_reassemble_million.py

`EVERMQ_TEST_MESSAGES` says how many there are. What comes out is compared with what was cut up, message by message; and
a sample of the groups with what a queue manager gives by gets in logical order, after it was given just their messages.
"""

from __future__ import annotations

import os
import time
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pyspark.sql import functions as sql

from broker.mqi import MessageDescriptor
from broker.spark import session
from broker.spark.pipelines.reassemble import reassemble
from broker.spark.schema import NAMES, SCHEMA
from tests.spark.archives import archived, lay_down, part, queue_and_gets
from tests.spark.groups import LMIG, LSEG, MIG, SEG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MESSAGES = int(os.environ.get("EVERMQ_TEST_MESSAGES", "1000000"))
A_GROUP_HAS = 45.0
"""Physical messages, on average."""
SAMPLE = 60


def logical_messages(number: int) -> list[tuple[bytes, int, list[bytes]]]:
    """A group, made of its number: MsgSeqNumber, flags and the data of its segments, or of the one that is whole."""
    random = Random(number)
    count = random.randint(1, 50)
    made = []
    for place in range(1, count + 1):
        pieces = 1 if random.random() < 0.7 else random.randint(2, 5)
        flags = MIG | (LMIG if place == count else 0)
        made.append((random.randbytes(16), flags, [random.randbytes(random.randint(1, 400)) for _ in range(pieces)]))
    return made


def group_id(number: int) -> bytes:
    return b"GROUP" + number.to_bytes(19, "big")


def physical(frames: Iterator[Any]) -> Iterator[Any]:
    """The messages of groups, at random places of their queue."""
    import pandas as pd  # type: ignore[import-untyped]  # only here, in Spark's workers

    for frame in frames:
        rows = []
        for number in frame["id"]:
            random = Random(f"places of {number}")
            for place, (_, flags, pieces) in enumerate(logical_messages(number), 1):
                offset = 0
                for index, body in enumerate(pieces, 1):
                    segment = 0 if len(pieces) == 1 else SEG | (LSEG if index == len(pieces) else 0)
                    given = part(random.getrandbits(20), group_id(number), place, flags | segment, body, offset=offset)
                    offset += len(body)
                    own = {"position": random.getrandbits(62), "msg_id": random.randbytes(24), "properties": {}}
                    rows.append({**given, **own})
        yield pd.DataFrame(rows, columns=list(NAMES))


def whole(frames: Iterator[Any]) -> Iterator[Any]:
    """The logical messages of groups: the identifier, the number and the data."""
    import pandas as pd  # so too

    for frame in frames:
        made = [
            (group_id(number), place, b"".join(pieces))
            for number in frame["id"]
            for place, (_, _, pieces) in enumerate(logical_messages(number), 1)
        ]
        yield pd.DataFrame(made, columns=["group_id", "msg_seq_number", "body"])


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as the command makes it."""
    local = tmp_path_factory.mktemp("spark")
    made = session("tests", settings={"spark.local.dir": str(local), "spark.driver.memory": "4g"})
    yield made
    made.stop()


def test_a_million_messages_come_out_as_they_went_in(spark: SparkSession, tmp_path: Path) -> None:
    groups = spark.range(int(MESSAGES / A_GROUP_HAS), numPartitions=16)
    laid = groups.mapInPandas(physical, SCHEMA).repartition(8, "position").sortWithinPartitions("position")
    archive, to = lay_down(spark, laid, tmp_path / "kept"), tmp_path / "whole"
    begun = time.perf_counter()
    done = reassemble(spark, archive, to)
    seconds = time.perf_counter() - begun
    made = f"{done.physical:,} messages made {done.logical:,} logical ones in {seconds:.1f} s"
    print(f"\n{made}: {done.physical / seconds:,.0f} a second")  # noqa: T201  # whoever measures reads this
    assert (done.incomplete, done.duplicates) == (0, 0)

    found = spark.read.parquet(str(to / "messages"))
    bodies = found.select("group_id", "msg_seq_number", "body")
    assert_equal(bodies, groups.mapInPandas(whole, bodies.schema))
    chosen = [group_id(number) for number in Random(1).sample(range(groups.count()), SAMPLE)]
    assert sampled(found, chosen) == given_by_a_queue_manager(archived(spark, archive), chosen)


def assert_equal(one: DataFrame, other: DataFrame) -> None:
    """The same rows, however often each is there."""
    keyed = [frame.select("group_id", "msg_seq_number", sql.sha2("body", 256).alias("hash")) for frame in (one, other)]
    assert keyed[0].exceptAll(keyed[1]).count() == keyed[1].exceptAll(keyed[0]).count() == 0


TOLD = ("group_id", "msg_seq_number", "offset", "msg_flags", "body")


def sampled(found: DataFrame, chosen: list[bytes]) -> list[tuple[Any, ...]]:
    """The logical messages of some groups, in logical order."""
    rows = found.where(sql.col("group_id").isin([sql.lit(each) for each in chosen]))
    ordered = rows.orderBy("group_position", "msg_seq_number", "offset").select(*TOLD).collect()
    return [tuple(row) for row in ordered]


def given_by_a_queue_manager(archive: DataFrame, chosen: list[bytes]) -> list[tuple[Any, ...]]:
    """Return what gets in logical order are given of the archived messages of some groups."""
    rows = archive.where(sql.col("group_id").isin([sql.lit(each) for each in chosen])).orderBy("position").collect()
    fields = ("group_id", "msg_seq_number", "offset", "msg_flags", "coded_char_set_id", "format")
    puts = [(row.body, MessageDescriptor(**{name: row[name] for name in fields})) for row in rows]
    _, gets = anyio.run(partial(queue_and_gets, puts))
    return [(*(getattr(message.md, name) for name in TOLD[:-1]), message.data) for message in gets]
