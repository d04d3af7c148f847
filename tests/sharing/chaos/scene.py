"""Everything that trouble can be made for, in one place."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from tests.sharing.chaos.processes import SlowStartError, StartError
from tests.sharing.chaos.statements import Losses
from tests.sharing.chaos.tables import STEPS, STEPS_OF_START

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from random import Random

    from tests.sharing.chaos.ledger import Ledger
    from tests.sharing.chaos.processes import Member
    from tests.sharing.database import GroupDatabase
    from tests.sharing.proxy import Proxy

logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 10.0

_STARTS: Final = 20
_AGAIN_SECONDS: Final = 0.5


class Steps:
    """The steps at which members die; each has its turn."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left: list[str] = []

    def next(self) -> str:
        if not self._left:
            names = [f"{name} {self._random.randint(1, most)}" for name, most in STEPS.items()]
            names += [f"{name} 1" for name in STEPS_OF_START]
            self._left = [f"{when} {name}" for when in ("before", "after") for name in names]
            self._random.shuffle(self._left)
        return self._left.pop()


@dataclass
class Scene:
    """A group with its members, each with its line to the database. All that is drawn is drawn from `random`;
    `happened` counts what did, `losses` what was lost of statements, `missed` those that did not come to be lost;
    `wrong` is what should not have been, or was not in time.
    `servers` are ended in the end, all of them.
    """

    group: GroupDatabase
    members: list[Member]
    lines: list[Proxy]
    ledger: Ledger
    random: Random
    servers: AsyncExitStack
    happened: Counter[str] = field(default_factory=Counter)
    losses: Losses = field(default_factory=Losses)
    missed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    steps: Steps = field(init=False)

    def __post_init__(self) -> None:
        self.steps = Steps(self.random)
        for line in self.lines:
            line.judge_of_line = self.losses.judge

    def one(self) -> Member:
        """Return any of the members."""
        return self.random.choice(self.members)

    def line_of(self, member: Member) -> Proxy:
        return self.lines[self.members.index(member)]

    def longer_or_shorter(self) -> float:
        """Draw the seconds that something takes: some are shorter than a member waits, some longer than its lease."""
        return self.random.choice((0.0, 0.5, 3.0, 0.7 * LEASE_SECONDS, LEASE_SECONDS + 2.0))

    async def sql(self, statement: str) -> list[list[str]]:
        """Run a statement as the judge; it may fail only where the statement is wrong."""
        return await asyncio.to_thread(self.group.server.sql, statement)

    async def start(self, member: Member, step: str = "") -> None:
        """Start a member; it may have to wait for its lease, or for the database."""
        for _ in range(_STARTS):
            try:
                await member.start(step)
            except StartError as error:
                if isinstance(error, SlowStartError):
                    self.wrong.append(str(error))
                self.happened["start that failed"] += 1
                logger.info("%s", error)
                if step:
                    return  # it has died in its start, as it was to
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return
        self.wrong.append(f"{member.name} does not start: {member.log()[-3000:]}")

    async def revive(self) -> None:
        """Start all members again that have ended."""
        for member in self.members:
            if member.has_ended:
                await self.start(member)


Fault: TypeAlias = Callable[[Scene], Awaitable[None]]
FaultOfMember: TypeAlias = Callable[["Scene", "Member"], Awaitable[None]]
