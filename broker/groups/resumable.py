"""The common part of putting and getting a group over several units of work: the units, and the way back."""

from __future__ import annotations

from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Self

from broker.groups.status import status_on
from broker.interface import UnitOfWork
from broker.mqi import MQOO, MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from broker.groups.status import GroupStatus, Kept, StatusForm, StatusInfo
    from broker.interface import Connection, Queue

_STATUS_OPTIONS = MQOO.INPUT_EXCLUSIVE | MQOO.BROWSE | MQOO.OUTPUT | MQOO.FAIL_IF_QUIESCING


class Resumable:
    """A group on its way through one handle, a unit of work at a time.

    What counts is the status on its queue: whenever a unit of work has not come to its end (after a crash, a backout, a
    failed commit, a call that was cancelled) it is read again, and the group goes on behind what it says.
    """

    def __init__(
        self,
        connection: Connection,
        q_name: str,
        status_q_name: str,
        *,
        messages_per_unit: int,
        status: StatusForm,
        open_options: int,
    ) -> None:
        if messages_per_unit < 1:
            raise ValueError(f"messages_per_unit={messages_per_unit}: at least one message makes a unit of work")
        self._connection = connection
        self._q_name = q_name
        self._status_q_name = status_q_name
        self._messages_per_unit = messages_per_unit
        self._form: StatusForm = status
        self._open_options = open_options | MQOO.FAIL_IF_QUIESCING
        self._resumed: StatusInfo | None = None
        self._info: StatusInfo | None = None  # of the last message put or got, committed or not; None between groups
        self._persistence = 0
        self._in_order = False  # the handle stands at `_info`, so that LOGICAL_ORDER goes on from there
        self._ended = False  # the message at `_info` is the last of its group, and not committed yet
        self._pending = 0  # messages of the unit of work
        self._unit = UnitOfWork(connection, "a resumable group")  # which nobody is inside: its calls name syncpoint
        self._interrupted = False  # nobody knows how far the unit of work has come
        self._queue: Queue
        self._status: GroupStatus
        self._handles: AsyncExitStack

    @property
    def resumed_at(self) -> int:
        """The sequence number behind which the group was resumed, at entry or by the last backout; 0: a new group."""
        return 0 if self._resumed is None else self._resumed.messages

    @property
    def resumed_offset(self) -> int:
        """The number of bytes of the message after `resumed_at` that are there already; 0 unless it was resumed between
        its segments.
        """
        return 0 if self._resumed is None else self._resumed.bytes_of_next

    @property
    def group_id(self) -> bytes | None:
        """The identifier of the group that is on its way; None between two groups."""
        return None if self._info is None else self._info.group_id

    async def commit(self) -> None:
        """End the unit of work now, before it has its `messages_per_unit`. Raises BACKED_OUT (2003)."""
        if self._pending:
            await self._commit()

    async def backout(self) -> int:
        """Back out the unit of work; the sequence number behind which the group goes on (`resumed_at`)."""
        self._interrupted = True
        await self._connection.backout()
        await self._resume()
        return self.resumed_at

    async def _resume(self) -> None:
        """Take up the group where the status says it is. No unit of work is open."""
        kept = await self._status.read()
        self._check(kept)
        self._resumed = self._info = None if kept is None else kept.info
        self._in_order = self._ended = self._interrupted = False
        self._pending = 0

    def _check(self, kept: Kept | None) -> None:
        """Raise MQError where the group cannot be gone on with."""

    async def _commit(self) -> None:
        """Write the status and commit: with the last message of a group, none is left."""
        assert self._info is not None
        with self._interruptible():
            self._interrupted = True
            await self._status.write(self._info, self._persistence, last=self._ended)
            await self._connection.commit()
            self._pending = 0
            await self._status.clear()
            self._interrupted = False
        if self._ended:
            self._info, self._ended = None, False

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """A call whose error, if it is MQ's, has changed nothing. Whatever else ends it, nobody knows what it did."""
        try:
            yield
        except MQError:
            raise
        except BaseException:
            self._interrupted = True
            raise

    async def __aenter__(self) -> Self:
        if self._connection.in_unit_of_work:
            raise MQError(MQRC.UOW_IN_PROGRESS, "a resumable group makes its own units of work")
        await self._unit.begin()
        async with AsyncExitStack() as handles:
            handles.callback(self._unit.end)
            opened = self._connection.open(self._status_q_name, _STATUS_OPTIONS)
            self._status = status_on(await handles.enter_async_context(opened), self._form)
            self._queue = await handles.enter_async_context(self._connection.open(self._q_name, self._open_options))
            await self._resume()
            self._handles = handles.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._leave(clean=kind is None)
        finally:
            await self._handles.__aexit__(kind, error, trace)

    async def _leave(self, *, clean: bool) -> None:
        if clean and not self._interrupted:
            await self.commit()
            return
        with suppress(MQError):  # what ended the block matters more; without a connection it is backed out all the same
            await self._connection.backout()
        if clean and self._pending:
            raise MQError(MQRC.BACKED_OUT, f"the last {self._pending} messages: a call for the group was cut short")
