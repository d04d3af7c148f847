"""Handles on shared queues: each has a row, so that all members know who has a queue open (queue-sharing 3).

MQPUT1 and distribution lists have none: their puts find out by themselves that a queue has changed or gone.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio

from broker.core.queues.shared_queue import SharedQueue
from broker.engine.calls.answers import opened, succeed
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from broker.core.queues.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.interface.answers import Opened
    from broker.interface.port import Call
    from broker.mqi.structures import ObjectDescriptor
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""After which rows are tried to be removed again, when the database was away."""


class Handles:
    """The handles of the programs of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._rows: dict[Handle, UUID] = {}
        self._gone: list[tuple[UUID, SharedQueue | None]] = []  # rows of handles that have been closed
        self._closed = anyio.Event()
        self._sweeping = anyio.Lock()

    # MQOPEN and MQCLOSE

    def open(self, conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> None:
        work = partial(self._open, conversation, call, descriptor, options)
        self._member.make(conversation.call_order, call, work)

    async def _open(
        self, conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int
    ) -> None:
        """Open a queue here, then in the group."""
        member = self._member
        judged_by = None if conversation.hconn.caller is None else member.repository.security
        handle = member.core.open(conversation.hconn, descriptor, options, member.manager.clock.monotonic())
        await self.register(conversation, handle, judged_by)
        if call.done():
            if handle.hobj in conversation.hconn.handles:
                conversation.close_handle(handle)
        else:
            call.set_result(opened(handle, member.core.name))

    async def register(self, conversation: Conversation, handle: Handle, judged_by: int | None = None) -> None:
        """Make it known in the group that a handle is open, or close it."""
        try:
            if handle.queue is not None and handle.queue.shared:  # else its name leads elsewhere now
                await self.enter(handle, judged_by)
        except BaseException:
            if handle.hobj in conversation.hconn.handles:
                conversation.close_handle(handle)
            raise

    def close(self, conversation: Conversation, call: Call[int], handle: Handle) -> None:
        self._member.make(conversation.call_order, call, partial(self._close, conversation, call, handle))

    async def _close(self, conversation: Conversation, call: Call[int], handle: Handle) -> None:
        """Close a handle. Whoever hears that finds that the whole group knows, as far as that can be."""
        if handle.hobj not in conversation.hconn.handles:
            return  # closed with its connection
        reason = conversation.close_handle(handle)
        await self._tell()
        succeed(call, reason)

    def when_closed(self, then: Callable[[], None]) -> None:
        self._member.ask(self._tell, "the end of a connection", lambda _: then())

    async def _tell(self) -> None:
        """The whole group knows of the handles that have been closed until now, and of their locks, as far as that can
        be.
        """
        try:
            await self.sweep()
        except (MQError, OutcomeUnknownError) as away:
            logger.debug("handles not removed yet: %s", away)
        await self._member.locks.sweep()

    # Their rows

    async def enter(self, handle: Handle, judged_by: int | None = None) -> None:
        """Give a handle that has been opened here its row; `judged_by` is the version of users and rights that its user
        was judged by. Raises OBJECT_IN_USE (2042), OBJECT_CHANGED (2041), and those of the database: then it has none,
        and is to be closed.
        """
        queue, row = handle.queue, uuid4()
        assert isinstance(queue, SharedQueue)

        async def work(session: DatabaseSession) -> None:
            about = (
                self._database.member,
                self._database.epoch,
                row,
                queue.name,
                queue.version,
                handle.removes,
                queue.exclusive is handle,
            )
            if judged_by is None:
                await session.execute("SELECT open_handle($1, $2, $3, $4, $5, $6, $7)", *about)
            else:
                await session.execute("SELECT open_judged_handle($1, $2, $3, $4, $5, $6, $7, $8)", *about, judged_by)

        await self._database.transact(work)
        if handle in handle.hconn.handles.values():
            self._rows[handle] = row
        else:  # its connection has ended meanwhile
            self._let_go(row)

    async def forget(self) -> None:
        """The handles of earlier lives of this member are gone."""

        async def work(session: DatabaseSession) -> None:
            await session.execute(
                "DELETE FROM handle WHERE member = $1 AND epoch < $2", self._database.member, self._database.epoch
            )

        await self._database.transact(work)

    async def enter_again(self) -> None:
        """Another life of this member has begun: handles that are open are so in the group again. One that cannot be,
        since the queue has another definition or is in somebody's use now, must be opened again (2041).
        """
        for handle in list(self._rows):
            if self._rows.pop(handle, None) is None or handle.changed:  # closed meanwhile, or to be opened again
                continue
            try:
                await self.enter(handle)
            except (MQError, OutcomeUnknownError) as error:
                if isinstance(error, OutcomeUnknownError) or error.reason == MQRC.CF_NOT_AVAILABLE:
                    self._rows[handle] = uuid4()  # a row that is not there: it is tried again with the next life
                    raise
                handle.changed = True
                logger.info("handle not open any more name=%s: %s", handle.name, error)

    def closed(self, handle: Handle) -> None:
        """A handle is closed: its row is removed, now or when the database can be reached."""
        queue = handle.queue
        assert isinstance(queue, SharedQueue)
        row = self._rows.pop(handle, None)
        if row is not None:
            self._let_go(row, queue if handle.removes else None)
        self._member.locks.let_go(queue)

    def _let_go(self, row: UUID, was_input_of: SharedQueue | None = None) -> None:
        self._gone.append((row, was_input_of))
        self._closed.set()

    async def sweep(self) -> None:
        """Remove the rows of handles that have been closed. Raises CF_NOT_AVAILABLE (2345) and its kin."""
        async with self._sweeping:
            while self._gone:
                gone = list(self._gone)
                rows = [row for row, _ in gone]

                async def work(session: DatabaseSession, rows: list[UUID] = rows) -> None:
                    await session.execute("DELETE FROM handle WHERE id = ANY ($1)", rows)

                await self._database.transact(work)
                del self._gone[: len(gone)]
                for queue in {queue for _, queue in gone if queue is not None}:
                    self._member.triggering.input_closed(queue)  # it judges what the whole group knows

    async def run(self) -> None:
        """Remove rows as handles are closed, for as long as the member lives."""
        while not self._member.stopping:
            await self._closed.wait()
            self._closed = anyio.Event()
            try:
                await self.sweep()
            except (MQError, OutcomeUnknownError) as away:
                logger.debug("handles not removed: %s", away)
                await self._again()
            except Exception as error:
                mistake(error, "the closing of handles")
                await self._again()

    async def _again(self) -> None:
        with anyio.move_on_after(AGAIN_SECONDS):
            await self._closed.wait()
        self._closed.set()

    def stop(self) -> None:
        """The member ends: `run` returns."""
        self._closed.set()
