"""A call of REST, as its parts are given it: the path is split as it came, and decoded behind that."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from broker.http.entrance.headers import header_values
from broker.http.rest.errors import NO_CSRF_HEADER, NOT_HERE, NOT_VALID, refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.datastructures import Headers, QueryParams
    from starlette.responses import Response
    from starlette.types import Receive, Scope

    from broker.http.entrance import Caller, WebRole
    from broker.http.rest.errors import RestError

CHANGING: Final = ("POST", "PATCH", "PUT", "DELETE")
"""The methods that change something."""


CSRF_HEADER: Final = "ibm-mq-rest-csrf-token"
_CSRF_HEADER: Final = CSRF_HEADER.encode()


class RestCall:
    """A call. `path` has the names behind the word of the part, decoded; `caller` is who was let in. `csrf_validation`
    is false where no call needs the CSRF header.
    """

    def __init__(self, version: int, path: tuple[str, ...], scope: Scope, receive: Receive) -> None:
        self.version = version
        self.path = path
        self.method: str = scope["method"]
        self.scope = scope
        self.receive = receive
        self.caller: Caller
        self.csrf_validation = True

    @cached_property
    def request(self) -> Request:
        """The whole request."""
        return Request(self.scope, self.receive)

    @property
    def headers(self) -> Headers:
        """The headers, by their names in any case."""
        return self.request.headers

    @property
    def query(self) -> QueryParams:
        """The parameters behind the question mark, decoded."""
        return self.request.query_params

    async def json(self) -> dict[str, Any]:
        """Return the body, an object of JSON. Raises RestError (415, 400)."""
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise refused(415, NOT_VALID, f"The Content-Type is {media_type!r}; send application/json;charset=utf-8.")
        try:
            body = json.loads(await self.request.body())
        except (ValueError, RecursionError) as error:
            raise refused(400, NOT_VALID, f"The body is no JSON: {error}.") from None
        if not isinstance(body, dict):
            raise refused(400, NOT_VALID, "The body is JSON, and no object: it begins with {.")
        return body


class RestPart(Protocol):
    """A part of REST, by the word behind the version. `role` is the one that opens it, None: any."""

    role: WebRole | None

    async def answer(self, call: RestCall) -> Response:
        """Answer a call. Raises RestError and MQError, which are answered with an error."""

    def body_bytes(self, path: str) -> int:
        """Return how long the body of a call of this path, as it came, may be."""


def names_of(raw_path: bytes) -> tuple[str, ...]:
    """Split a path as it came, and decode its names. Raises RestError (400) for one that is no UTF-8."""
    try:
        if b"%" not in raw_path:
            return tuple(raw_path.decode().split("/"))
        return tuple(unquote_to_bytes(each).decode() for each in raw_path.split(b"/"))
    except UnicodeDecodeError:
        raise refused(400, NOT_VALID, "A name in the path is no UTF-8.") from None


def require_csrf_header(call: RestCall) -> None:
    """Raise RestError (403) for a call that changes something without the header that no form of a page can send."""
    if call.method in CHANGING and call.csrf_validation and not header_values(call.scope, _CSRF_HEADER):
        raise refused(403, NO_CSRF_HEADER, f"The header {CSRF_HEADER} is missing.")


def not_here(call: RestCall) -> RestError:
    """Return the error of a path at which there is nothing."""
    return refused(404, NOT_HERE, f"There is no such resource in version {call.version} of MQ REST API.")


def wrong_method(call: RestCall, allowed: Iterable[str]) -> RestError:
    """Return the error of a method that a resource does not have."""
    methods = ", ".join(allowed)
    return refused(405, NOT_HERE, f"{call.method} is no method of this resource: {methods} are.", {"Allow": methods})
