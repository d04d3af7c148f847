"""A request for a messaging resource, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio
from starlette.responses import Response

from broker import MQError
from broker.http.rest.errors import unknown_q_mgr
from broker.http.rest.messaging.bodies import ClientGoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from broker import Connection
    from broker.http.entrance import Caller
    from broker.http.rest.messaging.text_messages import TextMessage
    from broker.http.rest.messaging.versions import RestVersion

T = TypeVar("T")

APPLICATION: Final = "evermq http"

_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


class MessagingAnswer(Response):
    """An answer whose headers are known as they are written: `raw_headers`, which whoever sends it may add to."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
        self.status_code = status
        self.raw_headers = headers
        self.body = body
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


NO_ANSWER: Final = MessagingAnswer(204, [])
"""For a client that has gone: nothing is sent."""


def no_content() -> MessagingAnswer:
    """Return the answer that has no body."""
    return MessagingAnswer(204, [])


def text_answer(status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> MessagingAnswer:
    """Return an answer whose body is text, with these headers beside those about it."""
    return MessagingAnswer(status, [_TEXT, (b"content-length", b"%d" % len(body)), *headers], body)


class MessagingCall(NamedTuple):
    """A request that was let in: who asks, for which version, and of what queue."""

    caller: Caller
    version: RestVersion
    q_mgr_name: str
    q_name: str
    method: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    receive: Callable[[], Awaitable[Any]]

    async def own_connection(self) -> SeparateConnection:
        """Return a connection of the caller beside those that its other requests wait for. Raises what `check` does."""
        async with self.caller.connection() as connection:
            self.check(connection)
            return SeparateConnection(await connection.connect(APPLICATION))

    def check(self, connection: Connection) -> None:
        """Raise RestError where the call names another queue manager than that which is served."""
        if self.q_mgr_name != connection.q_mgr_name:
            raise unknown_q_mgr(self.q_mgr_name)


class SeparateConnection:
    """A connection of a caller for what takes time, to be closed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def close(self) -> None:
        """Back out what is under syncpoint, and close it. Harmless where it has ended."""
        with anyio.CancelScope(shield=True):
            try:
                if self.connection.works:
                    await self.connection.backout()
                await self.connection.close()
            except MQError:
                pass  # it has ended, and its unit of work with it


async def while_there(receive: Callable[[], Awaitable[Any]], work: Awaitable[T]) -> T:
    """Return what the work returns, which is cancelled as soon as the client has gone. Raises ClientGoneError."""
    found: list[T] = []
    failed: Exception | None = None
    gone = False
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            nonlocal gone
            while (await receive())["type"] != "http.disconnect":
                pass  # a body, which nobody has asked for
            gone = True
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        try:
            found.append(await work)
        except Exception as error:
            failed = error
        tasks.cancel_scope.cancel()
    if gone:
        raise ClientGoneError
    if failed is not None:
        raise failed
    return found[0]


def message_answer(version: RestVersion, text: TextMessage, more: list[tuple[bytes, bytes]]) -> MessagingAnswer:
    """Return the answer that gives a message. Raises NotTextError."""
    return text_answer(200, [*text.headers(version), *more], text.body)
