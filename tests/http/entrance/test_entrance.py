"""The entrance: who is let in and remembered, when that ends, and the connections that are lent."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, cast

import pytest

from broker import MQError
from broker.engine.security import passwords
from broker.http.entrance import Caller, CallerCredentials, sessions
from broker.http.entrance import entrance as entrances
from broker.http.entrance.pool import ConnectionPool
from broker.http.served_manager import ManagerAtUrl
from broker.mqi import MQOO, MQPMO, MQRC
from broker.testing import settle
from tests.engine.bench import reason_of
from tests.http.door import Door, basic, doors

if TYPE_CHECKING:
    from broker import Connection, QueueManager
    from broker.testing import VirtualClock

LOGIN = "/ibmmq/rest/v3/login"

CHANGES = {
    "a new password": "ALTER USER('bob') PASSWORD('{other}')",
    "DISABLE": "ALTER USER('bob') STATUS(DISABLED)",
    "DELETE": "DELETE USER('bob')",
    "other groups": "ALTER USER('bob') GROUPS('MQWebAdminRO')",
}


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that are hashed."""
    hashed: list[bytes] = []

    def noted(password: bytes, stored: object) -> bool:
        hashed.append(password)
        return password == b"secret"

    from broker.engine.security.verifier import PasswordVerifier

    monkeypatch.setitem(cast("dict[str, object]", PasswordVerifier.__init__.__kwdefaults__), "matches", noted)
    return hashed


async def status(door: Door, *headers: str) -> int:
    """The status with which a caller is answered that asks who it is."""
    return (await door.ask(LOGIN, *headers)).status


@pytest.mark.parametrize("by_url", [False, True])
async def test_a_password_is_hashed_once_and_not_for_each_request(
    hashes: list[bytes], manager: QueueManager, monkeypatch: pytest.MonkeyPatch, by_url: bool
) -> None:
    async with doors(manager, monkeypatch, by_url=by_url) as door:
        hashes.clear()
        answers = await asyncio.gather(*(status(door, basic("bob")) for _ in range(20)))
        await door.log_in("bob")
        assert (set(answers), hashes) == ({200}, [b"secret"])


@pytest.mark.parametrize("change", CHANGES)
async def test_n5_1_a_change_of_the_user_ends_what_is_remembered_and_its_sessions(door: Door, change: str) -> None:
    cookie = await door.log_in("bob")
    assert await status(door, cookie) == await status(door, basic("bob")) == 200
    await door.command(CHANGES[change].format(other=passwords.hash_of("other")))
    assert (await door.ask(LOGIN, cookie)).status == 401
    answer = await door.ask(LOGIN, basic("bob"))
    if change == "other groups":
        assert json.loads(answer.text) == {"user": [{"name": "bob", "role": ["MQWebAdminRO"]}]}
    else:
        assert answer.status == 401
    assert (await door.ask(LOGIN, cookie)).status == 401, "the session stays over"


async def test_n5_1_a_user_that_was_disabled_for_a_moment_comes_in_again_by_its_password(door: Door) -> None:
    assert await status(door, basic("bob")) == 200
    await door.command("ALTER USER('bob') STATUS(DISABLED)\nALTER USER('bob') STATUS(ENABLED)")
    assert await status(door, basic("bob")) == 200
    caller = await admitted(door, "bob")
    async with caller.connection() as connection:
        assert (await connection.own_user()).user == "bob"


async def admitted(door: Door, user: str) -> Caller:
    """One who is let in, as a part of the server has it."""
    await door.log_in(user)
    session = list(door.entrance.sessions._by_digest.values())[-1]
    return Caller(session.guest, session.form_token, session)


async def test_a_login_ends_the_session_before_it_and_has_a_cookie_of_its_own(door: Door) -> None:
    first = await door.log_in("bob")
    second = await door.log_in("bob", "secret", first)
    third = await door.log_in("bob", "secret", f"Cookie: LtpaToken2_{door.port}=chosen")
    assert "chosen" not in third
    assert [await status(door, each) for each in (first, second, third)] == [401, 200, 200]


async def test_a_session_ends_after_120_minutes_whatever_was_asked(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock
) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        cookie = await door.log_in("bob")
        for _ in range(7):
            await clock.advance(17 * 60)
            assert await status(door, cookie) == 200
        await clock.advance(60 + 1)
        assert await status(door, cookie) == 401
        assert len(door.entrance.sessions) == 0


async def test_sessions_are_bounded_and_the_oldest_of_the_user_goes(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_OF_USER", 2)
    other, first, used, last = [await door.log_in(user) for user in ("root", "bob", "bob", "bob")]
    assert [await status(door, each) for each in (other, first, used, last)] == [200, 401, 200, 200]
    monkeypatch.setattr(sessions, "MOST", 3)
    await door.log_in("admin")
    assert [await status(door, each) for each in (other, used, last)] == [401, 200, 200]


async def test_those_who_are_remembered_are_bounded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrances, "GUESTS_MAX", 2)
    cookie = await door.log_in("bob")
    for user in ("root", "admin", "reader"):
        assert await status(door, basic(user)) == 200
    assert len(door.entrance._guests) == 2
    assert await status(door, cookie) == 200, "one who has a session stays"


async def test_good_credentials_are_verified_again_after_15_minutes_though_they_are_used(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock
) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        assert await status(door, basic("bob")) == 200
        await door.command("SET CHLAUTH(EVERMQ.SVRCONN) TYPE(BLOCKUSER) USERLIST('bob')")
        await clock.advance(14 * 60)
        assert await status(door, basic("bob")) == 200
        await clock.advance(2 * 60)
        assert await status(door, basic("bob")) == 401


async def test_connections_that_nobody_uses_end_and_so_does_what_is_remembered(door: Door, clock: VirtualClock) -> None:
    before = len(door.manager.conversations)
    for _ in range(3):
        assert await status(door, basic("bob")) == 200
    await status(door, basic("root"))
    assert len(door.manager.conversations) == before + 2
    await clock.advance(80)
    await settle()
    assert len(door.manager.conversations) == before
    assert await status(door, basic("bob")) == 200
    await clock.advance(16 * 60)
    await settle()
    assert (len(door.manager.conversations), len(door.entrance._guests)) == (before, 0)


async def test_no_connection_stays_when_the_server_ends(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        await door.log_in("bob")
        await status(door, basic("root"))
        assert len(manager.conversations) == 2
    assert len(manager.conversations) == 0


async def test_two_requests_at_once_have_two_connections_and_one_after_the_other_the_same(door: Door) -> None:
    caller = await admitted(door, "bob")
    async with caller.connection() as one, caller.connection() as another:
        assert one is not another
    async with caller.connection() as again:
        assert again in (one, another)


async def test_what_a_request_leaves_under_syncpoint_is_backed_out(door: Door) -> None:
    caller = await admitted(door, "bob")
    async with caller.connection() as connection:
        await connection.put1("Q", b"A", options=MQPMO.SYNCPOINT)
    with pytest.raises(ValueError, match="a mistake"):
        async with caller.connection() as same:
            assert same is connection
            await same.put1("Q", b"B", options=MQPMO.SYNCPOINT)
            raise ValueError("a mistake")
    async with caller.connection() as same, same.open("Q", MQOO.INPUT_SHARED) as queue:
        assert same is connection
        assert await reason_of(queue.get(wait=0)) == MQRC.NO_MSG_AVAILABLE


async def test_a_request_that_is_cancelled_takes_its_connection_along(door: Door) -> None:
    caller = await admitted(door, "bob")
    lent: list[Connection] = []

    async def work() -> None:
        async with caller.connection() as connection:
            lent.append(connection)
            await connection.put1("Q", b"A", options=MQPMO.SYNCPOINT)
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(work())
    while not lent:  # noqa: ASYNC110  # it is on its way
        await asyncio.sleep(0)
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with caller.connection() as another:
        assert another is not lent[0]
        assert lent[0].port.broken


async def test_a_request_more_than_there_are_connections_waits_for_its_turn_and_not_for_ever(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doors(manager, monkeypatch, by_url=False, connections_per_user=2) as door:
        caller = await admitted(door, "bob")
        pool: ConnectionPool = caller._guest.pool
        async with caller.connection() as one:
            async with caller.connection():
                waiting = asyncio.ensure_future(taken(caller))
                await settle()
                assert not waiting.done()
            await waiting
            monkeypatch.setattr("broker.http.entrance.pool.WAIT_SECONDS", 0.01)
            async with caller.connection():
                with pytest.raises(MQError) as refused:
                    await taken(caller)
                assert refused.value.reason == MQRC.MAX_CONNS_LIMIT_REACHED
                assert "connections_per_user" in refused.value.detail
            assert await taken(caller) is not one
        assert (pool.lent, len(pool)) == (0, 2)


async def taken(caller: Caller) -> Connection:
    async with caller.connection() as connection:
        return connection


async def test_the_queue_manager_restarts_under_an_http_server_of_its_own(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doors(manager, monkeypatch, by_url=True) as door:
        cookie = await door.log_in("bob")
        for conversation in list(manager.conversations):
            conversation.break_()
        assert await status(door, cookie) == 200, "it is connected again, and the session goes on"
        assert await status(door, basic("bob")) == 200


async def test_a_server_of_its_own_lets_nobody_in_by_what_it_says_of_a_certificate(clock: VirtualClock) -> None:
    served = ManagerAtUrl("mq://127.0.0.1:1", "mq://127.0.0.1:1", clock)
    seen = CallerCredentials("192.0.2.1", certificate={"subject": ((("commonName", "bob"),),)})
    assert not seen.empty
    with pytest.raises(MQError) as refused:
        await served.admitted(seen)
    assert refused.value.reason == MQRC.NOT_AUTHORIZED


async def test_a_certificate_is_no_secret_that_two_may_share() -> None:
    one, other = (CallerCredentials(address, "bob", b"secret") for address in ("192.0.2.1", "192.0.2.2"))
    assert one.digest == CallerCredentials("192.0.2.1", "bob", b"secret").digest
    assert len({one.digest, other.digest, CallerCredentials("192.0.2.1", "bob", None, b"secret").digest}) == 3


async def test_a_form_token_is_that_of_the_session_and_of_credentials(door: Door) -> None:
    one, other = await admitted(door, "bob"), await admitted(door, "bob")
    assert one.form_token != other.form_token
