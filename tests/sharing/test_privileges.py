"""Members that own nothing: what docs/how-to/queue-sharing.md grants is enough, and all of it is needed."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, QueueSharingGroup
from broker.engine.shared_queues import GroupError
from broker.mqi import MQCNO, MQGMO, MQPMO, MessageDescriptor
from broker.sharing.database.schema import ROOMS, ensure, released, upgrade
from broker.sharing.members.administration import Administration
from tests.conformance.expect import ALL
from tests.sharing.test_group_command import group_command
from tests.sharing.test_guide import shown
from triggers import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from broker import Connection
    from tests.sharing.database import GroupDatabase
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

MEMBER = "evermq_member"
PERSISTENT = MessageDescriptor(persistence=1)


@pytest.fixture
def user(postgres: Postgres) -> Iterator[str]:
    """The DSN of a user of the database that may do nothing there."""
    postgres.sql(f"CREATE ROLE {MEMBER} LOGIN")
    yield postgres.dsn(MEMBER)
    postgres.sql(f"DROP OWNED BY {MEMBER}", f"DROP ROLE {MEMBER}", database="evermq")


async def grant(group: GroupDatabase, leave_out: str = "") -> None:
    """Run what the page lists, as the owner of the tables."""
    (script,) = (each for each in shown("sql") if "GRANT" in each)
    session = await group.session()
    for line in script.replace("evermq_grp1", group.schema).splitlines():
        if not leave_out or leave_out not in line:
            await session.execute(line)
    await session.close()


@asynccontextmanager
async def joined(group: GroupDatabase, dsn: str, name: str = "QM1") -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name=name, group=QueueSharingGroup(group.name, dsn)) as manager:
        yield manager


async def test_a_member_with_the_grants_of_the_guide_can_do_all_there_is(group: GroupDatabase, user: str) -> None:
    await grant(group)
    async with joined(group, user) as manager, joined(group, user, "QM2") as peer:
        async with manager.connect() as connection, peer.connect() as other:
            await connection.mqsc(
                "DEFINE CFSTRUCT(S) RECOVER(YES)\nDEFINE QLOCAL(Q) QSGDISP(SHARED) CFSTRUCT(S)\n"
                "DEFINE QLOCAL(R) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)\nDEFINE PROCESS(P) QSGDISP(GROUP)\n"
                "DEFINE QLOCAL(WORK) QSGDISP(SHARED) DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS(P)\n"
                "ALTER QLOCAL(Q) DESCR(NEW)\nDISPLAY QMGR CMDSCOPE(*)\nALTER QMGR IGQ(ENABLED)\n"
                "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) GROUP('g') AUTHADD(GET) QSGDISP(SHARED)", check=True,
            )  # fmt: skip
            await _messages(connection, other)
            await _claims(connection)
            await connection.mqsc(
                "CLEAR QLOCAL(Q)\nRESET CFSTRUCT(S) ACTION(FAIL)\nRECOVER CFSTRUCT(S)\nBACKUP CFSTRUCT(S)\n"
                "MOVE QLOCAL(OWN) QSGDISP(PRIVATE) TOQLOCAL(Q)\nDELETE QLOCAL(R)", check=True,
            )  # fmt: skip
        async with manager.connect(options=MQCNO.SERIALIZE_CONN_TAG_QSG, conn_tag=b"one"):
            pass
        handled: list[str] = []
        app = App(manager, name="SHOP")

        @app.handler("WORK", order_by="account")
        async def handle(body: str) -> None:
            handled.append(body)

        async with app.running():
            await app.put("WORK", "later", delay=0.2, key="once", properties={"account": "a"})
            while await group.value("SELECT count(*) FROM message WHERE queue = 'WORK'"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert handled == ["later"]
    assert [each["state"] for each in await Administration(QueueSharingGroup(group.name, user)).members()] == [
        "INACTIVE", "INACTIVE"
    ]  # fmt: skip


async def _messages(here: Connection, there: Connection) -> None:
    async with here.open("Q", ALL) as source, there.open("Q", ALL) as target:
        await source.put(b"1", PERSISTENT)
        await source.put_many([b"2", b"3"])
        await source.put(b"4", PERSISTENT, MQPMO.SYNCPOINT)
        await here.commit()
        assert (await target.get(options=MQGMO.SYNCPOINT)).data == b"1"
        await there.backout()
        assert (await target.get(options=MQGMO.BROWSE_FIRST | MQGMO.LOCK)).data == b"1"
        await target.get(options=MQGMO.MSG_UNDER_CURSOR)
        assert [each.data for each in await target.get_many(9)] == [b"2", b"3", b"4"]


async def _claims(connection: Connection) -> None:
    async with connection.open("Q", ALL) as queue:
        await queue.put(b"claimed", PERSISTENT)
    async with connection.consumer("C", "Q") as consumer:
        batch = await consumer.claim(9)
        assert batch is not None
        await batch.acknowledge()


async def test_more_than_the_rows_and_sequences_is_asked_for_by_no_function() -> None:
    """What an owner alone may do would stop a member where it comes to it."""
    folder = files("broker.sharing") / "sql" / "functions"
    for room in ROOMS:
        text = re.sub("--.*", "", (folder / f"{room}.sql").read_text("utf-8"))
        made = re.sub(r"CREATE OR REPLACE (FUNCTION|PROCEDURE|AGGREGATE|VIEW) ", "", text)
        assert not re.findall(r"\b(TRUNCATE|CREATE|DROP|ALTER|VACUUM|ANALYZE|setval)\b", made), room


@pytest.mark.parametrize("kind", ["SCHEMA", "TABLES", "SEQUENCES"])
async def test_each_of_the_grants_is_needed(group: GroupDatabase, user: str, kind: str) -> None:
    await grant(group, leave_out=f"{kind} IN SCHEMA" if kind != "SCHEMA" else "ON SCHEMA")
    with pytest.raises(GroupError, match="permission denied for"):
        async with joined(group, user) as manager, manager.connect() as connection:
            (reply,) = await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
            raise GroupError(reply.text)


async def test_a_member_that_may_not_make_the_tables_says_who_does_and_takes_those_that_the_owner_has_made(
    postgres: Postgres, group: GroupDatabase, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.remove()
    with pytest.raises(GroupError, match=f"permission denied for database.*{group.schema}.*evermq group init --dsn"):
        async with joined(group, user):
            pytest.fail("it has made them")
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_NAME", group.name)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", user)
    refused = group_command("init")
    assert (refused.code, "evermq group init --dsn" in refused.error) == (20, True)
    made = group_command(f"init --dsn {postgres.dsn()}")
    assert (made.code, made.out) == (0, f"the tables of the group are in schema {group.schema}\n")
    await grant(group)
    assert group_command("init").code == 0
    async with joined(group, user) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)", check=True)


async def test_what_an_upgrade_by_the_owner_adds_is_granted_as_well(group: GroupDatabase, user: str) -> None:
    await grant(group)
    now = released()
    more = "CREATE TABLE added (n integer) PARTITION BY LIST (n); CREATE SEQUENCE counted; CREATE TABLE plain ()"
    newer = replace(now, version=now.version + 1, tables=(*now.tables, more))
    session = await group.session()
    await upgrade(session, group.schema, newer)
    await session.close()
    member = await group.session(MEMBER)
    await ensure(member, group.schema, newer)  # which finds what it needs
    await member.execute("SELECT * FROM added, plain; SELECT nextval('counted')")
    await member.close()
