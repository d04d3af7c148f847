"""The watch over the event loop: who blocks it, and who does not end, is named."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import broker
from broker.server.watch import DaemonWatch, _reported, _suspended_frames

if TYPE_CHECKING:
    from collections.abc import Iterator


class Told(logging.Handler):
    """Waits, in a blocked thread if need be, until the watch has said something."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.said = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")
        self.said.set()


@pytest.fixture
def reported() -> Iterator[Told]:
    handler = Told()
    logger = logging.getLogger("broker.server.watch")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


async def blocking(reported: Told) -> bool:
    return reported.said.wait(30)


async def test_a_task_that_blocks_the_event_loop_is_named_once_with_where_it_is(reported: Told) -> None:
    watch = DaemonWatch()
    watch.start()

    async def handler() -> None:
        assert await blocking(reported)
        assert not threading.Event().wait(0.7)  # long enough to be named again

    try:
        await asyncio.create_task(handler(), name="trigger:Q:1")
    finally:
        watch.stop()
    (line,) = reported.lines
    assert line.startswith("WARNING the event loop is blocked, nobody is served for 0.5 s by now: task=trigger:Q:1 ")
    assert "handler=tests.server.test_watch:test_a_task_that_blocks" in line
    assert "<locals>.handler" in line
    assert f"file={__file__} at=test_watch.py:" in line


async def test_a_loop_that_answers_is_not_told_of(reported: Told) -> None:
    watch = DaemonWatch()
    watch.start()
    await anyio.sleep(0.25)  # real time: two polls of the thread
    watch.stop()
    assert reported.lines == []


async def test_who_goes_on_when_the_time_is_up_is_named_and_the_process_given_up(reported: Told) -> None:
    gave_up = asyncio.Event()
    loop = asyncio.get_running_loop()
    watch = DaemonWatch(give_up=lambda: loop.call_soon_threadsafe(gave_up.set))
    may_end = asyncio.Event()

    async def stubborn() -> None:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    async def waits() -> None:
        await stubborn()

    task = asyncio.create_task(waits(), name="trigger:Q:7")
    ours = asyncio.create_task(anyio.sleep_forever(), name="ours")
    await anyio.lowlevel.checkpoint()
    task.cancel()
    watch.start()
    watch.end_within(0)
    watch.end_within(1000)  # does not lengthen it
    await gave_up.wait()
    watch.stop()
    may_end.set()
    await task
    ours.cancel()
    (line,) = reported.lines
    assert line.startswith("ERROR the daemon ends without what did not end in time: ")
    assert "task=trigger:Q:7 handler=tests.server.test_watch:" in line
    assert "ours" not in line


async def test_what_has_ended_in_time_is_not_given_up(reported: Told) -> None:
    watch = DaemonWatch()
    watch.end_within(0)
    watch.has_ended()
    watch.start()
    await anyio.sleep(0.15)  # real time: a poll of the thread
    watch.stop()
    assert reported.lines == []


async def test_tasks_that_are_in_no_code_of_the_users_have_nothing_to_tell() -> None:
    task = asyncio.create_task(anyio.sleep_forever())
    await anyio.lowlevel.checkpoint()
    assert _reported(task, _suspended_frames(task)) == ""
    task.cancel()


@pytest.fixture
def slow_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: Told) -> Told:
    """`slow`, a package that somebody has installed: its import holds the event loop until the watch has said so."""
    (tmp_path / "slow.py").write_text("import sys\nsys.modules['slow.waits']()\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "slow.waits", lambda: reported.said.wait(1.5))  # thrice what is told of
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    return reported


async def _watched(importing: str, file: Path) -> None:
    """Run code that imports something, as if it stood in a file, beside the watch."""
    watch = DaemonWatch()
    watch.start()
    scope: dict[str, Any] = {}
    exec(compile(importing, str(file), "exec"), scope)
    try:
        await asyncio.create_task(scope["run"]())
    finally:
        watch.stop()


async def test_what_evermq_imports_itself_is_not_told_of(slow_package: Told) -> None:
    """A driver of a database, on a slow machine: no user's code is to blame."""
    await _watched("async def run():\n    import slow\n", Path(broker.__file__).with_name("some.py"))
    assert slow_package.lines == []


@pytest.mark.parametrize(
    ("importing", "at"),
    [
        ("async def run():\n    import slow\n", "handlers.py:2 > "),
        ("from importlib import import_module\nasync def run():\n    import_module('slow')\n", "at=slow.py:2"),
    ],
)
async def test_what_handlers_import_is_told_of(slow_package: Told, importing: str, at: str, tmp_path: Path) -> None:
    ours = "import_module" in importing
    await _watched(importing, Path(broker.__file__).with_name("some.py") if ours else tmp_path / "handlers.py")
    (line,) = slow_package.lines
    assert at in line
    assert "slow.py:2" in line


async def test_a_watch_that_was_never_started_stops() -> None:
    DaemonWatch().stop()
