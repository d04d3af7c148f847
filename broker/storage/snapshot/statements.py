"""Rows as few SQL statements: each works on many rows.

Every step of a statement costs a call into SQLite, and gives up Python's interpreter lock and takes it again. So rows
go together, a power of two of them at a time: a third less time for some hundred rows than a step for each. The
statements are few enough to stay prepared, and n rows take n/64 steps and some six more.

It runs nothing: what comes out is run by `broker.storage.snapshot.database`.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from broker.storage.snapshot.scripts import repeated, statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.storage.snapshot.checks import Checks
    from broker.storage.store import MessageRow, StepRow

INLINE_BYTES_MAX: Final = 1024
"""Data up to this size lies in the row of its message, larger data in a table of its own."""

STATEMENTS_MAX: Final = 96
"""More statements than there are, with those for each power of two: as many are to stay prepared."""

STEP_ROWS_MAX: Final = 256
STEP_BYTES_MAX: Final = 512 * 1024
"""So much is written or read in one piece of work; a read of bodies that comes meanwhile waits for no more."""

_CHUNK_ROWS_MAX: Final = 64
_CHUNK_MESSAGES_MAX: Final = 32  # Sixteen parameters a row: SQLite before 3.32 takes 999 in one statement.

Statement: TypeAlias = "tuple[str, Sequence[object]]"
_T = TypeVar("_T")
_Row = TypeVar("_Row", "MessageRow", "StepRow")


def inserts_of(rows: Sequence[MessageRow], checks: Checks) -> tuple[list[Statement], int]:
    """Return the statements that write new messages, in order, and what they add to the sum of all checks. What is
    small is in bytearrays: for bytes sqlite3 looks for an adapter, which takes longer than to copy and to write them.
    """
    untouched: list[tuple[object, ...]] = []
    changed: list[tuple[object, ...]] = []
    bodies: list[tuple[object, ...]] = []
    total = 0
    for row in rows:
        id, queue, rank, persistent, descriptor, length, data, backouts, hardened, holder, sequence, place, handling = (
            row
        )
        head = checks.head(id, queue, rank, persistent, length, descriptor)
        counters = checks.counters(id, backouts, hardened, holder, sequence, place, handling)
        total += head + counters
        assert data is not None
        check: int | None = checks.data(id, data)
        inline: bytearray | None = None
        if length > INLINE_BYTES_MAX:
            bodies.append((id, data, check))
            check = None
        else:
            inline = bytearray(data)
        packed = bytearray(descriptor)
        if backouts or hardened or holder or sequence or place or handling:
            changed.append((
                id, queue, rank, persistent, packed, length, inline, backouts, hardened, holder, sequence, place,
                handling, head, counters, check,
            ))  # fmt: skip
        else:
            untouched.append((id, queue, rank, persistent, packed, length, inline, head, counters, check))
    messages = (*flat("insert_untouched", untouched), *flat("insert_message", changed))
    return [*flat("insert_body", bodies), *messages], total


def flat(name: str, rows: Sequence[tuple[object, ...]]) -> Iterator[Statement]:
    """The statement `name` for these rows of parameters."""
    for sql, chunk in in_chunks(name, rows):
        yield sql, list(chain.from_iterable(chunk))


def runs(rows: Iterable[_Row]) -> Iterator[list[_Row]]:
    """The rows in pieces of which one may be in memory, and is written or read in one go."""
    run: list[_Row] = []
    size = 0
    for row in rows:
        run.append(row)
        size += row.length
        if len(run) == STEP_ROWS_MAX or size >= STEP_BYTES_MAX:
            yield run
            run, size = [], 0
    if run:
        yield run


def in_chunks(name: str, items: Sequence[_T]) -> Iterator[tuple[str, Sequence[_T]]]:
    """The statement `name` for these items, a power of two of them at a time."""
    start = 0
    most = _CHUNK_MESSAGES_MAX if name == "insert_message" else _CHUNK_ROWS_MAX
    while left := len(items) - start:
        size = min(most, 1 << (left.bit_length() - 1))
        yield statement(name, size), items[start : start + size]
        start += size


@cache
def statement(name: str, size: int = 1) -> str:
    """The statement `name` for so many items."""
    return repeated(statements("statements.sql")[name], size)
