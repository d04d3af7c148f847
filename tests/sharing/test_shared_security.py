"""Users and rights that a group shares: they hold at each member, and what is revoked is so at once (security 11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from broker.mqi import MQOO, MQPMO, MQRC, MQRO, MessageDescriptor, ObjectDescriptor, ObjectRecord
from broker.sharing.database.notifications import Notifications
from broker.sharing.definitions import repository
from tests.conformance.expect import fails, reason_of
from tests.first_user import HASH
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Connection
    from broker.mqi.replies import CommandReply
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

DEFINITIONS: Final = f"""
DEFINE PROCESS(WORK)
DEFINE QLOCAL(Q) QSGDISP(SHARED) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)
DEFINE QLOCAL(OTHER) QSGDISP(SHARED)
DEFINE QMODEL(MODEL) DEFTYPE(SHAREDYN)
DEFINE USER('root') GROUPS('mqm') PASSWORD('{HASH}') QSGDISP(SHARED)
DEFINE USER('alice') GROUPS('team') QSGDISP(SHARED)
SET AUTHREC OBJTYPE(QMGR) GROUP('team') AUTHADD(CONNECT,DSP) QSGDISP(SHARED)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) GROUP('team') AUTHADD(GET,PUT,BROWSE,DSP,CLR) QSGDISP(SHARED)
SET AUTHREC PROFILE(OTHER) OBJTYPE(QUEUE) GROUP('team') AUTHADD(PUT) QSGDISP(SHARED)
SET AUTHREC PROFILE(MODEL) OBJTYPE(QUEUE) GROUP('team') AUTHADD(GET,DSP) QSGDISP(SHARED)
SET AUTHREC PROFILE('DYN.*') OBJTYPE(QUEUE) GROUP('team') AUTHADD(GET) QSGDISP(SHARED)
"""

REVOKED: Final = """
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) GROUP('team') AUTHRMV(ALL)
SET AUTHREC PROFILE(MODEL) OBJTYPE(QUEUE) GROUP('team') AUTHRMV(ALL)
SET AUTHREC PROFILE('DYN.*') OBJTYPE(QUEUE) GROUP('team') AUTHRMV(ALL)
"""


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        await members.mqsc(DEFINITIONS)
        await members.mqsc("DEFINE QMODEL(MODEL) DEFTYPE(SHAREDYN)\nDEFINE PROCESS(WORK)", "QM2")
        yield members


@pytest.fixture
def unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    """No member is told of anything, and none looks because time has passed."""
    monkeypatch.setattr(Notifications, "notified", lambda _self, _payload: None)
    monkeypatch.setattr(repository, "POLL_SECONDS", 3600.0)


async def alice_at(members: Members, name: str) -> Connection:
    """A program of alice, whose rights the member has judged before."""
    connection = members[name].connect("program", as_user="alice")
    await connection.__aenter__()
    async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED):
        pass
    return connection


async def run(members: Members, text: str, name: str = "QM1", user: str | None = None) -> CommandReply:
    """The reply to one command, which may fail."""
    async with members[name].connect("runmqsc", as_user=user) as connection:
        (reply,) = await connection.mqsc(text)
    await members.clock.rest()
    return reply


# Nothing is told, and still it holds at once


async def _open(connection: Connection) -> None:
    async with connection.open("Q", MQOO.INPUT_SHARED):
        pass


async def _put1(connection: Connection) -> None:
    await connection.put1("Q", b"A")


async def _put1_in_unit(connection: Connection) -> None:
    await connection.put1("Q", b"A", options=MQPMO.SYNCPOINT)


async def _put1_to_list(connection: Connection) -> None:
    await connection.put1(ObjectDescriptor(records=(ObjectRecord("Q"), ObjectRecord("OTHER"))), b"A")


async def _put1_with_key(connection: Connection) -> None:
    await connection.put1("Q", b"A", key="1")


async def _open_list(connection: Connection) -> None:
    async with connection.open(ObjectDescriptor(records=(ObjectRecord("Q"),)), MQOO.OUTPUT):
        pass


async def _report(connection: Connection) -> None:
    await connection.put1("OTHER", b"A", MessageDescriptor(report=MQRO.COA, reply_to_q="Q"))


async def _report_by_handle(connection: Connection) -> None:
    async with connection.open("OTHER", MQOO.OUTPUT) as queue:
        await queue.put(b"A", MessageDescriptor(report=MQRO.COA, reply_to_q="Q"))


async def _report_in_batch(connection: Connection) -> None:
    async with connection.open("OTHER", MQOO.OUTPUT) as queue:
        await queue.put_many([(b"A", MessageDescriptor(report=MQRO.COA, reply_to_q="Q"))])


async def _serve(connection: Connection) -> None:
    async with connection.deliveries("Q"):
        pass


async def _model(connection: Connection) -> None:
    async with connection.open(ObjectDescriptor(object_name="MODEL", dynamic_q_name="DYN.1"), MQOO.INPUT_SHARED):
        pass


async def _consumer(connection: Connection) -> None:
    await connection.claims.consumer("reader", ("Q",))


async def _browse(connection: Connection) -> None:
    await connection.claims.browse("Q", 0, 1)


async def _clear(connection: Connection) -> None:
    (reply,) = await connection.mqsc("CLEAR QLOCAL(Q)")
    if reply.code == "AMQ8135E":
        raise PermissionError


ACCESSES: Final = (
    _open, _put1, _put1_in_unit, _put1_to_list, _put1_with_key, _open_list, _report, _report_by_handle,
    _report_in_batch, _serve, _model, _consumer, _browse, _clear,
)  # fmt: skip


@pytest.mark.usefixtures("unheard")
@pytest.mark.parametrize("access", ACCESSES, ids=lambda access: access.__name__.removeprefix("_"))
async def test_x11_1_what_is_revoked_at_one_member_is_so_at_all(
    members: Members, access: Callable[[Connection], Awaitable[None]]
) -> None:
    connection = await alice_at(members, "QM2")
    await access(connection)
    await members.mqsc(REVOKED)
    try:
        await access(connection)
    except PermissionError:
        return
    except Exception as error:
        assert getattr(error, "reason", None) == MQRC.NOT_AUTHORIZED, error
    else:
        pytest.fail("a right that was revoked at QM1 was used at QM2")


@pytest.mark.usefixtures("unheard")
async def test_x11_1_what_is_given_at_one_member_is_so_at_all(members: Members) -> None:
    async with members["QM2"].connect("program", as_user="alice") as connection:
        with fails(MQRC.NOT_AUTHORIZED):
            async with connection.open("OTHER", MQOO.INPUT_SHARED):
                pass
        await members.mqsc("SET AUTHREC PROFILE(OTHER) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(GET) QSGDISP(SHARED)")
        async with connection.open("Q", MQOO.OUTPUT):  # the member learns of it
            pass
        async with connection.open("OTHER", MQOO.INPUT_SHARED):
            pass


@pytest.mark.parametrize("access", [_open, _put1, _put1_to_list, _put1_with_key, _open_list, _serve, _browse])
async def test_a_call_whose_right_goes_while_the_database_takes_its_time_is_refused(
    members: Members, access: Callable[[Connection], Awaitable[None]]
) -> None:
    connection = await alice_at(members, "QM2")
    session = await members.group.session()
    try:
        async with session.transaction():
            await session.execute("LOCK TABLE security IN ACCESS EXCLUSIVE MODE")
            made = asyncio.ensure_future(access(connection))
            await asyncio.sleep(0)
            await session.execute("UPDATE security SET version = version + 1")
            await session.execute(
                "UPDATE security_object SET attributes = attributes || '{\"AUTHLIST\": 0}', "
                "version = nextval('object_version') WHERE space = 'AUTHREC' AND attributes ->> 'PROFILE' = 'Q'"
            )
        assert await reason_of(made) == MQRC.NOT_AUTHORIZED
    finally:
        await session.close()


async def test_x11_2_who_is_disabled_at_one_member_is_broken_at_the_other(members: Members) -> None:
    connection = await alice_at(members, "QM2")
    async with connection.open("Q", MQOO.OUTPUT) as queue:
        await queue.put(b"A", options=MQPMO.SYNCPOINT)
        await members.mqsc("ALTER USER('alice') STATUS(DISABLED)")
        assert await reason_of(queue.put(b"B")) == MQRC.CONNECTION_BROKEN
    with fails(MQRC.NOT_AUTHORIZED):
        async with members["QM2"].connect("program", as_user="alice"):
            pass


@pytest.mark.usefixtures("unheard")
async def test_x11_2_who_is_disabled_opens_nothing_shared_at_once(members: Members) -> None:
    connection = await alice_at(members, "QM2")
    await members.mqsc("ALTER USER('alice') STATUS(DISABLED)")
    reason = await reason_of(_open(connection))
    assert reason in (MQRC.NOT_AUTHORIZED, MQRC.CONNECTION_BROKEN)


async def test_x11_2_a_member_that_is_told_nothing_looks(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notifications, "notified", lambda _self, _payload: None)
    monkeypatch.setattr(repository, "POLL_SECONDS", 0.01)
    members.member("QM2").repository.notified()  # so that the next look is soon
    connection = await alice_at(members, "QM2")
    queue = await connection.open("Q", MQOO.INPUT_SHARED)
    waiting = asyncio.ensure_future(queue.get(wait=3600))
    await members.mqsc("DELETE USER('alice')")
    async with asyncio.timeout(30):
        assert await reason_of(waiting) == MQRC.CONNECTION_BROKEN


# What is shared, and what is a member's own


async def test_a_shared_queue_is_judged_by_what_is_shared_alone(members: Members) -> None:
    reply = await run(members, "SET AUTHREC PROFILE(OTHER) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(GET)")
    assert (
        reply.warnings
        == (
            "EMQ0027W: OTHER is a shared queue: only records with QSGDISP(SHARED) count for it.",
            "EMQ0023W: there is no user alice yet.",
        )[:1]
    )
    await members.mqsc("DEFINE USER('local') GROUPS('mqm')")
    for user in ("alice", "local"):
        async with members["QM1"].connect("program", as_user=user) as connection:
            with fails(MQRC.NOT_AUTHORIZED):
                async with connection.open("OTHER", MQOO.INPUT_SHARED):
                    pass
            access = await connection.explain_open("OTHER", for_="get")
            assert not access.allowed
            assert access.grant.endswith(" QSGDISP(SHARED)")
    assert (await run(members, access.grant)).ok
    async with members["QM1"].connect("program", as_user="local") as connection:
        async with connection.open("OTHER", MQOO.INPUT_SHARED):
            pass
        async with connection.open("SYSTEM.DEFAULT.LOCAL.QUEUE", MQOO.INPUT_SHARED):  # which is the member's own
            pass


async def test_a_members_own_queue_is_judged_by_both(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(MINE)\nDEFINE QLOCAL(OURS)")
    await members.mqsc("""
        SET AUTHREC PROFILE(MINE) OBJTYPE(QUEUE) GROUP('team') AUTHADD(PUT)
        SET AUTHREC PROFILE(OURS) OBJTYPE(QUEUE) GROUP('team') AUTHADD(PUT) QSGDISP(SHARED)
    """)
    async with members["QM1"].connect("program", as_user="alice") as connection:
        for name in ("MINE", "OURS"):
            async with connection.open(name, MQOO.OUTPUT):
                pass


@pytest.mark.parametrize(
    "command",
    [
        "DEFINE USER('mate') GROUPS('mqm') QSGDISP(SHARED)",
        "ALTER USER('alice') GROUPS('mqm')",
        "DELETE USER('alice')",
        "SET AUTHREC PROFILE(OTHER) OBJTYPE(QUEUE) PRINCIPAL('local') AUTHADD(GET) QSGDISP(SHARED)",
        "DELETE AUTHREC PROFILE(OTHER) OBJTYPE(QUEUE) GROUP('team')",
        "SET CHLAUTH(A) TYPE(BLOCKUSER) USERLIST('x') QSGDISP(SHARED)",
        "DEFINE CHANNEL(A) CHLTYPE(SVRCONN) QSGDISP(SHARED)",
        "DEFINE QLOCAL(NEW) QSGDISP(SHARED)",
        "DEFINE PROCESS(NEW) QSGDISP(GROUP)",
        "DELETE QLOCAL(OTHER)",
        "RESET CFSTRUCT(APPL) ACTION(FAIL)",
    ],
)
async def test_a_members_own_administrator_administers_that_member(members: Members, command: str) -> None:
    await members.mqsc("DEFINE USER('local') GROUPS('mqm')")
    assert (await run(members, command, user="local")).code == "AMQ8135E"
    assert (await run(members, "DEFINE QLOCAL(NEW)", user="local")).ok
    assert (await run(members, command.replace("NEW", "NEWER"), user="root")).ok


async def test_a_name_has_one_disposition(members: Members) -> None:
    for command in (
        "DEFINE USER('alice')",
        "DEFINE USER('alice') REPLACE",
        "SET AUTHREC OBJTYPE(QMGR) GROUP('team') AUTHADD(INQ) QSGDISP(QMGR)",
    ):
        reply = await run(members, command)
        assert (reply.code, "It has QSGDISP(SHARED)" in reply.text) == ("AMQ8150E", True)
    await members.mqsc("DEFINE USER('bob')\nALTER USER('alice') DESCR('a')")
    reply = await run(members, "DEFINE USER('bob') QSGDISP(SHARED)")
    assert (reply.code, "It has QSGDISP(QMGR)" in reply.text) == ("AMQ8150E", True)
    reply = await run(members, "DELETE USER('alice') QSGDISP(QMGR)")
    assert (reply.code, "There is one with QSGDISP(SHARED)" in reply.text) == ("AMQ8147E", True)


async def test_a_shared_user_holds_before_a_members_own_of_its_name(members: Members) -> None:
    await members.mqsc("DEFINE USER('bob') GROUPS('mqm')", "QM2")
    await members.mqsc("DEFINE USER('bob') QSGDISP(SHARED)", "QM1")
    authority = members["QM2"].core.objects.authority
    assert not authority.is_administrator("bob")
    (reply,) = (await run(members, "DISPLAY USER('bob') QSGDISP", "QM2"),)
    assert [row["QSGDISP"] for row in reply.attributes] == ["QMGR", "SHARED"]
    await members.mqsc("DELETE USER('bob')", "QM2")  # the one that holds
    assert authority.is_administrator("bob")
    await members.mqsc("DELETE USER('bob')", "QM2")
    assert "bob" not in authority.users


async def test_what_is_shared_is_shown_as_that(members: Members) -> None:
    for command, expected in (
        ("DISPLAY USER('alice')", "QSGDISP(SHARED)"),
        ("DISPLAY AUTHREC PROFILE(Q) OBJTYPE(QUEUE)", "QSGDISP(SHARED)"),
        ("DISPLAY USER(*) QSGDISP(QMGR)", "AMQ8147E"),
    ):
        assert expected in (await run(members, command, "QM2")).text
    await members.mqsc("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('x') QSGDISP(SHARED)")
    assert "QSGDISP(SHARED)" in (await run(members, "DISPLAY CHLAUTH('A')", "QM2")).text
    assert "QSGDISP" not in (await run(members, "DISPLAY CHLAUTH('SYSTEM.ADMIN.SVRCONN')", "QM2")).text


async def test_who_creates_a_shared_queue_has_a_shared_record(members: Members) -> None:
    await members.mqsc("""
        SET AUTHREC PROFILE('@class') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(CRT) QSGDISP(SHARED)
        SET AUTHREC PROFILE(SYSTEM.DEFAULT.LOCAL.QUEUE) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(DSP) QSGDISP(SHARED)
    """)
    assert (await run(members, "DEFINE QLOCAL(NEW) QSGDISP(SHARED)", user="alice")).ok
    for name in ("QM1", "QM2"):
        async with members[name].connect("program", as_user="alice") as connection, connection.open("NEW", MQOO.OUTPUT):
            pass
    assert (await run(members, "DELETE QLOCAL(NEW)", "QM2", user="alice")).ok
    assert not await members.group.value("SELECT count(*) FROM security_object WHERE attributes ->> 'PROFILE' = 'NEW'")


# Changes by several members at once


@pytest.mark.usefixtures("unheard")
async def test_what_two_members_change_of_one_record_is_both(members: Members) -> None:
    about = "PROFILE(Q) OBJTYPE(QUEUE) GROUP('team')"
    stale = members.member("QM2").repository
    stale.look_up = stale.secure = _nothing  # type: ignore[method-assign]  # QM2 knows nothing of what QM1 does
    await members.mqsc(f"SET AUTHREC {about} AUTHRMV(GET) AUTHADD(INQ)", "QM1")
    await members.mqsc(f"SET AUTHREC {about} AUTHRMV(PUT) AUTHADD(SET)", "QM2")
    reply = await run(members, f"DISPLAY AUTHREC {about} AUTHLIST", "QM2")
    assert [row["AUTHLIST"] for row in reply.attributes] == ["BROWSE,CLR,DSP,INQ,SET"]


@pytest.mark.usefixtures("unheard")
async def test_whom_two_members_block_is_blocked(members: Members) -> None:
    await members.mqsc("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('a','b') QSGDISP(SHARED)", "QM1")
    await members.mqsc("DISPLAY CHLAUTH('A')", "QM2")
    stale = members.member("QM2").repository
    stale.look_up = stale.secure = _nothing  # type: ignore[method-assign]
    await members.mqsc("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('c') ACTION(ADD)", "QM1")
    await members.mqsc("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('d') ACTION(ADD)", "QM2")
    await members.mqsc("SET CHLAUTH('A') TYPE(BLOCKUSER) USERLIST('a') ACTION(REMOVE)", "QM2")
    reply = await run(members, "DISPLAY CHLAUTH('A') USERLIST", "QM2")
    assert [row["USERLIST"] for row in reply.attributes] == ["b,c,d"]


async def _nothing() -> None:
    """Nothing is read."""


# The lives of members


async def test_a_member_that_starts_knows_what_is_shared_and_checks_its_users(members: Members) -> None:
    await members.start("QM3")
    assert "alice" in members["QM3"].core.objects.authority.users
    assert members["QM3"].core.checked
    await members.stop("QM3")
    await members.mqsc("DELETE USER('alice')\nDELETE USER('root')")
    await members.start("QM3")
    assert not members["QM3"].core.objects.authority.users
    assert members["QM3"].core.checked


async def test_a_member_checks_its_users_from_the_first_shared_one_on(group: GroupDatabase) -> None:
    async with Members(group, 2) as members:
        assert members["QM2"].authentication.trusts
        reply = await run(members, "DEFINE USER('alice') QSGDISP(SHARED)")
        assert not reply.ok  # the first user is an administrator with a password
        await members.mqsc(f"DEFINE USER('root') GROUPS('mqm') PASSWORD('{HASH}') QSGDISP(SHARED)")
        for name in ("QM1", "QM2"):
            assert (members[name].authentication.trusts, members[name].core.checked) == (False, True)


# CMDSCOPE


async def test_a_command_for_other_members_takes_its_user_along(members: Members) -> None:
    await members.mqsc(
        "SET AUTHREC PROFILE(SYSTEM.DEFAULT.LOCAL.QUEUE) OBJTYPE(QUEUE) GROUP('team') AUTHADD(DSP)", "QM2"
    )
    await members.mqsc("SET AUTHREC PROFILE(NEW) OBJTYPE(QUEUE) GROUP('team') AUTHADD(CRT)", "QM2")
    async with members["QM1"].connect("runmqsc", as_user="alice") as connection:
        replies = await connection.mqsc("DEFINE QLOCAL(NEW) CMDSCOPE(*)")
    assert [reply.code for reply in replies] == ["AMQ8135E", "AMQ8006I"]
    await members.mqsc("DEFINE USER('local') GROUPS('mqm')", "QM1")
    await members.mqsc("DEFINE USER('local') GROUPS('mqm')", "QM2")
    reply = await run(members, "DEFINE QLOCAL(NEWER) CMDSCOPE(QM2)", user="local")
    assert "local is no user with QSGDISP(SHARED)" in reply.text


async def test_a_member_of_an_older_release_is_given_no_command_of_a_user(members: Members) -> None:
    await members.group.rows("UPDATE member SET version = 1 WHERE name = 'QM2'")
    reply = await run(members, "DISPLAY QMGR CMDSCOPE(QM2)", user="root")
    assert (reply.ok, "QM2 is of an older release" in reply.text) == (False, True)
    assert (await run(members, "DISPLAY QMGR CMDSCOPE(QM2)")).ok
