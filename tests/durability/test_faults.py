"""A device that fails once. Skipped where a file system cannot be mounted, or nothing be put before a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.durability.faults import fail_once
from tests.durability.outcome import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_device_that_fails_once_loses_nothing(tmp_path: Path) -> None:
    try:
        await fail_once(tmp_path, seed=1, faults=2)
    except UnavailableError as why:
        pytest.skip(str(why))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
async def test_a_device_that_fails_again_and_again_loses_nothing(tmp_path: Path, seed: int) -> None:
    try:
        await fail_once(tmp_path, seed, faults=15)
    except UnavailableError as why:
        pytest.skip(str(why))
