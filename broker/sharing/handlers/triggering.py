"""Trigger events of shared queues: what the core must know to judge them is asked of the database (triggers 4).

Where each message starts a handler of its own it counts at the member that has put it (`put_by` of its row), and in no
other's count: after a restart that member counts what it has put and still waits. Where a member has failed, its
recoverer puts its own name there, up to a thousand messages in a transaction, and counts them (queue-sharing rule
10.3.10). What members have put that are gone for other reasons is for the sweep of any other.

Counts are not tied to messages: who is started takes the first. So a count that is made again may be too high, and a
handler find nothing; it is never too low.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from broker.core import group_triggers
from broker.core.group_triggers import Census
from broker.core.message.entry import rank_of
from broker.core.queues.shared_queue import SharedQueue
from broker.engine.mistakes import contained, mistake
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.core.group_triggers import Arrival
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.triggers import Triggers
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

ADOPTED_AT_ONCE: Final = 1000
"""So many messages in one transaction, at most."""

_OWN: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM message WHERE queue = $1 AND state = 1 AND place < $2 AND put_by = $3 "
    "ORDER BY place LIMIT $4) AS counted"
)
_THERE: Final = "SELECT count(*) FROM (SELECT 1 FROM all_messages WHERE queue = $1 LIMIT $2) AS counted"
_ADOPT: Final = "SELECT * FROM adopt_messages($1, $2, $3, $4)"


class Triggering:
    """The trigger events that one member judges, and the starts that it counts."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    @property
    def _triggers(self) -> Triggers:
        return self._member.core.triggers

    async def start(self) -> None:
        """A life of the member in the group begins: E4 for all queues."""
        for queue in self._member.shared_queues():
            self._triggers.count(queue, 0)
        await self.look_at(list(self._member.shared_queues()))

    # Events

    def arrived(self, queue: SharedQueue, arrival: Arrival) -> None:
        """Messages have become available on a queue, put by whatever member."""
        triggers = self._triggers
        if arrival.arrived and group_triggers.judged(triggers, queue):
            self._member.manager.start_soon(
                self._judge,
                queue,
                arrival,
                lambda census, tick: group_triggers.arrived(triggers, queue, arrival, census, tick),
            )

    def count(self, queue: SharedQueue, places: Sequence[int]) -> None:
        """Messages at these places, put before, were made available by this member. Where each starts a handler of
        its own it counts them; all else is judged by what the database tells.
        """
        if group_triggers.counted(self._triggers, queue):
            self._triggers.again(queue, sum(rank_of(place) >= queue.trigger_priority for place in places))

    def input_closed(self, queue: SharedQueue) -> None:
        """The last handle for input that this member had on a queue is closed, in the database too."""
        triggers = self._triggers
        if group_triggers.judged(triggers, queue):
            self._member.manager.start_soon(
                self._judge,
                queue,
                None,
                lambda census, tick: group_triggers.last_input_closed(triggers, queue, census, tick),
            )

    def judge(self, queues: Sequence[MessageQueue]) -> None:
        self._member.manager.start_soon(self.look_at, [each for each in queues if isinstance(each, SharedQueue)])

    async def look_at(self, queues: Sequence[SharedQueue]) -> None:
        """Something has changed on which trigger conditions of these queues rest. All are asked about first: what comes
        of it is one unit of work then, which keeps their order.
        """
        triggers = self._triggers
        asked: list[tuple[SharedQueue, Census]] = []
        for queue in queues:
            if group_triggers.judged(triggers, queue):
                census = await self._census(queue)
                if census is not None:
                    asked.append((queue, census))
            elif group_triggers.counted(triggers, queue):
                await self._recount(queue)
        tick = self._member.manager.clock.monotonic()
        for queue, census in asked:
            contained(group_triggers.looked_at, triggers, queue, census, tick)
        contained(self._member.context.perform)

    async def look_again(self) -> None:
        """Look at all shared queues again: notifications may have been missed."""
        await self.look_at(
            [each for each in self._member.shared_queues() if group_triggers.judged(self._triggers, each)]
        )

    async def _judge(self, queue: SharedQueue, arrival: Arrival | None, judge: Callable[[Census, float], None]) -> None:
        census = await self._census(queue, arrival)
        if census is not None:
            contained(judge, census, self._member.manager.clock.monotonic())
            contained(self._member.context.perform)

    async def _census(self, queue: SharedQueue, arrival: Arrival | None = None) -> Census | None:
        """None while the database is away: when it is back, and heard again, all queues are looked at."""
        enough = group_triggers.enough(queue, arrival)
        try:
            async with self._member.database.look() as session:
                found = await self._ask(session, queue, enough, elsewhere=False)
                if found.elsewhere:
                    found = await self._ask(session, queue, enough, elsewhere=True)
        except MQError:
            return None
        except Exception as error:
            mistake(error, "a trigger event")
            return None
        return found

    async def _ask(self, session: DatabaseSession, queue: SharedQueue, enough: int, *, elsewhere: bool) -> Census:
        row = await session.fetchrow(
            "SELECT * FROM trigger_census($1, $2, $3, $4)",
            self._member.manager.name,
            queue.name,
            group_triggers.boundary(queue, elsewhere=elsewhere),
            enough,
        )
        return Census(*row)

    # Counts

    def given_back(self, starts: Mapping[MessageQueue, int]) -> None:
        self._member.manager.start_soon(self._given_back, starts)

    async def _given_back(self, starts: Mapping[MessageQueue, int]) -> None:
        for queue, number in starts.items():
            before = queue.pending_starts
            try:
                async with self._member.database.look() as session:
                    messages = await session.fetchval(_THERE, queue.name, before + number)
            except MQError:
                messages = before + number  # perhaps: who finds nothing is done
            if not queue.deleted and self._triggers.fast_path(queue):
                counted = max(queue.pending_starts - before, 0)  # meanwhile, and each has a message
                self._triggers.given_back(queue, number, messages + counted)
        self._member.context.perform()

    async def adopt(self) -> None:
        """A peer has been recovered: what it has put, and waits, counts here."""
        try:
            for queue in list(self._member.shared_queues()):
                if group_triggers.counted(self._triggers, queue):
                    await self._adopt(queue)
        except (MQError, OutcomeUnknownError) as away:
            logger.debug("starts not taken over: %s", away)  # the sweep does it
        except Exception as error:
            mistake(error, "the starts of a peer")
        self._member.context.perform()

    async def sweep(self) -> int:
        """Let starts be pending that are missing here, or at members that are gone; how many."""
        made = 0
        for queue in list(self._member.shared_queues()):
            if group_triggers.may_be_stranded(self._triggers, queue):
                try:
                    made += await self._sweep(queue)
                except (MQError, OutcomeUnknownError):
                    break
                except Exception as error:
                    mistake(error, "the sweep for missing starts")
        self._member.context.perform()
        return made

    async def _sweep(self, queue: SharedQueue) -> int:
        async with self._member.database.look() as session:
            census = await self._ask(session, queue, 1, elsewhere=False)
        if census.elsewhere or not census.qualifying:
            return 0
        adopted = await self._adopt(queue)
        if adopted or not await self._own(queue, 1) or not group_triggers.may_be_stranded(self._triggers, queue):
            return adopted
        self._triggers.again(queue, 1)
        return 1

    async def _recount(self, queue: SharedQueue) -> None:
        try:
            own = await self._own(queue)
        except MQError:
            return  # the sweep finds what is stranded
        if own:
            self._triggers.again(queue, own)

    async def _own(self, queue: SharedQueue, most: int | None = None) -> int:
        """Return the number of waiting messages that count here, up to `most`."""
        boundary = group_triggers.boundary(queue, elsewhere=False)
        async with self._member.database.look() as session:
            own: int = await session.fetchval(_OWN, queue.name, boundary, self._member.manager.name, most)
        return own

    async def _adopt(self, queue: SharedQueue) -> int:
        """Count what members have put which are gone; how many."""
        after = -1
        total: int = 0
        boundary = group_triggers.boundary(queue, elsewhere=False)

        async def work(session: DatabaseSession) -> Any:
            return await session.fetchrow(_ADOPT, queue.name, after, boundary, ADOPTED_AT_ONCE)

        while True:
            adopted, last = await self._member.database.transact(work)
            if adopted:
                self._triggers.again(queue, adopted)
            total += adopted
            if adopted < ADOPTED_AT_ONCE:
                return total
            after = last
