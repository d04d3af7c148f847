"""The meaning of a driver's error, by SQLSTATE or by the codes of SQLite, whatever a library has wrapped it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.databases.errors import CommitRefusedError, TransactionEndedError

if TYPE_CHECKING:
    from collections.abc import Iterator

DUPLICATE: Final = "23505"  # unique_violation
LOCK_TIMEOUT: Final = frozenset({"55P03", "57014", "40P01", "40001"})
"""The SQLSTATEs of who has waited too long for others: lock_not_available, query_canceled, and their kin."""

_UNDECIDED: Final = ("08", "57P", "40003", "58", "F0")
"""Beginnings of SQLSTATEs behind which a COMMIT may have been done, or not."""

_SWALLOWED: Final = "25P02"  # in_failed_sql_transaction
_READ_ONLY: Final = "25006"
_NO_TABLE: Final = "42P01"

_SQLITE_DUPLICATES: Final = frozenset({1555, 2067, 2579})  # of a primary key, a unique index, a rowid
_SQLITE_ANSWERS: Final = frozenset(
    {1, 5, 6, 7, 8, 9, 13, 19}
)  # ERROR, BUSY, LOCKED ... FULL, CONSTRAINT: not committed
_SQLITE_WAITED: Final = frozenset({5, 6})
_SQLITE_READ_ONLY: Final = 8


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that a library has wrapped in it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop(0)
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            orig = getattr(each, "orig", None)
            todo += [orig if isinstance(orig, BaseException) else None, each.__cause__]


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE that PostgreSQL has given; None for what is no answer of a server."""
    for each in causes(error):
        for name in ("sqlstate", "pgcode"):
            if isinstance(found := getattr(each, name, None), str):
                return found
    return None


def sqlite_code_of(error: BaseException) -> int | None:
    """Return the extended code of SQLite; None for what it has not raised."""
    for each in causes(error):
        if isinstance(found := getattr(each, "sqlite_errorcode", None), int):
            return found
    return None


def told(error: BaseException) -> str:
    """Return the text of an error, or its class where it has none."""
    return str(error).strip() or type(error).__name__


def is_duplicate(error: BaseException) -> bool:
    """True if a row with the same key is there."""
    return sqlstate_of(error) == DUPLICATE or sqlite_code_of(error) in _SQLITE_DUPLICATES


def is_definite(error: BaseException) -> bool:
    """True if the database has answered that the statement, or COMMIT, was not done; False if it may have been."""
    if (sqlstate := sqlstate_of(error)) is not None:
        return not sqlstate.startswith(_UNDECIDED) and not _is_fatal(error)
    code = sqlite_code_of(error)
    return code is not None and code & 0xFF in _SQLITE_ANSWERS


def has_waited(error: BaseException) -> bool:
    """True if another transaction held what this one needs, for longer than it would wait."""
    code = sqlite_code_of(error)
    return sqlstate_of(error) in LOCK_TIMEOUT or (code is not None and code & 0xFF in _SQLITE_WAITED)


def is_missing_table(error: BaseException) -> bool:
    """True if a table is not there."""
    return sqlstate_of(error) == _NO_TABLE or (sqlite_code_of(error) == 1 and "no such table" in told(error))


def refusal(error: BaseException) -> CommitRefusedError:
    """Return the error for a marker that could not be written, or for a COMMIT that was refused."""
    sqlstate = sqlstate_of(error)
    code = sqlite_code_of(error)
    text = told(error)
    if sqlstate == _SWALLOWED:
        return swallowed()
    if code == 1 and ("no such savepoint" in text or "no transaction is active" in text):
        return _ended(
            "the program has ended the transaction itself (commit(), rollback(), `with connection:`, executescript()), "
            "or a statement that failed has rolled it back (ON CONFLICT ROLLBACK)"
        )
    if sqlstate == _READ_ONLY or (code is not None and code & 0xFF == _SQLITE_READ_ONLY):
        return CommitRefusedError(
            "the transaction is read-only, so its marker cannot be written: let the program begin no read-only "
            f"transaction here, and look whether this is a standby or a role that may only read ({text})"
        )
    if sqlstate is None and code is None:
        return CommitRefusedError(
            f"the connection to the database was lost before COMMIT: nothing is committed ({text})"
        )
    return CommitRefusedError(f"the database has refused the transaction: {text}")


def rolled_back() -> CommitRefusedError:
    """Return the error for a COMMIT that was answered with ROLLBACK."""
    return _ended("the database has answered COMMIT with ROLLBACK: a statement of the transaction had failed")


def ended_by_program() -> CommitRefusedError:
    """Return the error for a transaction that is not there any more when it is to be committed."""
    return _ended("the program has ended the transaction itself (COMMIT or ROLLBACK), and perhaps begun another")


def swallowed() -> CommitRefusedError:
    """Return the error for a transaction in which a statement has failed, and the program went on."""
    return _ended("a statement has failed, and the program went on: such a transaction can only be rolled back")


def _ended(how: str) -> TransactionEndedError:
    return TransactionEndedError(
        f"{how}. Let EverMQ begin and end the transaction; for a part that may fail use a savepoint: "
        "connection.transaction() of asyncpg and psycopg, begin_nested() of SQLAlchemy, atomic() of Django"
    )


def _is_fatal(error: BaseException) -> bool:
    """True if the server has ended the session with this error: then it is no answer to COMMIT."""
    for each in causes(error):
        severity = getattr(each, "severity_en", None) or getattr(
            getattr(each, "diag", None), "severity_nonlocalized", None
        )
        if severity is not None:
            return severity in ("FATAL", "PANIC")
    return False
