"""MQOPEN, as a connection makes it: of a name or a descriptor, awaited or entered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.interface.options import flags
from broker.interface.port import answer
from broker.mqi.structures import ObjectDescriptor

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from broker.interface.connection import Connection
    from broker.interface.queue import Queue

_FORMS: Final = "MQOO flags, such as MQOO.INPUT_SHARED | MQOO.OUTPUT"


class OpenCall:
    """An MQOPEN to make: `await` it for the queue, or enter it with `async with`."""

    def __init__(self, connection: Connection, name: str | ObjectDescriptor, options: int) -> None:
        self._connection = connection
        self._descriptor = descriptor(name)
        self._options = flags(options, _FORMS)
        self._queue: Queue | None = None

    def __await__(self) -> Generator[Any, None, Queue]:
        return self._open().__await__()

    async def _open(self) -> Queue:
        connection = self._connection
        opened = await answer(connection.port.open(self._descriptor, self._options))
        return connection.queue_kind(connection, opened, self._options)

    async def __aenter__(self) -> Queue:
        self._queue = await self._open()
        return self._queue

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._queue is not None:
            await self._queue.__aexit__(kind, error, trace)


def descriptor(name: str | ObjectDescriptor) -> ObjectDescriptor:
    """The object descriptor for a queue's name; a descriptor stays what it is."""
    if isinstance(name, ObjectDescriptor):
        return name
    if not isinstance(name, str):
        raise TypeError(f"the name is a str or an ObjectDescriptor, not {name!r}")
    return ObjectDescriptor(object_name=name)
