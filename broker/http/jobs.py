"""`GET /jobs/QUEUE/ID`: what has become of a message, by its MsgId, at once and as JSON.

It is for web programs: a page that has put an order asks where it is. The right to ask is that of `job_status`: browse
on the queue, its dead-letter queue and its history.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from starlette.responses import Response

from broker import MQError, job_status
from broker.http.entrance import NotAdmittedError
from broker.http.rest.application import HEADERS, not_admitted
from broker.http.rest.calls import names_of
from broker.http.rest.errors import MEDIA_TYPE, NOT_HERE, NOT_VALID, RestError, error_response, refused

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from broker.http.entrance import Entrance

JOBS: Final = "/jobs"
PARAMETERS: Final = ("dead_letter", "history")
METHODS: Final = ("GET", "HEAD")
_ID_DIGITS: Final = 48


class JobsApplication:
    """The ASGI application below `/jobs`."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            response = await self._answer(scope)
        except (RestError, MQError) as error:
            response = error_response(error)
        except NotAdmittedError as error:
            response = error_response(not_admitted(error))
        response.raw_headers += HEADERS
        await response(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        caller = await self._entrance.admit(scope)
        if scope["method"] not in METHODS:
            allowed = ", ".join(METHODS)
            raise refused(405, NOT_HERE, f"{scope['method']} is no method of a job: {allowed} are.", {"Allow": allowed})
        q_name, msg_id = _asked(scope["raw_path"])
        given = _parameters(scope["query_string"])
        async with caller.connection() as connection:
            status = await job_status(connection, q_name, msg_id, **given)
        body = json.dumps(status.fields(), ensure_ascii=False).encode()
        return Response(body, media_type=MEDIA_TYPE)


def _asked(raw_path: bytes) -> tuple[str, bytes]:
    """The queue and the MsgId that a path names; `ID:` may stand before the digits. Raises RestError."""
    names = names_of(raw_path)[2:]
    if len(names) != 2 or not names[0]:
        raise refused(404, NOT_HERE, "A job is /jobs/QUEUE/ID; a / in the name of the queue is written %2F.")
    digits = names[1].removeprefix("ID:")
    try:
        found = bytes.fromhex(digits) if len(digits) == _ID_DIGITS else b""
    except ValueError:
        found = b""
    if len(found) != _ID_DIGITS // 2 or not any(found):
        raise refused(
            400, NOT_VALID, f"{names[1][:60]!a} is no identifier of a message: {_ID_DIGITS} hexadecimal digits."
        )
    return names[0], found


def _parameters(query: bytes) -> dict[str, str]:
    """The queues that a query names, by the names of the arguments. Raises RestError."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in PARAMETERS or name in given:
            what = "is there twice" if name in given else "is no parameter"
            raise refused(400, NOT_VALID, f"{name[:60]!a} {what}; there are {', '.join(PARAMETERS)}, each once.")
        given[name] = value
    return given
