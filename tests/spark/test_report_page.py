"""The page of a report and its charts, without Spark."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pytest

from broker.spark.pipelines.reporting import charts
from broker.spark.pipelines.reporting.axes import (
    bytes_words,
    duration_ticks,
    number,
    round_ticks,
    seconds_words,
    time_ticks,
    whole_ticks,
)
from broker.spark.pipelines.reporting.charts import Series
from broker.spark.pipelines.reporting.page import PageContents, page, reason_words, size_bins
from broker.spark.pipelines.reporting.tables import BUCKETS_MAX, bucket_seconds

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (7.4, ["0", "2", "4", "6", "8"]),
        (1000, ["0", "200", "400", "600", "800", "1,000"]),
        (1100, ["0", "250", "500", "750", "1,000", "1,250"]),
    ],
)
def test_ticks_are_round_and_reach_the_most(most: float, texts: list[str]) -> None:
    assert [tick.text for tick in round_ticks(most)] == texts


def test_what_is_counted_has_no_halves() -> None:
    assert [tick.text for tick in whole_ticks(2)] == ["0", "1", "2"]
    assert [tick.text for tick in whole_ticks(0)] == ["0", "1"]


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (0.02, ["0 s", "5 ms", "10 ms", "15 ms", "20 ms"]),
        (28, ["0 s", "10 s", "20 s", "30 s"]),
        (5900, ["0 min", "30 min", "60 min", "90 min", "120 min"]),
        (1e12, ["0 s", "2310000 d", "4630000 d", "6940000 d", "9260000 d", "11600000 d"]),
    ],
)
def test_ticks_of_times_are_round_in_their_unit(most: float, texts: list[str]) -> None:
    assert [tick.text.replace(",", "") for tick in duration_ticks(most)] == texts


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (1, ["00:00.0", "00:00.2", "00:00.4", "00:00.6", "00:00.8", "00:01.0"]),
        (5, ["12:00:00", "12:00:01", "12:00:02", "12:00:03", "12:00:04", "12:00:05"]),
        (600, ["12:00", "12:02", "12:04", "12:06", "12:08", "12:10"]),
        (172_800, ["01-31 12:00", "02-01 00:00", "02-01 12:00", "02-02 00:00", "02-02 12:00"]),
        (400_000, ["2026-02-01", "2026-02-02", "2026-02-03", "2026-02-04", "2026-02-05"]),
    ],
)
def test_ticks_of_the_clock_are_round(span: float, texts: list[str]) -> None:
    assert [tick.text for tick in time_ticks(NOON, NOON + span)] == texts


def test_figures_are_words_for_people() -> None:
    assert [number(value) for value in (0, 12_345, 0.25, 1234.5)] == ["0", "12,345", "0.25", "1,234"]
    assert [bytes_words(value) for value in (0, 1023, 1536, 2**31, 3 * 2**40)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "2 GiB",
        "3 TiB",
    ]
    assert [seconds_words(value) for value in (0.0254, 1.5, 119, 180, 9000, 345_600)] == [
        "25.4 ms", "1.5 s", "119 s", "3 min", "2.5 h", "4 d",
    ]  # fmt: skip
    assert [reason_words(reason) for reason in (2053, 271, 65_540, 5)] == [
        "MQRC_Q_FULL (2053)", "MQFB_XMIT_Q_MSG_ERROR (271)", "65540 (of the application)", "5",
    ]  # fmt: skip


@pytest.mark.parametrize("span", [0, 0.4, 12, 12.1, 3600, 1e6, 1e9, 1e12])
def test_there_are_never_too_many_buckets(span: float) -> None:
    assert span / bucket_seconds(span) <= BUCKETS_MAX


def test_a_histogram_has_a_bar_for_each_quarter_where_sizes_are_near_and_else_for_each_power() -> None:
    assert size_bins([(64, 80), (128, 160)]) == [64, 80, 96, 112, 128]
    assert size_bins([(0, 1), (5, 6), (16, 20)]) == [0, 1, 2, 4, 8, 16]
    assert size_bins([(40, 48), (1024, 1280)]) == [32, 64, 128, 256, 512, 1024]
    assert size_bins([(0, 1)]) == [0]


def test_steps_fall_to_zero_where_nothing_arrived() -> None:
    drawn = charts.rates("Arrivals", [Series("A", [(NOON, 4), (NOON + 2, 4), (NOON + 10, 2)])], 2)
    (line,) = (each for each in ElementTree.fromstring(drawn) if each.get("class") == "line c0")
    assert line.get("d", "").count("M") == 2
    top, zero = 26.0, 224.0  # the most is 2 a second, where the axis ends
    assert line.get("d") == (
        f"M64.0 {zero}V{top}H176.3V{top}H288.7V{zero}M625.7 {zero}V{(top + zero) / 2}H738.0V{zero}"
    )


def test_bars_stand_on_one_another() -> None:
    drawn = charts.bars("Sizes", ["a", "b"], [Series("A", [(0, 3), (1, 1)]), Series("B", [(0, 1)])], "size")
    bars = [each for each in ElementTree.fromstring(drawn) if (each.get("class") or "").startswith("bar")]
    (a0, a1, b0) = [(float(each.get("y", 0)), float(each.get("height", 0))) for each in bars]
    assert a0[0] + a0[1] == a1[0] + a1[1] == 224.0
    assert b0[0] + b0[1] == pytest.approx(a0[0], abs=0.11)
    assert a0[1] == pytest.approx(3 * b0[1], abs=0.2)


def reported(**tables: list[dict[str, Any]]) -> PageContents:
    names = ("queues", "arrivals", "sizes", "backouts", "dead_letters", "depths")
    made = datetime(2026, 2, 1, tzinfo=UTC)
    return PageContents(archive="/a <b> & c", moved=False, made=made, tables={**{name: [] for name in names}, **tables})


def queue(name: str, messages: int) -> dict[str, Any]:
    sizes = dict.fromkeys(("size_min", "size_p50", "size_p90", "size_p99", "size_max"), 1)
    times = {"first_put": NOON, "last_put": NOON + 9}
    return {"queue": name, "messages": messages, "bytes": messages, "backed_out": 0, "backouts": 0, **times, **sizes}


def test_a_page_needs_nothing_else_and_trusts_no_name() -> None:
    arrivals = [{"queue": "<script>", "since": NOON, "messages": 5, "bytes": 5, "seconds": 1.0}]
    text = page(reported(queues=[queue("<script>", 5)], arrivals=arrivals))
    assert "<script" not in text
    assert "/a &lt;b&gt; &amp; c" in text
    assert not re.search(r"https?:|url\(|@import|src=|<link", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_many_queues_have_a_colour_each_as_far_as_there_are_any() -> None:
    queues = [queue(f"Q{number:02}", 100 - number) for number in range(12)]
    arrivals = [{"queue": row["queue"], "since": NOON, "messages": 1, "bytes": 1, "seconds": 1.0} for row in queues]
    text = page(reported(queues=queues, arrivals=arrivals))
    legend = re.findall(r'<li class="c(\d)">([^<]+)</li>', text)
    assert legend == [*((str(number), f"Q{number:02}") for number in range(7)), ("7", "all others")]


def test_a_page_says_what_is_missing() -> None:
    text = page(reported())
    for words in ("no messages yet", "Only where messages are moved", "Name live queues", "No message was backed out",
                  "No message has a dead-letter header"):  # fmt: skip
        assert words in text
