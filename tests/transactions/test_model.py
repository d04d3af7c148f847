"""The model of transactions: with all guards no schedule does harm, and without any one of them a schedule does."""

from __future__ import annotations

import pytest

from tests.tools.transactions_model.guards import NAMES, Guards
from tests.tools.transactions_model.world import explore

SEARCHED = {"step_settled": 100_000}
FOUND_WITHIN = 1000


def test_d1_12_some_hundred_schedules_lose_and_double_nothing() -> None:
    assert explore(Guards(), 0, 600) is None


@pytest.mark.slow
def test_d1_12_twenty_thousand_schedules_lose_and_double_nothing() -> None:
    assert explore(Guards(), 0, 20_000) is None


@pytest.mark.parametrize("name", [each for each in NAMES if each not in SEARCHED])
def test_d1_12_without_one_guard_a_schedule_is_found_that_does_harm(name: str) -> None:
    assert explore(Guards().without(name), 0, FOUND_WITHIN) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHED)
def test_d1_12_a_rare_schedule_is_found_too(name: str) -> None:
    assert explore(Guards().without(name), 0, SEARCHED[name]) is not None
