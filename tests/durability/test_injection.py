"""A daemon whose system calls fail. Skipped where strace is missing, or may not trace."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.durability.injection import (
    FATAL,
    NO_ROOM,
    Injection,
    failing,
    failing_start,
    failing_while_quiescing,
    refusing,
    synced,
)
from tests.durability.outcome import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def where_it_can_be_run() -> Iterator[None]:
    try:
        yield
    except UnavailableError as why:
        pytest.skip(str(why))


async def test_what_is_acknowledged_has_been_synced(tmp_path: Path) -> None:
    with where_it_can_be_run():
        await synced(tmp_path)


@pytest.mark.parametrize("injection", FATAL, ids=str)
async def test_an_error_of_the_disk_ends_the_daemon_and_loses_nothing(injection: Injection, tmp_path: Path) -> None:
    with where_it_can_be_run():
        await failing(tmp_path, injection, seed=1)


async def test_a_disk_without_room_refuses_calls_and_loses_nothing(tmp_path: Path) -> None:
    with where_it_can_be_run():
        await refusing(tmp_path, seed=1)


async def test_an_error_of_the_disk_ends_a_daemon_that_quiesces(tmp_path: Path) -> None:
    with where_it_can_be_run():
        await failing_while_quiescing(tmp_path)


@pytest.mark.parametrize("injection", [*FATAL[:3], NO_ROOM], ids=str)
async def test_a_start_on_a_disk_that_fails_says_so_in_a_line(injection: Injection, tmp_path: Path) -> None:
    with where_it_can_be_run():
        await failing_start(tmp_path, injection)
