"""Real processes that are killed at each step, with the queue manager among them: each order once (D1.1, D4.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.transactions.rig import STEPS, Rig

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sharing.postgres import Postgres

DEATHS = 3
"""At each step; `python -m tests.transactions.rig --deaths 100` has more."""


def test_d1_1_over_sqlite_each_order_is_a_row_and_two_messages_whatever_dies(tmp_path: Path) -> None:
    account = Rig(tmp_path, None, by_hand=False).run(20, DEATHS)
    assert account.exact, account
    assert account.deaths.keys() >= set(STEPS) - {"in commit"}
    assert account.daemon_deaths == 2


@pytest.mark.postgres
def test_d4_8_over_postgresql_each_order_is_a_row_and_two_messages_whatever_dies(
    tmp_path: Path, durable_postgres: Postgres
) -> None:
    account = Rig(tmp_path, durable_postgres, by_hand=False).run(20, DEATHS)
    assert account.exact, account
    assert account.deaths.keys() >= set(STEPS) - {"in commit"}


def test_d4_8_a_handler_that_writes_by_hand_doubles_under_the_same_deaths(tmp_path: Path) -> None:
    account = Rig(tmp_path, None, by_hand=True).run(20, 1)
    assert account.doubled
    assert not account.exact
