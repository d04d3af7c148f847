"""The named steps of the commit of a unit of work on shared and private queues, at which a test can break off.

They are the gaps between the rules at the head of `broker/sharing/units/mixed.py`.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import QueueManager
    from broker.sharing.members.group_member import GroupMember
    from tests.sharing.members import Members


class Step(Enum):
    """The step at which the member stands still. The decision is made between DURABLE and DECIDED."""

    BEGUN = "before anything is prepared"
    DURABLE = "the private half is prepared"
    DECIDED = "the database has committed"
    ANSWERED = "the answer is given, the end of the private half is not written"
    ENDED = "the private half has ended, the row of the unit is there"

    @property
    def committed(self) -> bool:
        return self in (Step.DECIDED, Step.ANSWERED, Step.ENDED)


class Break:
    """Stands still at a step of the next commit of a queue manager, until it has crashed. `there` is done when the step
    is reached.
    """

    def __init__(self, manager: QueueManager, step: Step, there: Callable[[], None] | None = None) -> None:
        self.reached = asyncio.Event()
        self._gone = asyncio.Event()
        self._there = there
        member: Any = manager.sharing
        units, mixed, outcomes = member.units, member.units.mixed, member.units.outcomes
        match step:
            case Step.BEGUN:
                mixed._begin = self._before(mixed._begin)
            case Step.DURABLE:
                units._decide = self._before(units._decide)
            case Step.DECIDED:
                units._decide = self._after(units._decide)
            case Step.ANSWERED:
                mixed.commit = self._instead_of_writing(member)
            case Step.ENDED:
                outcomes.over = self._arrive

    def _arrive(self, *_: object) -> None:
        if self._there is not None:
            self._there()
        self.reached.set()

    async def _stand_still(self) -> None:
        self._arrive()
        await self._gone.wait()
        raise MQError(MQRC.CF_NOT_AVAILABLE, "the member has crashed here")

    async def crash(self, members: Members, name: str) -> None:
        """The member is gone, at this step."""
        await self.reached.wait()
        crash = asyncio.ensure_future(members.crash(name))
        while name in members.running:  # noqa: ASYNC110  # its lines are being cut
            await asyncio.sleep(0)
        self._gone.set()
        await crash

    def _before(self, step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def before(*arguments: object) -> None:
            await self._stand_still()

        return before

    def _after(self, step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def after(*arguments: object) -> None:
            await step(*arguments)
            await self._stand_still()

        return after

    def _instead_of_writing(self, member: GroupMember) -> Callable[..., None]:
        def commit(half: Any) -> None:
            member.core.branches.decide(member.core, half, committed=True)
            self._arrive()

        return commit
