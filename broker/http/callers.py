"""The callers: who asks, by the credentials that a request brings (security 4). Each request brings its own.

REST and the console know their callers by this module as well.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.responses import PlainTextResponse

from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

    from broker import Connection
    from broker.http.served_manager import ServedManager

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
"""What the reasons of the queue manager mean in HTTP; any other is a request that is not good."""

_CHALLENGES: Final = 'Basic realm="EverMQ", charset="UTF-8", Bearer realm="EverMQ"'


class CallerCredentials(NamedTuple):
    """The address that a request comes from, and what it brings to prove who asks: a user and a password, a token, the
    certificate of its line, or nothing.
    """

    address: str
    user: str = ""
    password: bytes | None = None
    token: bytes | None = None
    certificate: Any = None

    def __repr__(self) -> str:
        return f"CallerCredentials(address={self.address!r}, user={self.user!r})"  # and no secret

    @property
    def digest(self) -> bytes:
        """A text that is the same for the same credentials, from which nobody can tell them."""
        return sha256(repr(tuple(self)).encode()).digest()


class NotAdmittedError(Exception):
    """A request brings no credentials that let anybody in, or none at all."""


def credentials_of(request: Request) -> CallerCredentials:
    """Return the credentials of a request. Raises NotAdmittedError."""
    state = request.scope["state"]
    bare = CallerCredentials(state["address"], certificate=state.get("certificate"))
    headers = request.headers.getlist("authorization")
    if not headers:
        return bare
    scheme, _, value = headers[0].partition(" ")
    value = value.strip()
    if len(headers) > 1 or not value:
        raise NotAdmittedError
    match scheme.lower():
        case "basic":
            user, password = _basic(value)
            return bare._replace(user=user, password=password)
        case "bearer":
            return bare._replace(token=value.encode("latin-1"))
        case _:
            raise NotAdmittedError


def _basic(value: str) -> tuple[str, bytes]:
    try:
        user, colon, password = b64decode(value, validate=True).partition(b":")
        if colon:
            return user.decode(), password
    except (binascii.Error, ValueError):
        pass
    raise NotAdmittedError


@asynccontextmanager
async def admitted(served: ServedManager, credentials: CallerCredentials) -> AsyncIterator[Connection]:
    """The connection of a caller. Raises NotAdmittedError, and MQError where there is none for other reasons."""
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(served.as_caller(credentials))
        except MQError as error:
            if error.reason != MQRC.NOT_AUTHORIZED:
                raise
            raise NotAdmittedError from error
        yield connection


def unauthorized() -> Response:
    """The answer where nobody was let in. It tells nothing of why."""
    return PlainTextResponse("not authorized\n", UNAUTHORIZED, headers={"WWW-Authenticate": _CHALLENGES})


def refusal(error: MQError) -> Response:
    """The answer to a request that the queue manager refuses, or cannot serve now."""
    status = STATUSES.get(error.reason, BAD_REQUEST)
    headers = {"Retry-After": "1"} if status == UNAVAILABLE else None
    return PlainTextResponse(f"{error}\n", status, headers=headers)
