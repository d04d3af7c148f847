"""The daemon may have as many files open as its lines need."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from broker.server.open_files import allow_open_files

if TYPE_CHECKING:
    from collections.abc import Callable

resource = pytest.importorskip("resource", reason="a limit on open files is a matter of Unix")
INFINITY: int = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], list[int]]:
    """Sets the limit of the process and the most that it may be; returns what it comes to, the last is now."""

    def limited(soft: int, hard: int) -> list[int]:
        now = [soft]
        monkeypatch.setattr(resource, "getrlimit", lambda kind: (now[-1], hard))
        monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: now.append(pair[0]))
        return now

    return limited


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"),
    [
        (1024, 524_288, 21_000),
        (1024, INFINITY, 21_000),
        (1024, 20_000, 20_000),
        (1024, 1024, 1024),
        (65_536, 524_288, 65_536),
        (INFINITY, INFINITY, INFINITY),
    ],
)
def test_it_has_files_for_lines_and_for_those_who_log_in(
    soft: int, hard: int, allowed: int, limits: Callable[[int, int], list[int]]
) -> None:
    now = limits(soft, hard)
    allow_open_files(10_000)
    assert now[-1] == allowed


@pytest.mark.parametrize(("hard", "warned"), [(11_000, False), (10_999, True), (1024, True)])
def test_it_says_when_there_are_too_few(
    hard: int, warned: bool, limits: Callable[[int, int], list[int]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    limits(1024, hard)
    allow_open_files(10_000)
    assert (f"open files limited to {hard}: too few for [limits] connections = 10000" in caplog.text) == warned


def test_what_the_system_refuses_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(kind: int, pair: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    allow_open_files(10_000)
    assert "the number of open files cannot be raised to 21000: current limit exceeds maximum limit" in caplog.text
    assert "open files limited to 1024" in caplog.text
