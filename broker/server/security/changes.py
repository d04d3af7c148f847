"""The consequences of changes of security for lines: some end, some are read more slowly (security 1.3, 4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.commands.requests import RefreshSecurityRequest, StopChannelRequest
from broker.engine.security.authentication import TRUST_ENDED
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.commands.requests import SecurityRequest
    from broker.server.server import Server


def follow_changes(server: Server) -> Callable[[], None]:
    """Follow the changes of a server's queue manager until the function returned is called."""
    manager = server.manager
    pairs = (
        (manager.authentication.followers, partial(_end_trusted, server)),
        (manager.authentication.user_followers, partial(_limit, server)),
        (manager.commands.security.followers, partial(_carry_out, server)),
    )
    for followers, follow in pairs:
        followers.append(follow)

    def leave() -> None:
        for followers, follow in pairs:
            followers.remove(follow)

    return leave


def _end_trusted(server: Server) -> None:
    """End the lines that were believed what they said, behind the reply that has ended that."""
    for session in server.lines:
        if session.newcomer is None or session.logins.trusted:
            session.close_when_answered(MQRC.CONNECTION_BROKEN, TRUST_ENDED)


def _limit(server: Server, user: str) -> None:
    """The definition of a user has changed, and with it how much it may send."""
    for session in server.lines:
        proof = session.logins.proof
        if proof is not None and proof.login.user == user:
            session.limit_rate()


def _carry_out(server: Server, request: SecurityRequest) -> None:
    match request:
        case StopChannelRequest(name):
            for session in server.channel_lines.of(name, request.address):
                session.close_when_answered(MQRC.CONNECTION_BROKEN, f"channel {name} was stopped")
        case RefreshSecurityRequest("SSL"):
            server.manager.start_soon(_refresh_tls, server)


async def _refresh_tls(server: Server) -> None:
    """Load the certificates again, and let all lines with TLS show theirs again."""
    await server.reload_certificates()
    server.end_tls_lines()
