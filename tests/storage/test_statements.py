"""Rows become few statements, and no more kinds of them than can stay prepared."""

from __future__ import annotations

import pytest

from broker.storage.disk.database_thread import STATEMENTS_MAX as PREPARED
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.scripts import repeated, schema, statements, version
from broker.storage.snapshot.statements import (
    INLINE_BYTES_MAX,
    STATEMENTS_MAX,
    STEP_BYTES_MAX,
    STEP_ROWS_MAX,
    in_chunks,
    inserts_of,
    runs,
)

from .samples import message

NAMES = [
    "insert_message", "insert_untouched", "insert_body", "sum_messages", "read_counters", "write_counters",
    "remove_message", "read_data", "sum_some_keys", "drop_keys", "store_keys",
]  # fmt: skip
CHECKS = Checks(1)


def test_the_group_before_the_dots_is_repeated() -> None:
    assert repeated("VALUES (?, ?) /* ... */;", 2) == "VALUES (?, ?), (?, ?);"
    assert repeated("SET x = ? WHERE id IN (? /* ... */);", 3) == "SET x = ? WHERE id IN (?, ?, ?);"
    assert repeated("WHERE id = ?;", 3) == "WHERE id = ?;"
    assert repeated("VALUES (?, 0, x'') /* ... */ ON", 2) == "VALUES (?, 0, x''), (?, 0, x'') ON"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("count", "steps"), [(0, 0), (1, 1), (2, 1), (3, 2), (63, 6), (64, 1), (256, 4), (300, 7)])
def test_rows_go_together_a_power_of_two_at_a_time(name: str, count: int, steps: int) -> None:
    """Of messages that have changed half as many as of all else, because they have so many columns."""
    chunks = list(in_chunks(name, range(count)))
    assert len(chunks) == (steps if name != "insert_message" else count // 32 + (count % 32).bit_count())
    assert [item for _, items in chunks for item in items] == list(range(count))


@pytest.mark.parametrize("size", [0, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1])
def test_a_statement_has_no_more_parameters_than_an_older_sqlite_takes(size: int) -> None:
    rows = [message(id, b"x" * size)._replace(backout_count=id % 2) for id in range(2000)]
    written, _ = inserts_of(rows, CHECKS)
    assert len(written) >= 32
    for sql, parameters in written:
        assert sql.count("?") == len(parameters) <= 999


def test_all_statements_can_stay_prepared() -> None:
    kinds = {sql for name in NAMES for count in range(1, 200) for sql, _ in in_chunks(name, range(count))}
    kinds |= statements("statements.sql").keys() - set(NAMES)
    assert len(kinds) <= STATEMENTS_MAX == PREPARED


def test_what_the_rows_add_to_the_sum_is_that_of_each() -> None:
    rows = [message(1, b"small"), message(2, b"l" * 5000), message(3)._replace(backout_count=3, hardened=1)]
    assert inserts_of(rows, CHECKS)[1] == sum(map(CHECKS.message, rows))


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([], []),
        ([1] * STEP_ROWS_MAX, [STEP_ROWS_MAX]),
        ([1] * (STEP_ROWS_MAX + 1), [STEP_ROWS_MAX, 1]),
        ([STEP_BYTES_MAX, 1, STEP_BYTES_MAX - 1, 1], [1, 2, 1]),
    ],
)
def test_a_run_of_rows_has_few_rows_and_few_bytes(sizes: list[int], lengths: list[int]) -> None:
    rows = [message(id)._replace(length=size) for id, size in enumerate(sizes)]
    found = list(runs(rows))
    assert list(map(len, found)) == lengths
    assert [row for run in found for row in run] == rows


def test_the_version_is_that_of_the_schema() -> None:
    assert f"PRAGMA user_version = {version()};" in schema()
