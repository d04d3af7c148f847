"""Leases: messages in the hands of clients that have not said yet that they are done with them.

A leased message is got under syncpoint on a connection of its own, so it is in nobody's sight. Who has the lease says
that it is done, and that commits; or the message comes back: by its client, when the lease is over, or when this server
ends. The identifier of a lease is random, and of use to its user alone.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from enum import StrEnum
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import anyio

from broker import MQError
from broker.clock import cancel_timer
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Clock
    from broker.clock import Timer
    from broker.http.rest.messaging.messaging_call import SeparateConnection

LEASES_MAX: Final = 1000
LEASES_OF_USER_MAX: Final = 200
REMEMBERED: Final = 10_000
"""So many leases that are over are known still, so that a client that asks again learns how its own has ended."""


class LeaseState(StrEnum):
    """The state of a lease."""

    HELD = "held"
    DONE = "done"
    RELEASED = "released"
    LAPSED = "lapsed"
    LOST = "lost"
    """Its unit of work was undone by the queue manager, or the connection has ended: the message is back."""


class MessageLease:
    """A lease: the message is got on `own`, which is the lease's own connection."""

    def __init__(self, user: str, q_name: str, own: SeparateConnection) -> None:
        self.id = token_hex(16)
        self.user = user
        self.q_name = q_name
        self.own = own
        self.state = LeaseState.HELD
        self.error: MQError | None = None
        self.over = anyio.Event()
        self.timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<MessageLease of {self.q_name} {self.state}>"


class MessageLeases:
    """The leases of a server. `end` gives all of them back."""

    def __init__(self, clock: Clock, start_soon: Callable[..., object]) -> None:
        self._clock = clock
        self._start_soon = start_soon
        self._held: dict[str, MessageLease] = {}
        self._of_user: Counter[str] = Counter()  # held, or about to be
        self._over: OrderedDict[str, MessageLease] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def reserve(self, user: str) -> None:
        """Take a place for a lease of this user. Raises RESOURCE_PROBLEM (2102) where too many are held."""
        if self._of_user[user] >= LEASES_OF_USER_MAX or self._of_user.total() >= LEASES_MAX:
            raise MQError(
                MQRC.RESOURCE_PROBLEM,
                f"{self._of_user[user]} deliveries are in the hands of {user}, {self._of_user.total()} of all: at most "
                f"{LEASES_OF_USER_MAX} and {LEASES_MAX}; end some of them first",
            )
        self._of_user[user] += 1

    def free(self, user: str) -> None:
        """Give a place back that has come to no lease."""
        self._of_user[user] -= 1
        if not self._of_user[user]:
            del self._of_user[user]

    def begin(self, user: str, q_name: str, own: SeparateConnection, lease_ms: int) -> MessageLease:
        """Begin a lease, for which a place is reserved. The connection is the lease's from now on."""
        lease = MessageLease(user, q_name, own)
        self._held[lease.id] = lease
        self._run_out(lease, lease_ms)
        return lease

    def find(self, user: str, q_name: str, id: str) -> MessageLease | None:
        """Return a lease of this user, also one that is over; None if there is none, or nobody knows it any more."""
        lease = self._held.get(id) or self._over.get(id)
        return lease if lease is not None and (lease.user, lease.q_name) == (user, q_name) else None

    def extend(self, lease: MessageLease, lease_ms: int) -> None:
        """Let a lease that is held end so long from now."""
        cancel_timer(lease.timer)
        self._run_out(lease, lease_ms)

    async def finish(self, lease: MessageLease, state: LeaseState) -> None:
        """End a lease that is held, by commit for DONE, else by backout; return when it is over. One that is ending
        already is waited for. Cancelled, it ends all the same. Raises MQError where it was to be DONE and is not.
        """
        if lease.state is LeaseState.HELD:
            lease.state = state
            cancel_timer(lease.timer)
            self._start_soon(self._end, lease)
        await lease.over.wait()
        if state is LeaseState.DONE and lease.error is not None:
            raise lease.error

    async def end(self) -> None:
        """Give back all that is held."""
        for lease in list(self._held.values()):
            await self.finish(lease, LeaseState.RELEASED)

    def _run_out(self, lease: MessageLease, lease_ms: int) -> None:
        def over() -> None:
            if lease.state is LeaseState.HELD:
                lease.state = LeaseState.LAPSED
                self._start_soon(self._end, lease)

        lease.timer = self._clock.call_later(lease_ms / 1000, over)

    async def _end(self, lease: MessageLease) -> None:
        try:
            if lease.state is LeaseState.DONE:
                await lease.own.connection.commit()
        except MQError as error:
            lease.state, lease.error = LeaseState.LOST, error
        finally:
            await lease.own.close()
            del self._held[lease.id]
            self.free(lease.user)
            self._over[lease.id] = lease
            while len(self._over) > REMEMBERED:
                self._over.popitem(last=False)
            lease.over.set()
