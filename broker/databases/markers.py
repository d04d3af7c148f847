"""The table of markers: a row whose unit is decided. It is the decision.

`unit` is the unit's name, 16 bytes, and the key; `outcome` is "committed" or "aborted"; `q_mgr` is the instance of the
queue manager that has the unit; `at` is when, in seconds since 1970 UTC. The unit x'00' is no unit: its row bears the
id of the database in `q_mgr`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.databases.adapter import Dialect

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
ID_UNIT: Final = b"\0"
ID_OUTCOME: Final = "database"

ABORTED_SECONDS: Final = 86_400
"""An aborted marker stays for a day: where inserts do not wait for one another only it stops a late COMMIT."""

_SETTING: Final = "evermq.transaction"
"""A setting of PostgreSQL's that nobody else has: set for a transaction, it is gone with that."""

_PART: Final = re.compile(r'[A-Za-z_][A-Za-z0-9_]{0,62}|"[A-Za-z0-9_ -]{1,63}"')
_TYPES: Final[dict[Dialect, tuple[str, str, str]]] = {
    "sqlite": ("BLOB", "TEXT", "INTEGER"),
    "postgresql": ("bytea", "text", "bigint"),
}


class TableName(NamedTuple):
    """The name of the table, as SQL has it: its schema, "" for none, and the name; each may be in double quotes."""

    schema: str
    table: str

    @classmethod
    def parsed(cls, text: str) -> TableName:
        """Return the name in a text. Raises ValueError for what is none, and might be SQL of somebody else."""
        parts = _split(text)
        if not 1 <= len(parts) <= 2 or not all(map(_PART.fullmatch, parts)):
            raise ValueError(
                f"{text!r} is no name of a table: it takes NAME or SCHEMA.NAME, each of letters, digits and _, or in "
                'double quotes of letters, digits, _, - and spaces, such as "My Units"'
            )
        return cls("" if len(parts) == 1 else parts[0], parts[-1])

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


class Markers:
    """The statements on a table of markers; each has a `?` for a value, and no other."""

    def __init__(self, name: TableName, dialect: Dialect) -> None:
        self.name = name
        self.dialect: Dialect = dialect
        self.select_id = f"SELECT q_mgr FROM {name} WHERE unit = ?"
        self.select_outcome = f"SELECT outcome FROM {name} WHERE unit = ?"
        self._insert_marked = (
            f"INSERT INTO {name} (unit, outcome, q_mgr, at) SELECT CAST(? AS bytea), '{COMMITTED}', CAST(? AS text), "
            f"CAST(CAST(? AS text) AS bigint) WHERE current_setting('{_SETTING}', true) = ? RETURNING 1"
        )

    def ddl(self, *, if_missing: bool = False) -> str:
        """Return the statement that makes the table."""
        blob, text, number = _TYPES[self.dialect]
        condition = "IF NOT EXISTS " if if_missing else ""
        return (
            f"CREATE TABLE {condition}{self.name} (unit {blob} PRIMARY KEY, outcome {text} NOT NULL, "
            f"q_mgr {text} NOT NULL, at {number} NOT NULL)"
        )

    def insert(self, outcome: str, at: float) -> str:
        """Return the statement that inserts a marker; its values are the unit and the queue manager's instance."""
        return f"INSERT INTO {self.name} (unit, outcome, q_mgr, at) VALUES (?, '{outcome}', ?, {int(at)})"

    def opening(self, number: int) -> str:
        """Return the statement behind BEGIN by which `marking` knows a transaction again, by a number of its own."""
        if self.dialect == "sqlite":
            return f"SAVEPOINT evermq_{number}"
        return f"SET LOCAL {_SETTING} = '{number}'"

    def marking(self, number: int, at: float) -> tuple[str, tuple[str, ...]]:
        """Return the statements that insert the marker of a committed transaction, and their values behind the unit and
        the queue manager's instance. Where it is not that of `opening` any more, SQLite has no such savepoint, and
        PostgreSQL returns no row. There the text is always the same: drivers prepare it.
        """
        if self.dialect == "sqlite":
            return f"RELEASE SAVEPOINT evermq_{number}; {self.insert(COMMITTED, at)}", ()
        return self._insert_marked, (str(int(at)), str(number))

    def delete(self, count: int) -> str:
        """Return the statement that deletes so many markers by their units."""
        return f"DELETE FROM {self.name} WHERE unit IN ({', '.join('?' * count)})"

    def old(self, before: float, limit: int) -> str:
        """Return the statement that finds old markers of a queue manager's instance, aborted ones a day later."""
        late = int(before)
        return (
            f"SELECT unit FROM {self.name} WHERE q_mgr = ? AND outcome <> '{ID_OUTCOME}' AND at < CASE outcome "
            f"WHEN '{ABORTED}' THEN {late - ABORTED_SECONDS} ELSE {late} END ORDER BY at LIMIT {int(limit)}"
        )

    def count(self) -> str:
        """Return the statement that counts markers by queue manager's instance and outcome, with the oldest of each."""
        return (
            f"SELECT q_mgr, outcome, count(*), min(at) FROM {self.name} WHERE outcome <> '{ID_OUTCOME}' "
            "GROUP BY q_mgr, outcome ORDER BY q_mgr, outcome"
        )


def units_of(rows: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return the units that are the first column of rows, in whatever type a driver gives bytes."""
    return [bytes(row[0]) for row in rows]


def _split(text: str) -> list[str]:
    """Split at the dots that are in no quotes."""
    return re.split(r'\.(?=(?:[^"]*"[^"]*")*[^"]*$)', text)
