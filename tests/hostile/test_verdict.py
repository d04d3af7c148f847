"""The harness sees what it is there to see."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import TYPE_CHECKING

import anyio
import pytest

from broker.benchmarks.body import now
from broker.benchmarks.child import ROOT, MeasurementError
from broker.benchmarks.daemon import MIB
from broker.mqi import MQOO
from tests.hostile import scene as suite
from tests.hostile.bystander import BYSTANDER_QUEUE, Bystander
from tests.hostile.rawline import RawLine, stream_to
from tests.hostile.scene import TARGET, TARGET_DEFINITIONS, Attack
from tests.hostile.verdict import judged, unexplained

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.scene import Scene

SUSPENDED_SECONDS = 0.7


async def suspend(scene: Scene, count: int) -> None:
    await scene.begin()
    os.kill(scene.pid, SIGSTOP)
    await anyio.sleep(SUSPENDED_SECONDS)
    os.kill(scene.pid, SIGCONT)
    await scene.handled()


async def steal(scene: Scene, count: int) -> None:
    """Get a message that the bystander has put."""
    await scene.begin()
    async with scene.connect() as connection, connection.open(BYSTANDER_QUEUE, MQOO.INPUT_SHARED) as queue:
        await queue.get(wait=5)


async def slip_in(scene: Scene, count: int) -> None:
    """Put a message that the bystander gets."""
    await scene.begin()
    async with scene.connect() as connection:
        await connection.put1(BYSTANDER_QUEUE, bytes(32))
    await scene.handled()


async def kill(scene: Scene, count: int) -> None:
    await scene.begin()
    os.kill(scene.pid, SIGKILL)


async def stay(scene: Scene, count: int) -> None:
    await scene.begin()
    await anyio.sleep_forever()


async def never_begin(scene: Scene, count: int) -> None:
    async with scene.line() as line:
        await line.open("NO.SUCH.QUEUE")


ATTACK = Attack(name="test", title="a test", run=suspend, definitions=TARGET_DEFINITIONS)


async def faults(attack: Attack, folder: Path) -> str:
    return "\n".join((await judged(attack, folder)).faults)


async def test_time_counts_from_when_a_call_was_due(tmp_path: Path) -> None:
    verdict = await judged(ATTACK, tmp_path)
    assert verdict.seen.worst_ms >= SUSPENDED_SECONDS * 1000 - 10
    assert verdict.seen.calls >= 2 * SUSPENDED_SECONDS / 0.01  # those that were due meanwhile were made afterwards
    assert verdict.seen.late >= 1.5 * SUSPENDED_SECONDS / 0.01  # and they count as late
    (fault,) = verdict.faults
    assert "ms, the limit is 500" in fault


async def test_a_call_that_is_never_answered_counts_for_as_long_as_it_waits() -> None:
    bystander = Bystander()
    with anyio.move_on_after(0.01):
        await bystander.timed("put 0", now() - 1_000_000_000, anyio.sleep_forever)
    reported = bystander.reported()
    assert (reported["worst"], reported["complaint"]) == ("put 0", "it had no time to finish")
    assert reported["worst_ms"] >= 1_000


async def test_a_message_that_is_lost_is_a_fault(tmp_path: Path) -> None:
    assert "MQRC_NO_MSG_AVAILABLE" in await faults(replace(ATTACK, run=steal), tmp_path)


async def test_a_message_that_is_not_the_bystanders_is_a_fault(tmp_path: Path) -> None:
    assert "were got in their order, and 1 are left" in await faults(replace(ATTACK, run=slip_in), tmp_path)


async def test_a_daemon_that_ends_is_a_fault(tmp_path: Path) -> None:
    found = await faults(replace(ATTACK, run=kill), tmp_path)
    assert "it has ended with -9" in found
    assert "a new client was not served" in found
    assert "the bystander: " in found


async def test_an_attack_that_does_not_end_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "ATTACK_SECONDS", 0.1)
    assert await faults(replace(ATTACK, run=stay), tmp_path) == "the attack was not over after 0.1 s"


async def test_the_command_prints_what_a_second_client_sees_of_an_attack() -> None:
    command = [sys.executable, "-m", "tests.hostile", "headers"]
    done = await anyio.run_process(command, stderr=subprocess.PIPE, cwd=ROOT)
    *_, row = done.stdout.decode().splitlines()
    title, worst_ms, peak_mib, _ = (cell.strip() for cell in row.strip("|\n").split("|"))
    assert title == "a message of 40,000 MQRFH2"
    assert float(worst_ms) > 0
    assert float(peak_mib) > 10


async def test_memory_and_what_the_log_lacks_are_faults(tmp_path: Path) -> None:
    async def begin(scene: Scene, count: int) -> None:
        await scene.begin()

    found = await faults(replace(ATTACK, run=begin, peak_mib=10, logs=("no such words",)), tmp_path)
    first, second = found.splitlines()
    assert "MiB, the limit is 10" in first
    assert second == "its log does not say 'no such words'"


async def test_an_attack_that_cannot_be_prepared_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="2085"):
        await judged(replace(ATTACK, run=never_begin), tmp_path)


async def test_a_peer_that_does_not_read_gets_what_it_takes_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # which nobody accepts from
        async with stream_to(f"mq://127.0.0.1:{listener.getsockname()[1]}") as stream:
            assert 0 < await RawLine(stream).pour(bytes(MIB) for _ in range(64)) < 64 * MIB


def test_an_error_in_the_log_must_be_explained() -> None:
    log = [
        'time=2026-11-21T10:00:00.123Z level=INFO logger=broker.server message="all is well"\n',
        "time=2026-11-21T10:00:00.124Z level=WARNING logger=broker.server event=line_refused peer=local\n",
        'time=2026-11-21T10:00:00.125Z level=ERROR logger=triggers message="trigger handler failed"\n',
        'time=2026-11-21T10:00:00.126Z level=WARNING logger=broker exception="Traceback (most recent): KeyError"\n',
        "Traceback (most recent call last):\n",
        "ValueError: of Python\n",
    ]
    assert list(unexplained(log, ("trigger handler failed",))) == ["".join(log[3:])]
    assert list(unexplained(log, ("KeyError",))) == [log[2]]
    assert list(unexplained(["Fatal Python error: Aborted\n"], ())) == ["Fatal Python error: Aborted\n"]


def test_what_strangers_leave_on_queues_is_seen() -> None:
    def figures(name: str, **held: int) -> dict[str, object]:
        return {"name": name, "getters": 0, "ipprocs": 0, "uncommitted": 0, **held}

    assert suite.held([figures(TARGET), figures(BYSTANDER_QUEUE, ipprocs=1)]) == ""
    assert suite.held([figures(TARGET, getters=2, uncommitted=1)]) == "TARGET has 2 getters, TARGET has 1 uncommitted"
