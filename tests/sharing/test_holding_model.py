"""The model of held messages: with all guards no schedule does harm, and without any one of them a schedule does
(queue-sharing rules 10.2.6 and 10.3.1 to 10.3.9).
"""

from __future__ import annotations

import pytest

from tests.tools.holding_model.guards import NAMES, SECOND_LINES, Guards
from tests.tools.holding_model.world import explore, explore_behind

FOUND_WITHIN = 3000


def test_some_thousand_schedules_lose_double_tear_and_strand_nothing() -> None:
    assert explore(Guards(), 0, 3000) is None


@pytest.mark.slow
def test_a_hundred_thousand_schedules_lose_double_tear_and_strand_nothing() -> None:
    assert explore(Guards(), 0, 100_000) is None


@pytest.mark.parametrize("name", NAMES)
def test_without_one_guard_a_schedule_is_found_that_does_harm(name: str) -> None:
    assert explore(Guards().without(name), 0, FOUND_WITHIN) is not None


@pytest.mark.parametrize(("name", "before"), SECOND_LINES.items())
def test_a_guard_behind_another_is_found_where_that_one_is_out(name: str, before: str) -> None:
    assert explore_behind(name, before, 0, FOUND_WITHIN) is not None
