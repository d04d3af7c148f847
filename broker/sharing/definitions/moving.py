"""MOVE QLOCAL: messages of a private queue become those of a shared one, or the other way round (queue-sharing 2).

They go in units of work of some messages, over both queues, so a failure leaves each message on one of them. What a
message says of itself stays as it is, identifiers, context, properties and what is left of its life; a move is neither
its delivery nor its arrival, and causes no such report. Its count of backouts begins anew.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from broker.commands import errors
from broker.commands.interpreter import refused
from broker.core.explain.holders import held_by
from broker.core.message.stepped import steps_of
from broker.core.names import opening
from broker.core.names.resolution import Resolution
from broker.core.names.routes import Route
from broker.engine.calls.answers import opened
from broker.interface.connection import Connection
from broker.interface.queue import Queue
from broker.mqi.constants.options import MQGMO, MQOO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from broker.commands.requests import MoveRequest
    from broker.core.queues.queue import LocalQueue
    from broker.engine.conversation import Conversation
    from broker.sharing.members.group_member import GroupMember

BATCH: Final = 50
"""Messages that move in one unit of work."""

_FROM: Final = MQOO.INPUT_EXCLUSIVE.value
_TO: Final = (MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT).value
_GET: Final = MQGMO.SYNCPOINT | MQGMO.PROPERTIES_FORCE_MQRFH2
_PUT: Final = MQPMO.SYNCPOINT | MQPMO.SET_ALL_CONTEXT


class Moving:
    """The moves of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def carry_out(self, request: MoveRequest) -> CommandReply:
        """Move the messages of a queue: how many there were. Raises MQError for what a put or get refuses."""
        objects = self._member.core.objects
        private = {name: queue for name, queue in objects.queues.items() if not queue.shared}
        here, there = (objects.shared_queues, private) if request.shared else (private, objects.shared_queues)
        source, target = here.get(request.name), there.get(request.target)
        if source is None or target is None:
            missing, kind = (request.name, request.shared) if source is None else (request.target, not request.shared)
            return refused(errors.not_found(missing, f"It is to be a {'shared' if kind else 'private'} local queue"))
        conversation = self._member.manager.converse("MOVE QLOCAL")
        async with Connection(conversation) as connection, AsyncExitStack() as stack:
            try:
                got = await stack.enter_async_context(await self._open(connection, conversation, source, _FROM))
                put = await stack.enter_async_context(await self._open(connection, conversation, target, _TO))
                await self._check_held(source)
                if not request.added and await self._depth(target):
                    return refused(errors.not_empty())
                count = await self._move(connection, conversation, got, put)
            except MQError as error:
                if error.reason != MQRC.OBJECT_IN_USE:
                    raise
                return refused(errors.in_use(error.detail))
        return CommandReply(
            code="EMQ0017I", text=f"EMQ0017I: EverMQ queue {source.name}: {count} messages moved to {target.name}."
        )

    async def _open(self, connection: Connection, conversation: Conversation, queue: LocalQueue, options: int) -> Queue:
        """Open this very queue: there may be a shared and a private one of the name, which no program can open."""
        core = self._member.core
        route = Route([queue], Resolution((queue.name,), queue.name, core.name))
        handle = opening.open_queue(conversation.hconn, queue.name, route, options)
        handle.opened_at = self._member.manager.clock.monotonic()
        await self._member.handles.register(conversation, handle)
        return Queue(connection, opened(handle, core.name), options)

    async def _check_held(self, queue: LocalQueue) -> None:
        """Raise OBJECT_IN_USE (2042) where consumers have claimed messages, sinks have prepared some, or handlers have
        finished steps for some.
        """
        await self._member.holdings.refresh(lag=False)
        held = held_by(self._member.core, queue, self._member.now())
        if held:
            raise MQError(MQRC.OBJECT_IN_USE, held)
        if self._member.core.deliveries.step_budget.bytes:
            stepped = sum(steps_of(entry) is not None for entry in queue.shelf.entries.values())
            if stepped:  # they would be run again
                why = f"handlers have finished steps for {stepped} messages of {queue.name}"
                raise MQError(MQRC.OBJECT_IN_USE, f"{why}, and a shared queue keeps none")

    async def _depth(self, queue: LocalQueue) -> int:
        await self._member.repository.refresh()
        return queue.depth

    async def _move(self, connection: Connection, conversation: Conversation, got: Queue, put: Queue) -> int:
        count = 0
        while True:
            try:
                messages = await got.get_many(BATCH, None, _GET)
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
                return count
            await asyncio.gather(*(put.put(message.data, message.md, _PUT) for message in messages))
            unit = conversation.hconn.unit
            assert unit is not None
            unit.reports.clear()
            await connection.commit()
            count += len(messages)
