"""`evermq pipeline`, as far as it goes without Spark: options, and what is said before Spark is started."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from broker.cli.pipeline import spark
from tests.cli.test_mistakes import the_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Evermq = Callable[..., Result]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["archive", "--to", "DIR"], "Missing option '--queue'. (see evermq pipeline archive --help)"),
        (["archive", "--queue", "Q"], "Missing option '--to'."),
        (["archive", "--queue", "Q", "--to", "DIR", "--consumer", "C"], "--consumer goes with --move"),
        (["archive", "--queue", " , ", "--to", "DIR"], "Invalid value for '--queue': ' , ' names no queue"),
        (["archive", "--queue", "Q", "--to", "DIR", "--set", "x"], "'x' is not NAME=VALUE"),
        (["archive", "--queue", "Q", "--to", "DIR", "--option", "=x"], "'=x' is not NAME=VALUE"),
        (["archive", "--queue", "Q", "--to", "DIR", "--path", "no-such"], "Directory 'no-such' does not exist"),
        (["report", "--to", "DIR"], "Missing option '--archive'."),
        (["report", "--archive", "DIR"], "Missing option '--to'."),
        (["frobnicate"], "No such command 'frobnicate'. (see evermq pipeline --help)"),
    ],
)
def test_a_usage_error_is_one_line(evermq: Evermq, words: list[str], message: str) -> None:
    assert message in the_line(evermq("pipeline", *words), 20)


@pytest.mark.spark
def test_a_report_of_nothing_is_refused_before_spark_is_started(evermq: Evermq, tmp_path: Path) -> None:
    line = the_line(evermq("pipeline", "report", "--archive", str(tmp_path), "--to", str(tmp_path / "to")), 20)
    assert line == f"there is no archive in {tmp_path}: make one with evermq pipeline archive"


@pytest.mark.parametrize("words", [["archive", "--queue", "Q"], ["report", "--archive", "DIR"]])
def test_without_the_extra_the_line_names_it(
    evermq: Evermq, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.setattr(spark, "find_spec", lambda name: None if name == "pyarrow" else object())
    line = the_line(evermq("pipeline", *words, "--to", str(tmp_path / "to")), 20)
    assert line == "there is no pyarrow: the pipelines run on Spark; pip install 'evermq[spark]'"
    assert list(tmp_path.iterdir()) == []


def test_queues_may_be_named_together_and_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = spark.names(None, None, ("A, B", "C.*", "B"))  # type: ignore[arg-type]
    assert found == ["A", "B", "C.*"]


def test_a_data_directory_goes_before_the_url_of_the_environment() -> None:
    given: spark.SourceOptions = {
        "master": None, "settings": {}, "url": "mq://127.0.0.1:1414", "path": "data", "options": {"groups": "whole"},
    }  # fmt: skip
    assert spark.source_of(given).as_options() == {"path": "data", "groups": "whole"}
    assert spark.source_of({**given, "path": None}).as_options() == {"url": "mq://127.0.0.1:1414", "groups": "whole"}


def test_the_other_commands_start_without_spark() -> None:
    program = "import sys; import broker.cli; print([name for name in sys.modules if name.split('.')[0] == 'pyspark'])"
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert reported.stdout == "[]\n"
