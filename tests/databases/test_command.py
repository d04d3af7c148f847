"""`evermq transactions`: DDL, status, clean and a new id, in any of the ways to name a database."""

from __future__ import annotations

import os
import sqlite3
import uuid
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from broker import QueueManager
from broker.cli import main
from broker.cli.administration.transactions import cleaned, give_new_id, units_in_doubt
from broker.databases.database import Database
from tests.databases.flows import Q_MGR, committed
from tests.databases.ways import GONE, ORDERS, AsyncpgPool, SqlitePath
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

SQLITE_DDL = (
    "CREATE TABLE {} (unit BLOB PRIMARY KEY, outcome TEXT NOT NULL, q_mgr TEXT NOT NULL, at INTEGER NOT NULL);\n"
)
NOBODY = "mq://127.0.0.1:1"


def run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["transactions", *words], env={"EVERMQ_DATABASE": None, **environment})


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (("--dialect", "sqlite"), "evermq_unit"),
        (("orders.db",), "evermq_unit"),
        (("orders.db", "--table", '"My Units"'), '"My Units"'),
    ],
)
def test_ddl_is_for_who_may_make_the_table(words: tuple[str, ...], table: str, tmp_path: Path) -> None:
    printed = run("ddl", *words).output
    assert printed == SQLITE_DDL.format(table)
    sqlite3.connect(tmp_path / "a.db").execute(printed).connection.close()


@pytest.mark.parametrize("words", [("--dialect", "postgresql"), ("postgresql://me@host/orders",)])
def test_ddl_of_postgresql_has_its_types(words: tuple[str, ...]) -> None:
    assert "unit bytea PRIMARY KEY" in run("ddl", *words).output


@pytest.mark.parametrize("command", ["ddl", "status", "clean", "new-id"])
@pytest.mark.parametrize(
    "dsn",
    ["postgresql://me:s3cret@host/orders", "postgres://host/orders?user=me&password=s3cret", "host=h password=s3cret"],
)
def test_a_password_among_the_arguments_is_refused_and_not_printed(command: str, dsn: str) -> None:
    result = run(command, dsn, *(["--yes"] if command == "new-id" else []))
    assert result.exit_code == 20
    assert "EVERMQ_DATABASE" in result.output
    assert "~/.pgpass" in result.output
    assert "s3cret" not in result.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("status",), "which database?"),
        (("status", "no-such.db"), "there is no such file"),
        (("status", "/"), "/ is a folder, and an SQLite database is a file"),
        (("status", "mysql://me@host/x"), "the DSN is no postgresql://"),
        (("status", "postgresql+asyncpg://me@host/x"), "leave out the driver, as postgresql://"),
        (
            ("status", "postgresql://me@127.0.0.1:1/x"),
            "PostgreSQL gives no session at 127.0.0.1:1/x: ",
        ),
        (("status", "a.db", "--dsn-file", "b"), "give one of them"),
        (("ddl", "a.db", "--table", "x; DROP TABLE y"), "is no name of a table"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: tuple[str, ...], text: str) -> None:
    result = run(*words)
    assert result.exit_code == 20
    assert text in result.output


async def table_of(way: SqlitePath, *numbers: int) -> None:
    way.look(ORDERS)
    opened = await way.database().open()
    for number in numbers:
        await committed(opened, way, number)
    await opened.close()


@pytest.mark.parametrize("by", ["argument", "file", "variable"])
def test_status_shows_the_markers_where_no_queue_manager_is_there_too(by: str, tmp_path: Path) -> None:
    import anyio

    way = SqlitePath(tmp_path)
    anyio.run(table_of, way, 1, 2)
    dsn = str(way.file)
    (tmp_path / "dsn").write_text(f"{dsn}\n")
    words = {"argument": [dsn], "file": ["--dsn-file", str(tmp_path / "dsn")], "variable": []}[by]
    result = run("status", *words, "--url", NOBODY, **({"EVERMQ_DATABASE": dsn} if by == "variable" else {}))
    assert result.exit_code == 0, result.output
    assert "database orders " in result.output
    assert [line.split()[:3] for line in result.output.splitlines() if Q_MGR in line] == [[Q_MGR, "committed", "2"]]
    assert "what is in doubt is not known: no queue manager at" in result.output
    assert run("clean", dsn, "--url", NOBODY).exit_code == 20


def test_a_table_that_is_not_there_is_not_made_by_a_look(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    result = run("status", str(way.file))
    assert result.exit_code == 20
    assert "there is no table evermq_unit" in result.output
    assert way.look("SELECT count(*) FROM sqlite_master") == [("1",)]


async def test_d1_8_a_copy_gets_an_id_of_its_own(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    await table_of(way, 1)
    before = await way.database().open()
    copy = tmp_path / "copy.db"
    copy.write_bytes(way.file.read_bytes())
    opened = await Database(copy).open()
    assert opened.id == before.id
    await give_new_id(opened)
    await opened.close()
    again = await Database(copy).open()
    assert again.id != before.id
    assert len(again.id) == 16
    for each in (before, again):
        await each.close()


@pytest.mark.postgres
def test_a_new_id_needs_no_more_rights_and_asks_first(postgres: Postgres, tmp_path: Path) -> None:
    import anyio

    postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    way = AsyncpgPool(tmp_path, postgres)

    async def made() -> bytes:
        opened = await way.database().open()
        await opened.close()
        return opened.id

    before = anyio.run(made)
    postgres.sql("DROP ROLE IF EXISTS shop", "CREATE ROLE shop LOGIN", database=OWNER)
    postgres.sql("GRANT SELECT, INSERT, DELETE ON evermq_unit TO shop", database=OWNER)
    try:
        assert CliRunner().invoke(main, ["transactions", "new-id", postgres.dsn("shop")], input="n\n").exit_code == 130
        assert anyio.run(made) == before
        result = run("new-id", "--yes", EVERMQ_DATABASE=postgres.dsn("shop"))
        assert result.exit_code == 0, result.output
        assert anyio.run(made) != before
        assert uuid.UUID(bytes=before).hex not in result.output
    finally:
        postgres.sql("REVOKE ALL ON evermq_unit FROM shop", "DROP ROLE shop", GONE, database=OWNER)


async def test_d1_9_clean_leaves_what_is_in_doubt_what_is_young_and_what_is_another_queue_managers(
    tmp_path: Path,
) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    opened = await way.database().open()
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        mine = connection.q_mgr_instance
        in_doubt, done, young, others = (os.urandom(16) for _ in range(4))
        await connection.prepare(in_doubt, opened.id, "orders")
        for unit, q_mgr, at in ((in_doubt, mine, 1), (done, mine, 1), (young, mine, 0), (others, "QM2", 1)):
            await opened.rows(opened.markers.insert("committed", at or opened.clock.time()), unit, q_mgr)
        await connection.prepare(unseen := os.urandom(16), opened.id, "orders")
        await connection.prepare(os.urandom(16), os.urandom(16), "another")
        shown = [uuid.UUID(unit.split()[0]).bytes for unit in await units_in_doubt(opened, connection)]
        assert sorted(shown) == sorted([in_doubt, unseen])
        assert [await cleaned(opened, connection) for _ in range(2)] == [1, 0]
        left = {bytes(row[0]) for row in await opened.rows("SELECT unit FROM evermq_unit")}
        assert left == {b"\0", in_doubt, young, others}
    await opened.close()
