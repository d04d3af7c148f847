"""MQGET from shared queues: the database orders and locks, the core judges (queue-sharing rule 10.2).

A get that the database understands by itself is served in one call of the database, with others (`batched_gets`). All
others look first (`page_gets`). Either way what is found is an ordinary grant, and what becomes of it is the engine's
business.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.calls.gets import getting
from broker.core.queues.effects import Grant
from broker.engine.calls.batches import ANSWER_BYTES
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.gathering import AT_ONCE
from broker.sharing.gets.batched_gets import BatchedGets
from broker.sharing.gets.get_requests import GetRequest
from broker.sharing.gets.page_gets import PageGets

if TYPE_CHECKING:
    from broker.core.queues.handles import Handle
    from broker.core.queues.shared_queue import SharedQueue
    from broker.engine.calls.batches import GetManyCall
    from broker.engine.calls.gets import GetCall
    from broker.engine.conversation import Conversation
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor
    from broker.sharing.members.group_member import GroupMember

_LENGTH = attrgetter("length")
_NO_MSG_LOCKED: Final = int(MQRC.NO_MSG_LOCKED)


class Gets:
    """The gets of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self.batched_gets = BatchedGets(member)
        self.page_gets = PageGets(member)
        self._locks = member.locks

    def get(
        self,
        conversation: Conversation,
        call: GetCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int | None, bool],
    ) -> None:
        queue.structure.check(queue.name)
        work = partial(self._get, conversation, call, handle, queue, arguments)
        self._member.make(conversation.call_order, call, work)

    async def _get(
        self,
        conversation: Conversation,
        call: GetCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int | None, bool],
    ) -> None:
        """Make one get: answer it, or let it wait."""
        md, options, max_length, delayed = arguments
        now = self._member.now()
        request = getting.request_for(self._member.core, handle, md, options, max_length, now, delayed=delayed)
        if request.unlock:
            answer = Grant([], 0 if handle.position.locked else _NO_MSG_LOCKED)
            call.granted(await self._locks.release(queue, handle, answer))
            return
        call.form = conversation.form(md, options, max_length)
        get = GetRequest(conversation, call, handle, request, patient=True)
        await self._serve(queue, get)
        if get.grants:
            call.granted(get.grants[0])
        elif not call.done():
            self._wait(get, queue, options)

    async def _serve(self, queue: SharedQueue, get: GetRequest) -> None:
        try:
            await self.serve(queue, get)
        except MQError as error:
            if not (get.request.may_wait and error.reason == MQRC.CF_STRUC_IN_USE):
                raise

    async def serve(self, queue: SharedQueue, get: GetRequest) -> None:
        """Give a get what is there now (`GetRequest.grants`); perhaps nothing."""
        key = get.key
        if key is not None:
            await self.batched_gets.ask(queue, get, key)
            return
        get.count = 1
        grant = await self.page_gets.get(queue, get)
        if grant is not None:
            get.grants.append(grant)
        if queue.noted.uncovered:
            queue.noted.uncovered = False
            self._member.waits.watch(queue)

    def _wait(self, get: GetRequest, queue: SharedQueue, options: GetMessageOptions) -> None:
        if get.abandoned:  # the connection has ended meanwhile, and with it the waits that it had
            raise MQError(get.conversation.call_order.ended or MQRC.CONNECTION_BROKEN, "")
        if not get.request.may_wait:
            raise getting.nothing_found(queue)
        get.conversation.wait(get.call, get.handle, queue, get.request, options)  # type: ignore[arg-type]
        self._member.waits.watch(queue)

    def get_many(
        self,
        conversation: Conversation,
        call: GetManyCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int],
    ) -> None:
        queue.structure.check(queue.name)
        work = partial(self._get_many, conversation, call, handle, queue, arguments)
        self._member.make(conversation.call_order, call, work)

    async def _get_many(
        self,
        conversation: Conversation,
        call: GetManyCall,
        handle: Handle,
        queue: SharedQueue,
        arguments: tuple[MessageDescriptor | None, GetMessageOptions, int],
    ) -> None:
        """Make a batch of gets: answer it with what is there, or let it wait for the first message."""
        md, options, count = arguments
        call.form = conversation.form(md, options, None)
        room = ANSWER_BYTES
        while True:
            try:
                request = getting.request_for(self._member.core, handle, md, options, None, self._member.now())
                get = GetRequest(conversation, call, handle, request, patient=not call.begun)
                get.count, get.bytes_max = min(count, AT_ONCE), room
                await self._serve(queue, get)
            except MQError:
                if not call.begun:
                    raise
                break  # the next call meets it again
            if get.grants:
                call.keep(get.grants)
            room -= sum(map(_LENGTH, get.grants))
            count -= len(get.grants)
            if get.abandoned or count <= 0 or room <= 0 or len(get.grants) < get.count:
                break
        if call.begun:
            call.complete()
        elif not call.done():
            self._wait(get, queue, options)
