"""A job on executors of their own that proves its user by a file: `python -m tests.spark.secret_job` with its order as
JSON. It writes to a folder what others can read of it while it runs.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.spark import session
from tests.security.processes import command_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 20
PAGES = ("/environment/", "/SQL/", "/jobs/", "/stages/", "/executors/", "/StreamingQuery/")
REST = ("environment", "sql?details=true&planDescription=true", "jobs", "stages?details=true", "executors")


def main(order: dict[str, str]) -> None:
    """Write messages, read them, claim them; then tell."""
    folder = Path(order["folder"])
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.executor.memory": "512m",
    }
    if order["shipped"]:
        settings["spark.files"] = order["shipped"]  # what --files says
    spark = session("canaries", master="local-cluster[2,1,1024]", settings=settings)
    try:
        options = {"url": order["url"], "queue": "Q", "user": "bob", "passwordFile": order["passwordFile"]}
        done = run(spark, options, folder)
        told(spark, folder)
    finally:
        spark.stop()
    (folder / "done.json").write_text(json.dumps(done), "utf-8")


def run(spark: SparkSession, options: dict[str, str], folder: Path) -> dict[str, Any]:
    """Do the work: how many messages were read and claimed, and in which processes."""
    frame = spark.range(COUNT).selectExpr("cast(cast(id as string) as binary) as body").repartition(2)
    frame.write.format("mq").options(**options).mode("append").save()
    read = spark.read.format("mq").options(**options, numPartitions="2").load()
    plan = read._jdf.queryExecution().toString()  # type: ignore[operator]
    (folder / "plan.txt").write_text(plan, "utf-8")
    rows = sorted(int(bytes(row.body)) for row in read.collect())
    stream = spark.readStream.format("mq").options(**options, mode="consume", consumer="CANARIES").load()
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "claimed"))
    )
    query.awaitTermination()
    (folder / "stream.txt").write_text(query._jsq.explainInternal(True) + repr(query.recentProgress), "utf-8")
    return {"read": rows, "claimed": spark.read.parquet(str(folder / "claimed")).count()}


def told(spark: SparkSession, folder: Path) -> None:
    """What the web interface and ps show."""
    context = spark.sparkContext
    base, application = context.uiWebUrl, context.applicationId
    assert base is not None
    shown = [got(f"{base}{page}") for page in PAGES]
    shown += [got(f"{base}/api/v1/applications/{application}/{what}") for what in REST]
    (folder / "ui.txt").write_text("\n".join(shown), "utf-8")
    (folder / "ps.txt").write_text(command_lines(), "utf-8")


def got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode("utf-8")
    return f"{url}\n{text}"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
