"""The blocking faces of queues and units of work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from broker.deprecated import renamed_argument
from broker.interface.blocking.face import Blocking, Each, Face, FaceProperty
from broker.interface.queue import Queue
from broker.interface.units import UnitOfWork
from broker.mqi.reasons import MQRC
from broker.mqi.structures import ResponseRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from broker.interface.message import Message
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor


class SyncQueue(Face[Queue]):
    """The blocking face of an open queue (`Queue`): `with connection.open(...) as queue:` closes it."""

    put = Blocking(Queue.put)
    put_many = Blocking(Queue.put_many)
    get = Blocking(Queue.get)
    get_many = Blocking(Queue.get_many)
    inquire = Blocking(Queue.inquire)
    set = Blocking(Queue.set)
    close = Blocking(Queue.close)
    name = FaceProperty[str]()
    hobj = FaceProperty[int]()
    resolved_q_name = FaceProperty[str]()
    resolved_q_mgr_name = FaceProperty[str]()
    reason = FaceProperty[MQRC | int]()
    records = FaceProperty[tuple[ResponseRecord, ...]]()
    known_dest_count = FaceProperty[int]()
    unknown_dest_count = FaceProperty[int]()
    invalid_dest_count = FaceProperty[int]()

    @renamed_argument("waiting", "delayed")
    def messages(
        self,
        md: MessageDescriptor | None = None,
        options: GetMessageOptions | int = 0,
        *,
        wait: float | None = None,
        delayed: bool = False,
    ) -> Iterator[Message]:
        """`for message in queue.messages(...)`: as `Queue.messages`."""

        def begin() -> AsyncIterator[Message]:
            return self._target.messages(md, options, wait=wait, delayed=delayed)

        return begin() if self._portal.gives_coroutines else Each(self._portal, begin)  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Message]:
        """`for message in queue`: each step is a get with unlimited wait, until the handle is closed."""
        return Each(self._portal, lambda: self._target)

    if not TYPE_CHECKING:  # where a handler that runs in a thread has its event loop use the queue

        def __aiter__(self) -> AsyncIterator[Message]:
            return aiter(self._target)

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *raised: object) -> None:
            await self._target.__aexit__(*raised)


class SyncUnitOfWork(Face[UnitOfWork]):
    """The blocking face of a unit of work: `with connection.unit_of_work() as unit:`. Inside it is the thread that has
    entered it, with what it starts there; the calls of other threads on the connection are outside.
    """

    puts = FaceProperty[int]()
    gets = FaceProperty[int]()
    joined = FaceProperty[bool]()

    def _entered(self) -> None:
        self._portal.call(self._target.begin())
        self._target.join()  # in the context of this thread, which its calls have too
