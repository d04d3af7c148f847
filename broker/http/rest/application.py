"""REST as an ASGI application: the versions, who asks, the CSRF header, and the headers that all answers have."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from broker import MQError
from broker.http.application import BODY_BYTES
from broker.http.entrance import NotAdmittedError
from broker.http.refusals import CHALLENGES
from broker.http.rest.calls import RestCall, names_of, not_here, require_csrf_header
from broker.http.rest.errors import (
    COOKIE_OVER,
    NO_CREDENTIALS,
    NO_ROLE,
    NOT_HERE,
    RestError,
    error_response,
    refused,
)
from broker.http.rest.login import LoginResource
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from broker.http.entrance import Entrance
    from broker.http.rest.calls import RestPart

logger = logging.getLogger(__name__)

PATH: Final = "/ibmmq/rest"
_BEGINNING: Final = f"{PATH}/".encode()
VERSIONS: Final = {"v1": 1, "v2": 2, "v3": 3}
CACHED_PATHS: Final = 256

HEADERS: Final = (
    (b"content-language", b"en-US"),
    (b"cache-control", b"no-cache, no-store, must-revalidate"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-xss-protection", b"1;mode=block"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""The headers of all answers, beside those of each."""


class RestApplication:
    """REST. `parts` answer calls by the word behind the version: `messaging`, `admin`; /login is here."""

    def __init__(self, entrance: Entrance, parts: Mapping[str, RestPart]) -> None:
        self._entrance = entrance
        self._login = LoginResource(entrance)
        self._parts = dict(parts)
        self.csrf_validation = True
        """False: calls that change something need no CSRF header."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        response = await self._response(scope, receive)
        response.raw_headers += HEADERS
        await response(scope, receive, send)

    def body_bytes(self, path: str) -> int:
        """Return how long the body of a call of this path may be."""
        part = self._parts.get(path.removeprefix(f"{PATH}/").partition("/")[2].partition("/")[0])
        return BODY_BYTES if part is None else part.body_bytes(path)

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        try:
            return await self._answer(scope, receive)
        except (RestError, MQError) as error:
            return error_response(error)
        except NotAdmittedError as error:
            return error_response(not_admitted(error))
        except Exception:
            logger.exception("REST call failed method=%s", scope["method"], extra={"event": "rest_call_failed"})
            return error_response(MQError(MQRC.UNEXPECTED_ERROR, "an internal error; the log has it"))

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        number, word, names = _resource(scope["raw_path"])
        call = RestCall(number, names, scope, receive)
        call.csrf_validation = self.csrf_validation
        if word == "login":
            return await self._login.answer(call)
        part = self._parts.get(word)
        if part is None:
            raise not_here(call)
        call.caller = await self._entrance.admit(scope, though_away=part.role is None and call.method == "GET")
        require_csrf_header(call)
        if part.role is not None and part.role not in call.caller.roles:
            raise refused(403, NO_ROLE, f"The user '{call.caller.user}' does not have the role {part.role}.")
        return await part.answer(call)


@lru_cache(CACHED_PATHS)
def _resource(raw_path: bytes) -> tuple[int, str, tuple[str, ...]]:
    """The version, the word and the names that a path says. Raises RestError."""
    version, *names = names_of(raw_path.removeprefix(_BEGINNING)) if raw_path.startswith(_BEGINNING) else ("",)
    number = VERSIONS.get(version)
    if number is None:
        raise refused(404, NOT_HERE, f"{version!r} is no version of MQ REST API: v1, v2 and v3 are.")
    return number, names[0] if names else "", tuple(names[1:])


def not_admitted(error: NotAdmittedError) -> RestError:
    """Return the error of a caller who was not let in. It tells nothing of why, but for a session that is over."""
    headers = {"WWW-Authenticate": CHALLENGES}
    if error.session_over:
        return refused(401, COOKIE_OVER, "The session of this cookie is over, or there never was one.", headers)
    return refused(401, NO_CREDENTIALS, "The credentials are missing, or are not valid.", headers)
