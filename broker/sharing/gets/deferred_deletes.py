"""Remove messages that were got outside syncpoint from the database after the getter has them (queue-sharing rule
10.2.6).

The mark of the get was the outcome: whatever becomes of this member, nobody is given the message again. So the rows go
with the next statement that gets from their queue, or when there is none with one that takes all of them.
"""

from __future__ import annotations

import logging
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import anyio

from broker.core.queues import unit as units
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.queues.shared_queue import SharedQueue
    from broker.core.queues.unit import Unit
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

_REMOVE: Final = "SELECT remove_messages($1, $2, $3, $4)"
_TURNS: Final = 4  # of the event loop in which the next get may come that takes them along
_AGAIN: Final = 1.0  # seconds until the next try when the database is away
_SHARED = attrgetter("queue.shared")


class DeferredDeletes:
    """The rows of one member that are to go."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._places: dict[SharedQueue, list[int]] = {}
        self._flushing = False

    def settle(self, unit: Unit) -> bool:
        """Let the implicit unit of gets be committed that have been written already; whether it was such a one."""
        part = unit.shared
        if unit.owner is not None or part is None or part.id is not None or unit.state != units.ACTIVE:
            return False
        if part.placed or part.taken or unit.puts or unit.reports or not all(map(_SHARED, unit.gets)):
            return False
        entries = list(unit.gets)
        self._member.core.commit(unit)
        self._member.context.settle(unit, committed=True)
        for entry in entries:
            self._places.setdefault(entry.queue, []).append(entry.key)  # type: ignore[arg-type]  # it is shared
        self._start()
        return True

    def again(self, queue: SharedQueue, places: list[int]) -> None:
        """These were not removed after all."""
        if places:
            self._places.setdefault(queue, []).extend(places)
            self._start()

    def take(self, queue: SharedQueue) -> list[int]:
        """The places of a queue whose rows are to go: the caller sees to it, or tells (`again`)."""
        return self._places.pop(queue, [])

    def withdraw(self, entry: Entry) -> None:
        """Let this one stay: it is to come back."""
        places = self._places.get(entry.queue)  # type: ignore[call-overload]  # it is shared
        if places and entry.key in places:
            places.remove(entry.key)

    def _start(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._member.manager.start_soon(self._flush_soon)

    async def _flush_soon(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                for _ in range(_TURNS):
                    await anyio.lowlevel.checkpoint()
                while self._places and not self._member.stopping:
                    if not await self.flush():
                        await anyio.sleep(_AGAIN)
            finally:
                self._flushing = False

    async def flush(self) -> bool:
        """Remove all of them; whether that could be done."""
        places, self._places = self._places, {}
        names = [queue.name for queue, some in places.items() for _ in some]
        keys = [place for some in places.values() for place in some]
        if not names:
            return True
        try:
            await self._database.repeat(
                _REMOVE,
                self._database.member,
                self._database.epoch,
                names,
                keys,
            )
        except MQError as error:
            logger.debug(
                "messages that were got are removed later messages=%d: %s",
                len(names),
                error,
                extra={"event": "removals_deferred"},
            )
            for queue, some in places.items():
                self._places.setdefault(queue, []).extend(some)
            return False
        return True
