"""A run of the suite ends, and has tried every test once, whichever of its processes dies."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.scheduling import FileScheduling

ROOT = Path(__file__).parents[1]

CONFTEST = """
from tests.scheduling import FileScheduling

def pytest_xdist_make_scheduler(config, log):
    return FileScheduling(config, log)
"""

TESTS = """
import os
import pytest

@pytest.mark.parametrize("number", range({count}))
def test(number):
    if {deadly} == number:
        os._exit(9)
"""


@pytest.mark.parametrize("deadly", [{0: 0}, {9: 0}, {9: 2}], ids=str)
def test_a_run_ends_after_one_of_its_processes_has_died(tmp_path: Path, deadly: dict[int, int]) -> None:
    run_with(tmp_path, deadly)


def test_a_run_ends_after_three_of_its_processes_have_died(tmp_path: Path) -> None:
    run_with(tmp_path, {0: 1, 5: 1, 9: 1})


def run_with(tmp_path: Path, deadly: dict[int, int]) -> None:
    """Run ten files of one to three tests. `deadly`: which test of which file ends its process."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for file in range(10):
        text = TESTS.format(count=1 + (file + 2) % 3, deadly=deadly.get(file))
        (tmp_path / f"test_{file}.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "2", "-q", "--no-loadscope-reorder", str(tmp_path)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    counts = dict(map(reversed, re.findall(r"(\d+) (passed|failed)", run.stdout)))
    tests = sum(1 + (file + 2) % 3 for file in range(10))
    assert counts == {"passed": str(tests - len(deadly)), "failed": str(len(deadly))}, run.stdout


class Process:
    """A process of a run, as its scheduler knows it."""

    gateway = SimpleNamespace(id="gw")
    shutting_down = False

    def __init__(self) -> None:
        self.dealt: list[int] = []
        self.dead = False

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        self.dealt += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_what_is_dealt_to_a_process_that_has_just_died_is_dealt_to_another() -> None:
    tests = [f"tests/test_{file}.py::test[{number}]" for file in range(8) for number in range(2)]
    options = SimpleNamespace(loadscopereorder=False)
    run = FileScheduling(SimpleNamespace(getvalue=lambda _: ["2*popen"], option=options))
    first, second = Process(), Process()
    for process in (first, second):
        run.add_node(process)
        run.add_node_collection(process, tests)
    run.schedule()
    first.dead = True
    for index in first.dealt:
        run.mark_test_complete(first, index)
    killer = run.remove_node(first)
    for index in second.dealt:  # and what is dealt to it meanwhile
        run.mark_test_complete(second, index)
    assert not run.has_pending
    assert {tests[index] for index in first.dealt + second.dealt} == {*tests} - {killer}


def test_nothing_is_dealt_to_a_process_that_has_not_collected_yet() -> None:
    tests = [f"tests/test_{file}.py::test[{number}]" for file in range(8) for number in range(2)]
    options = SimpleNamespace(loadscopereorder=False)
    run = FileScheduling(SimpleNamespace(getvalue=lambda _: ["2*popen"], option=options))
    first, second, later = Process(), Process(), Process()
    for process in (first, second):
        run.add_node(process)
        run.add_node_collection(process, tests)
    run.schedule()
    run.add_node(later)
    run.schedule()  # as another one that takes the place of a dead one has collected
    assert not later.dealt
    run.add_node_collection(later, tests)
    run.schedule()
    assert later.dealt
