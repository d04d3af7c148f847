"""A batch of rows becomes few statements, and no more kinds of them than can stay prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from broker.storage.batch import STATEMENTS_MAX, statements_for
from broker.storage.scripts import repeated

from broker.storage.store import Rows

from .samples import ORDERS, message

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS: dict[str, Callable[[int], Rows]] = {
    "inserts": lambda count: Rows(inserts=[message(id) for id in range(count)]),
    "large inserts": lambda count: Rows(inserts=[message(id, b"x" * 2000) for id in range(count)]),
    "removals": lambda count: Rows(removals=list(range(count))),
    "hardened": lambda count: Rows(hardened=list(range(count))),
    "backouts": lambda count: Rows(backouts=[(id, 1) for id in range(count)]),
}

both_ways = pytest.mark.parametrize("rows_of", WAYS.values(), ids=WAYS)


def test_the_group_before_the_dots_is_repeated() -> None:
    assert repeated("VALUES (?, ?) /* ... */;", 2) == "VALUES (?, ?), (?, ?);"
    assert repeated("SET x = ? WHERE id IN (? /* ... */);", 3) == "SET x = ? WHERE id IN (?, ?, ?);"
    assert repeated("WHERE id = ?;", 3) == "WHERE id = ?;"


@both_ways
@pytest.mark.parametrize(("count", "steps"), [(0, 0), (1, 1), (2, 1), (3, 2), (63, 6), (64, 1), (256, 4), (4096, 64)])
def test_rows_go_together_a_power_of_two_at_a_time(rows_of: Callable[[int], Rows], count: int, steps: int) -> None:
    tables = 2 if rows_of is WAYS["large inserts"] else 1
    assert len(list(statements_for(rows_of(count)))) == steps * tables


@both_ways
def test_a_statement_has_no_more_parameters_than_an_older_sqlite_takes(rows_of: Callable[[int], Rows]) -> None:
    for sql, parameters in statements_for(rows_of(4096)):
        assert sql.count("?") == len(parameters) <= 999


def test_all_statements_can_stay_prepared() -> None:
    others = Rows(objects=[ORDERS], dropped=[("QUEUE", "GONE")], high_water=1)
    batches = [others, *(rows_of(count) for rows_of in WAYS.values() for count in range(1, 200))]
    kinds = {sql for rows in batches for sql, _ in statements_for(rows)}
    assert len(kinds) <= STATEMENTS_MAX - 8  # which leaves some for BEGIN, COMMIT and what reads


def test_messages_with_different_backout_counts_are_told_apart() -> None:
    found = [list(parameters) for _, parameters in statements_for(Rows(backouts=[(1, 1), (2, 5), (3, 1)]))]
    assert found == [[1, 1, 3], [5, 2]]
