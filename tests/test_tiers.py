"""That the quick tier has of each part what its table says, and each test at some commit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.tiers import NONE, PARTS, ROOT, ROTATION, is_left_out, is_quick, left_to_full

if TYPE_CHECKING:
    from collections.abc import Iterable

ROTATIONS = [f"commit {number}" for number in range(60)]
SYSTEMS = [(way, store) for store in ("memory", "sqlite") for way in ("embedded", "tcp")]
SYSTEMS += [("embedded", "shared"), ("tcp", "shared-two")]


@dataclass(eq=False)
class Item:
    """A collected test, as the tiers ask it."""

    nodeid: str
    params: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    marker: str = ""

    @property
    def path(self) -> Path:
        return ROOT / self.nodeid.partition("::")[0]

    @property
    def callspec(self) -> Item:
        return self

    def get_closest_marker(self, name: str) -> bool:
        return name == self.marker


def config(*args: str, full: bool = False, markexpr: str = "not slow and not benchmark") -> Any:
    return SimpleNamespace(
        args=args or ("tests",),
        option=SimpleNamespace(full=full, markexpr=markexpr),
        invocation_params=SimpleNamespace(dir=ROOT),
    )


def drawn(items: Iterable[Item], rotation: str, monkeypatch: pytest.MonkeyPatch, settings: Any = None) -> set[str]:
    """The tests that a run has."""
    monkeypatch.setenv(ROTATION, rotation)
    items = list(items)
    left: Any = left_to_full(settings or config(), items)  # type: ignore[arg-type]
    return {item.nodeid for item in items if item not in left}


def scenario(text: str, rows: Iterable[str] = ("",)) -> list[Item]:
    """A text of `conformance/`, on each system with each row."""
    return [
        Item(
            f"tests/conformance/test_x.py::{text}[{'-'.join(system)}{row}]",
            {"system": system},
            f"{'-'.join(system)}{row}",
        )
        for system in SYSTEMS
        for row in rows
    ]


def test_what_the_table_names_is_there() -> None:
    for name in PARTS:
        path, _, test = name.partition("::")
        assert (ROOT / path).is_dir() if name.endswith("/") else (ROOT / path).is_file(), name
        assert not test or re.search(rf"^(async )?def {test}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), name


def test_a_file_that_the_table_does_not_name_is_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Item(f"tests/core/test_new.py::test_{number}") for number in range(50)]
    assert len(drawn(items, "commit", monkeypatch)) == 50


def test_of_a_part_one_in_so_many_is_drawn_and_each_at_some_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    named = "tests/engine/test_cancellation.py"
    items = [Item(f"{named}::test_it[{number}]") for number in range(100 * PARTS[named])]
    runs = [drawn(items, rotation, monkeypatch) for rotation in ROTATIONS]
    assert all(60 <= len(run) <= 140 for run in runs)
    assert set.union(*runs) == {item.nodeid for item in items}
    assert drawn(items, ROTATIONS[0], monkeypatch) == runs[0]


def test_the_longest_name_that_fits_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    chaos, cases = Item("tests/sharing/test_chaos.py::test_it"), Item("tests/sharing/test_cases.py::test_it")
    for rotation in ROTATIONS:
        assert drawn([chaos, cases], rotation, monkeypatch) == {cases.nodeid}


def test_a_scenario_is_run_embedded_in_memory_and_at_each_second_commit_on_another_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = scenario("test_text")
    runs = [drawn(items, rotation, monkeypatch) for rotation in ROTATIONS]
    assert all("tests/conformance/test_x.py::test_text[embedded-memory]" in run for run in runs)
    assert {len(run) for run in runs} == {1, 2}
    assert 90 - 15 <= sum(map(len, runs)) <= 90 + 15
    assert set.union(*runs) == {item.nodeid for item in items}


def test_each_row_of_a_table_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    items = scenario("test_table", ("-a", "-b", "-c"))
    for item in items:
        if item.nodeid.endswith("[embedded-memory-b]"):
            item.marker = "slow"  # of a table each row is on half of the systems
    for rotation in ROTATIONS:
        run = sorted(name for name in drawn(items, rotation, monkeypatch) if "embedded-memory-b" not in name)
        assert [name[-2] for name in sorted(run, key=lambda name: name[-2])] == ["a", "b", "c"]


def test_what_is_named_is_run_whole_and_a_folder_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [*scenario("test_text"), Item("tests/conformance/test_x.py::test_spark", marker="spark")]
    for named in ("tests/conformance/test_x.py", "tests/conformance/test_x.py::test_text"):
        assert len(drawn(items, "commit", monkeypatch, config(named))) == 7
        assert not is_quick(config(named))
    assert len(drawn(items, "commit", monkeypatch, config("tests/conformance"))) in (1, 2)
    assert len(drawn(items, "commit", monkeypatch, config("tests/core/test_get.py", "tests/conformance"))) in (1, 2)


@pytest.mark.parametrize(
    "settings", [config(full=True), config(markexpr="slow"), config(markexpr="spark and not slow")]
)
def test_a_full_run_leaves_nothing_out(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [*scenario("test_text"), Item("tests/spark/test_x.py::test_spark", marker="spark")]
    assert len(drawn(items, "commit", monkeypatch, settings)) == 7
    assert not is_left_out(ROOT / "tests" / "spark", settings)


def test_what_the_quick_tier_has_nothing_of_is_not_imported_unless_it_is_named() -> None:
    nothing = [ROOT / name for name in PARTS if PARTS[name] == NONE and "::" not in name]
    assert [path for path in nothing if not is_left_out(path, config())] == []
    assert not is_left_out(ROOT / "tests" / "spark", config("tests/spark/test_batch.py"))
    assert not is_left_out(ROOT / "tests" / "core", config())
    assert not is_left_out(Path("/elsewhere"), config())


def test_each_folder_of_tests_is_in_a_step_of_the_full_run() -> None:
    steps = (ROOT / ".ci" / "full").read_text("utf-8")
    named = {name for each in re.findall(r"tests/\{?([\w,]+)", steps) for name in each.split(",")}
    assert {path.parent.name for path in ROOT.glob("tests/*/__init__.py")} - named == set()
