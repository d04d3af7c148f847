"""Deal the suite's tests out to its processes: by the file, and on after one of them has died.

What pytest-xdist brings gives the next process everything that the dead one ever had: what is done already, so that
nothing comes back and the run waits for ever, and the test that killed it, which kills the next one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

OF_ALL_SOURCES: Final = (
    "tests/cli/test_log_events.py", "tests/handlers/test_cases.py", "tests/security/test_cases.py",
    "tests/sharing/test_cases.py", "tests/test_circles.py", "tests/test_class_names.py", "tests/test_docstrings.py",
    "tests/test_error_texts.py", "tests/test_layers.py", "tests/test_rooms.py", "tests/test_rule_numbers.py",
    "tests/test_written_pages.py",
)  # fmt: skip


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests run in one process, in their order; all tests of Spark in one, with one session, and those that
    read all sources in one, which reads them once.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/spark/"):
            return "tests/spark"
        file = nodeid.partition("::")[0]
        return "all sources" if file in OF_ALL_SOURCES else file

    def remove_node(self, node: WorkerController) -> str | None:
        """A process is gone. Return the test that it died of, if it died; what else it had is dealt out again."""
        killer = None
        for scope, tests in self.assigned_work.pop(node).items():
            left = [test for test, done in tests.items() if not done]
            if left and killer is None:
                killer = left.pop(0)
            if left:
                self.workqueue[scope] = dict.fromkeys(left, False)
        for other in self.nodes:
            self._reschedule(other)
        return killer

    def _assign_work_unit(self, node: WorkerController) -> None:
        with suppress(OSError):  # it has just died, as `remove_node` is about to be told
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Deal out to it until it has enough: a process begins a test when it knows of another, or that none comes. One
        that has not said yet which tests it has found is dealt out to when it does.
        """
        if node not in self.registered_collections:
            return
        had = -1
        while had != (had := len(self.workqueue)):
            super()._reschedule(node)
