"""Notices to systemd, heard on a socket of the test."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker import QueueManager
from broker.cli.service.unit import WATCHDOG_SECONDS
from broker.server.service.notices import (
    EXTENSION_SECONDS,
    LOOK_SECONDS,
    STATUS_SECONDS,
    ServiceNotices,
    watchdog_of,
)
from broker.server.service.notify_socket import NotifySocket
from broker.testing import VirtualClock
from tests.server.service.daemons import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class ServiceManager:
    """The end of systemd: what it has been told, a line a notice."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._socket.settimeout(0)

    def told(self) -> list[str]:
        """The notices since the last call."""
        lines: list[str] = []
        while True:
            try:
                lines += self._socket.recv(65536).decode().split("\n")
            except BlockingIOError:
                return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    found = ServiceManager(f"@{tmp_path}" if request.param == "abstract" else str(tmp_path / "notify"))
    yield found
    found.close()


def test_a_notice_goes_to_the_socket_that_the_environment_names(systemd: ServiceManager) -> None:
    found = NotifySocket.of({"NOTIFY_SOCKET": systemd.address})
    assert found is not None
    found.send(READY=1, STATUS="two\nlines")
    assert systemd.told() == ["READY=1", "STATUS=two lines"]
    found.close()


def test_nothing_is_sent_without_a_socket_or_to_an_address_that_is_none(caplog: pytest.LogCaptureFixture) -> None:
    assert NotifySocket.of({}) is None
    assert NotifySocket.of({"NOTIFY_SOCKET": "vsock:2:1234"}) is None
    assert "vsock:2:1234 is no address of a Unix socket" in caplog.text


def test_what_has_no_receiver_is_logged_once_and_sent_along_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = str(tmp_path / "notify")
    found = NotifySocket(address)
    found.send(READY=1, STATUS="first")
    found.send(STATUS="second")
    assert caplog.text.count("service manager not notified") == 1
    systemd = ServiceManager(address)
    found.send(WATCHDOG=1)
    assert systemd.told() == ["READY=1", "STATUS=second", "WATCHDOG=1"]
    found.close()
    systemd.close()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_that_of_this_process(environ: dict[str, str], seconds: float | None) -> None:
    assert watchdog_of(environ) == seconds


class FakeManager:
    """A queue manager whose checks fail as a test says."""

    name = "QM1"

    def __init__(self) -> None:
        self.failing: dict[str, str] = {}
        self.unready: dict[str, str] = {}
        self.conversations = ["one", "two"]
        self.queues: dict[str, Any] = {}
        self.core = self.objects = self.slices = self

    def failing_checks(self, *, ready: bool = False) -> dict[str, str]:
        return {**self.failing, **(self.unready if ready else {})}

    def run(self, work: Any, done: Any) -> None:
        for _ in work:
            pass
        done(None)


@contextmanager
def notices(
    systemd: ServiceManager,
    clock: VirtualClock,
    watchdog: float | None = None,
    work: list[tuple[float, int]] | None = None,
) -> Iterator[ServiceNotices]:
    found = work or [(0.0, 0)]
    with ServiceNotices(
        NotifySocket(systemd.address),
        watchdog,
        clock=clock,
        worked=lambda: found[0] if len(found) == 1 else found.pop(0),
    ) as made:
        yield made


async def test_a_start_that_makes_progress_is_given_more_time(systemd: ServiceManager) -> None:
    clock = VirtualClock()
    idle, computes, reads = (1.0, 5), (1.2, 5), (1.2, 9)
    with notices(systemd, clock, work=[idle, computes, reads, reads]):
        assert systemd.told() == ["STATUS=starting"]
        more = f"EXTEND_TIMEOUT_USEC={EXTENSION_SECONDS * 1_000_000}"
        for expected in ([more], [more], []):
            await clock.advance(LOOK_SECONDS)
            assert systemd.told() == expected


async def test_the_watchdog_is_notified_at_half_of_its_interval_while_no_check_fails(
    systemd: ServiceManager, caplog: pytest.LogCaptureFixture
) -> None:
    clock, manager = VirtualClock(), FakeManager()
    with notices(systemd, clock, watchdog=8.0) as made:
        made.ready(cast("QueueManager", manager))
        assert systemd.told() == [
            "STATUS=starting",
            "READY=1",
            "STATUS=QM1: 0 queues, 0 messages, 2 connections",
            "WATCHDOG=1",
        ]
        await clock.advance(4)
        assert systemd.told() == ["WATCHDOG=1"]
        manager.failing = {"journal": "a batch has been under way for 31 s"}
        await clock.advance(4)
        assert systemd.told() == []
        await clock.advance(4)
        assert "WATCHDOG=1" not in systemd.told()
        assert caplog.text.count("watchdog not notified: journal: a batch has been under way for 31 s") == 1
        manager.failing = {}
        await clock.advance(4)
        assert "WATCHDOG=1" in systemd.told()


class HeldClock(VirtualClock):
    """A clock of a loop that can be held."""

    def hold(self, seconds: float) -> None:
        """Let time pass in which no timer fires."""
        self._now += seconds


@pytest.mark.parametrize("held_at", [14.5, 15.0, 29.0])
async def test_o2_7_the_watchdog_comes_within_its_interval_though_the_loop_is_held_for_3_s(
    systemd: ServiceManager, held_at: float
) -> None:
    interval = float(WATCHDOG_SECONDS)
    clock = HeldClock()
    with notices(systemd, clock, watchdog=interval) as made:
        made.ready(cast("QueueManager", FakeManager()))
        clock.call_later(held_at, lambda: clock.hold(3))
        told = [0.0]
        while clock.monotonic() < 60:
            await clock.advance(0.5)
            if "WATCHDOG=1" in systemd.told():
                told.append(clock.monotonic())
        late = max(after - before for before, after in pairwise(told))
    assert interval / 2 < late <= interval / 2 + 3 < interval


async def test_the_status_tells_what_it_holds_and_what_is_wrong(systemd: ServiceManager) -> None:
    clock, manager = VirtualClock(), FakeManager()
    with notices(systemd, clock) as made:
        made.ready(cast("QueueManager", manager))
        systemd.told()
        await clock.advance(STATUS_SECONDS)
        assert systemd.told() == []  # the same as before
        manager.unready = {"store_full": "no room for 4096 bytes"}
        await clock.advance(STATUS_SECONDS)
        assert systemd.told() == ["STATUS=QM1 is not ready: store_full: no room for 4096 bytes"]


async def test_a_daemon_tells_its_life(
    systemd: ServiceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.address)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    folder = tmp_path / "daemon"
    folder.mkdir()
    async with running(folder) as it:
        told = systemd.told()
        assert told[:2] == ["STATUS=starting", "READY=1"]
        assert "WATCHDOG=1" in told
        await it.reload.reload()
        reloading, moment, ready = [each for each in systemd.told() if not each.startswith("STATUS=QM1: ")]
        assert (reloading, ready) == ("RELOADING=1", "READY=1")
        assert moment.startswith("MONOTONIC_USEC=")
    assert systemd.told() == ["STOPPING=1", "STATUS=stopping"]
