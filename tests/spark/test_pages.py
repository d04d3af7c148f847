"""The programs on the pages about Spark, run from their pages' text in the session of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.examples.processes import ROOT
from tests.examples.test_readme import ADDRESS, blocks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from tests.spark.daemons import Daemon


PATHS = ("/srv/archive", '"orders"', '"checkpoint"')
"""The folders that the pages name: Spark takes those without a slash from where its Java was started."""


def run_programs(page: str, daemon: Daemon, folder: Path, names: dict[str, Any]) -> dict[str, Any]:
    """Run the programs of a page one after the other, with their files in a folder; their names at the end."""
    for block in blocks((ROOT / "docs" / f"{page}.md").read_text("utf-8")):
        if block.language == "python":
            text = block.text.replace(f"mq://{ADDRESS}", daemon.url)
            for path in PATHS:
                text = text.replace(path, path.replace(path.strip('"'), str(folder / path.strip('"').lstrip("/"))))
            exec(text, names)
    return names


def test_the_programs_of_the_pages_about_spark_run(
    spark: SparkSession,
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("broker.spark.session", lambda: spark)
    daemon.mqsc("DEFINE QLOCAL(ORDERS)", "DEFINE QLOCAL(ORDERS.EU)")
    daemon.put("ORDERS", b"chair", b"table")
    daemon.put("ORDERS.EU", b"lamp")
    rows = spark.createDataFrame([(bytearray(b"bed"),)], "body binary")
    found = run_programs("how-to/spark", daemon, tmp_path, {"url": daemon.url, "rows": rows})
    assert "|format|count|" in capsys.readouterr().out
    assert found["orders"].count() == 3
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 1
    found = run_programs("how-to/pipelines", daemon, tmp_path, {})
    assert sorted(bytes(row.body) for row in found["messages"].collect()) == [b"bed", b"chair", b"table"]
    assert daemon.depth("ORDERS") == 0
