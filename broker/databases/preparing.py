"""The look at a database when an app starts: would it lose a COMMIT, is the table there, which database is it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.databases.errors import DatabaseAwayError, DatabaseUnusableError, ProgramDatabaseError
from broker.databases.failures import sqlstate_of, told
from broker.databases.markers import ID_OUTCOME, ID_UNIT
from broker.databases.short_transactions import is_away, judged, transacted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.databases.calls import AdapterCalls
    from broker.databases.markers import Markers

_COLUMNS: Final = ("unit", "outcome", "q_mgr", "at")
_RIGHTS: Final = ("SELECT", "INSERT", "DELETE")
_SYNCHRONOUS: Final = {"0": "OFF", "1": "NORMAL"}
_TRIES: Final = 3
_FASTER: Final = ("23505", "42P07", "42710")  # SQLSTATEs of CREATE TABLE IF NOT EXISTS where another app makes it too


class PreparedDatabase(NamedTuple):
    """A database that will do: its id, the name that it has itself, and why a COMMIT may be lost there, "" if not."""

    id: bytes
    name: str
    weakness: str


class DatabaseCheck:
    """The look at a database, once, before the first transaction. Raises DatabaseAwayError, DatabaseUnusableError."""

    def __init__(self, calls: AdapterCalls, markers: Markers, *, create: bool, durable: bool) -> None:
        self._calls = calls
        self._markers = markers
        self._create = create
        self._durable = durable
        self._connection: Any = None

    async def run(self) -> PreparedDatabase:
        """Look, make the table where it may and must, and read the id, or give the database one."""
        name, weakness = await self._in_transaction(self._looked)
        if weakness and self._durable:
            raise DatabaseUnusableError(f"{weakness}; Database(..., durable=False) takes it as it is")
        for _ in range(_TRIES):
            if not await self._in_transaction(self._is_there):
                await self._make_table()
            else:
                if (found := await self._in_transaction(self._read_id)) is not None:
                    return PreparedDatabase(found, name, weakness)
                await self._write_id()
        raise DatabaseAwayError(f"the table {self._markers.name} came and went while it was looked at")

    async def _in_transaction(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do something in a transaction of its own; errors of the driver become ours."""
        try:
            async with transacted(self._calls) as self._connection:
                return await work()
        except (ProgramDatabaseError, RuntimeError):
            raise
        except Exception as error:
            if is_away(self._calls, error):
                raise judged(self._calls, error) from error
            raise self._unusable(told(error)) from error

    def _unusable(self, why: str) -> DatabaseUnusableError:
        return DatabaseUnusableError(
            f"{why}. EverMQ needs the table {self._markers.name}, on which the program's user may SELECT, INSERT and "
            f"DELETE; who may make it runs:\n{self._markers.ddl()};"
        )

    async def _rows(self, sql: str, *values: bytes | str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self._calls.execute(self._connection, sql, *values)]

    # What is looked at

    async def _looked(self) -> tuple[str, str]:
        return await (self._looked_at_sqlite() if self._markers.dialect == "sqlite" else self._looked_at_postgresql())

    async def _looked_at_sqlite(self) -> tuple[str, str]:
        schema = self._markers.name.schema or "main"
        files = {str(row[1]).lower(): str(row[2] or "") for row in await self._rows("PRAGMA database_list")}
        file = files.get(schema.strip('"').lower(), "")
        name = file.replace("\\", "/").rpartition("/")[2].partition(".")[0] or "memory"
        if not file:
            return name, "an SQLite database in memory is gone with its process: give it a file"
        synchronous = str((await self._rows(f"PRAGMA {schema}.synchronous"))[0][0])
        if synchronous in _SYNCHRONOUS:
            return name, (
                f"with SQLite's synchronous = {_SYNCHRONOUS[synchronous]} a power cut may lose a COMMIT: run PRAGMA "
                "synchronous = FULL on each connection"
            )
        mode = str((await self._rows(f"PRAGMA {schema}.journal_mode"))[0][0]).upper()
        if mode in ("OFF", "MEMORY"):
            return name, (
                f"with SQLite's journal_mode = {mode} a crash may damage the database: run PRAGMA journal_mode = WAL"
            )
        return name, ""

    async def _looked_at_postgresql(self) -> tuple[str, str]:
        ((name, synchronous, fsync, read_only),) = await self._rows(
            "SELECT current_database()::text, current_setting('synchronous_commit'), current_setting('fsync'), "
            "current_setting('transaction_read_only')"
        )
        if read_only == "on":
            raise DatabaseUnusableError(
                "transactions are read-only here: this is a standby, or a role or database with "
                "default_transaction_read_only; give the pool of one that may write"
            )
        if synchronous == "off":
            return name, (
                "with synchronous_commit = off a crash of PostgreSQL may lose a COMMIT: ALTER ROLE ... SET "
                "synchronous_commit = on for this role, or leave it out of the connection's settings"
            )
        if fsync == "off":
            return name, "with fsync = off a crash of the machine may lose a COMMIT: set fsync = on in postgresql.conf"
        return name, ""

    # The table

    async def _is_there(self) -> bool:
        return await (self._is_in_sqlite() if self._markers.dialect == "sqlite" else self._is_in_postgresql())

    async def _is_in_sqlite(self) -> bool:
        name = self._markers.name
        schema, table = name.schema or "main", name.table.strip('"')
        found = await self._rows(f"SELECT type, sql FROM {schema}.sqlite_master WHERE lower(name) = lower(?)", table)
        if not found:
            return False
        kind, sql = found[0]
        columns = await self._rows(f"PRAGMA {schema}.table_info({name.table})")
        self._check_columns(str(kind) == "table", [str(row[1]) for row in columns])
        keys = [str(row[1]) for row in columns if row[5]]
        if keys != ["unit"]:
            raise self._unusable(f"unit is not the primary key of {name}, which must be unique")
        if "ON CONFLICT" in " ".join(str(sql).upper().split()):
            raise self._unusable(f"{name} has an ON CONFLICT clause, behind which nobody sees that a marker is there")
        return True

    async def _is_in_postgresql(self) -> bool:
        name = self._markers.name
        ((oid,),) = await self._rows("SELECT to_regclass(?)::oid::text", str(name))
        if oid is None:
            return False
        number = int(oid)
        ((kind, kept, *may),) = await self._rows(
            f"SELECT relkind::text, relpersistence::text, {', '.join(map(_may, _RIGHTS))} "
            f"FROM pg_class WHERE oid = {number}"
        )
        columns = await self._rows(
            f"SELECT attname::text FROM pg_attribute WHERE attrelid = {number} AND attnum > 0 AND NOT attisdropped"
        )
        self._check_columns(kind in ("r", "p"), [row[0] for row in columns])
        if kept != "p" and self._durable:
            raise self._unusable(f"{name} is UNLOGGED or TEMPORARY, so that a crash loses its markers: DROP it")
        unique = await self._rows(
            "SELECT 1 FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] "
            f"WHERE indrelid = {number} AND indisunique AND indisvalid AND indimmediate AND indnkeyatts = 1 "
            "AND indpred IS NULL AND attname = 'unit'"
        )
        if not unique:
            raise self._unusable(f"unit is not the primary key of {name}, which must be unique")
        if missing := [right for right, granted in zip(_RIGHTS, may, strict=True) if not granted]:
            raise self._unusable(f"this user may not {', '.join(missing)} on {name}: GRANT it")
        return True

    def _check_columns(self, is_table: bool, columns: list[str]) -> None:
        name = self._markers.name
        if not is_table:
            raise self._unusable(f"{name} is no table")
        if sorted(columns) != sorted(_COLUMNS):
            raise self._unusable(
                f"{name} has the columns {', '.join(columns)} and needs {', '.join(_COLUMNS)}: name another table by "
                "Database(table=)"
            )

    async def _make_table(self) -> None:
        if not self._create:
            raise self._unusable(f"there is no table {self._markers.name}, and it is not made here")

        async def make() -> None:
            await self._rows(self._markers.ddl(if_missing=True))

        try:
            await self._in_transaction(make)
        except DatabaseUnusableError as error:
            cause = error.__cause__
            if cause is None or sqlstate_of(cause) not in _FASTER:
                raise

    # The id

    async def _read_id(self) -> bytes | None:
        rows = await self._rows(self._markers.select_id, ID_UNIT)
        try:
            return uuid.UUID(str(rows[0][0])).bytes if rows else None
        except ValueError:
            raise self._unusable(f"the row of unit x'00' in {self._markers.name} bears no id of a database") from None

    async def _write_id(self) -> None:
        """Give the database an id; another app may be faster."""

        async def write() -> None:
            await self._rows(self._markers.insert(ID_OUTCOME, 0), ID_UNIT, str(uuid.uuid4()))

        try:
            await self._in_transaction(write)
        except ProgramDatabaseError as error:
            if error.__cause__ is None or not self._calls.adapter.is_duplicate(error.__cause__):
                raise


def _may(right: str) -> str:
    return f"has_table_privilege(oid, '{right}')"
