"""Gets that wait on shared queues: they look again when the database tells of something new, and from time to time.

1. They stand in `SharedQueue.waiters`, as on any queue: a close, a quiesce, GET(DISABLED), the end of their interval or
   of their connection ends their waits.
2. A notification comes when messages have become available, but none when somebody who had locked a row has gone
   without a word: so there is a poll as well, while anybody waits (queue-sharing rule 10.2.2).
3. Those who ask the same stand in one FIFO. As many of them as a statement may serve are asked for by one; where the
   first of others is given nothing, nobody behind it would be (queue-sharing rule 10.2.3).
4. Before a statement is made for a getter its connection's call lock is taken: nothing else is done for that connection
   in the database, nor by its later calls, until it is known what the getter was given. Its wait may end meanwhile all
   the same: then what it was given goes back (`GetRequest.abandoned`).
5. What is told while a queue is being served counts: it is served again (so two units of work that each commit a half
   of a group wake who waits for it, whichever comes last).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.engine.calls.gets import WaitingCall
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.gathering import AT_ONCE
from broker.sharing.gets.get_requests import GetKey, GetRequest
from broker.sharing.gets.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.waiters import Waiter
    from broker.engine.conversation import Conversation
    from broker.sharing.members.group_member import GroupMember

POLL_SECONDS: Final = 1.0
"""Between two looks of those who wait, where nothing is told."""

_BUSY_SECONDS: Final = 0.002  # until the next look for getters whose connections were at something else
_PASSING: Final = (MQRC.CF_NOT_AVAILABLE, MQRC.CF_STRUC_IN_USE)
_NUMBER = attrgetter("number")

_PRESENT: Final = (
    "SELECT there.* FROM unnest($2::bytea[]) AS wanted (id), LATERAL (SELECT msg_id, correl_id FROM message "
    "WHERE queue = $1 AND msg_id = wanted.id AND (state = 1) IS TRUE ORDER BY place LIMIT 1) AS there UNION ALL "
    "SELECT there.* FROM unnest($3::bytea[]) AS wanted (id), LATERAL (SELECT msg_id, correl_id FROM message "
    "WHERE queue = $1 AND correl_id = wanted.id AND (state = 1) IS TRUE ORDER BY place LIMIT 1) AS there"
)


class Reserved:
    """A getter for which a statement is being made: it has the call lock of its connection."""

    def __init__(self, member: GroupMember, waiter: Waiter, conversation: Conversation) -> None:
        self.waiter = waiter
        self.get_request = GetRequest(conversation, waiter.owner, waiter.handle, waiter.request, patient=False)
        self._lock = member.call_lock(conversation.call_order)
        self._lock.acquire_nowait()
        self._go_on = conversation.call_order.hold()

    def release(self) -> None:
        """The statement is over."""
        self._lock.release()
        self._go_on()


class Waits:
    """The getters that wait on the shared queues of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._serving: Serving[SharedQueue] = Serving(member, self._serve_queue, "a wait")

    def watch(self, queue: SharedQueue) -> None:
        """Let the getters that wait on a queue look: one has begun to wait, or there is something new."""
        self._serving.mark_dirty(queue)

    def watch_all(self) -> None:
        """All who wait are to look."""
        for queue in self._member.shared_queues():
            if queue.waiters.count:
                self.watch(queue)
        self._member.deliveries.stir_all()

    async def poll(self) -> None:
        """Let all look from time to time, for as long as the member lives."""
        stopped = anyio.Event()
        self._member.on_stop(stopped.set)
        while not self._member.stopping:
            with anyio.move_on_after(POLL_SECONDS):
                await stopped.wait()
            self.watch_all()

    async def _serve_queue(self, queue: SharedQueue) -> None:
        await self._member.notifications.watch(queue.name)
        if await self._serve_all(queue):
            await anyio.sleep(_BUSY_SECONDS)
            self.watch(queue)

    async def _serve_all(self, queue: SharedQueue) -> bool:
        """Serve those who wait, as they come: browsers, who ask for something specific, all others. Whether connections
        of some are at something else, so that they are to be looked at again.
        """
        busy = False
        lines = list(_lines(queue))
        named = [line for line in lines if _is_named(line[0])]
        present = await self._present(queue, named) if len(named) > 1 else None
        for line in lines:
            if queue.get_inhibited or queue.structure.failed:
                return False
            if present is None or not _is_named(line[0]) or present(line[0]):
                busy = await self._serve_line(queue, line) or busy
        return busy

    async def _present(self, queue: SharedQueue, lines: Sequence[list[Waiter]]) -> Callable[[Waiter], bool]:
        """Of many who each wait for an identifier: whether there is any message with it."""
        msg_ids = {line[0].request.msg_id for line in lines} - {None}
        correl_ids = {line[0].request.correl_id for line in lines} - {None}
        async with self._member.database.look() as session:
            rows = await session.fetch(_PRESENT, queue.name, list(msg_ids), list(correl_ids))
        there = {row["msg_id"] for row in rows} | {row["correl_id"] for row in rows}
        return lambda waiter: (waiter.request.msg_id or waiter.request.correl_id) in there

    async def _serve_line(self, queue: SharedQueue, line: list[Waiter]) -> bool:
        busy = False
        waiting = (waiter for waiter in line if waiter.fifo is not None)
        while True:
            reserved: list[Reserved] = []
            length = AT_ONCE if _key_of(line[0]) is not None else 1
            for waiter in waiting:
                one = self._reserve(waiter)
                if one is None:
                    busy = True
                else:
                    reserved.append(one)
                if len(reserved) == length:
                    break
            if not reserved:
                return busy
            try:
                all_served = await self._serve(queue, reserved)
            finally:
                for one in reserved:
                    one.release()
            if not all_served:
                return busy

    def _reserve(self, waiter: Waiter) -> Reserved | None:
        """Take the call lock of a waiter's connection; None when that is at something else."""
        owner = waiter.owner
        assert isinstance(owner, WaitingCall)
        conversation = owner.conversation
        if self._member.call_lock(conversation.call_order).locked():
            return None
        return Reserved(self._member, waiter, conversation)

    async def _serve(self, queue: SharedQueue, reserved: Sequence[Reserved]) -> bool:
        """Make one statement for those who ask the same; whether all were given something."""
        gets = [one.get_request for one in reserved]
        key = gets[0].key
        try:
            if key is not None and len({get.key for get in gets}) == 1:
                await self._member.gets.batched_gets.serve(queue, key, gets)
            else:
                await self._member.gets.serve(queue, gets[0])
        except MQError as error:
            if error.reason in _PASSING:
                raise
            for get in gets:
                get.error = error
        for one in reserved:
            _tell(one)
        self._member.context.perform()
        return all(get.grants or get.error is not None or get.abandoned for get in gets)


def _tell(one: Reserved) -> None:
    """Tell one who waits what came of it."""
    owner: WaitingCall[Any] = one.waiter.owner
    if one.get_request.grants:
        owner.granted(one.get_request.grants[0])  # type: ignore[attr-defined]  # only gets wait
    elif one.get_request.error is not None and not one.get_request.abandoned:
        owner.ended(one.get_request.error.reason)


def _lines(queue: SharedQueue) -> Iterator[list[Waiter]]:
    """Yield the waiters, by what they ask, in the order in which they are to be served."""
    lines: dict[object, list[Waiter]] = {}
    for waiter in sorted(queue.waiters, key=_NUMBER):
        alone = waiter.handle.position.locked  # what it has locked is there for it alone
        lines.setdefault(waiter if alone else waiter.fifo, []).append(waiter)
    yield from sorted(lines.values(), key=lambda line: (_class(line[0]), line[0].number))


def _class(waiter: Waiter) -> int:
    request = waiter.request
    if request.browse and not request.lock:
        return 0
    return 2 if request.anything else 1


def _key_of(waiter: Waiter) -> GetKey | None:
    return GetRequest(waiter.owner.conversation, waiter.owner, waiter.handle, waiter.request, patient=False).key


def _is_named(waiter: Waiter) -> bool:
    request = waiter.request
    return not request.browse and (request.msg_id is not None or request.correl_id is not None)
