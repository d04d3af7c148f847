"""The channel by which a program comes: its limits hold, and it can be stopped (security 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQOO, MQRC, ObjectDescriptor, PutMessageOptions
from broker.wire import Verb
from broker.wire.structures import object_fields, packed_put_options
from tests.security.lines import Listener, listening, users
from tests.server.security.conftest import dial, until
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from tests.security.lines import Program

CHANNELS = """
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) {}
DEFINE CHANNEL(PEER) CHLTYPE(SDR) CONNAME('there') XMITQ(SOME)
"""
Q = object_fields(ObjectDescriptor(object_name="Q"))
PUT = packed_put_options(PutMessageOptions())


def channels(attributes: str = "") -> str:
    """The users, and the channel APP."""
    return users() + CHANNELS.format(attributes)


async def by_app(listener: Listener, reason: int = 0) -> Program:
    """A line on which bob has come by APP, or was refused for this reason."""
    program = await listener.dial()
    answer = await program.connect(channel="APP")
    assert (answer[3] if answer[0] == Verb.FAILED else 0) == reason
    return program


@pytest.mark.parametrize(
    ("channel", "reason"),
    [("NONE", MQRC.UNKNOWN_CHANNEL_NAME), ("PEER", MQRC.CHANNEL_CONFIG_ERROR), ("APP", 0), ("", 0)],
)
async def test_a_channel_must_be_there_and_be_one_for_clients(channel: str, reason: int) -> None:
    async with listening(channels()) as listener:
        program = await listener.dial()
        answer = await program.connect(channel=channel)
        assert answer[:1] == [Verb.FAILED] if reason else [Verb.ANSWER]
        if reason:
            assert answer[3] == reason
        program.close()


async def test_stop_channel_ends_its_lines_and_lets_nobody_in_until_it_is_started() -> None:
    async with listening(channels()) as listener:
        program, other = await by_app(listener), await listener.bob()
        await listener.command("STOP CHANNEL(APP)")
        ended = await program.hear()
        assert (ended[0], ended[3]) == (Verb.REFUSED, MQRC.CONNECTION_BROKEN)
        refused = await by_app(listener, MQRC.CHANNEL_NOT_AVAILABLE)
        await listener.command("START CHANNEL(APP)")
        again = await by_app(listener)
        assert (await other.call(Verb.COMMIT))[0] == Verb.ANSWER
        for each in (program, other, refused, again):
            each.close()


@pytest.mark.parametrize("limit", ["MAXINST(2)", "MAXINSTC(2)"])
async def test_so_many_lines_come_by_a_channel(limit: str) -> None:
    async with listening(channels(limit)) as listener:
        programs = [await by_app(listener) for _ in range(2)]
        assert (await programs[0].connect(channel="APP", conversation=2))[0] == Verb.ANSWER  # it is no line more
        refused = await by_app(listener, MQRC.CHANNEL_NOT_AVAILABLE)
        programs.pop().close()
        await until(lambda: listener.server.sessions == 2)
        programs += [refused, await by_app(listener)]
        for each in programs:
            each.close()


async def test_so_many_conversations_share_a_line() -> None:
    async with listening(channels("SHARECNV(2)")) as listener:
        program = await by_app(listener)
        assert (await program.connect_asserting("", conversation=2))[0] == Verb.ANSWER
        assert (await program.connect_asserting("", conversation=3))[3] == MQRC.MAX_CONNS_LIMIT_REACHED
        await program.call(Verb.DISCONNECT, False, conversation=2)
        assert (await program.connect_asserting("", conversation=3))[0] == Verb.ANSWER
        program.close()


async def test_a_put_longer_than_the_channel_takes_is_refused_each_time() -> None:
    async with listening(channels("MAXMSGL(100)")) as listener:
        program = await by_app(listener)
        assert (await program.connect_asserting("", conversation=2))[0] == Verb.ANSWER
        for conversation in (1, 2):
            hobj = (await program.call(Verb.OPEN, Q, int(MQOO.OUTPUT), conversation=conversation))[3]
            for length, reason in ((100, 0), (100, 0), (101, MQRC.MSG_TOO_BIG_FOR_CHANNEL), (100, 0)) * 2:
                answer = await program.call(Verb.PUT, hobj, None, PUT, b"x" * length, conversation=conversation)
                assert (answer[3] if answer[0] == Verb.FAILED else 0) == reason
        program.close()


async def test_the_lower_heartbeat_holds() -> None:
    async with listening(channels("HBINT(7)")) as listener:
        line = await dial(listener.port)
        line.say(*HELLO)
        welcome: list[Any] = await line.hear()
        assert welcome[6] == 7000
        line.close()


async def test_a_plain_line_does_not_come_by_a_channel_that_wants_tls() -> None:
    async with listening(channels("SSLCIPH(ANY_TLS12_OR_HIGHER)")) as listener:
        (await by_app(listener, MQRC.SSL_INITIALIZATION_ERROR)).close()
