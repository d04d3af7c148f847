"""A write-ahead log whose tail is torn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.durability.torn import torn

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_torn_transaction_is_wholly_absent_and_all_before_it_is_there(tmp_path: Path) -> None:
    await torn(tmp_path, seed=1, cuts=20)
