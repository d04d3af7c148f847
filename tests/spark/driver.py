"""A driver in a process of its own, for tests that kill it, or run it on a cluster: it moves what is on Q to R."""

from __future__ import annotations

import sys

from broker.spark import session
from tests.spark.conftest import SETTINGS
from tests.spark.steps import SteppingSource


def main(url: str, checkpoint: str, master: str = "local[2]") -> None:
    spark = session("driver", master=master, settings=SETTINGS)
    spark.dataSource.register(SteppingSource)
    given = {"url": url, "queue": "Q", "mode": "consume", "consumer": "C", "maxMessagesPerTrigger": "10"}
    rows = spark.readStream.format("stepping").options(**given).load().select("body")
    writer = rows.writeStream.format("stepping").options(url=url, queue="R", checkpointLocation=checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
