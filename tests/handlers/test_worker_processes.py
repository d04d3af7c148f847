"""`evermq worker` as users run it: real processes, signals and a daemon (handlers section 9)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import RunningDaemon, command, environment, ready
from tests.handlers.processes import APP, daemon, evermq, left, put, worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAITING_FOR_GO = """
GO = SEEN.with_name("go")

@app.handler("Q", concurrency=10, retry=0)
async def handle(body: str, message: Message) -> None:
    saw("begin", body, message.md.backout_count)
    while not GO.exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            saw("cancelled", body)
            if body != "stubborn":
                raise
    saw("end", body)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon that the tests of this file share: each has queues of its own."""
    with daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def url(served: RunningDaemon) -> Iterator[str]:
    yield served.url
    evermq(served.url, "mqsc", text="DELETE QLOCAL(Q) PURGE\nDELETE QLOCAL(Q.DEAD) PURGE\n")


def app(folder: Path, text: str = WAITING_FOR_GO) -> None:
    (folder / "shop.py").write_text(APP + text, "utf-8")


def test_h9_1_a_signal_ends_it_when_its_handlers_have(tmp_path: Path, url: str) -> None:
    app(tmp_path)
    with worker(tmp_path, url) as first:
        first.logged("worker ready")
        put(url, "Q", *(f"{number}" for number in range(15)))
        first.until(lambda: len(first.seen()) == 10, "10 handlers")
        first.process.send_signal(signal.SIGTERM)
        first.logged("worker stops")
        (tmp_path / "go").touch()
        assert first.end(None) == 0
        assert len(first.seen()) == 20
    assert len(left(url, "Q")) == 5
    with worker(tmp_path, url) as second:
        second.until(lambda: len(second.seen()) == 30, "15 handled")
        assert second.end() == 0
    seen = Counter(second.seen())
    assert seen == {f"begin {number} 0": 1 for number in range(15)} | {f"end {number}": 1 for number in range(15)}
    assert left(url, "Q.DEAD") == []


def test_h9_2_a_handler_that_ignores_its_cancellation_is_left_behind_and_its_message_returned(
    tmp_path: Path, url: str
) -> None:
    app(tmp_path)
    with worker(tmp_path, url, "--grace", "0.5") as first:
        first.logged("worker ready")
        put(url, "Q", "stubborn", "good")
        first.saw("begin stubborn 0")
        first.saw("begin good 0")
        began = time.monotonic()
        assert first.end() == 10
        assert time.monotonic() - began >= 0.5
    assert sorted(left(url, "Q")) == [("good", 0), ("stubborn", 0)]
    (tmp_path / "go").touch()
    with worker(tmp_path, url) as second:
        second.saw("end stubborn")
        second.saw("end good")
        assert second.end() == 0
    assert left(url, "Q.DEAD") == []


def test_h9_3_a_second_signal_cancels_at_once(tmp_path: Path, url: str) -> None:
    app(tmp_path)
    with worker(tmp_path, url, "--grace", "600") as first:
        first.logged("worker ready")
        put(url, "Q", "slow")
        first.saw("begin slow 0")
        first.process.send_signal(signal.SIGTERM)
        first.logged("worker stops")
        assert first.end(signal.SIGINT) == 10  # before its grace is over
        assert first.seen() == ["begin slow 0", "cancelled slow"]
    assert left(url, "Q") == [("slow", 0)]


def test_a_third_signal_ends_it_whatever_runs_and_that_is_a_crash(tmp_path: Path, url: str) -> None:
    app(
        tmp_path,
        """
@app.handler("Q", retry=3)
async def handle(body: str) -> None:
    saw("begin")
    while True:
        time.sleep(0.01)
""",
    )
    with worker(tmp_path, url, "--grace", "600") as first:
        first.logged("worker ready")
        put(url, "Q", "blocking")
        first.saw("begin")
        for _ in range(3):
            first.process.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # a signal that comes twice before it is handled comes once
        assert first.end(None) == 10


def test_h9_6_what_has_returned_is_committed_though_the_signal_comes_before_its_settlement(
    tmp_path: Path, url: str
) -> None:
    app(
        tmp_path,
        """
@app.handler("Q")
async def handle(body: str) -> None:
    await app.put("Q.DEAD", "done")
    saw("end")
    os.kill(os.getpid(), signal.SIGTERM)
""",
    )
    with worker(tmp_path, url) as first:
        first.logged("worker ready")
        put(url, "Q", "a")
        assert first.end(None) == 0
    assert (left(url, "Q"), left(url, "Q.DEAD")) == ([], [("done", 0)])


def test_h9_7_a_batch_and_a_group_are_returned_whole(tmp_path: Path, url: str) -> None:
    app(
        tmp_path,
        """
from triggers import Group

@app.handler("Q", batch=3, batch_wait=60, retry=0)
async def batch(bodies: list[str]) -> None:
    saw("batch", len(bodies))
    await asyncio.sleep(60)

@app.handler("G", retry=0)
async def group(bodies: Group[str]) -> None:
    saw("group")
    await asyncio.sleep(60)
""",
    )
    with worker(tmp_path, url, "--grace", "0") as first:
        first.logged("worker ready")
        put(url, "Q", "1", "2", "3")
        evermq(url, "put", "G", "--lines", "--group", text="a\nb\n")
        first.saw("batch 3")
        first.saw("group")
        assert first.end() == 10
    assert left(url, "Q") == [("1", 0), ("2", 0), ("3", 0)]
    assert left(url, "G") == [("a", 0), ("b", 0)]


ONCE = """
@app.handler("Q", concurrency=4, retry=Retry(5, backoff=0.05))
async def handle(body: str, message: Message) -> None:
    await asyncio.sleep(0.01)
    if body.endswith("7") and message.md.backout_count == 0:
        saw("fails", body)
        raise ValueError("the first time")
    saw("done", body, message.md.backout_count, os.getpid())
"""


def check_each_was_done_once(lines: list[str], count: int) -> None:
    """Each once, and charged for what its handler did alone."""
    failed = Counter(line.split()[1] for line in lines if line.startswith("fails"))
    done = Counter(tuple(line.split()[1:3]) for line in lines if line.startswith("done"))
    assert failed == {f"{number}": 1 for number in range(count) if f"{number}".endswith("7")}
    assert done == {(f"{number}", "1" if f"{number}".endswith("7") else "0"): 1 for number in range(count)}


def test_h9_8_processes_that_are_replaced_after_some_deliveries_lose_and_double_nothing(
    tmp_path: Path, url: str
) -> None:
    app(tmp_path, ONCE)
    with worker(tmp_path, url, "--max-tasks", "100", "--processes", "2") as workers:
        workers.logged("worker ready", 2)
        put(url, "Q", *(f"{number}" for number in range(1000)))
        workers.logged("worker stops", 2)
        put(url, "Q", *(f"{number}" for number in range(1000, 1500)))  # which those that replaced them handle
        workers.until(lambda: len(workers.seen()) >= 1650, "1500 done")
        assert workers.end() == 0
        pids = {line.split()[-1] for line in workers.seen() if line.startswith("done")}
        assert len(pids) > 2
    check_each_was_done_once(workers.seen(), 1500)


def test_h9_4_a_rolling_restart_loses_doubles_and_charges_nothing(tmp_path: Path, url: str) -> None:
    app(tmp_path, ONCE)
    with worker(tmp_path, url) as first:
        first.logged("worker ready")

        def put_all() -> None:
            for start in range(0, 1000, 100):
                put(url, "Q", *(f"{number}" for number in range(start, start + 100)))

        putting = threading.Thread(target=put_all)
        putting.start()
        with worker(tmp_path, url) as second, worker(tmp_path, url) as third:
            for each in (second, third):
                each.logged("worker ready")
            assert first.end() == 0
            with worker(tmp_path, url) as fourth:
                fourth.logged("worker ready")
                assert second.end() == 0
                with worker(tmp_path, url) as fifth:
                    fifth.logged("worker ready")
                    assert third.end() == 0
                    putting.join()
                    fifth.until(lambda: len(fifth.seen()) >= 1100, "1000 done")
                    assert (fourth.end(), fifth.end()) == (0, 0)
    check_each_was_done_once(first.seen(), 1000)
    assert left(url, "Q") == left(url, "Q.DEAD") == []


def test_h9_5_a_worker_serves_again_when_its_queue_manager_is_back(tmp_path: Path) -> None:
    app(tmp_path, ONCE)
    (tmp_path / "broker.toml").write_text('[queue_manager]\ndata = "data"\n[listener]\nport = 0\n', "utf-8")
    run = command("run", "--config", "broker.toml")
    with subprocess.Popen(run, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment()) as process:
        assert process.stderr is not None
        running = ready(process, process.stderr)
        with worker(tmp_path, running.url) as first:
            first.logged("worker ready")
            put(running.url, "Q", "1")
            first.saw(f"done 1 0 {first.process.pid}")
            process.kill()
            process.communicate()
            (refused,) = first.logged("is not served for now")
            assert "WARNING" in refused
            port = int(running.url.rpartition(":")[2])
            again = environment(EVERMQ_LISTENER_PORT=f"{port}")
            with subprocess.Popen(run, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=again) as restarted:
                assert restarted.stderr is not None
                ready(restarted, restarted.stderr)
                put(running.url, "Q", "2")
                first.saw(f"done 2 0 {first.process.pid}")
                assert len(first.logged("serves again")) == 1
                assert first.end() == 0
                restarted.send_signal(signal.SIGTERM)
                restarted.communicate(timeout=30)


def test_a_process_that_crashes_is_started_again_and_the_others_go_on(tmp_path: Path, url: str) -> None:
    app(tmp_path, ONCE)
    with worker(tmp_path, url, "--processes", "2") as workers:
        pids = [int(re.search(r"pid=(\d+)", line)[1]) for line in workers.logged("worker ready", 2)]  # type: ignore[index]
        os.kill(pids[0], signal.SIGKILL)
        assert "signal SIGKILL" in workers.logged("ended by itself")[0]
        workers.logged("worker ready", 3)
        put(url, "Q", "1", "2", "3")
        workers.until(lambda: len(workers.seen()) == 3, "3 done")
        assert workers.end(signal.SIGINT) == 0


def test_processes_end_with_the_one_above_them(tmp_path: Path, url: str) -> None:
    app(tmp_path, ONCE)
    with worker(tmp_path, url, "--processes", "2") as workers:
        workers.logged("worker ready", 2)
        workers.end(signal.SIGKILL)
        workers.logged("worker stops", 2)


def test_changed_code_takes_over_and_broken_code_does_not(tmp_path: Path, url: str) -> None:
    text = '@app.handler("Q")\nasync def handle(body: str) -> None:\n    saw("{} did", body)\n'
    app(tmp_path, text.format("old"))
    with worker(tmp_path, url, "--reload") as workers:
        workers.logged("worker ready")
        put(url, "Q", "1")
        workers.saw("old did 1")
        (tmp_path / "next.py").write_text(APP + text.format("new"), "utf-8")
        second = int((tmp_path / "shop.py").stat().st_mtime)  # the same one, and as long: the same to Python's bytecode
        os.utime(tmp_path / "next.py", (second, second))
        (tmp_path / "next.py").replace(tmp_path / "shop.py")
        workers.logged("worker ready", 2)
        workers.logged("worker stops")
        put(url, "Q", "2")
        workers.saw("new did 2")
        (tmp_path / "shop.py").write_text("app = (", "utf-8")
        assert "SyntaxError" in workers.logged("does not import")[0]
        workers.logged("not replaced")
        put(url, "Q", "3")
        workers.saw("new did 3")
        app(tmp_path, text.format("mended"))
        workers.logged("worker ready", 3)
        workers.logged("worker stops", 2)
        put(url, "Q", "4")
        workers.saw("mended did 4")
        assert workers.end() == 0
