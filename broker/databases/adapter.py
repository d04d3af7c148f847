"""The protocol of an adapter: eleven members, by which EverMQ works on the program's database.

A program may pass an adapter of its own as the source of a `Database`. Its duties:

1. `commit` returns when the database has answered that the transaction is committed. It raises for every other answer,
   for ROLLBACK too, and when there is none. It never sends COMMIT again, on this session or another.
2. `is_definite` is True only for an error of `commit` behind which the transaction is not committed and never will be.
3. The transaction that `begin` begins is one: RELEASE of a savepoint in it does not commit (in SQLite that takes a
   BEGIN), and INSERT of a key that an open transaction has inserted waits for that transaction, or fails.
4. A connection that is released as broken is not used again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Dialect = Literal["sqlite", "postgresql"]
Value = bytes | str


@runtime_checkable
class Adapter(Protocol):
    """A driver's or a library's ways, for EverMQ. Of one that is `threaded` all members are plain functions that block;
    of others all but the last five are coroutine functions.
    """

    def acquire(self) -> Any:
        """Return a connection for a transaction. Raises when there is none in time."""
        ...

    def begin(self, connection: Any, /) -> Any:
        """Begin a transaction. Raises RuntimeError if the connection is in one."""
        ...

    def execute(self, connection: Any, sql: str, /, *values: Value) -> Any:
        """Run a statement, which has a `?` for each of the values, or in SQLite several, separated by `;`. Return the
        rows of the last one: a sequence of sequences.
        """
        ...

    def commit(self, connection: Any, /) -> Any:
        """Commit. Raises unless the database says that it is done."""
        ...

    def rollback(self, connection: Any, /) -> Any:
        """Roll back."""
        ...

    def release(self, connection: Any, broken: bool, /) -> Any:
        """Give a connection back, which no transaction is on; one that is `broken` is closed."""
        ...

    def is_duplicate(self, error: BaseException, /) -> bool:
        """True if `execute` has raised this because the key is there."""
        ...

    def is_definite(self, error: BaseException, /) -> bool:
        """True if the database has answered with this error, so that what was asked for is not done."""
        ...

    @property
    def dialect(self) -> Dialect:
        """The SQL that it takes."""
        ...

    @property
    def gives(self) -> tuple[type, ...]:
        """The types of connections, by which a handler's parameter is known."""
        ...

    @property
    def threaded(self) -> bool:
        """True if its calls block."""
        ...


MEMBERS = (
    "acquire", "begin", "execute", "commit", "rollback", "release", "is_duplicate", "is_definite", "dialect", "gives",
    "threaded",
)  # fmt: skip


def each_statement(sql: str, values: Sequence[Value]) -> Iterator[tuple[str, tuple[Value, ...]]]:
    """Yield the statements of `execute` one by one, each with its values."""
    at = 0
    for part in sql.split(";"):
        if text := part.strip():
            count = text.count("?")
            yield text, tuple(values[at : at + count])
            at += count


def with_literals(sql: str, values: Sequence[Value]) -> str:
    """Return a statement of `execute` for PostgreSQL, with the values as literals."""
    if not values:
        return sql
    first, *others = sql.split("?")
    return first + "".join([_literal(value) + part for value, part in zip(values, others, strict=True)])


@lru_cache(maxsize=64)
def numbered(sql: str) -> str:
    """Return a statement of `execute` with `$1`, `$2` ... for its values."""
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


def _literal(value: Value) -> str:
    if isinstance(value, bytes):
        return f"decode('{value.hex()}', 'hex')"
    return "convert_from(decode('" + value.encode().hex() + "', 'hex'), 'UTF8')"
