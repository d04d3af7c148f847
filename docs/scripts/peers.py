"""The results of the harness of the peers, as tables: its cells, the targets in them, and its counts of syncs.

A cell of its JSON is a workload at a size on one system, with a dictionary of figures for each run. Runs during which
others used the machine are left out of the medians where there are quiet ones, as the harness does it.
"""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.benchmarks.report import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Cell = dict[str, Any]

SYSTEMS: Final = (
    "evermq",
    "evermq-nosync",
    "evermq-unix",
    "redis-always",
    "rabbitmq-quorum-lean",
    "rabbitmq-lean",
    "pg",
    "nats-sync",
)

WORKLOADS: Final = {
    "W1": ("rate", "durable puts, 256 outstanding, a second"),
    "W2": ("p50_us", "one durable put at a time, p50, us"),
    "W3": ("rate", "gets of queued messages, acknowledged, a second"),
    "W4": ("rate", "put and get through one queue, two client processes, a second"),
    "W4p": ("p50_us", "the same at 2,000 a second, put to handler, p50, us"),
    "W5": ("p50_us", "a blocked get wakes, p50, us"),
    "W6": ("total_ms", "1,000 waiters on 1,000 queues, a message each, ms"),
    "W7": ("rate", "an asyncio task for each message, a second"),
    "W8": ("rss_mb", "memory with 100,000 x 2 KiB queued, MiB"),
}
"""The figure of each workload that is compared, and what it is."""

_NOISY: Final = 0.25
"""The share of the processors used by others above which the harness calls a run noisy."""


class Target(NamedTuple):
    """A target: `ours` against `theirs`, at most or at least so many times as much."""

    workload: str
    ours: str
    theirs: str
    most: float = float("inf")
    least: float = 0.0


TARGETS: Final = (
    Target("W1", "evermq", "redis-always", least=1.0),
    Target("W2", "evermq", "redis-always", most=1.6),
    Target("W3", "evermq", "rabbitmq-lean", least=1.0),
    Target("W4", "evermq", "rabbitmq-quorum-lean", least=1.0),
    Target("W4p", "evermq", "rabbitmq-quorum-lean", most=0.7),
    Target("W5", "evermq", "redis-always", most=0.7),
    Target("W5", "evermq-nosync", "rabbitmq-lean", most=0.7),
    Target("W6", "evermq", "redis-always", most=1.0),
    Target("W8", "evermq", "redis-always", most=0.5),
)


def merged(texts: Iterable[str]) -> list[Cell]:
    """The cells of several files of results, runs of the same cell together."""
    cells: dict[tuple[str, int, str], Cell] = {}
    for text in texts:
        for each in json.loads(text)["cells"]:
            key = each["workload"], each["size"], each["system"]
            cells.setdefault(key, {**each, "runs": []})["runs"] += each["runs"]
    return list(cells.values())


def figure(cells: Iterable[Cell], workload: str, size: int, system: str, key: str) -> float | None:
    """The median of a cell; None when it has no run that came to its end."""
    place = {"workload": workload, "size": size, "system": system}
    runs = [run for each in cells if place.items() <= each.items() for run in each["runs"] if run.get(key) is not None]
    quiet = [run for run in runs if run.get("foreign", 0.0) < _NOISY]
    return median(run[key] for run in quiet or runs) if runs else None


def sizes(cells: Iterable[Cell], workload: str) -> list[int]:
    """The sizes at which a workload was measured."""
    return sorted({each["size"] for each in cells if each["workload"] == workload})


def comparison_rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each workload and size, a column for each system that was measured; the head first."""
    systems = [name for name in SYSTEMS if any(each["system"] == name for each in cells)]
    rows = [["", "workload", "bytes", *systems]]
    for workload, (key, title) in WORKLOADS.items():
        for size in sizes(cells, workload):
            values = (figure(cells, workload, size, system, key) for system in systems)
            rows.append([workload, title, str(size), *("" if value is None else amount(value) for value in values)])
    return rows


def target_rows(cells: Sequence[Cell]) -> list[list[str]]:
    """A row for each target and size: the ratio, and whether it is what it is to be; the head first."""
    rows = [["", "ours", "theirs", "bytes", "ratio", "target", ""]]
    for each in TARGETS:
        for size in sizes(cells, each.workload):
            rows += _target(cells, each, size)
    recovered = figure(cells, "W8", 2048, "evermq", "recover_net_ms")
    if recovered is not None:
        reported = ["2048", f"{amount(recovered)} ms", "<= 1,000 ms", _met(recovered <= 1000)]
        rows.append(["W8", "evermq: first get after kill -9", "", *reported])
    return rows


def _target(cells: Sequence[Cell], target: Target, size: int) -> Iterator[list[str]]:
    key, _ = WORKLOADS[target.workload]
    ours, theirs = (figure(cells, target.workload, size, system, key) for system in (target.ours, target.theirs))
    if ours is not None and theirs is not None:
        ratio = ours / theirs
        wanted = f">= {target.least:g}" if target.least else f"<= {target.most:g}"
        met = _met(target.least <= ratio <= target.most)
        yield [target.workload, target.ours, target.theirs, str(size), f"{ratio:.2f}", wanted, met]


def _met(met: bool) -> str:
    return "met" if met else "missed"


def sync_rows(text: str) -> list[list[str]]:
    """The counts of `durability_check.py`: a row for each system, a column for each workload; the head first.

    Each line of its output is the name of a system and a JSON object of objects.
    """
    counts: dict[str, Mapping[str, Mapping[str, int]]] = {}
    for line in text.splitlines():
        system, _, reported = line.partition(" ")
        counts[system] = json.loads(reported)
    workloads = list(next(iter(counts.values())))
    return [
        ["system", *workloads],
        *([system, *(str(sum(each[name].values())) for name in workloads)] for system, each in counts.items()),
    ]
