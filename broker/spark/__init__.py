"""The data pipeline on Spark: the data source `mq`, and the pipelines made of it.

    import broker.spark

    spark = broker.spark.session()                       # or your own, and broker.spark.register(spark)
    messages = spark.read.format("mq").option("url", "mq://127.0.0.1:1414").option("queue", "ORDERS").load()

It needs the extra `spark` (`pip install 'evermq[spark]'`); nothing of it is imported before it is used. The options and
columns are in `docs/how-to/spark.md`.

- what Spark calls: source (the data source, and the batch read), browsing and claiming (the streams), sink (writes)
- what they are made of: options, schema, offsets, selection, arrow (frames to record batches), rows (record batches to
  frames), connecting (the line of a process), credentials (who the job is), daemon (a queue manager run for a job)
- a session: java, session, finishing
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.spark.finishing import finish as finish
    from broker.spark.java import JavaNotFoundError as JavaNotFoundError
    from broker.spark.session import register as register
    from broker.spark.session import session as session

_MODULES = {
    "JavaNotFoundError": "java",
    "finish": "finishing",
    "register": "session",
    "session": "session",
}

__all__ = sorted(_MODULES)

_EXTRA = ("pyspark", "pyarrow", "pandas", "numpy", "google")


if not TYPE_CHECKING:  # type checkers would take it that any name is there

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _EXTRA:
                raise
            raise ModuleNotFoundError(
                f"{error.name} is not installed: broker.spark needs the extra spark, pip install 'evermq[spark]'",
                name=error.name,
            ) from error
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
