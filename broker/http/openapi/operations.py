"""The pieces of operations: their answers by their statuses, headers, parameters."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

ERROR: Final[Json] = {"$ref": "#/components/schemas/Errors"}
TEXT: Final[Json] = {"text/plain; charset=utf-8": {"schema": {"type": "string"}}}
ERROR_CONTENT: Final[Json] = {"application/json; charset=utf-8": {"schema": ERROR}}
STRING: Final[Json] = {"type": "string"}

MEANINGS: Final[dict[int, str]] = {
    400: "The request is not valid: a value, a parameter, a name, or it is no request of HTTP/1.1.",
    401: "The credentials or the cookie are missing, or are not valid.",
    403: "The CSRF header or a role is missing, the user lacks an authority (2035), or a page of elsewhere asks.",
    404: "There is no such queue manager, queue, version or resource.",
    405: "The resource does not have this method, or the queue is inhibited (2016, 2051).",
    410: "The delivery has ended in another way.",
    413: "The body is longer than this path takes.",
    415: "The Content-Type is not supported.",
    421: "The Host is not known here.",
    431: "The request line and headers are too long.",
    500: "The queue manager answered with a reason: error[0].reasonCode has it.",
    501: "A message is there that is no text; it stays on its queue.",
    502: "Something between failed; this server itself does not answer so.",
    503: "The queue manager cannot be reached, quiesces or starts, or all connections of the user are in use.",
}
"""The statuses that are errors."""

COMMON: Final = (400, 401, 403, 404, 405, 413, 415, 421, 431, 500, 502, 503)
"""Those that every operation of REST may have."""

REST_HEADERS: Final = (
    "Content-Language", "Cache-Control", "X-Content-Type-Options", "X-XSS-Protection", "X-Frame-Options",
    "Content-Security-Policy",
)  # fmt: skip


def answer(description: str, content: Json | None = None, *headers: str) -> Json:
    """Return an answer: what it means, its body by media types, and the headers that it may have."""
    told: Json = {"description": description}
    if content:
        told["content"] = content
    if headers:
        told["headers"] = {name: {"schema": STRING} for name in headers}
    return told


def in_json(schema: Json) -> Json:
    """Return a body of JSON."""
    return {"application/json; charset=utf-8": {"schema": schema}}


def errors(*statuses: int) -> Json:
    """Return the answers that are errors of REST."""
    told = {}
    for status in statuses:
        headers = {401: ("WWW-Authenticate",), 405: ("Allow",), 503: ("Retry-After",)}.get(status, ())
        told[str(status)] = answer(MEANINGS[status], ERROR_CONTENT | TEXT, *REST_HEADERS, *headers)
    return told


def operation(
    summary: str,
    answers: Json,
    *parameters: Json,
    body: Json | None = None,
    more: tuple[int, ...] = (),
    open_to_all: bool = False,
) -> Json:
    """Return an operation of REST: `answers` by status are those that are no errors."""
    told: Json = {
        "summary": summary,
        "parameters": list(parameters),
        "responses": answers | errors(*sorted({*COMMON, *more})),
    }
    if body is not None:
        told["requestBody"] = {"required": True, "content": body}
    if open_to_all:
        told["security"] = []
    return told


def header(name: str, description: str, schema: Json | None = None, *, required: bool = False) -> Json:
    """Return a header of a request."""
    return _parameter("header", name, description, schema, required=required)


def query(name: str, description: str, schema: Json | None = None) -> Json:
    """Return a parameter behind the question mark."""
    return _parameter("query", name, description, schema, required=False)


def in_path(name: str, description: str, schema: Json | None = None) -> Json:
    """Return a name in a path."""
    return _parameter("path", name, description, schema, required=True)


def _parameter(place: str, name: str, description: str, schema: Json | None, *, required: bool) -> Json:
    return {
        "in": place, "name": name, "description": description, "required": required, "schema": schema or STRING
    }  # fmt: skip


VERSION: Final = in_path("version", "The version of the API.", {"type": "string", "enum": ["v1", "v2", "v3"]})
_NAME: Final[Json] = {"type": "string", "minLength": 1}
Q_MGR: Final = in_path("qmgr", "The name of the queue manager; / is written %2F, % is %25.", _NAME)
QUEUE: Final = in_path("queue", "The name of the queue; / is written %2F, % is %25.", _NAME)
CSRF: Final = header(
    "ibm-mq-rest-csrf-token", "Any value, or none: that the header is there shows that no page of elsewhere asks.",
    {"type": "string"}, required=True,
)  # fmt: skip
