"""Files that are damaged while nobody works with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.durability.damage import STATES, damaged
from tests.durability.outcome import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("state", STATES)
async def test_damage_is_told_or_harmless(state: str, tmp_path: Path) -> None:
    try:
        await damaged(tmp_path, state, seed=2, places=6)
    except UnavailableError as why:
        pytest.skip(str(why))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("state", STATES)
async def test_damage_at_a_thousand_places_is_told_or_harmless(state: str, tmp_path: Path) -> None:
    try:
        await damaged(tmp_path, state, seed=1, places=1000)
    except UnavailableError as why:
        pytest.skip(str(why))
