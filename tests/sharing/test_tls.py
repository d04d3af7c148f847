"""The way to the database of a group: TLS, the sources of its password, and what is warned of (security 10.5)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
import trustme

from broker import QueueManager, QueueSharingGroup
from broker.config import Config, QueueManagerConfig
from broker.config.sections import QueueSharingGroupConfig
from broker.engine.shared_queues import GroupError
from broker.mqi import MQOO
from broker.sharing.database import sessions
from broker.sharing.members.administration import Administration
from tests.sharing.database import GroupDatabase
from tests.sharing.postgres import OWNER
from tests.sharing.test_guide import shown
from tests.sharing.tls_postgres import TlsPostgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PASSWORD = "canary"

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[TlsPostgres]:
    with TlsPostgres() as server:
        yield server


@pytest.fixture
async def group(server: TlsPostgres, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GroupDatabase]:
    for name in ("PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    server.set_password(PASSWORD)
    async with GroupDatabase(server) as group:
        yield group


@pytest.fixture
def ca(server: TlsPostgres, tmp_path: Path) -> Path:
    """The file of the authority that has issued the server's certificate."""
    server.authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    return secret_file(tmp_path / "database.password", PASSWORD)


def secret_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(f"{text}\n", "utf-8")
    path.chmod(mode)
    return path


def verified(server: TlsPostgres, ca: Path, host: str = "127.0.0.1", **options: Any) -> str:
    """A DSN that trusts this authority alone, and wants the server to have the name."""
    return server.over_tcp(host, sslmode="verify-full", sslrootcert=ca, **options)


@asynccontextmanager
async def member(group: GroupDatabase, dsn: str, file: Path | None = None) -> AsyncIterator[QueueManager]:
    """A queue manager that is in the group by this DSN."""
    joining = QueueSharingGroup(group.name, dsn, dsn_password_file=file)
    async with QueueManager.open(name="QM1", group=joining) as manager:
        yield manager


def contents(folder: Path, but: Path) -> list[bytes]:
    """All that is in the files of a folder but one."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path != but]


async def works(manager: QueueManager) -> None:
    """It has a shared queue."""
    async with manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
            await queue.put("a")
            assert (await queue.get()).data == b"a"


async def refused(group: GroupDatabase, dsn: str, file: Path | None = None) -> str:
    """Why a queue manager cannot join by this DSN, which an administrator is told too."""
    with pytest.raises(GroupError) as caught:
        async with member(group, dsn, file):
            pytest.fail("it has joined")
    with pytest.raises(GroupError) as told:
        await Administration(QueueSharingGroup(group.name, dsn, dsn_password_file=file)).members()
    for each in (caught, told):
        assert PASSWORD not in str(each.value)
    return str(caught.value)


async def test_a_member_verifies_the_database_and_proves_its_user_by_a_file(
    server: TlsPostgres, group: GroupDatabase, ca: Path, password_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with member(group, verified(server, ca), password_file) as manager:
        await works(manager)
        assert await group.value(
            "SELECT array_agg(DISTINCT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
            " WHERE starts_with(application_name, $1)", f"{group.name}/"
        ) == [True]  # fmt: skip
    assert "database_without_tls" not in caplog.text
    assert PASSWORD not in caplog.text


@pytest.fixture
def guarded(server: TlsPostgres) -> Iterator[TlsPostgres]:
    """The server, which another test finds as it was."""
    yield server
    server.admit("host all all 127.0.0.1/32 scram-sha-256")


async def _admitted(server: TlsPostgres, dsn: str) -> None:
    """Return when the server goes by another pg_hba.conf, which it reads when it comes to it."""
    for _ in range(500):
        try:
            await (await asyncpg.connect(dsn, password=PASSWORD, timeout=5)).close()
        except (asyncpg.PostgresError, OSError):
            return
        await asyncio.sleep(0.01)
    pytest.fail("it is still let in")


async def test_what_the_guide_writes_into_pg_hba_lets_members_in_with_tls_alone(
    guarded: TlsPostgres, group: GroupDatabase, ca: Path, password_file: Path
) -> None:
    (line,) = shown("text")
    guarded.admit(line)
    await _admitted(guarded, guarded.over_tcp(sslmode="disable"))
    assert "no encryption" in await refused(group, guarded.over_tcp(sslmode="disable"), password_file)
    async with member(group, verified(guarded, ca), password_file) as manager:
        await works(manager)


async def test_a_member_proves_its_user_by_a_certificate(
    guarded: TlsPostgres, group: GroupDatabase, ca: Path, tmp_path: Path
) -> None:
    """As the guide says: it has no password then."""
    members = trustme.CA()
    for name in (OWNER, "another"):
        issued = members.issue_cert(f"{name}.example", common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
        (tmp_path / f"{name}.pem").chmod(0o600)
    (line,) = shown("text")
    guarded.admit(line.replace("scram-sha-256", "cert"), by=members)
    await _admitted(guarded, verified(guarded, ca))

    def proven(name: str) -> str:
        return verified(guarded, ca, sslcert=tmp_path / f"{name}.pem", sslkey=tmp_path / f"{name}.pem")

    async with member(group, proven(OWNER)) as manager:
        await works(manager)
    assert "certificate authentication failed" in await refused(group, proven("another"))


async def test_a_database_with_a_certificate_of_another_authority_is_refused(
    server: TlsPostgres, group: GroupDatabase, tmp_path: Path, password_file: Path
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "others.pem")
    told = await refused(group, verified(server, tmp_path / "others.pem"), password_file)
    assert "certificate verify failed" in told


async def test_a_database_whose_certificate_is_for_another_host_is_refused(
    server: TlsPostgres, group: GroupDatabase, ca: Path, password_file: Path
) -> None:
    told = await refused(group, verified(server, ca, "localhost"), password_file)
    assert "certificate is not valid for 'localhost'" in told


@pytest.mark.parametrize("source", ["dsn", "PGPASSWORD", ".pgpass"])
async def test_other_places_of_the_password_are_those_of_libpq(
    source: str, server: TlsPostgres, group: GroupDatabase, ca: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = verified(server, ca)
    match source:
        case "dsn":
            dsn = verified(server, ca, password=PASSWORD)
        case "PGPASSWORD":
            monkeypatch.setenv("PGPASSWORD", PASSWORD)
        case ".pgpass":
            secret_file(tmp_path / ".pgpass", f"127.0.0.1:{server.port}:{OWNER}:{OWNER}:{PASSWORD}")
            monkeypatch.setenv("HOME", str(tmp_path))
    async with member(group, dsn) as manager:
        await works(manager)


async def test_the_file_comes_before_other_places(
    server: TlsPostgres, group: GroupDatabase, ca: Path, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "another")
    async with member(group, verified(server, ca, password="another"), password_file) as manager:
        await works(manager)


async def test_a_password_that_was_changed_is_read_for_the_next_session(
    server: TlsPostgres, group: GroupDatabase, ca: Path, password_file: Path
) -> None:
    async with member(group, verified(server, ca), password_file) as manager:
        await works(manager)
        server.set_password("fresh")
        secret_file(password_file, "fresh")
        await group.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1 || '/%/calls'",
            group.name,
        )
        async with manager.connect() as connection:
            await connection.put1("Q", "b")
            async with connection.open("Q", MQOO.INPUT_SHARED) as queue:
                assert (await queue.get()).data == b"b"


async def test_a_wrong_password_is_told_and_not_repeated(
    server: TlsPostgres, group: GroupDatabase, ca: Path, tmp_path: Path
) -> None:
    wrong = secret_file(tmp_path / "wrong", f"{PASSWORD}s")
    assert "password authentication failed" in await refused(group, verified(server, ca), wrong)


async def test_a_file_that_is_not_there_is_told(
    server: TlsPostgres, group: GroupDatabase, ca: Path, tmp_path: Path
) -> None:
    assert str(tmp_path / "none") in await refused(group, verified(server, ca), tmp_path / "none")


async def test_a_file_that_others_may_write_is_refused_when_it_is_named_and_when_it_is_read(
    server: TlsPostgres, group: GroupDatabase, ca: Path, password_file: Path
) -> None:
    joining = QueueSharingGroup(group.name, verified(server, ca), dsn_password_file=password_file)
    secret_file(password_file, PASSWORD, 0o666)
    named = rf"others may write {password_file} \(mode 0666\).*: chmod go-w {password_file}"
    with pytest.raises(ValueError, match=named):
        QueueSharingGroup(group.name, verified(server, ca), dsn_password_file=password_file)
    with pytest.raises(GroupError, match=named):
        async with QueueManager.open(name="QM1", group=joining):
            pytest.fail("it has joined")
    with pytest.raises(GroupError, match=named):
        await Administration(joining).members()


@pytest.mark.parametrize("proof", [f"can/{PASSWORD}", f"can?{PASSWORD}", f"can#{PASSWORD}", f"can[{PASSWORD}"])
async def test_a_dsn_that_cannot_be_read_is_not_repeated(proof: str, group: GroupDatabase) -> None:
    told = await refused(group, f"postgresql://evermq:{proof}@127.0.0.1/evermq")
    assert "the dsn cannot be read" in told
    assert "can" not in told.partition("cannot be joined: ")[2].replace("cannot", "")


async def test_sessions_with_another_machine_without_tls_are_warned_of_once(
    server: TlsPostgres,
    group: GroupDatabase,
    password_file: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with member(group, server.over_tcp(sslmode="disable"), password_file) as manager:
        await works(manager)
    assert "database_without_tls" not in caplog.text
    monkeypatch.setattr(sessions, "is_loopback", lambda address: False)
    async with member(group, server.over_tcp(sslmode="disable"), password_file) as manager:
        await works(manager)
    (warning,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert warning.getMessage().startswith(f"database_without_tls peer=127.0.0.1:{server.port}: ")
    caplog.clear()
    async with member(group, server.over_tcp(sslmode="require"), password_file) as manager:
        await works(manager)
    async with member(group, group.dsn) as manager:  # by the Unix socket
        await works(manager)
    assert "database_without_tls" not in caplog.text


@pytest.mark.parametrize("source", ["dsn", "file"])
async def test_x9_3_the_password_of_the_database_is_in_no_log_store_status_reply_or_repr(
    source: str, server: TlsPostgres, group: GroupDatabase, ca: Path, tmp_path: Path, password_file: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    own = {"dsn": verified(server, ca, password=PASSWORD)}
    if source == "file":
        own = {"dsn": verified(server, ca), "dsn_password_file": password_file}  # type: ignore[dict-item]
    config = Config(
        queue_manager=QueueManagerConfig(name="QM1", data=tmp_path / "data"),
        queue_sharing_group=QueueSharingGroupConfig(name=group.name, **own),  # type: ignore[arg-type]
    )
    async with QueueManager.open(config) as manager, manager.connect() as connection:
        await works(manager)
        await connection.mqsc("DEFINE QLOCAL(OWN) DEFPSIST(YES)", check=True)
        await connection.put1("OWN", "this is no secret")
        told = [config, manager, manager.status(), await connection.status()]
        told += await connection.mqsc("DISPLAY GROUP\nDISPLAY QMGR ALL\nDISPLAY CFSTATUS(*) ALL")
        await connection.backup(str(tmp_path / "backup"))
    stored = contents(tmp_path, but=password_file)
    assert sum(b"this is no secret" in each for each in stored) >= 2
    assert not [each for each in stored if PASSWORD.encode() in each]
    assert PASSWORD not in repr(told)
    assert group.name in caplog.text
    assert PASSWORD not in caplog.text


def test_no_password_is_in_the_repr_of_a_group() -> None:
    assert PASSWORD not in repr(QueueSharingGroup("GRP1", f"postgresql://evermq:{PASSWORD}@h/evermq"))
