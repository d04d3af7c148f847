"""A Spark session in which the data source `mq` is registered, with settings that suit it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from broker.spark.java import provide_java
from broker.spark.source import MQDataSource

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL: Final = "local[*]"

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
}
"""Spark's settings, which those that are given go before."""

_ON_THIS_MACHINE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
"""Besides, where Spark runs on this machine alone: nothing listens for others."""


def register(spark: SparkSession) -> None:
    """Register the data source `mq` with a session. Each session needs it once; a second time changes nothing."""
    spark.dataSource.register(MQDataSource)


def session(
    appl_name: str = "evermq", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The Spark session of this process, made if there is none, with the data source `mq` registered.

    `master` is Spark's URL of a cluster; without one the environment's (`spark-submit` sets it), else `local[*]`.
    `settings` are Spark's (`spark.executor.memory`, ...). Workers on this machine run the Python of this process, and
    Spark the Java that `broker.spark.java` finds. Raises JavaNotFoundError.
    """
    builder = SparkSession.builder.appName(appl_name)
    if SparkSession.getActiveSession() is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the python3 of the PATH
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else Java runs already: spark-submit has started it
            provide_java()
    given = dict(settings or {})
    master = master or given.pop("spark.master", None)
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = os.environ.get("SPARK_MASTER", LOCAL)
    if master is not None:
        builder = builder.master(master)
    local = _ON_THIS_MACHINE if master is not None and master.startswith("local") else {}
    for key, value in {**SETTINGS, **local, **given}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
