"""The body of a put: read within bounds that are known before it is.

1. Up to 64 KiB are read as they come; the put says if that is too long. Of more the queue is asked first how long its
   messages may be (MAXMSGL), and a body that is longer is refused unread.
2. What is held of bodies above that counts in `[limits] server_bytes`: a body for which there is no room waits, unread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from broker.http.rest.messaging.refusals import too_long
from broker.http.rest.messaging.versions import InvalidValueError
from broker.mqi import MQIA, MQOO, MQOT, MQRC, MQError, ObjectDescriptor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection

SMALL_BYTES: Final = 64 * 1024
BODY_BYTES_MAX: Final = 100 * 1024 * 1024
"""The longest message of all: MAXMSGL is at most this."""

_STEP_BYTES: Final = 1024 * 1024


class RoomForBodies(Protocol):
    """The memory that bodies take, one object for each of them."""

    async def hold(self, size: int) -> None:
        """Wait until there is room for so many bytes more, which are held until `leave`."""

    def leave(self) -> None:
        """Give back all that is held."""


class ClientGoneError(Exception):
    """The client has closed its line: nobody reads an answer."""


class BodyLimit(NamedTuple):
    """The longest body that a queue takes, and the reason with which a longer one is refused."""

    size: int
    reason: int
    whose: str

    def check(self, length: int) -> None:
        """Raise RestError for a longer body: 500 with MSG_TOO_BIG_FOR_Q (2030), or 413 with MSG_TOO_BIG_FOR_Q_MGR
        (2031).
        """
        if length > self.size:
            error = MQError(self.reason, f"a body of {length} bytes: MAXMSGL of {self.whose} is {self.size}")
            raise too_long(error)


async def body_of(
    headers: list[tuple[bytes, bytes]],
    receive: Callable[[], Awaitable[Any]],
    limit: Callable[[], Awaitable[BodyLimit]],
    room: RoomForBodies,
) -> bytes:
    """Return the body of a request, which is text in UTF-8. Raises InvalidValueError for what is none, RestError for
    one that is too long, ClientGoneError.
    """
    declared = None
    for name, value in headers:
        if name == b"content-length":
            declared = int(value)
    bound: BodyLimit | None = None
    held = SMALL_BYTES
    if declared is not None and declared > SMALL_BYTES:
        bound = await limit()
        bound.check(declared)
        await room.hold(declared)
        held = declared
    parts: list[bytes] = []
    length, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientGoneError
        part, more = event.get("body", b""), event.get("more_body", False)
        length += len(part)
        parts.append(part)
        if length > held:
            bound = bound or await limit()
            bound.check(length)
            await room.hold(_STEP_BYTES)
            held += _STEP_BYTES
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidValueError("body", f"it is no UTF-8: {error.reason} at byte {error.start}") from None
    return body


async def body_limit(connection: Connection, q_name: str) -> BodyLimit:
    """Return the longest message that a queue takes. A user who may not inquire it is told by the put. Raises what
    MQOPEN does.
    """
    manager = await _inquired(connection, ObjectDescriptor(object_type=MQOT.Q_MGR), MQIA.MAX_MSG_LENGTH)
    most = BodyLimit(manager or BODY_BYTES_MAX, MQRC.MSG_TOO_BIG_FOR_Q_MGR, "the queue manager")
    queue = await connection.open(q_name, MQOO.OUTPUT)
    await queue.close()
    if queue.resolved_q_mgr_name != connection.q_mgr_name:
        return most
    own = await _inquired(connection, ObjectDescriptor(object_name=queue.resolved_q_name), MQIA.MAX_MSG_LENGTH)
    if own is None or own > most.size:
        return most
    return BodyLimit(own, MQRC.MSG_TOO_BIG_FOR_Q, queue.resolved_q_name)


async def _inquired(connection: Connection, what: ObjectDescriptor, selector: int) -> int | None:
    """An attribute that is a number; None where the user may not know it."""
    try:
        async with connection.open(what, MQOO.INQUIRE) as object:
            value = (await object.inquire(selector))[selector]
    except MQError as error:
        if error.reason != MQRC.NOT_AUTHORIZED:
            raise
        return None
    return int(value)
