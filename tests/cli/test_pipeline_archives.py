"""`evermq pipeline reassemble` and `replay`, as far as they go without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from broker.cli.pipeline.replay import _words
from broker.cli.terminal.moment import moment
from broker.spark.pipelines.replay import Replayed
from tests.cli.test_mistakes import the_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Evermq = Callable[..., Result]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reassemble", "--to", "DIR"], "give --archive, or the live queues with --queue"),
        (["reassemble", "--archive", "A"], "Missing option '--to'."),
        (["reassemble", "--archive", "A", "--to", "DIR", "--follow"], "--wait and --follow are for live queues"),
        (
            ["reassemble", "--archive", "A", "--to", "DIR", "--wait", "0"],
            "--wait and --follow are for live queues",
        ),
        (["reassemble", "--queue", "Q", "--to", "DIR", "--overwrite"], "--overwrite goes with --archive"),
        (["replay"], "Missing option '--archive'."),
        (["replay", "--archive", "A", "--audit", "Q", "--no-audit"], "--audit and --no-audit exclude each other"),
        (
            ["replay", "--archive", "A", "--since", "noon"],
            "'noon' is no moment: write 2026-01-31, or",
        ),
        (["replay", "--archive", "A", "--msg-id", "XY"], "'XY' is not hexadecimal digits, two a byte"),
    ],
)
def test_a_usage_error_is_one_line(evermq: Evermq, words: list[str], message: str) -> None:
    assert message in the_line(evermq("pipeline", *words), 20)


@pytest.mark.parametrize("words", [["reassemble", "--to", "whole"], ["replay"]])
def test_without_an_archive_spark_is_not_started(evermq: Evermq, tmp_path: Path, words: list[str]) -> None:
    line = the_line(evermq("pipeline", *words, "--archive", str(tmp_path)), 20)
    assert line == f"there is no archive in {tmp_path}: make one with evermq pipeline archive"


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00+01:00", datetime(2026, 1, 31, 11, tzinfo=UTC)),
    ],
)
def test_a_moment_without_a_zone_is_in_utc(text: str, due: datetime) -> None:
    assert moment(None, None, text) == due  # type: ignore[arg-type]


def test_what_was_replayed_is_told_in_a_line() -> None:
    done = Replayed(key="K", messages=2, bytes=9, groups=1, left_out=0)
    assert _words(done, dry_run=False) == "2 messages replayed, 1 group among them (key K)"
    some = Replayed(key="K", messages=1, bytes=9, groups=0, left_out=3)
    assert _words(some, dry_run=True) == (
        "1 message would be replayed, 0 groups among them (key K); 3 messages of groups that are not whole left out"
    )
    again = Replayed(
        key="K", messages=0, bytes=0, groups=0, left_out=0, before=datetime(2026, 1, 31, 12, tzinfo=UTC), since=4
    )
    assert _words(again, dry_run=False) == (
        "already replayed at 2026-01-31 12:00:00 UTC (key K): nothing was put; 4 messages wanted now were not there "
        "then: give another --key"
    )
