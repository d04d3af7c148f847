"""A batch of rows as few SQL statements: each works on many rows.

Every step of a statement costs a call into SQLite, and gives up Python's interpreter lock and takes it again. So rows
go together, a power of two of them at a time: a third less time for a batch of some hundred rows than a step for each.
The statements are few enough to stay prepared, and a batch of n rows takes n/64 steps and some six more.

It runs nothing: what comes out is run by `broker.storage.database`.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.storage.scripts import repeated, statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.core.message.rows import MessageRow, Rows

INLINE_BYTES_MAX = 1024
"""Data up to this size lies in the row of its message, larger data in a table of its own."""

STATEMENTS_MAX = 64
"""More statements than there are, with those for each power of two: as many are to stay prepared."""

_CHUNK_ROWS_MAX = 64  # Nine parameters a row: SQLite before 3.32 takes 999 in one statement.

Statement: TypeAlias = "tuple[str, Sequence[object]]"
_T = TypeVar("_T")


def statements_for(rows: Rows) -> Iterator[Statement]:
    """What writes `rows`, with its parameters, in the order in which it can happen to one message or object."""
    if rows.inserts:
        yield from _inserts(rows.inserts)
    for sql, ids in _in_chunks("harden", rows.hardened):
        yield sql, ids
    for count, backed_out in _by_count(rows.backouts).items():
        for sql, ids in _in_chunks("raise_backout_count", backed_out):
            yield sql, [count, *ids]
    for sql, ids in _in_chunks("remove_message", rows.removals):
        yield sql, ids
    for key in rows.dropped:  # Before the objects: a queue may be deleted and defined anew in one batch.
        yield _chunk_statement("drop_object", 1), key
    for row in rows.objects:
        yield _chunk_statement("store_object", 1), row
    if rows.high_water:
        yield _chunk_statement("raise_high_water", 1), (rows.high_water,)


def readings_of(ids: Sequence[int]) -> Iterator[Statement]:
    """What reads the data of messages: rows of an id and its data."""
    return _in_chunks("read_data", ids)


def _inserts(rows: Sequence[MessageRow]) -> Iterator[Statement]:
    large = [(row.id, row.data) for row in rows if row.length > INLINE_BYTES_MAX]
    for sql, bodies in _in_chunks("insert_body", large):
        yield sql, list(chain.from_iterable(bodies))
    messages: Sequence[tuple[object, ...]] = [_without_large_data(row) for row in rows] if large else rows
    for sql, chunk in _in_chunks("insert_message", messages):
        yield sql, list(chain.from_iterable(chunk))


def _without_large_data(row: MessageRow) -> tuple[object, ...]:
    # As row._replace(data=None) does it, at a third of the cost.
    return (*row[:6], None, *row[7:]) if row.length > INLINE_BYTES_MAX else row


def _by_count(backouts: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    """The ids by the backout count they get: most have the same."""
    ids: dict[int, list[int]] = {}
    for id, count in backouts:
        ids.setdefault(count, []).append(id)
    return ids


def _in_chunks(name: str, items: Sequence[_T]) -> Iterator[tuple[str, Sequence[_T]]]:
    """The statement `name` for these items, a power of two of them at a time."""
    start = 0
    while left := len(items) - start:
        size = min(_CHUNK_ROWS_MAX, 1 << (left.bit_length() - 1))
        yield _chunk_statement(name, size), items[start : start + size]
        start += size


@cache
def _chunk_statement(name: str, size: int) -> str:
    return repeated(statements("statements.sql")[name], size)
