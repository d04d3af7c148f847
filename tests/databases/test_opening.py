"""What is looked at when a database is opened: durability, the table, rights, its name; and what no adapter takes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from broker.databases.database import Database, database_of
from broker.databases.errors import DatabaseAwayError, DatabaseUnusableError
from broker.databases.markers import Markers, TableName
from tests.databases.flows import committed
from tests.databases.ways import GONE, ORDERS, AsyncpgPool, SqlitePath
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases.ways import DatabaseWay

_COLUMNS = "outcome text NOT NULL, q_mgr text NOT NULL, at bigint NOT NULL"
DDL = f"CREATE TABLE evermq_unit (unit bytea PRIMARY KEY, {_COLUMNS});"


@pytest.fixture
def clean(postgres: Postgres) -> Postgres:
    """A PostgreSQL without our tables, whose role may make them."""
    postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    return postgres


async def test_one_database_has_one_id_for_whoever_opens_it_at_the_same_time(way: DatabaseWay) -> None:
    opened = await asyncio.gather(*(way.database(name="orders").open() for _ in range(4)))
    assert len({each.id for each in opened}) == 1
    assert len(opened[0].id) == 16
    assert {each.label for each in opened} == {opened[0].label}
    assert opened[0].label.startswith("orders ")
    assert opened[0].id.hex()[:8] not in opened[0].label
    for each in opened:
        await each.close()
        await each.close()


def test_what_no_adapter_takes_is_a_type_error_that_names_the_six_and_the_protocol() -> None:
    for source in (object(), 7, sqlite3, ["a.db"], None, b"a.db"):
        with pytest.raises(
            TypeError, match=r"sqlite3.*aiosqlite.*asyncpg.*psycopg.*SQLAlchemy.*Django.*acquire, begin, "
        ):
            Database(source)


def test_a_url_with_a_password_is_refused_without_being_shown() -> None:
    with pytest.raises(TypeError, match=r"this one is a URL") as refused:
        Database("postgresql://me:secret@host/orders")
    assert "secret" not in str(refused.value)


def test_a_connection_of_sqlite_is_refused_since_it_is_bound_to_its_thread() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(TypeError, match="give a path, or a function that opens a connection"):
        Database(connection)
    connection.close()


def test_a_database_is_taken_as_it_is_and_anything_else_with_the_defaults(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db", name="orders")
    assert database_of(database) is database
    made = database_of(tmp_path / "a.db")
    assert (str(made.table), made.create, made.durable, made.outcome_wait, made.pool_wait) == (
        "evermq_unit", True, True, 10.0, 30.0,
    )  # fmt: skip
    assert made.threaded is True
    assert made.gives == (sqlite3.Connection,)
    assert database_of(lambda: None).threaded is None
    with pytest.raises(ValueError, match=r"Database\(pool_wait=0\)"):
        Database("a.db", pool_wait=0)


@pytest.mark.parametrize("missing", ["sqlite3", "aiosqlite", "asyncpg", "psycopg", "sqlalchemy", "django"])
def test_d5_2_a_framework_that_is_absent_or_not_given_is_not_imported(missing: str) -> None:
    program = f"""
import sys
sys.modules[{missing!r}] = None
import broker
drivers = {{"asyncpg", "psycopg", "psycopg_pool", "sqlalchemy", "django", "aiosqlite"}}
from broker.databases.database import Database
database = broker.Database(lambda: None)
found = drivers & {{name for name, each in sys.modules.items() if each}}
assert not found, found
if {missing!r} != "sqlite3":
    import asyncio
    async def main():
        opened = await Database("d5.db").open()
        await opened.close()
    asyncio.run(main())
    found = drivers & {{name for name, each in sys.modules.items() if each}}
    assert not found, found
"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["other_unit", "main.other_unit", '"Other Units-2"', 'main."other_unit"'])
async def test_d5_7_a_table_of_sqlite_may_have_a_schema_and_quotes(name: str, tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    for number in (1, 2):
        opened = await way.database(table=name).open()
        unit = await committed(opened, way, number)
        assert await opened.probe(unit, "q") is True
        await opened.close()
    assert way.orders() == ["1", "2"]
    (count,) = way.look(f"SELECT count(*) FROM {name}")
    assert count == ("3",)


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["other_unit", "public.other_unit", '"Other Units-2"', 'public."other_unit"'])
async def test_d5_7_a_table_of_postgresql_may_have_a_schema_and_quotes(
    name: str, clean: Postgres, tmp_path: Path
) -> None:
    way = AsyncpgPool(tmp_path, clean)
    for number in (1, 2):
        opened = await way.database(table=name).open()
        unit = await committed(opened, way, number)
        assert await opened.probe(unit, "q") is True
        await opened.close()
    assert way.look(f"SELECT count(*) FROM {name}") == [("3",)]
    clean.sql(f"DROP TABLE {name}", database=OWNER)


@pytest.mark.parametrize(
    "name",
    ["x; DROP TABLE orders", 'x"', '"x"; DROP TABLE orders; --"', "a.b.c", "", "x y", '"x?"', "x--", "x'", '"x""y"',
     "1x", "x\n", '"a;b"', '"%s"', "é"],
)  # fmt: skip
def test_d5_7_a_hostile_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a table"):
        Database("a.db", table=name)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("PRAGMA synchronous = NORMAL", "PRAGMA synchronous = FULL"),
        ("PRAGMA synchronous = OFF", "PRAGMA synchronous = FULL"),
        ("PRAGMA journal_mode = MEMORY", "PRAGMA journal_mode = WAL"),
        ("PRAGMA journal_mode = OFF", "PRAGMA journal_mode = WAL"),
    ],
)
async def test_sqlite_that_may_lose_a_commit_is_refused_unless_it_is_asked_for(
    settings: str, text: str, tmp_path: Path
) -> None:
    def opens() -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "a.db")
        connection.execute(settings)
        return connection

    for _ in range(2):
        with pytest.raises(DatabaseUnusableError, match=f"{text}.*durable=False"):
            await Database(opens).open()
    opened = await Database(opens, durable=False).open()
    assert text in opened.weakness
    await opened.close()


@pytest.mark.parametrize("source", [":memory:", "file::memory:", lambda: sqlite3.connect(":memory:")])
async def test_sqlite_in_memory_is_for_tests_and_is_one_database_while_it_is_open(source: Any) -> None:
    with pytest.raises(DatabaseUnusableError, match="in memory is gone with its process"):
        await Database(source).open()


async def test_a_path_in_memory_is_one_database_for_all_transactions(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    opened = await Database(":memory:", durable=False).open()

    await opened.rows(ORDERS)
    units = [await committed(opened, way, number) for number in (1, 2)]
    assert [await opened.probe(unit, "q") for unit in units] == [True, True]
    assert len(await opened.rows("SELECT id FROM orders")) == 2
    await opened.close()


@pytest.mark.postgres
async def test_synchronous_commit_off_is_refused_unless_it_is_asked_for(clean: Postgres) -> None:
    def pool() -> Any:
        return asyncpg.create_pool(clean.dsn(), min_size=1, server_settings={"synchronous_commit": "off"})

    with pytest.raises(DatabaseUnusableError, match=r"ALTER ROLE \.\.\. SET synchronous_commit = on.*durable=False"):
        await Database(pool).open()
    opened = await Database(pool, durable=False).open()
    assert "synchronous_commit = off" in opened.weakness
    await opened.close()


@pytest.mark.postgres
async def test_a_role_that_may_only_read_is_refused_with_a_sentence(clean: Postgres) -> None:
    def pool() -> Any:
        return asyncpg.create_pool(clean.dsn(), min_size=1, server_settings={"default_transaction_read_only": "on"})

    with pytest.raises(DatabaseUnusableError, match="transactions are read-only here"):
        await Database(pool).open()


@pytest.mark.postgres
async def test_d5_5_without_the_right_to_create_the_error_has_the_ddl_and_three_rights_suffice(
    clean: Postgres, tmp_path: Path
) -> None:
    clean.sql(
        "DROP ROLE IF EXISTS shop", "CREATE ROLE shop LOGIN", f"GRANT CONNECT ON DATABASE {OWNER} TO shop",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC", "GRANT SELECT, INSERT ON orders TO shop", database=OWNER,
    )  # fmt: skip
    way = AsyncpgPool(tmp_path, clean)

    def pool() -> Any:
        return asyncpg.create_pool(clean.dsn("shop"), min_size=1)

    try:
        for _ in range(2):
            with pytest.raises(DatabaseUnusableError) as refused:
                await Database(pool).open()
            assert str(refused.value).endswith(DDL)
        clean.sql(DDL, "GRANT SELECT, DELETE ON evermq_unit TO shop", database=OWNER)
        with pytest.raises(DatabaseUnusableError, match="this user may not INSERT on evermq_unit"):
            await Database(pool).open()
        clean.sql("GRANT INSERT ON evermq_unit TO shop", database=OWNER)
        opened = await Database(pool).open()
        unit = await committed(opened, way, 1)
        assert await opened.probe(unit, "q") is True
        await opened.delete([unit])
        await opened.close()
        assert way.orders() == ["1"]
    finally:
        clean.sql(
            "DROP TABLE evermq_unit", "REVOKE ALL ON orders FROM shop", f"REVOKE ALL ON DATABASE {OWNER} FROM shop",
            "DROP ROLE shop", f"GRANT CREATE ON SCHEMA public TO {OWNER}", database=OWNER,
        )  # fmt: skip


async def test_without_leave_to_create_the_error_has_the_ddl(way: DatabaseWay) -> None:
    with pytest.raises(DatabaseUnusableError, match="it is not made here") as refused:
        await way.database(create=False).open()
    assert str(refused.value).endswith(f"{Markers(TableName.parsed('evermq_unit'), way.dialect).ddl()};")


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("CREATE TABLE evermq_unit (unit BLOB PRIMARY KEY, outcome TEXT)", "has the columns unit, outcome and needs"),
        ("CREATE TABLE evermq_unit (unit BLOB, outcome TEXT, q_mgr TEXT, at INTEGER)", "must be unique"),
        ("CREATE TABLE evermq_unit (unit BLOB, outcome TEXT, q_mgr TEXT, at INTEGER, PRIMARY KEY (unit, at))",
         "must be unique"),
        ("CREATE TABLE evermq_unit (unit BLOB PRIMARY KEY ON CONFLICT IGNORE, outcome TEXT, q_mgr TEXT, at INTEGER)",
         "ON CONFLICT"),
        ("CREATE VIEW evermq_unit AS SELECT 1 AS unit, 2 AS outcome, 3 AS q_mgr, 4 AS at", "is no table"),
    ],
)  # fmt: skip
async def test_a_table_of_sqlite_that_will_not_do_is_refused(ddl: str, text: str, tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ddl)
    with pytest.raises(DatabaseUnusableError, match=text):
        await way.database().open()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("CREATE TABLE evermq_unit (unit bytea PRIMARY KEY, outcome text)", "has the columns unit, outcome and needs"),
        (f"CREATE TABLE evermq_unit (unit bytea, {_COLUMNS})", "must be unique"),
        (f"CREATE TABLE evermq_unit (unit bytea PRIMARY KEY DEFERRABLE, {_COLUMNS})", "must be unique"),
        (f"CREATE UNLOGGED TABLE evermq_unit (unit bytea PRIMARY KEY, {_COLUMNS})", "UNLOGGED"),
    ],
)
async def test_a_table_of_postgresql_that_will_not_do_is_refused(
    ddl: str, text: str, clean: Postgres, tmp_path: Path
) -> None:
    clean.sql(f"SET ROLE {OWNER}", ddl, database=OWNER)
    with pytest.raises(DatabaseUnusableError, match=text):
        await AsyncpgPool(tmp_path, clean).database().open()
    clean.sql(GONE, database=OWNER)


async def test_what_is_away_at_the_start_is_told_from_what_is_unusable(tmp_path: Path) -> None:
    def away() -> Any:
        return asyncpg.create_pool(f"postgresql://me@/x?host={tmp_path}", min_size=1)

    for _ in range(2):
        with pytest.raises(DatabaseAwayError, match="the function of the database has failed"):
            await Database(away).open()
    with pytest.raises(DatabaseAwayError):
        await Database(tmp_path / "no" / "such" / "folder.db").open()


async def test_d5_6_ten_thousand_units_leave_a_small_table_and_the_key_is_used(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    opened = await way.database().open()
    most = 0
    for _ in range(10):
        units = [number.to_bytes(16) for number in range(1, 1001)]
        for start in range(0, 1000, 100):
            part = units[start : start + 100]
            insert = opened.markers.insert("committed", 1).replace("(?, 'committed', ?, 1)", "(?, 'committed', 'q', 1)")
            await opened.rows(";".join([insert] * len(part)), *part)
        most = max(most, int(way.look("SELECT count(*) FROM evermq_unit")[0][0]))
        await opened.delete(units)
    assert most <= 1001
    assert way.look("SELECT count(*) FROM evermq_unit") == [("1",)]
    plan = way.look(f"EXPLAIN QUERY PLAN {opened.markers.delete(1000).replace('?', chr(39) + chr(39))}")
    assert "SEARCH evermq_unit USING INDEX sqlite_autoindex_evermq_unit_1 (unit=?)" in plan[0][3]
    await opened.close()
