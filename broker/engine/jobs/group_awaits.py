"""The awaits of a job that ask the queue-sharing group for some work."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from broker.engine.jobs.awaits import Look

if TYPE_CHECKING:
    from broker.engine.shared_queues import GroupWork, SharedQueues
    from broker.storage.store import Done

T = TypeVar("T")


class Asked(Look[T]):
    """Some work of the queue-sharing group is done, called `what`: what it comes to."""

    __slots__ = ("_member", "_what", "_work")

    def __init__(self, member: SharedQueues, what: str, work: GroupWork[T]) -> None:
        self._member = member
        self._what = what
        self._work = work

    def begin(self, done: Done) -> None:
        self._member.ask(self._ask, self._what, done)

    async def _ask(self) -> None:
        self.answer = await self._work()


def secured(member: SharedQueues) -> Asked[None]:
    """Know users and rights as the group has them now. Raises CF_NOT_AVAILABLE (2345)."""
    return Asked(member, "the reading of rights", member.repository.secure)


def refreshed(member: SharedQueues, *, held: bool = False) -> Asked[None]:
    """Bring up to date what is known of the shared queues, as far as the database can be reached. `held`: also the
    claims of their messages, and the lag of consumers.
    """
    return Asked(member, "the reading of depths", lambda: member.refresh(held=held, lag=held))
