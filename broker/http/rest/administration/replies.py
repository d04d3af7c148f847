"""The replies to commands as JSON: an element for each object that is shown, one for any other reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from broker.http.rest.errors import FAILED, MEDIA_TYPE
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from starlette.responses import Response

    from broker.mqi import CommandReply

COMMAND_FAILED: Final = 3008
"""MQRCCF_COMMAND_FAILED."""

REASONS: Final[dict[str, int]] = {
    "AMQ8135E": MQRC.NOT_AUTHORIZED,
    "AMQ8143E": MQRC.Q_NOT_EMPTY,
    "AMQ8147E": MQRC.UNKNOWN_OBJECT_NAME,
    "AMQ8148E": MQRC.OBJECT_IN_USE,
    "AMQ8150E": 4001,  # MQRCCF_OBJECT_ALREADY_EXISTS
    "AMQ8151E": 4002,  # MQRCCF_OBJECT_WRONG_TYPE
    "AMQ8412E": 4005,  # MQRCCF_ATTR_VALUE_ERROR
    "AMQ8413E": 4005,
    "AMQ8424E": 4008,  # MQRCCF_OBJECT_NAME_ERROR
    "AMQ8425E": 4005,
    "EMQ0001E": MQRC.FUNCTION_NOT_SUPPORTED,
}
"""The reasons of commands that failed, by their messages; of any other 3008."""

_INDENT: Final = "   "
_SEPARATOR: Final = "   "


def as_text(reply: CommandReply) -> Iterator[dict[str, Any]]:
    """Yield the elements of a reply to runCommand: each object that is shown as one line."""
    if reply.ok and reply.attributes:
        for shown in _objects(reply.text):
            yield _element(reply) | {"text": [shown]}
    else:
        yield _element(reply) | {"text": _lines(reply)}


def as_json(reply: CommandReply) -> Iterator[dict[str, Any]]:
    """Yield the elements of a reply to runCommandJSON: the parameters of each object that is shown, a message of
    others.
    """
    if reply.ok and reply.attributes:
        for each in reply.attributes:
            yield _element(reply) | {"parameters": parameters_of(each)}
    else:
        yield _element(reply) | {"message": _lines(reply)}


def parameters_of(attributes: Mapping[str, int | str | bool]) -> dict[str, int | str]:
    """Return the attributes of an object as JSON has them: small letters, flags as YES and NO."""
    return {key.lower(): _plain(value) for key, value in attributes.items()}


def response_of(elements: Iterable[dict[str, Any]]) -> Response:
    """Return the answer with these elements. That a command failed is told in it: the request did not."""
    told = list(elements)
    failed = any(each["completionCode"] for each in told)
    return JSONResponse(
        {
            "commandResponse": told,
            "overallCompletionCode": FAILED if failed else 0,
            "overallReasonCode": COMMAND_FAILED if failed else 0,
        },
        media_type=MEDIA_TYPE,
    )


def _element(reply: CommandReply) -> dict[str, Any]:
    if reply.ok:
        return {"completionCode": 0, "reasonCode": 0}
    return {"completionCode": FAILED, "reasonCode": REASONS.get(reply.code, COMMAND_FAILED)}


def _plain(value: int | str | bool) -> int | str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return value


def _lines(reply: CommandReply) -> list[str]:
    return [line for line in reply.text.split("\n") if line.strip()]


def _objects(text: str) -> Iterator[str]:
    """Yield what a DISPLAY shows of each object: its heading, and its attributes behind that."""
    parts: list[str] = []
    for line in text.split("\n"):
        if not line.startswith(_INDENT) and parts:
            yield _SEPARATOR.join(parts)
            parts = []
        if line.strip():
            parts.append(line.strip())
    if parts:
        yield _SEPARATOR.join(parts)
