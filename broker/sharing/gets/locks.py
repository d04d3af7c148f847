"""Browse locks on shared queues: messages are held by the member whose handle has locked them (semantics 5.5).

1. A lock is in the position of its handle, or it is among those that are to be ended (`Locks.leave`).
2. These are ended at once, or as soon as the database can be reached: whoever hears that a handle is closed, or that a
   browse has gone on, finds the messages available.
3. All locks of a life of the member end with it: whoever recovers it frees the messages, and handles that go on have no
   lock.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from broker.core.message.entry import GONE
from broker.mqi.errors import MQError
from broker.sharing.database.database import SETTLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.queues.effects import Grant
    from broker.core.queues.handles import Handle
    from broker.core.queues.shared_queue import SharedQueue
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

_UNLOCK: Final = "SELECT unlock_messages($1, $2, $3)"
_AGAIN: Final = 0.1  # seconds until the next try


class _LeftLocks(NamedTuple):
    """Messages that were locked in a life of the member, and that no handle has locked any more. `transaction` is of
    the transaction that may have locked them, where that may be under way still.
    """

    epoch: int
    queue: SharedQueue
    places: Sequence[int]
    transaction: tuple[int, str, int] | None = None


class Locks:
    """The browse locks that end on one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._left: list[_LeftLocks] = []
        self._sweeping = anyio.Lock()
        self._tries = False

    async def release(self, queue: SharedQueue, handle: Handle, grant: Grant) -> Grant:
        """UNLOCK: what the handle has locked is available again. `grant` is the answer."""
        locked = handle.position.locked
        if locked:
            await self._unlock([entry.key for entry in locked])
            handle.position = handle.position._replace(locked=())
        return grant

    def let_go(self, queue: SharedQueue) -> None:
        """Handles have been closed with locks (`Noted.unlocked`)."""
        unlocked, queue.noted.unlocked = queue.noted.unlocked, []
        if unlocked:
            self._leave(queue, [entry.key for entry in unlocked])
            self._member.manager.start_soon(self.sweep)

    def unknown(
        self, epoch: int, queue: SharedQueue, places: Sequence[int], transaction: tuple[int, str, int] | None
    ) -> None:
        """Nobody will know whether these messages were locked in this life: they are not to be."""
        self._left.append(_LeftLocks(epoch, queue, places, transaction))
        self._member.manager.start_soon(self.sweep)

    async def end(self, queue: SharedQueue, places: Sequence[int]) -> None:
        """No handle has locked these messages any more: they are available, unless the database is away."""
        if places:
            self._leave(queue, places)
            await self.sweep()

    def _leave(self, queue: SharedQueue, places: Sequence[int]) -> None:
        self._left.append(_LeftLocks(self._database.epoch, queue, places))

    async def sweep(self) -> None:
        """End the locks that handles have left. Where the database is away it is tried again until they are ended."""
        with anyio.CancelScope(shield=True):
            async with self._sweeping:
                try:
                    await self._end_all()
                except MQError as error:
                    logger.debug("browse locks remain count=%d: %s", len(self._left), error)
                    self._try_later()

    async def _end_all(self) -> None:
        while self._left:
            first = self._left[0]
            if first.epoch == self._database.epoch:
                if first.transaction is not None:
                    await self._database.repeat(SETTLE, *first.transaction)
                await self._unlock(first.places)
            self._left = [each for each in self._left if each is not first]

    async def _unlock(self, places: Sequence[int]) -> None:
        await self._database.repeat(_UNLOCK, self._database.member, self._database.epoch, places)

    def _try_later(self) -> None:
        if not self._tries:
            self._tries = True
            self._member.manager.start_soon(self._keep_trying)

    async def _keep_trying(self) -> None:
        try:
            while self._left and not self._member.stopping:
                await anyio.sleep(_AGAIN)
                await self.sweep()
        finally:
            self._tries = False

    def life_ended(self) -> None:
        """A life of the member is over, and its locks with it."""
        self._left.clear()
        for queue in self._member.shared_queues():
            for handle in queue.handles:
                for entry in handle.position.locked:
                    entry.state = GONE
                handle.position = handle.position._replace(locked=())
