"""The last lines of the log, as administrators read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.ways import JUDGED

if TYPE_CHECKING:
    from broker import Connection
    from tests.conformance.system import System

LINES = [f"level=INFO event=number_{number}" for number in range(1, 8)]


@pytest.fixture(autouse=True)
def administrator(system: System) -> None:
    if system._entrance in JUDGED:
        pytest.skip("the calls there are judged as those of a user who is none")


async def test_the_last_lines_of_the_log_are_read_in_pieces(system: System, connection: Connection) -> None:
    asked = []

    def recent_log(after: int, size: int) -> tuple[int, int, list[str]]:
        asked.append((after, size > 1000))
        lines = LINES[after : after + 3]
        return after + len(lines), len(LINES), lines

    system.manager.recent_log = recent_log
    assert await connection.recent_log() == LINES
    assert asked == [(0, True), (3, True), (6, True)]


async def test_a_queue_manager_whose_log_nobody_keeps_has_no_lines(system: System, connection: Connection) -> None:
    system.manager.recent_log = None
    assert await connection.recent_log() == []
