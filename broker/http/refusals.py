"""The refusals in plain text: to a request that brings nobody in, and to one that the queue manager refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse

from broker.mqi import MQRC

if TYPE_CHECKING:
    from starlette.responses import Response

    from broker import MQError

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
BAD_REQUEST: Final = 400
INTERNAL: Final = 500
UNAVAILABLE: Final = 503

STATUSES: Final[dict[int, int]] = {
    MQRC.NOT_AUTHORIZED: FORBIDDEN,
    MQRC.SECURITY_ERROR: INTERNAL,
    MQRC.UNEXPECTED_ERROR: INTERNAL,
    **dict.fromkeys(
        (
            MQRC.CHANNEL_NOT_AVAILABLE,
            MQRC.CONNECTION_BROKEN,
            MQRC.HOST_NOT_AVAILABLE,
            MQRC.MAX_CONNS_LIMIT_REACHED,
            MQRC.Q_MGR_NOT_AVAILABLE,
            MQRC.Q_MGR_QUIESCING,
            MQRC.Q_MGR_STOPPING,
        ),
        UNAVAILABLE,
    ),
}
"""The statuses of reasons of the queue manager; any other is that of a request that is not good."""

AWAY: Final = frozenset(reason for reason, status in STATUSES.items() if status == UNAVAILABLE)
"""The reasons for which the queue manager serves nobody now, and may later."""

CHALLENGES: Final = 'Basic realm="EverMQ", charset="UTF-8", Bearer realm="EverMQ"'


def unauthorized() -> Response:
    """The answer where nobody was let in. It tells nothing of why."""
    return PlainTextResponse("not authorized\n", UNAUTHORIZED, headers={"WWW-Authenticate": CHALLENGES})


def refusal(error: MQError) -> Response:
    """The answer to a request that the queue manager refuses, or cannot serve now."""
    status = STATUSES.get(error.reason, BAD_REQUEST)
    headers = {"Retry-After": "1"} if status == UNAVAILABLE else None
    return PlainTextResponse(f"{error}\n", status, headers=headers)
