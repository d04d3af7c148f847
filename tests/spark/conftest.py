"""One Spark session for all tests, and daemons that Spark's processes reach."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker.spark import session
from tests.spark import steps
from tests.spark.daemons import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.noDataProgressEventInterval": "500",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose tasks are tried three times, which `local[2]` would not do."""
    local = tmp_path_factory.mktemp("spark")
    (local / "steps").mkdir()
    os.environ[steps.FOLDER] = str(local / "steps")
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # the processes of Spark import these tests
    settings = {**SETTINGS, "spark.local.dir": str(local), "spark.sql.warehouse.dir": str(local / "warehouse")}
    made = session("tests", master="local[2,3]", settings=settings)
    made.dataSource.register(steps.SteppingSource)
    yield made
    made.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use the session are marked `spark`."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon with the queues Q, R and S."""
    with Daemon(tmp_path / "data") as daemon:
        daemon.mqsc("DEFINE QLOCAL(Q)", "DEFINE QLOCAL(R)", "DEFINE QLOCAL(S)")
        yield daemon
