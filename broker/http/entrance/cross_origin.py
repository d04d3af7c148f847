"""Pages of other origins (CORS): those that `[http] rest_cors_allowed_origins` names may ask, and no others.

1. An origin is compared as a whole. There is no star: a page that is named may do what its user may.
2. Before a page asks anything but what a form could, its browser asks for leave (OPTIONS), without credentials. The
   answer names the methods and headers that there are, and grants nothing else.
3. Answers to a page that may ask say so, errors too, or its script would not see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from broker.http.entrance.headers import header_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from starlette.types import Message, Scope, Send

METHODS: Final = "GET, POST, PATCH, DELETE"
MAX_AGE_SECONDS: Final = 600
"""The time for which a browser remembers an answer to what it asks before."""

SENT_HEADERS: Final = (
    "accept-language", "authorization", "content-type", "ibm-mq-md-correlationid", "ibm-mq-md-expiry",
    "ibm-mq-md-persistence", "ibm-mq-md-priority", "ibm-mq-md-replyto", "ibm-mq-rest-csrf-token",
    "ibm-mq-rest-gateway-qmgr", "ibm-mq-usr",
)  # fmt: skip
"""The headers that a page may send. `ibm-mq-usr-NAME` may be sent too."""

TOLD_HEADERS: Final = (
    "content-language", "evermq-attempt", "evermq-delivery-id", "evermq-lease", "ibm-mq-md-correlationid",
    "ibm-mq-md-expiry", "ibm-mq-md-messageid", "ibm-mq-md-persistence", "ibm-mq-md-priority", "ibm-mq-md-replyto",
    "ibm-mq-usr", "location", "retry-after", "www-authenticate",
)  # fmt: skip
"""The headers of an answer that its script may read."""

_PROPERTY: Final = "ibm-mq-usr-"


class AskingPage:
    """A page of another origin that may ask, for one of its requests."""

    def __init__(self, origin: str) -> None:
        self.origin = origin

    def leave(self, scope: Scope) -> Response | None:
        """Return the answer to a browser that asks for leave before a request; None for any other request."""
        asked = _header(scope, b"access-control-request-method")
        if scope["method"] != "OPTIONS" or asked is None:
            return None
        named = (_header(scope, b"access-control-request-headers") or "").lower().split(",")
        properties = [each for each in map(str.strip, named) if each.startswith(_PROPERTY) and each.isascii()]
        headers = {
            "Access-Control-Allow-Methods": METHODS,
            "Access-Control-Allow-Headers": ", ".join([*SENT_HEADERS, *properties]),
            "Access-Control-Max-Age": str(MAX_AGE_SECONDS),
        }
        return Response(status_code=204, headers=headers)

    def told(self, send: Send) -> Send:
        """Return a `send` by whose answers the page is told that it may read them."""
        said = (
            (b"access-control-allow-origin", self.origin.encode("latin-1")),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-expose-headers", ", ".join(TOLD_HEADERS).encode()),
            (b"vary", b"Origin"),
        )

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *said]}
            await send(message)

        return tell


def asking_page(scope: Scope, allowed: Collection[str]) -> AskingPage | None:
    """Return the page of another origin that asks; None where none does, or it may not."""
    origin = _header(scope, b"origin")
    return AskingPage(origin) if origin is not None and origin.lower() in allowed else None


def _header(scope: Mapping[str, Any], name: bytes) -> str | None:
    """The value of a header that is there once."""
    found = header_values(scope, name)
    return found[0].decode("latin-1") if len(found) == 1 else None
