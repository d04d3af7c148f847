"""The page of the figures is written from what was measured."""

from __future__ import annotations

import json

import pytest

from tests.scripts import script

page = script("performance_page")
peers = script("peers")

CELLS = peers.merged(
    json.dumps({"cells": [{"workload": workload, "size": size, "system": system, "runs": runs}]})
    for workload, size, system, runs in [
        ("W1", 256, "evermq", [{"rate": 9_000, "foreign": 0.1}]),
        ("W1", 256, "evermq", [{"rate": 11_000, "foreign": 0.1}, {"rate": 100, "foreign": 0.5}, {"error": "timeout"}]),
        ("W1", 256, "redis-always", [{"rate": 20_000, "foreign": 0.9}]),
        ("W2", 2048, "evermq", [{"p50_us": 320.0}]),
        ("W2", 2048, "redis-always", [{"p50_us": 200.0}]),
        ("W8", 2048, "evermq", [{"rss_mb": 80.0, "recover_net_ms": 1_200.0}]),
        ("W8", 2048, "pg", [{"error": "timeout"}]),
    ]
)


def test_noisy_runs_do_not_count_where_there_are_quiet_ones() -> None:
    assert peers.figure(CELLS, "W1", 256, "evermq", "rate") == 10_000
    assert peers.figure(CELLS, "W1", 256, "redis-always", "rate") == 20_000
    assert peers.figure(CELLS, "W8", 2048, "pg", "rss_mb") is None


def test_systems_stand_side_by_side() -> None:
    assert [[row[0], *row[2:]] for row in peers.comparison_rows(CELLS)] == [
        ["", "bytes", "evermq", "redis-always", "pg"],
        ["W1", "256", "10,000", "20,000", ""],
        ["W2", "2048", "320", "200", ""],
        ["W8", "2048", "80", "", ""],
    ]


def test_a_target_is_met_or_missed() -> None:
    assert peers.target_rows(CELLS)[1:] == [
        ["W1", "evermq", "redis-always", "256", "0.50", ">= 1", "missed"],
        ["W2", "evermq", "redis-always", "2048", "1.60", "<= 1.6", "met"],
        ["W8", "evermq: first get after kill -9", "", "2048", "1,200 ms", "<= 1,000 ms", "missed"],
    ]


def test_syncs_of_all_kinds_are_counted_together() -> None:
    text = (
        'evermq {"W2": {"fdatasync": 201}, "W5": {}}\nnats {"W2": {"fsync": 1, "fdatasync": 2}, "W5": {"fsync": 4}}\n'
    )
    assert peers.sync_rows(text) == [["system", "W2", "W5"], ["evermq", "201", "0"], ["nats", "3", "4"]]


def test_a_generated_part_is_replaced_and_the_rest_stays() -> None:
    before = "a\n<!-- figures -->\nold\n<!-- end of figures -->\nb\n"
    assert page.replaced(before, "figures", "| \\1 |") == (
        "a\n<!-- figures -->\n\n| \\1 |\n<!-- end of figures -->\nb\n"
    )
    with pytest.raises(ValueError, match="no part limits"):
        page.replaced(before, "limits", "")


def security_figure(name: str, values: list[float], **details: list[float]) -> dict[str, object]:
    """A figure of a report, of two runs."""
    return {
        "name": name, "title": f"title of {name}", "size": 256, "unit": "messages/s",
        "median": sum(values) / 2, "min": min(values), "max": max(values), "values": values,
        "details": {each: sum(both) / 2 for each, both in details.items()}, "details_values": details,
    }  # fmt: skip


def test_what_users_and_tls_cost_is_told_by_the_ratios_of_the_runs() -> None:
    report = {
        "figures": [
            security_figure("put-pipelined", [100, 1000], daemon_us=[10, 1]),
            security_figure("put-pipelined-checked", [90, 900], daemon_us=[10, 1]),
            security_figure("put-pipelined-tls", [80, 600], daemon_us=[20, 3], p99_us=[7, 7]),
            security_figure("wake", [1, 1]),
        ]
    }
    assert page.security_rows(report)[1:] == [
        ["title of put-pipelined", "256", "550", "100 - 1,000", "messages/s", "", "5.5", "", ""],
        ["title of put-pipelined-checked", "256", "495", "90 - 900", "messages/s", "0.90", "5.5", "1.00", ""],
        ["title of put-pipelined-tls", "256", "340", "80 - 600", "messages/s", "0.70", "11.5", "2.50", "p99_us 7"],
    ]


def test_the_page_has_every_generated_part() -> None:
    text = page.PAGE.read_text("utf-8")
    for name in ("machine", "figures", "limits", "security", "targets", "peers", "syncs"):
        assert page.replaced(text, name, "") != "", name


def test_a_table_is_markdown() -> None:
    assert page.markdown([["a", "b"], ["c", "1"]]) == "| a | b |\n| --- | ---: |\n| c | 1 |\n"
