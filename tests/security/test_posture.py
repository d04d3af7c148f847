"""Who is believed: programs of this machine at first, and nobody without a proof once there is a user (security 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import MQError, QueueManager, connect
from broker.config import Config, HttpConfig
from broker.core.manager import CHECKED
from broker.mqi import MQOO, MQPMO, MQRC
from broker.storage.memory import MemoryStore
from broker.wire import Verb
from tests.security.lines import PASSWORD, listening, users
from tests.server.security.conftest import dial, hung_up

if TYPE_CHECKING:
    from pathlib import Path


async def refused(url: str, **proof: str) -> int:
    """The reason with which a connection is refused."""
    with pytest.raises(MQError) as caught:
        async with connect(url, **proof):  # type: ignore[arg-type]
            pass
    return caught.value.reason


async def test_x1_1_a_fresh_queue_manager_believes_its_machine() -> None:
    async with listening() as listener, connect(listener.url, user="anybody") as connection:
        (reply,) = await connection.mqsc("DEFINE QLOCAL(MINE)")
        assert reply.ok
        async with connection.open("MINE", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
            await queue.put(b"x")
            assert (await queue.get()).md.user_identifier == "anybody"


async def test_x1_4_with_the_first_user_trusted_lines_end_and_their_units_are_backed_out() -> None:
    async with listening() as listener:
        connection = await connect(listener.url)
        queue = await connection.open("Q", MQOO.OUTPUT)
        await queue.put(b"x", options=MQPMO.SYNCPOINT)
        q = listener.manager.core.objects.queues["Q"]
        assert len(q.shelf.entries) == 1
        await listener.command(users())
        with pytest.raises(MQError) as caught:
            await queue.put(b"x")
        assert caught.value.reason == MQRC.CONNECTION_BROKEN
        await connection.close()
        assert not q.shelf.entries
        assert await refused(listener.url) == MQRC.NOT_AUTHORIZED
        assert await refused(listener.url, user="root") == MQRC.NOT_AUTHORIZED
        async with (
            connect(listener.url, user="bob", password=PASSWORD) as connection,
            connection.open("Q", MQOO.OUTPUT) as queue,
        ):
            await queue.put(b"x")


async def test_x1_4_the_reply_to_the_command_that_ends_the_trust_comes_first() -> None:
    async with listening() as listener:
        program, idle = await listener.dial(), await listener.dial()
        assert (await program.connect_asserting("anybody"))[0] == Verb.ANSWER
        program.say(Verb.MQSC, False, users())
        heard = [await program.hear()]
        while heard[-1][0] != Verb.REFUSED:
            heard.append(await program.hear())
        assert [frame[0] for frame in heard][-2:] == [Verb.ANSWER, Verb.REFUSED]
        assert heard[-1][3] == MQRC.CONNECTION_BROKEN
        assert (await idle.hear())[3] == MQRC.CONNECTION_BROKEN
        for each in (program, idle):
            each.close()


async def test_x1_4_without_its_last_user_a_queue_manager_believes_nobody(tmp_path: Path) -> None:
    async with listening(users(), data=tmp_path / "data"):
        pass
    async with listening("DELETE USER('root')\nDELETE USER('bob')", data=tmp_path / "data") as listener:
        assert await refused(listener.url) == MQRC.NOT_AUTHORIZED
    async with listening(data=tmp_path / "data") as listener:
        assert not listener.manager.core.objects.authority.users
        assert await refused(listener.url) == MQRC.NOT_AUTHORIZED


@pytest.mark.parametrize(("loopback", "reason"), [("trust", 0), ("check", MQRC.NOT_AUTHORIZED)])
async def test_a_setting_trusts_or_checks_whatever_users_there_are(loopback: str, reason: int) -> None:
    async with listening("" if reason else users(), loopback=loopback) as listener:
        program = await listener.dial()
        answer = await program.connect_asserting("anybody")
        assert answer[0] == (Verb.FAILED if reason else Verb.ANSWER)
        program.close()


@pytest.mark.parametrize(
    ("listen", "checked"), [("", False), ("127.0.0.1:9480", False), ("[::1]:9480", False), ("0.0.0.0:9480", True)]
)
async def test_the_trust_ends_where_http_serves_other_machines(listen: str, checked: bool) -> None:
    async with QueueManager.open(Config(http=HttpConfig(listen=listen)), store=MemoryStore()) as manager:
        assert manager.core.checked is checked
        assert manager.authentication.trusts is not checked


async def test_the_owner_is_never_checked() -> None:
    async with listening(users(), loopback="check") as listener, listener.manager.connect() as connection:
        assert (await connection.mqsc("DELETE USER('root')"))[0].ok
        assert listener.manager.core.as_checked().definition.attributes[CHECKED] == 1


async def test_x1_6_a_user_without_rights_does_not_connect() -> None:
    async with listening(users()) as listener:
        with pytest.raises(MQError) as caught:
            listener.manager.connect(as_user="nobody")
        assert caught.value.reason == MQRC.NOT_AUTHORIZED


# The Unix socket

STRANGER = 12345


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> int:
    """At the other end of Unix sockets is a process of a user without a name."""
    monkeypatch.setattr("broker.server.security.newcomer.peer_uid", lambda line: STRANGER)
    return STRANGER


async def test_x1_5_by_the_unix_socket_the_user_is_that_of_the_process(stranger: int, tmp_path: Path) -> None:
    rights = f"""
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('{stranger}') AUTHADD(CONNECT)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('{stranger}') AUTHADD(PUT,GET)
"""
    path = tmp_path / "mq.sock"
    async with listening(users() + rights, unix=path) as listener:
        async with connect(f"mq+unix://{path}", user="root") as connection:
            async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
                await queue.put(b"x")
                assert (await queue.get()).md.user_identifier == str(stranger)
            assert await denied(connection.mqsc("DELETE QLOCAL(Q)"))
        await listener.command(f"DELETE AUTHREC OBJTYPE(QMGR) PRINCIPAL('{stranger}')")
        assert await refused(f"mq+unix://{path}", user="root") == MQRC.NOT_AUTHORIZED
        async with connect(f"mq+unix://{path}", user="bob", password=PASSWORD):
            pass


async def denied(call: object) -> bool:
    """True if a call is refused for its user."""
    with pytest.raises(MQError) as caught:
        await call  # type: ignore[misc]
    return caught.value.reason == MQRC.NOT_AUTHORIZED


async def test_x1_5_the_user_of_the_daemon_administers_it(tmp_path: Path) -> None:
    path = tmp_path / "mq.sock"
    async with listening(users(), unix=path), connect(f"mq+unix://{path}", user="nobody") as connection:
        assert (await connection.mqsc("DELETE USER('bob')"))[0].ok


async def test_x2_4_a_directory_checks_nobody_and_lets_the_user_of_the_daemon_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path = tmp_path / "mq.sock"
    async with listening(users(), unix=path) as listener:
        await listener.command(
            "DEFINE AUTHINFO(LDAP) AUTHTYPE(IDPWLDAP) CONNAME('ldap.example.com') SHORTUSR('uid')\n"
            "ALTER QMGR CONNAUTH(LDAP)"
        )
        assert await refused(listener.url, user="bob", password=PASSWORD) == MQRC.NOT_AUTHORIZED
        assert "it is not of AUTHTYPE(IDPWOS), so nobody checks passwords" in caplog.text
        async with connect(f"mq+unix://{path}") as connection:
            assert (await connection.mqsc("ALTER QMGR CONNAUTH(SYSTEM.DEFAULT.AUTHINFO.IDPWOS)"))[0].ok
        async with connect(listener.url, user="bob", password=PASSWORD):
            pass


async def test_x1_5_a_user_of_the_system_is_the_one_that_names_it(stranger: int, tmp_path: Path) -> None:
    path = tmp_path / "mq.sock"
    async with listening(f"{users()}\nALTER USER('bob') OSUSER('{stranger}')", unix=path) as listener:
        async with connect(f"mq+unix://{path}") as connection, connection.open("Q", MQOO.BROWSE):
            pass
        await listener.command("ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKLOCL(REQUIRED)")
        assert await refused(f"mq+unix://{path}") == MQRC.NOT_AUTHORIZED
        async with connect(f"mq+unix://{path}", user="bob", password=PASSWORD):
            pass


async def test_an_address_that_a_rule_blocks_is_closed_without_a_byte() -> None:
    async with listening(f"{users()}\nSET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.0.0.1')") as listener:
        line = await dial(listener.port)
        assert await hung_up(line)
        line.close()
        await listener.command("SET CHLAUTH('*') TYPE(BLOCKADDR) ACTION(REMOVEALL)")
        (await listener.bob()).close()
