"""Connections of synchronous code, and the queue manager of a data directory that is run for a job."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQRC
from broker.spark import daemon as kept
from broker.spark.connecting import line
from broker.spark.options import Use, parse
from tests.spark.daemons import Daemon

if TYPE_CHECKING:
    from pathlib import Path

IMPATIENT = """
import pathlib, sys
from broker.spark import daemon
daemon.IDLE_SECONDS, daemon.LOOK_SECONDS = 0.5, 0.1
sys.exit(daemon.keep(pathlib.Path(sys.argv[1])))
"""
"""A keeper that does not wait for long."""


def test_a_call_goes_on_over_a_restart(daemon: Daemon) -> None:
    """K19: it is made again on a new line, also where the queue manager is away for a while."""
    to = line(daemon.url, 30.0)
    first = to.call(lambda connection: connection.claims.consumer("C", ["Q"]))
    daemon.end(signal.SIGKILL)
    answer = to.start(lambda connection: connection.claims.consumer("C"))
    assert not answer.done()
    daemon.start()
    assert answer.result(30).uuid == first.uuid


def test_what_the_queue_manager_refuses_is_not_tried_again(daemon: Daemon) -> None:
    with pytest.raises(MQError) as refused:
        line(daemon.url, 30.0).call(lambda connection: connection.claims.consumer("C", ["NONE"]))
    assert refused.value.reason == MQRC.UNKNOWN_OBJECT_NAME


def test_out_of_reach_is_an_error_when_it_has_been_tried_for_long_enough() -> None:
    with pytest.raises(MQError) as gone:
        line("mq://127.0.0.1:1", 0.1).call(lambda connection: connection.claims.consumer("C"))
    assert gone.value.reason == MQRC.HOST_NOT_AVAILABLE
    assert gone.value.__notes__ == ["mq://127.0.0.1:1 was tried for 0.1 s (option retryTimeout)"]


def test_a_url_that_is_none_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="not mq://"):
        line("http://h", 1.0)


def test_a_process_has_one_line_to_a_queue_manager(daemon: Daemon) -> None:
    lines = {id(line(daemon.url, 30.0)) for _ in range(3)}
    assert len(lines) == 1
    for _ in range(3):
        status = line(daemon.url, 30.0).call(lambda connection: connection.status())
    assert status["connections"] == 1


def test_a_data_directory_is_served_as_long_as_somebody_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue manager keeps the name that it has, stops in order when it is idle, and is there again when wanted."""
    data = tmp_path / "data"
    with Daemon(data, name="OTHER") as first:
        first.mqsc("DEFINE QLOCAL(Q)")
        first.put("Q", b"one")
        first.end()
    options = parse({"path": str(data), "queue": "Q"}, Use.READ)
    keepers: list[subprocess.Popen[bytes]] = []

    def keep(data: Path) -> subprocess.Popen[bytes]:
        keepers.append(subprocess.Popen([sys.executable, "-c", IMPATIENT, data]))
        return keepers[-1]

    monkeypatch.setattr(kept, "_keep", keep)
    for _ in range(2):
        to = kept.line_to(options)
        ranges = to.call(lambda connection: connection.claims.queue_ranges(["Q"]))
        assert [each.messages for each in ranges] == [1]
        to.call(lambda connection: connection.disconnect())
        assert keepers.pop().wait(30) == 0
    assert keepers == []


def test_a_data_directory_that_cannot_be_served_says_why(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Daemon(data) as running:
        running.put("SYSTEM.DEFAULT.LOCAL.QUEUE", b"one")
        to = kept.line_to(parse({"path": str(data), "queue": "Q"}, Use.READ))
        with pytest.raises(kept.DaemonError, match=r"option path.*did not start.*in use"):
            to.call(lambda connection: connection.status())
