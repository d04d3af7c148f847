"""A queue-sharing group in the database of the tests: where it is, what lies in it, and what must not be left there."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

import asyncpg

from broker.core.message.entry import AVAILABLE, CLAIMED, DAMAGED, DELAYED
from broker.core.names.sharing_group import TRANSMISSION_QUEUE
from broker.sharing.database.schema import ensure
from tests.sharing.postgres import JUDGE, OWNER

if TYPE_CHECKING:
    import asyncio

    from tests.sharing.postgres import Postgres, Psql

_numbers = count(1)
_empty_ones: WeakKeyDictionary[Postgres, list[str]] = WeakKeyDictionary()
_as_made: WeakKeyDictionary[Postgres, dict[str, str]] = WeakKeyDictionary()

_SHOWN: Final = 5  # of a kind
_PASSING: Final = ("unit_of_work", "share")  # tables whose rows a member writes and deletes when it comes to it
_AT_REST: Final = (AVAILABLE, DAMAGED, CLAIMED, DELAYED)

LEAKS: Final = {
    "sessions": "SELECT application_name, state, query FROM pg_stat_activity WHERE starts_with(application_name, $1)",
    "units of work": "SELECT * FROM unit_of_work",
    "handles": "SELECT * FROM handle",
    "connection tags": "SELECT * FROM connection_tag",
    "messages not at rest": (
        "SELECT queue, place, state, unit, member, epoch FROM all_messages"
        f" WHERE NOT state = ANY ('{{{','.join(map(str, _AT_REST))}}}')"
    ),
    "breaches": "SELECT * FROM breach",
    "keys in units of work": "SELECT queue, key, unit FROM put_key WHERE unit IS NOT NULL",
    "locks": (
        "SELECT locktype, relation::regclass::text, mode, pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE starts_with(application_name, $1)"
    ),
}
"""What is left behind, and how it is found: none of these may have a row when all members have left in order."""


JOINED: Final = {kind: sql for kind, sql in LEAKS.items() if kind not in ("sessions", "locks")} | {
    "units of work": "SELECT * FROM unit_of_work WHERE state = 'ACTIVE'",  # others go with the next transaction
    "handles": f"SELECT * FROM handle WHERE queue <> '{TRANSMISSION_QUEUE}'",
    "connection tags": "SELECT * FROM connection_tag WHERE NOT starts_with(encode(tag, 'escape'), 'SYSTEM.IGQ.')",
}
"""What programs have left behind that have gone, while members are there with their agents."""


class GroupDatabase:
    """A new queue-sharing group on a server, entered with `async with`: its schema is there, and is empty.

    Whoever leaves it takes everything with it; what the members have left behind is an AssertionError, but for what
    `forgive` names. One that is `reused` may be what an earlier test has left empty: quicker, where there are many.
    """

    def __init__(self, server: Postgres, *, reused: bool = False) -> None:
        self.server = server
        free = _empty_ones.setdefault(server, [])
        self.name = free.pop() if reused and free else f"G{next(_numbers):03X}"
        self._reused = reused
        self.schema = f"evermq_{self.name.lower()}"
        self.dsn = server.dsn()
        self._forgiven: set[str] = set()
        self._judge: asyncpg.Connection | None = None
        self._psql: Psql | None = None
        self._counts: str | None = None

    async def __aenter__(self) -> Self:
        await self.make()
        return self

    async def make(self) -> None:
        """Make its tables, as its first member would."""
        session = await self.session()
        try:
            await ensure(session, self.schema)
        finally:
            await session.close()
        if self._reused and self.server not in _as_made:
            await self._remember()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        left: dict[str, list[Any]] = {"a test that failed": []}
        try:
            if kind is None:
                left = await self.leaks()
        finally:
            if self._reused and not left:
                await self._empty()
            else:
                await self.remove()
        assert kind is not None or not left, left

    def forgive(self, *kinds: str) -> None:
        """Forgive what this test leaves behind on purpose: keys of `LEAKS`."""
        assert set(kinds) <= set(LEAKS), kinds
        self._forgiven |= set(kinds)

    async def session(self, user: str = OWNER, **settings: str) -> asyncpg.Connection:
        """A session on the tables of the group, to be closed by the caller."""
        settings = {"search_path": self.schema, **settings}
        return await asyncpg.connect(self.server.dsn(user), server_settings=settings)

    async def rows(self, sql: str, *arguments: object) -> list[dict[str, Any]]:
        """Return what a statement of the judge's finds in the tables of the group."""
        if self._judge is None or self._judge.is_closed():
            self._judge = await self.session(JUDGE, application_name="judge")
        return [dict(row) for row in await self._judge.fetch(sql, *arguments)]

    async def value(self, sql: str, *arguments: object) -> Any:
        """The one value that a statement of the judge's finds."""
        (row,) = await self.rows(sql, *arguments)
        (value,) = row.values()
        return value

    async def until_blocked(self, call: asyncio.Future[Any]) -> None:
        """Return when a session waits for a lock, on behalf of this call."""
        while not await self.value("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            assert not call.done(), "it did not wait for its rival"

    def at_once(self, sql: str) -> list[list[str]]:
        """Return what a statement of the judge's finds now, while the event loop stands still; as text."""
        if self._psql is None:
            self._psql = self.server.psql(self.schema)
        return self._psql.rows(sql)

    async def leaks(self, kinds: dict[str, str] = LEAKS) -> dict[str, list[dict[str, Any]]]:
        """Return what members have left behind that have gone, by kind."""
        looks = " UNION ALL ".join(
            f"SELECT '{kind}' AS kind, to_jsonb(found) AS row FROM ({sql} LIMIT {_SHOWN}) AS found"
            for kind, sql in kinds.items()
            if kind not in self._forgiven
        )
        found: dict[str, list[dict[str, Any]]] = {}
        for row in await self.rows(looks, *([f"{self.name}/"] if "$1" in looks else [])):
            found.setdefault(row["kind"], []).append(json.loads(row["row"]))
        return found

    async def standing(self) -> dict[str, object]:
        """Return the number of rows in each of its tables, and the lives of its members."""
        if self._counts is None:
            tables = [name for name in await self._tables() if name not in _PASSING]
            counted = ", ".join(f"'{name}', (SELECT count(*) FROM {name})" for name in tables)
            lives = "(SELECT jsonb_agg(jsonb_build_array(name, epoch, state) ORDER BY name) FROM member)"
            self._counts = f"SELECT jsonb_build_object({counted}, 'lives', {lives})"
        stands: dict[str, object] = json.loads(await self.value(self._counts))
        return stands

    async def _empty(self) -> None:
        """Leave it as it was made, but for its sequences, for another test."""
        session = await self.session()
        await session.execute(";".join(f"DELETE FROM {table}" for table in await self._tables()))
        for table, rows in _as_made[self.server].items():
            sql = f"INSERT INTO {table} SELECT * FROM jsonb_populate_recordset(NULL::{table}, $1)"
            await session.execute(sql, rows)
        await session.close()
        await self.hang_up()
        _empty_ones[self.server].append(self.name)

    async def _remember(self) -> None:
        """Know what is in the tables when they are new."""
        _as_made[self.server] = {
            table: rows
            for table in await self._tables()
            if (rows := await self.value(f"SELECT jsonb_agg(to_jsonb(each)) FROM {table} AS each")) is not None
        }

    async def _tables(self) -> list[str]:
        """Return the tables of the group, a partitioned one for its parts."""
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename !~ '^(message|held)_' ORDER BY 1"
        return [row["tablename"] for row in await self.rows(sql, self.schema)]

    async def remove(self) -> None:
        """Everything of the group is gone."""
        await self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, $1)",
            f"{self.name}/",
        )
        await self.rows(f"DROP SCHEMA {self.schema} CASCADE")
        await self.hang_up()

    async def hang_up(self) -> None:
        """End the sessions of the judge."""
        judge, self._judge = self._judge, None
        if judge is not None:
            with suppress(OSError):  # its server may have been stopped since, as where a standby takes over
                await judge.close()
        psql, self._psql = self._psql, None
        if psql is not None:
            psql.close()
