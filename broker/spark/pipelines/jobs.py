"""Tell the progress of a long job of Spark's while it runs."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

_LOOK_SECONDS: Final = 0.5


@contextmanager
def watched(spark: SparkSession, what: str, tell: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, tell how many tasks of Spark's stages are done: "reading sizes: 12 of 40 tasks"."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, what, tell, ended), name="progress", daemon=True)
    tell(what)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(spark: SparkSession, what: str, tell: Callable[[str], None], ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(_LOOK_SECONDS):
        stages = [
            stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None
        ]
        tasks = sum(stage.numTasks for stage in stages)
        if tasks:
            tell(f"{what}: {sum(stage.numCompletedTasks for stage in stages)} of {tasks} tasks")
