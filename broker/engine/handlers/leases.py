"""The trigger starts of a connection: what is pending, and the leases with which its monitor holds some."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.core.security.rights import Right
from broker.engine.jobs.awaits import PAUSE
from broker.engine.jobs.group_awaits import Asked
from broker.interface.answers import PendingQueue, PendingStarts, StartLease

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue
    from broker.engine.context import EngineContext
    from broker.interface.port import Call


class Leases:
    """The leases of one connection."""

    def __init__(self, context: EngineContext, hconn: Hconn) -> None:
        self._context = context
        self._core = context.core
        self._hconn = hconn

    def pending(self, call: Call[PendingStarts]) -> None:
        """Answer with the queues that have starts to take."""
        triggers, caller = self._core.triggers, self._hconn.caller
        pending = [
            PendingQueue(queue.name, queue.process_name, triggers.appl_id(queue), queue.pending_starts)
            for queue in triggers.pending()
            if caller is None or caller.may(Right.GET, queue.name)
        ]
        call.set_result(PendingStarts(triggers.posts, pending))

    def take(self, call: Call[list[StartLease]], q_name: str, limit: int) -> None:
        """Answer with leases for at most `limit` starts of a queue."""
        self._hconn.require(Right.GET, q_name)
        queue = self._core.objects.queues.get(q_name)
        taken = self._core.triggers.take(queue, self._hconn, limit) if queue is not None else []
        call.set_result([StartLease(id, trigger) for id, trigger in taken])

    async def sweep(self) -> int:
        """Let starts be pending that are missing: so many."""
        self._hconn.require_manager(Right.CTRL)
        made = 0
        for missing in self._core.sweep_triggers():
            made += missing
            await PAUSE
        sharing = self._context.sharing
        if sharing is not None:
            made += await Asked(sharing, "a look for missing starts", sharing.triggering.sweep)
        self._context.perform()
        return made

    def done(self, leases: Iterable[int]) -> None:
        """End these leases: what was started is over."""
        for lease in leases:
            self._core.triggers.leases.end(self._hconn, lease)

    def give_back(self, leases: Iterable[int]) -> None:
        """These starts are pending again."""
        shared: Counter[MessageQueue] = Counter()
        for lease in leases:
            queue = self._core.triggers.give_back(self._hconn, lease)
            if queue is not None:
                shared[queue] += 1
        self._context.perform()
        if shared:
            self._context.member.triggering.given_back(shared)

    def give_back_unclaimed(self, leases: Sequence[StartLease]) -> None:
        """Nobody took the answer with these."""
        self.give_back([lease.id for lease in leases])

    def give_back_all(self) -> None:
        """The connection ends."""
        self.give_back(self._core.triggers.leases.held_by(self._hconn))
