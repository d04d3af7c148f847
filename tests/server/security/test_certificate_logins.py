"""Users that certificates are mapped to, and channels that ask for TLS (security 3.4, 4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQRC
from broker.testing import VirtualClock
from broker.wire import Verb
from tests.server.security.conftest import Files, dial, listening, port_of
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    import trustme

    from broker import QueueManager
    from broker.server import Server

MAPPED = """
ALTER CHANNEL(EVERMQ.SVRCONN) CHLTYPE(SVRCONN) MCAUSER(' ')
SET CHLAUTH(EVERMQ.SVRCONN) TYPE(SSLPEERMAP) SSLPEER('CN=bob') USERSRC(MAP) MCAUSER('bob')
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(REQUIRED)
DEFINE CHANNEL(BOBS) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER) SSLPEER('CN=bob')
DEFINE CHANNEL(ALICES) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER) SSLPEER('CN=alice')
"""


async def answered(
    server: Server, files: Files, certificate: trustme.LeafCert | None, channel: str = "", *, user: str = "mallory"
) -> int:
    """The reason with which a program with a certificate is refused, or 0."""
    line = await dial(port_of(server), files.client(certificate))
    line.say(*HELLO)
    await line.hear()
    line.say(Verb.CONNECT, 1, 1, "", "test", user, channel, 0, b"")
    answer = await line.hear()
    line.close()
    return 0 if answer[0] == Verb.ANSWER else answer[3]


async def run(manager: QueueManager, commands: str) -> None:
    async with manager.connect() as owner:
        for reply in await owner.mqsc(commands):
            assert reply.ok, reply.text


async def test_a_certificate_is_the_user_that_a_rule_maps_it_to(manager: QueueManager, files: Files) -> None:
    async with listening(manager, files.config) as server:
        await run(manager, MAPPED)
        other = files.programs.issue_cert("carol@example.com", common_name="carol")
        assert await answered(server, files, files.bob) == 0
        assert await answered(server, files, other) == MQRC.NOT_AUTHORIZED
        assert await answered(server, files, None, user="bob") == MQRC.NOT_AUTHORIZED


@pytest.mark.parametrize(
    ("channel", "certified", "reason"),
    [
        ("BOBS", True, MQRC.NOT_AUTHORIZED),  # which has no rule of its own, and asks for a password
        ("BOBS", False, MQRC.SSL_INITIALIZATION_ERROR),
        ("ALICES", True, MQRC.SSL_PEER_NAME_ERROR),
    ],
)
async def test_x3_6_a_channel_asks_for_a_certificate_and_for_its_name(
    manager: QueueManager, files: Files, channel: str, certified: bool, reason: int
) -> None:
    async with listening(manager, files.config) as server:
        await run(manager, MAPPED)
        assert await answered(server, files, files.bob if certified else None, channel) == reason


async def test_the_end_of_a_certificate_ends_its_line(manager: QueueManager, files: Files, clock: VirtualClock) -> None:
    ends = datetime.now(UTC) + timedelta(hours=1)
    brief = files.programs.issue_cert("bob@example.com", common_name="bob", not_after=ends)
    clock.step(ends.timestamp() - 10 - clock.time())
    async with listening(manager, files.config) as server:
        await run(manager, MAPPED)
        line = await dial(port_of(server), files.client(brief))
        line.say(*HELLO)
        await line.hear()
        line.say(Verb.CONNECT, 1, 1, "", "test", "", "", 0, b"")
        answer = await line.hear()
        assert answer[0] == Verb.ANSWER
        assert answer[4] == pytest.approx(10, abs=1)
        await clock.advance(11)
        ended = await line.hear()
        assert (ended[0], ended[1], ended[3]) == (Verb.ENDED, 1, MQRC.CONNECTION_BROKEN)
        line.close()
