"""Making the data source `mq` known to a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.spark.source import MQDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the data source `mq` with a session. Each session needs it once; a second time changes nothing."""
    spark.dataSource.register(MQDataSource)
