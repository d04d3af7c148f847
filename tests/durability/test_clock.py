"""A wall clock that is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.durability.clocks import stepped
from tests.durability.kills import kill_under_load

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_clock_that_is_set_changes_no_order_no_wait_and_no_identifier(tmp_path: Path) -> None:
    await stepped(tmp_path)


async def test_a_daemon_whose_clock_is_off_at_each_start_loses_nothing(tmp_path: Path) -> None:
    await kill_under_load(tmp_path, seed=3, kills=3, clock_steps=True)
