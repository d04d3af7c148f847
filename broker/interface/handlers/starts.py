"""Trigger starts, as a trigger monitor takes them: the counts of a queue manager, and leases on single starts.

A start taken is a lease: it is over when `done` is called. What is given back, and what a broken connection held,
becomes pending again, so no committed message that should have started a handler is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from broker.interface.port import answer
from broker.mqi.layouts.layouts import MQTMC2

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

    from broker.interface.answers import PendingQueue, StartLease
    from broker.interface.port import Port


class TriggerStart:
    """One start: `trigger` is the trigger message (MQTMC2) to hand to the program."""

    __slots__ = ("_starts", "id", "trigger")

    def __init__(self, starts: TriggerStarts, lease: StartLease) -> None:
        self._starts = starts
        self.id = lease.id
        self.trigger = MQTMC2.from_bytes(lease.trigger)

    def done(self) -> None:
        """The program that was started has ended; the lease is over. Harmless when it is over already."""
        self._starts._over(self)

    def give_back(self) -> None:
        """The program did not do its work: the start is pending again, unless every message on the queue has one
        pending. Harmless when the lease is over already.
        """
        self._starts._return(self)


class TriggerStarts:
    """The starts of a queue manager that are for the given processes (for all of them, when None).

    A trigger monitor calls `pending`, `take` and `wait` itself to make its passes; a simple one iterates. `limit`
    bounds the leases held at one time. Leaving the context gives back the starts not done.
    """

    def __init__(self, port: Port, processes: Collection[str] | None, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit={limit}: at least one start must be allowed at a time")
        self._port = port
        self._processes = None if processes is None else frozenset(processes)
        self._limit = limit
        self._held: dict[int, TriggerStart] = {}
        self._posts = 0

    @property
    def held(self) -> int:
        """The number of leases that are held now."""
        return len(self._held)

    async def pending(self) -> list[PendingQueue]:
        """The queues that have starts pending now, by name. A later `wait` returns for any post made after this."""
        now = await answer(self._port.trigger_pending())
        self._posts = now.posts
        return [queue for queue in now.queues if self._processes is None or queue.process_name in self._processes]

    async def wait(self) -> None:
        """Return when something was posted after the last `pending`: at once, if it was already."""
        await answer(self._port.trigger_wait(self._posts))

    async def sweep(self) -> int:
        """Let a start be pending for each trigger EVERY queue that has messages, while none of its starts is pending or
        held, no message of it is under a handler, and no program has it open for input. Return how many, for all
        processes.
        """
        return await answer(self._port.trigger_sweep())

    async def take(self, q_name: str, limit: int) -> list[TriggerStart]:
        """Take up to `limit` starts of one queue off its TriggerPendingCount."""
        room = min(limit, self._limit - len(self._held))
        if room < 1:
            return []
        leases = await answer(self._port.trigger_take(q_name, room))
        starts = [TriggerStart(self, lease) for lease in leases]
        self._held.update((start.id, start) for start in starts)
        return starts

    def _over(self, start: TriggerStart) -> None:
        if self._held.pop(start.id, None) is not None and not self._port.broken:
            self._port.trigger_done([start.id])

    def _return(self, start: TriggerStart) -> None:
        if self._held.pop(start.id, None) is not None and not self._port.broken:
            self._port.trigger_return([start.id])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TriggerStart:
        """The next start, from the queues in turn by name; waits until there is one."""
        while True:
            for queue in await self.pending():
                for start in await self.take(queue.q_name, 1):
                    return start
            await self.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held = list(self._held), {}
        if held and not self._port.broken:
            self._port.trigger_return(held)
