"""Expired messages of shared queues go: where a get meets them, and now and then wherever they are (semantics 12.1).

Each is discarded by one member, the one whose statement deletes its row; that one reports on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.engine.expiry_scan import EXPIRY_SCAN_INTERVAL
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.sharing.database.rows import entry_of

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.core.queues.shared_queue import SharedQueue
    from broker.sharing.members.group_member import GroupMember

AT_ONCE: Final = 500
"""So many messages are discarded by one statement."""

_DISCARD: Final = "SELECT * FROM discard_messages($1, $2, $3, $4, $5)"
_OVERDUE: Final = (
    "SELECT name FROM queue WHERE EXISTS "
    "(SELECT 1 FROM message WHERE message.queue = queue.name AND deadline <= $1 ORDER BY deadline LIMIT 1)"
)
_STILL_THERE: Final = "SELECT place FROM bodies_of($1, $2)"


class Expiry:
    """The discarding of expired messages by one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._timer: Timer | None = None

    async def discard(self, queue: SharedQueue) -> int:
        """Discard all that is expired on a queue, and report on it. How many messages that were."""
        found, discarded = AT_ONCE, 0
        while found == AT_ONCE:
            rows = await self._database.repeat(
                _DISCARD, self._database.member, self._database.epoch, queue.name, self._member.now(), AT_ONCE
            )
            found = len(rows)
            discarded += found
            if rows:
                queue.depth = rows[0]["new_depth"]
                self._member.core.effects.expired += [entry_of(queue, row) for row in rows]
                self._member.context.perform()
        return discarded

    def start(self) -> None:
        """Scan from now on, as long as the member lives."""
        self._timer = self._member.manager.clock.call_later(EXPIRY_SCAN_INTERVAL, self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        if not self._member.stopping:
            self._member.manager.start_soon(self._scan)
            self.start()

    async def _scan(self) -> None:
        try:
            async with self._database.look() as session:
                names = [row["name"] for row in await session.fetch(_OVERDUE, self._member.now())]
            for name in names:
                queue = self._member.shared(name)
                if queue is not None:
                    await self.discard(queue)
            await self._forget_marks()
            await self._member.sinks.tidy()
        except MQError:
            return  # the next scan finds the same
        except Exception as error:
            mistake(error, "the scan for expired messages")

    async def _forget_marks(self) -> None:
        """Browse marks go whose messages somebody has got."""
        for queue in list(self._member.shared_queues()):
            places = list(queue.browse_marks.places)
            if places:
                async with self._database.look() as session:
                    there = {row["place"] for row in await session.fetch(_STILL_THERE, queue.name, places)}
                queue.browse_marks.forget(set(places) - there)
