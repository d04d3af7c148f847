"""Browse locks on shared queues: state LOCKED of a row, with the member whose handle has it (semantics 5.5)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.queues.effects import Grant
    from broker.core.queues.handles import Handle
    from broker.core.queues.shared_queue import SharedQueue
    from broker.sharing.desk import Desk

logger = logging.getLogger(__name__)

_UNLOCK: Final = "SELECT unlock_messages($1, $2, $3, $4)"


class Locks:
    """The browse locks that end on one member."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._database = desk.database
        self._gone: list[tuple[SharedQueue, list[int]]] = []  # with handles that are closed
        self._sweeping = anyio.Lock()

    async def unlock(self, queue: SharedQueue, places: Sequence[int]) -> None:
        """The messages at these places are available again."""
        await self._database.repeat(_UNLOCK, self._database.member, self._database.epoch, queue.name, places)

    async def release(self, queue: SharedQueue, handle: Handle, grant: Grant) -> Grant:
        """UNLOCK: what the handle has locked is available again. `grant` is the answer."""
        locked = handle.position.locked
        if locked:
            await self.unlock(queue, [entry.key for entry in locked])
            handle.position = handle.position._replace(locked=())
        return grant

    def let_go(self, queue: SharedQueue) -> None:
        """Handles have been closed with locks (`Noted.unlocked`). What cannot be told to the database now is free when
        the member's life ends.
        """
        unlocked, queue.noted.unlocked = queue.noted.unlocked, []
        if unlocked:
            self._gone.append((queue, [entry.key for entry in unlocked]))
            self._desk.manager.start_soon(self.sweep)

    async def sweep(self) -> None:
        """Unlock what handles have left that are closed. Whoever hears that one is finds its messages available."""
        with anyio.CancelScope(shield=True):
            async with self._sweeping:
                while self._gone:
                    queue, places = self._gone.pop(0)
                    try:
                        await self.unlock(queue, places)
                    except MQError as error:
                        logger.debug("browse locks remain queue=%s messages=%d: %s", queue.name, len(places), error)
