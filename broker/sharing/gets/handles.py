"""Handles on shared queues: each has a row, so that all members know who has a queue open (queue-sharing 3).

MQPUT1 and distribution lists have none: their puts find out by themselves that a queue has changed or gone.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

import anyio

from broker.core.queues.shared_queue import SharedQueue
from broker.engine.calls.answers import opened, succeed
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.database import SETTLE
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable

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


class _Row(NamedTuple):
    """The row of a handle, in the table of handles: it goes with the life of the member, `epoch`, that it is of.
    `transaction` is of the one that may have written it, where that may be under way still. `was_input_of`: the queue
    that has one handle for input less without it.
    """

    id: UUID
    epoch: int
    transaction: tuple[int, str, int] | None = None
    was_input_of: SharedQueue | None = None


class Handles:
    """The handles of the programs of one member.

    1. An open handle has one row, of the present life of the member. It is known here when it has been written.
    2. Whoever closes the handle lets the row go; so does the transaction, where the handle was closed meanwhile.
    3. A row of which nobody knows whether it was written is let go: once no transaction may write it any more, it goes.
    4. Rows of earlier lives go in their recovery. A handle that has a row of this life needs no other when its member
       has joined: its MQOPEN was faster.
    """

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._rows: dict[Handle, _Row] = {}
        self._gone: list[_Row] = []  # of handles that are closed
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
        queue, id, epoch = handle.queue, uuid4(), self._database.epoch
        assert isinstance(queue, SharedQueue)
        about = self._database.member, epoch, id, queue.name, queue.version, handle.removes, queue.exclusive is handle

        async def work(session: DatabaseSession) -> None:
            if judged_by is None:
                await session.execute("SELECT open_handle($1, $2, $3, $4, $5, $6, $7)", *about)
            else:
                await session.execute("SELECT open_judged_handle($1, $2, $3, $4, $5, $6, $7, $8)", *about, judged_by)

        try:
            await self._database.transact(work)
        except OutcomeUnknownError as unknown:
            self._let_go(_Row(id, epoch, unknown.transaction))
            raise
        if epoch != self._database.epoch:
            raise MQError(MQRC.CF_NOT_AVAILABLE, f"{queue.name} was opened in a life of the member that is over")
        row = _Row(id, epoch)
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
        for handle, row in list(self._rows.items()):
            if row.epoch == self._database.epoch or self._rows.pop(handle, None) is None or handle.changed:
                continue  # opened since then, closed meanwhile, or to be opened again
            try:
                await self.enter(handle)
            except (MQError, OutcomeUnknownError) as error:
                if isinstance(error, OutcomeUnknownError) or error.reason == MQRC.CF_NOT_AVAILABLE:
                    self._rows[handle] = row  # which is not there any more: it is tried again with the next life
                    raise
                handle.changed = True
                logger.info("handle not open any more name=%s: %s", handle.name, error)

    def closed(self, handle: Handle) -> None:
        """A handle is closed: its row is removed, now or when the database can be reached."""
        queue = handle.queue
        assert isinstance(queue, SharedQueue)
        row = self._rows.pop(handle, None)
        if row is not None:
            self._let_go(row._replace(was_input_of=queue if handle.removes else None))
        self._member.locks.let_go(queue)

    def _let_go(self, row: _Row) -> None:
        self._gone.append(row)
        self._closed.set()

    async def sweep(self) -> None:
        """Remove the rows of handles that have been closed. Raises CF_NOT_AVAILABLE (2345) and its kin."""
        async with self._sweeping:
            while self._gone:
                gone = list(self._gone)
                for row in gone:
                    if row.transaction is not None and row.epoch == self._database.epoch:
                        await self._database.repeat(SETTLE, *row.transaction)

                async def work(session: DatabaseSession, ids: tuple[UUID, ...] = tuple(row.id for row in gone)) -> None:
                    await session.execute("DELETE FROM handle WHERE id = ANY ($1)", ids)

                await self._database.transact(work)
                del self._gone[: len(gone)]
                for queue in {row.was_input_of for row in gone if row.was_input_of is not None}:
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
