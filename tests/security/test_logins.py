"""Logins at the listener: passwords, tokens, and what ends them (security 4)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.config import TokensConfig
from broker.core.security.authority import REFUSED
from broker.engine.security.login import Login
from broker.engine.security.verifier import PasswordVerifier
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, GetMessageOptions, ObjectDescriptor, PutMessageOptions
from broker.mqi.security_parameters import CredentialKind
from broker.testing import settle
from broker.testing.clock import NEW_YEAR_2026
from broker.wire import Verb
from broker.wire.structures import object_fields, packed_get_options, packed_put_options
from tests.engine.security.issuer import AUDIENCE, ISSUER, key_set, token
from tests.engine.security.verifying import SteppedExecutor
from tests.security.lines import PASSWORD, Listener, Program, hashed, listening, users
from tests.server.security.conftest import hung_up, until

if TYPE_CHECKING:
    from pathlib import Path

Q = object_fields(ObjectDescriptor(object_name="Q"))
PUT = packed_put_options(PutMessageOptions())
PUT_IN_UNIT = packed_put_options(PutMessageOptions(options=MQPMO.SYNCPOINT))
WAIT = packed_get_options(GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1))


def failure(frame: list[Any]) -> list[Any]:
    """The reason, completion and detail of a FAILED."""
    assert frame[0] == Verb.FAILED
    return frame[3:6]


# Passwords


async def test_a_password_lets_in_and_the_user_is_judged() -> None:
    async with listening(users()) as listener:
        program = await listener.bob()
        assert (await program.call(Verb.OPEN, Q, int(MQOO.OUTPUT)))[0] == Verb.ANSWER
        other = object_fields(ObjectDescriptor(object_name="SYSTEM.DEFAULT.LOCAL.QUEUE"))
        assert failure(await program.call(Verb.OPEN, other, int(MQOO.OUTPUT)))[0] == MQRC.NOT_AUTHORIZED
        program.close()


async def test_x4_3_every_refusal_is_the_same_and_costs_one_verification(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    off = f"DEFINE USER('off') PASSWORD('{hashed()}') STATUS(DISABLED)\nDEFINE USER('without')"
    async with listening(f"{users()}\n{off}") as listener:
        program = await listener.dial()
        authentication = listener.manager.authentication
        answers = []
        for number, (user, password) in enumerate(
            [("bob", "wrong"), ("nobody", PASSWORD), ("off", PASSWORD), ("without", PASSWORD)], 1
        ):
            answers.append((await program.connect(user, password))[3:])
            assert authentication.credentials.verifier().verifications == number
        answers.append((await program.connect_asserting("bob"))[3:])
        assert answers == [[MQRC.NOT_AUTHORIZED, 2, REFUSED, None]] * 5
        assert "channel=EVERMQ.SVRCONN peer=127.0.0.1 step=wrong credential" in caplog.text
        assert "step=no proof rule=CHLAUTH('EVERMQ.SVRCONN') TYPE(ADDRESSMAP)" in caplog.text
        assert PASSWORD not in caplog.text.replace("secrets", "")
        program.close()


async def test_a_wrong_password_is_answered_late_each_time_later() -> None:
    late = "ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(3)"
    async with listening(f"{users()}\n{late}") as listener:
        program = await listener.dial()
        for delay in (3, 6):
            number = program.say(Verb.CONNECT, "", "test", "bob", "", 1, b"wrong")
            heard = asyncio.ensure_future(program.hear())
            await until(partial(_sleeps, listener, delay))
            await listener.clock.advance(delay - 0.5)
            assert not heard.done()
            await listener.clock.advance(0.5)
            assert (await heard)[:3] == [Verb.FAILED, 1, number]
        assert (await program.connect())[0] == Verb.ANSWER
        program.close()


def _sleeps(listener: Listener, delay: float) -> bool:
    """True if something waits for so long."""
    return any(abs(at - listener.clock.monotonic() - delay) < 1e-9 for at, _, _ in listener.clock._timers)


async def test_x4_4_a_thousand_connects_of_one_user_cost_one_verification() -> None:
    async with listening(users()) as listener:
        manager = listener.manager
        herd = [manager.login(user="bob", password=PASSWORD, address=f"192.0.2.{i % 99}") for i in range(1000)]
        logins = await asyncio.gather(*herd)
        programs = await asyncio.gather(*(listener.bob() for _ in range(20)))
        assert {login.user for login in logins} == {"bob"}
        assert manager.status()["security"] == {"passwords_verified": 1, "passwords_waiting": 0}
        for each in programs:
            each.close()


async def test_the_status_has_figures_of_passwords_where_users_are_checked() -> None:
    async with listening() as listener:
        assert "security" not in listener.manager.status()
        await listener.command(users())
        assert listener.manager.status()["security"] == {"passwords_verified": 0, "passwords_waiting": 0}
        executor = stepped(listener)
        lines = [await listener.dial() for _ in range(3)]
        for number, line in enumerate(lines):
            line.say(Verb.CONNECT, "", "test", "bob", "", 1, f"password {number}".encode())
        await until(lambda: listener.manager.status()["security"]["passwords_waiting"] == 1)
        assert listener.manager.status()["security"]["passwords_verified"] == 2  # as many at a time
        while executor.work:
            executor.step()
            await settle()
        assert listener.manager.status()["security"] == {"passwords_verified": 3, "passwords_waiting": 0}
        for line in lines:
            line.close()


def stepped(listener: Listener) -> SteppedExecutor:
    """Let the test say when a verification is made."""
    executor, authentication = SteppedExecutor(), listener.manager.authentication
    authentication.credentials._passwords = PasswordVerifier(
        authentication._authority.users.get, listener.clock, matches=lambda password, stored: True, executor=executor
    )
    return executor


@pytest.mark.parametrize("turns", range(8))
async def test_nobody_comes_in_on_a_line_that_ends_while_they_are_verified(turns: int) -> None:
    async with listening(users()) as listener:
        executor = stepped(listener)
        program = await listener.dial()
        before = listener.manager.status()["connections"]
        program.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret")
        await until(lambda: bool(executor.work))
        (session,) = listener.server.lines
        executor.step()
        for _ in range(turns):  # until the loop has heard of it, the verifier has, and the login goes on
            await asyncio.sleep(0)
        session.abort()
        await until(lambda: listener.server.sessions == 0)
        await settle()
        assert listener.manager.status()["connections"] == before
        assert listener.server.channel_lines.of("EVERMQ.SVRCONN", "") == []
        program.close()


@pytest.mark.parametrize(
    "change",
    ["DELETE USER('bob')", "ALTER USER('bob') STATUS(DISABLED)", f"ALTER USER('bob') PASSWORD('{hashed('new')}')"],
)
async def test_x4_5_nobody_comes_in_behind_a_change_of_the_user(change: str) -> None:
    async with listening(users()) as listener:
        executor = stepped(listener)
        program = await listener.dial()
        program.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret")
        await until(lambda: bool(executor.work))
        await listener.command(change.format(hashed("new")))  # acknowledged: from now on it holds
        listener.manager.authentication.credentials.verifier()._matches = lambda password, stored: False
        executor.step()
        heard = asyncio.ensure_future(program.hear())
        await settle()
        while executor.work:  # it is looked at again
            executor.step()
            await settle()
        assert (await heard)[3] == MQRC.NOT_AUTHORIZED
        assert not list(listener.manager.conversations)
        program.close()


async def test_x4_5_a_user_that_is_disabled_or_deleted_has_no_conversation_when_that_is_answered() -> None:
    async with listening(users()) as listener:
        for change in ("ALTER USER('bob') STATUS(DISABLED)", "DELETE USER('bob')"):
            program = await listener.bob()
            hobj = (await program.call(Verb.OPEN, Q, int(MQOO.INPUT_SHARED | MQOO.OUTPUT)))[3]
            await program.call(Verb.PUT, hobj, None, PUT_IN_UNIT, b"x")
            waiting = program.say(Verb.GET, hobj, None, WAIT, None)
            async with listener.manager.connect("owner") as owner:
                assert (await owner.mqsc(change))[0].ok
                assert [each.hconn.appl_name for each in listener.manager.conversations] == ["owner"]
            failed, ended = await program.hear(), await program.hear()
            assert (failed[0], failed[2], failed[3]) == (Verb.FAILED, waiting, MQRC.CONNECTION_BROKEN)
            assert (ended[0], ended[1], ended[3]) == (Verb.ENDED, 1, MQRC.CONNECTION_BROKEN)
            assert not listener.manager.core.objects.queues["Q"].shelf.entries
            program.close()
            if "ALTER" in change:
                await listener.command("ALTER USER('bob') STATUS(ENABLED)")


async def test_a_new_password_ends_no_conversation() -> None:
    async with listening(users()) as listener:
        program = await listener.bob()
        await listener.command(f"ALTER USER('bob') PASSWORD('{hashed('new')}')")
        assert (await program.call(Verb.COMMIT))[0] == Verb.ANSWER
        assert (await program.connect(conversation=2))[0] == Verb.FAILED
        assert (await program.connect(secret="new", conversation=2))[0] == Verb.ANSWER
        program.close()


async def test_a_weaker_hash_is_renewed_in_the_store_unless_the_user_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.engine.security.passwords.LN", 14)
    weak = hashed.__wrapped__()
    monkeypatch.undo()
    async with listening(f"{users()}\nALTER USER('bob') PASSWORD('{weak}')") as listener:
        login = await listener.manager.login(user="bob", password=PASSWORD)
        user = listener.manager.core.objects.authority.users["bob"]
        assert user.password.startswith("$scrypt$ln=15,")
        async with listener.manager.connect(as_user=login):  # it is that of the hash as it is now
            pass
        assert (await listener.manager.login(user="bob", password=PASSWORD)).stamp == login.stamp
        assert listener.manager.authentication.credentials.verifier().verifications == 1


# What is said before a login


async def test_x4_8_a_connect_cut_at_each_byte_leaves_nothing() -> None:
    async with listening(users()) as listener:
        first = await listener.dial()
        whole = first.line.end.send(Verb.CONNECT, 1, 1, "", "test", "bob", "", 1, b"secret")
        for length in range(0, len(whole), 3):
            program = await listener.dial()
            program.line.writer.write(whole[:length])
            await program.line.writer.drain()
            program.close()
        first.close()
        await until(lambda: not listener.server.sessions)
        assert not list(listener.manager.conversations)


async def test_x4_8_a_connect_that_is_cut_off_or_cancelled_while_it_is_verified_leaves_nothing() -> None:
    async with listening(users()) as listener:
        executor = stepped(listener)
        gone, cancelling = await listener.dial(), await listener.dial()
        gone.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret")
        number = cancelling.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret")
        await until(lambda: bool(executor.work))
        gone.close()
        cancelling.line.say(Verb.CANCEL, 1, number)
        assert (await cancelling.hear())[:3] == [Verb.CANCELLED, 1, number]
        await until(lambda: listener.server.sessions == 1)
        executor.step()
        await settle()
        assert not list(listener.manager.conversations)
        assert listener.server.newcomers == 1
        assert (await cancelling.connect())[0] == Verb.ANSWER  # of which the outcome is remembered
        cancelling.close()


async def test_x4_8_a_second_connect_waits_for_the_first() -> None:
    async with listening(users()) as listener:
        executor = stepped(listener)
        program = await listener.dial()
        first = program.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret")
        second = program.say(Verb.CONNECT, "", "test", "bob", conversation=2)
        again = program.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret", conversation=2)
        assert (await program.hear())[0] == Verb.REFUSED  # the number of a conversation that is being made
        assert (first, second, again) == (1, 2, 3)
        program.close()
        other = await listener.dial()
        other.say(Verb.CONNECT, "", "test", "bob", "", 1, b"secret")
        other.say(Verb.CONNECT, "", "test", "bob", conversation=2)
        heard = asyncio.ensure_future(other.hear())
        await until(lambda: bool(executor.work))
        while executor.work:
            executor.step()
            await settle()
        assert [(await heard)[:3], (await other.hear())[:3]] == [[Verb.ANSWER, 1, 1], [Verb.ANSWER, 2, 2]]
        other.close()


async def test_x4_8_a_put_before_the_login_and_too_many_bytes_are_for_nobody() -> None:
    async with listening(users()) as listener:
        program = await listener.dial()
        assert failure(await program.call(Verb.PUT1, Q, None, packed_put_options(PutMessageOptions()), None, b"x"))[
            0
        ] == (MQRC.HCONN_ERROR)
        program.line.writer.write((100_000).to_bytes(4, "big") + b"x" * 66_000)
        assert await hung_up(program.line)
        assert not listener.manager.core.objects.queues["Q"].shelf.entries
        program.close()


async def test_x4_9_an_asserted_user_is_in_no_message_of_a_checked_line() -> None:
    mapped = """
SET CHLAUTH(EVERMQ.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('127.*') USERSRC(MAP) MCAUSER('bob') CHCKCLNT(ASQMGR)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(OPTIONAL)
"""
    async with listening(users() + mapped) as listener:
        program = await listener.dial()
        assert (await program.connect_asserting("mallory"))[0] == Verb.ANSWER
        hobj = (await program.call(Verb.OPEN, Q, int(MQOO.OUTPUT)))[3]
        await program.call(Verb.PUT, hobj, None, PUT, b"x")
        async with listener.manager.connect() as owner, owner.open("Q", MQOO.INPUT_SHARED) as queue:
            assert (await queue.get()).md.user_identifier == "bob"
        program.close()


async def test_a_connect_without_a_proof_on_a_line_that_has_logged_in_is_of_its_user() -> None:
    async with listening(users()) as listener:
        program = await listener.bob()
        assert (await program.connect_asserting("root", conversation=2))[0] == Verb.ANSWER
        assert {each.hconn.user for each in listener.manager.conversations} == {"bob"}
        for conversation in (1, 2):
            await program.call(Verb.DISCONNECT, False, conversation=conversation)
        assert (await program.connect_asserting("", conversation=3))[0] == Verb.ANSWER
        await program.call(Verb.DISCONNECT, False, conversation=3)
        await listener.command("ALTER USER('bob') STATUS(DISABLED)\nALTER USER('bob') STATUS(ENABLED)")
        assert failure(await program.connect_asserting("", conversation=4))[0] == MQRC.NOT_AUTHORIZED
        assert (await program.connect(conversation=5))[0] == Verb.ANSWER
        await listener.command("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHRMV(CONNECT)")
        assert failure(await program.connect_asserting("", conversation=6))[0] == MQRC.NOT_AUTHORIZED
        program.close()


# Tokens, and what ends


NOW = NEW_YEAR_2026


@pytest.fixture
def tokens(tmp_path: Path) -> TokensConfig:
    (tmp_path / "keys.json").write_bytes(key_set("ed-1"))
    return TokensConfig(issuer=ISSUER, audience=AUDIENCE, jwks=str(tmp_path / "keys.json"))


def bobs(seconds: float, user: str = "bob") -> bytes:
    """A token of a user that ends so long after the start."""
    return token("ed-1", sub=user, exp=NOW + seconds).encode()


async def by_token(listener: Listener, seconds: float = 60) -> Program:
    program = await listener.dial()
    answer = await program.connect("", bobs(seconds), CredentialKind.TOKEN)
    assert answer[0] == Verb.ANSWER
    return program


async def ended(listener: Listener, program: Program) -> None:
    """The conversation has ended, and nothing of it is left."""
    while (frame := await program.hear())[0] != Verb.ENDED:
        assert frame[3] == MQRC.CONNECTION_BROKEN
    assert frame[3] == MQRC.CONNECTION_BROKEN
    assert not list(listener.manager.conversations)
    assert not listener.manager.core.objects.queues["Q"].shelf.entries


async def test_x4_6_a_token_that_ends_in_a_wait_or_in_a_unit_ends_that(tokens: TokensConfig) -> None:
    async with listening(users(), tokens=tokens) as listener:
        waiting, in_unit = await by_token(listener), await by_token(listener)
        for program in (waiting, in_unit):
            hobj = (await program.call(Verb.OPEN, Q, int(MQOO.INPUT_SHARED | MQOO.OUTPUT)))[3]
        waiting.say(Verb.GET, hobj, None, WAIT, None)
        await in_unit.call(Verb.PUT, hobj, None, PUT_IN_UNIT, b"x")
        await listener.clock.advance(59)
        assert len(list(listener.manager.conversations)) == 2
        await listener.clock.advance(1.5)
        for program in (waiting, in_unit):
            await ended(listener, program)
            program.close()


async def test_x4_6_a_renewed_token_is_not_ended_by_the_timer_of_the_first(tokens: TokensConfig) -> None:
    async with listening(users(), tokens=tokens) as listener:
        program = await by_token(listener, 20)
        assert (await program.call(Verb.AUTHENTICATE, 2, bobs(40)))[3] == pytest.approx(40)
        await listener.clock.advance(30)
        assert (await program.call(Verb.COMMIT))[0] == Verb.ANSWER
        await listener.clock.advance(11)
        await ended(listener, program)
        program.close()


async def test_x4_6_a_renewal_of_another_user_or_with_a_bad_token_changes_nothing(tokens: TokensConfig) -> None:
    rights = "\nSET AUTHREC OBJTYPE(QMGR) PRINCIPAL('carol') AUTHADD(CONNECT)"
    async with listening(users() + rights, tokens=tokens) as listener:
        program = await by_token(listener, 20)
        for bad in (bobs(120, "carol"), bobs(-5), b"a.b.c"):
            assert failure(await program.call(Verb.AUTHENTICATE, 2, bad))[0] == MQRC.NOT_AUTHORIZED
        await listener.clock.advance(21)
        await ended(listener, program)
        program.close()


async def test_x4_6_a_renewal_that_comes_behind_the_end_revives_nothing(
    tokens: TokensConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(users(), tokens=tokens) as listener:
        program = await by_token(listener, 20)
        verified = listener.manager.authentication.credentials._tokens
        assert verified is not None
        verify, on, began = verified.verify, asyncio.Event(), asyncio.Event()

        async def slowly(secret: bytes) -> Any:
            began.set()
            await on.wait()
            return await verify(secret)

        monkeypatch.setattr(verified, "verify", slowly)
        (conversation,) = listener.manager.conversations
        program.say(Verb.AUTHENTICATE, 2, bobs(120))
        await began.wait()
        await listener.clock.advance(21)
        on.set()
        await ended(listener, program)
        assert conversation.proof is not None
        assert conversation.proof.over
        assert conversation.proof.login.ends == NOW + 20
        program.close()


async def test_x4_6_conversations_that_inherit_end_with_the_proof(tokens: TokensConfig) -> None:
    async with listening(users(), tokens=tokens) as listener:
        program = await by_token(listener)
        assert (await program.connect_asserting("", conversation=2))[0] == Verb.ANSWER
        listener.clock.step(3600)  # the wall clock is set
        frames = [await program.hear(), await program.hear()]
        assert [(frame[0], frame[1]) for frame in frames] == [(Verb.ENDED, 1), (Verb.ENDED, 2)]
        assert failure(await program.connect_asserting("", conversation=3))[0] == MQRC.NOT_AUTHORIZED
        program.close()


# The public function


async def test_login_is_the_door_of_others(tokens: TokensConfig) -> None:
    async with listening(users(), tokens=tokens) as listener:
        manager = listener.manager
        login = await manager.login(user="bob", password=PASSWORD)
        assert login == Login("bob", stamp=login.stamp)
        async with manager.connect("door", as_user=login) as connection:
            with pytest.raises(MQError):
                await connection.open("SYSTEM.DEFAULT.LOCAL.QUEUE", MQOO.OUTPUT)
        by_token = await manager.login(token=bobs(60))
        assert (by_token.user, by_token.ends, by_token.stamp) == ("bob", NOW + 60, login.stamp)
        with pytest.raises(ValueError, match="not both"):
            await manager.login(user="bob", password="p", token="t")
        with pytest.raises(MQError) as caught:
            await manager.login(user="bob", password=PASSWORD, channel="NONE")
        assert caught.value.reason == MQRC.UNKNOWN_CHANNEL_NAME
        await listener.command("ALTER USER('bob') GROUPS('staff')")
        for old in (login, by_token):
            with pytest.raises(MQError) as caught:
                manager.connect(as_user=old)
            assert caught.value.reason == MQRC.NOT_AUTHORIZED


async def test_a_connection_of_a_login_ends_with_it(tokens: TokensConfig) -> None:
    async with listening(users(), tokens=tokens) as listener:
        login = await listener.manager.login(token=bobs(60))
        connection = await listener.manager.connect(as_user=login)
        await listener.clock.advance(61)
        with pytest.raises(MQError) as caught:
            await connection.open("Q", MQOO.OUTPUT)
        assert caught.value.reason == MQRC.CONNECTION_BROKEN
        await connection.close()
