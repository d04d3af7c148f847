"""The PostgreSQL of the tests, and what they find left behind there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sharing.database import LEAKS, GroupDatabase

if TYPE_CHECKING:
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

ROOT = Path(__file__).parent.parent.parent


def test_the_server_is_one_that_a_group_accepts_and_that_only_this_machine_reaches(postgres: Postgres) -> None:
    assert postgres.sql("SHOW fsync", "SHOW listen_addresses", "SHOW synchronous_commit") == [["on"], [""], ["on"]]
    assert (postgres.data / "postmaster.pid").stat().st_uid != 0


def test_a_clean_stop_keeps_unlogged_tables_and_a_crash_empties_them(durable_postgres: Postgres) -> None:
    server = durable_postgres
    server.sql("CREATE TABLE kept (n int)", "CREATE UNLOGGED TABLE light (n int)")
    server.sql("INSERT INTO kept VALUES (1)", "INSERT INTO light VALUES (1)")
    server.restart()
    assert server.sql("SELECT * FROM kept", "SELECT * FROM light") == [["1"], ["1"]]
    server.restart("immediate")
    assert server.sql("SELECT * FROM kept", "SELECT * FROM light") == [["1"]]


def test_a_server_does_not_outlive_its_tests_however_they_end() -> None:
    text = "\n".join(
        (
            "import os, signal",
            "from tests.sharing.postgres import Postgres",
            "server = Postgres().__enter__()",
            "print(server.folder, server._process.pid, flush=True)",
            "os.kill(os.getpid(), signal.SIGKILL)",
        )
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    folder, pid = done.stdout.split()  # the pipe is closed when the watchdog has ended too
    assert not Path(folder).exists()
    assert not _runs(int(pid))


async def test_each_group_is_new_and_its_owner_is_an_ordinary_user(postgres: Postgres, group: GroupDatabase) -> None:
    async with GroupDatabase(postgres) as other:
        assert other.schema != group.schema
    session = await group.session()
    assert await session.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert await session.fetchval("SELECT count(*) FROM all_messages") == 0
    await session.close()


async def test_what_a_member_leaves_behind_is_found_by_its_kind(postgres: Postgres) -> None:
    group = GroupDatabase(postgres)
    await group.__aenter__()
    session = await group.session(application_name=f"{group.name}/QM1/1/calls")
    unit = "'00000000-0000-0000-0000-000000000001'"
    for sql in (
        f"INSERT INTO unit_of_work (id, member, epoch) VALUES ({unit}, 'QM1', 1)",
        f"INSERT INTO handle (id, queue, member, epoch, input, exclusive) VALUES ({unit}, 'Q', 'QM1', 1, true, false)",
        f"INSERT INTO connection_tag VALUES ({unit}, 'T', 'QM1', 1, 'process 1', true)",
        f"INSERT INTO put_key (queue, key, unit, place, msg_id, digest) VALUES ('Q', 'k', {unit}, 1, 'm', 'd')",
        "INSERT INTO queue VALUES ('Q')",
        "INSERT INTO held (queue, place, persistent, state, kind, member, epoch, unit, msg_id, msg_flags, descriptor,"
        f" length, body, put_by) VALUES ('Q', 1, true, 1, 2, 'QM1', 1, {unit}, 'm', 0, '', 0, '', 'QM1')",
        "SELECT pg_advisory_lock(1)",
    ):
        await session.execute(sql)
    assert list(await group.leaks()) == list(LEAKS)
    with pytest.raises(AssertionError, match="units of work"):
        await group.__aexit__(None)
    assert await _schemas(postgres, group.schema) == 0


def _runs(pid: int) -> bool:
    """True if there is such a process, other than one that has ended and that nobody has asked about."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


async def _schemas(postgres: Postgres, schema: str) -> int:
    session = await asyncpg.connect(postgres.dsn())
    try:
        found: int = await session.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema)
        return found
    finally:
        await session.close()
