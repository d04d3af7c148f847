"""The SQL of groups as releases have made it, kept as it was: `1.sql` makes the tables and functions of version 1, and
`1.statements` has what its members say to them; so do others.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

import asyncpg

from broker.sharing.database.schema import SqlSet
from tests.sharing.database import GroupDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.sharing.postgres import Postgres

VERSIONS: Final = (1,)
"""Those that have been released before that of this tree."""


def sql_of(version: int) -> SqlSet:
    """The SQL of a release, as its members know it. Their functions are among their tables."""
    return SqlSet(version, 1, ("",) * (version - 1) + (_text(f"{version}.sql"),), "")


def statements(version: int) -> Sequence[str]:
    """The statements of the members of a release."""
    return _text(f"{version}.statements").splitlines()


def _text(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")


class ReleasedGroup(GroupDatabase):
    """A new group as the first member of an older release makes it."""

    def __init__(self, server: Postgres, version: int) -> None:
        super().__init__(server)
        self.version = version

    async def make(self) -> None:
        session = await self.session()
        await make(session, self.schema, self.version)
        await session.close()


async def make(session: asyncpg.Connection, schema: str, version: int) -> None:
    """Do in the database what the first member of an older release does."""
    async with session.transaction():
        await session.execute(f"CREATE SCHEMA {schema}")
        await session.execute(f"SET LOCAL search_path TO {schema}")
        await session.execute(_text(f"{version}.sql"))
        await session.execute("INSERT INTO properties VALUES ('version', '1')")
        if version > 1:
            await session.execute("INSERT INTO properties VALUES ('sql', $1)", str(version))
        await session.execute("INSERT INTO alive DEFAULT VALUES")
