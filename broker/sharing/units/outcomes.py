"""Outcomes: what has become of units of work whose end nobody has seen, and the rows of those that are over.

The state of the unit's row is the decision. Whoever asks locks that row first, which waits for a server that is still
committing (queue-sharing rule 10.3.5, trap 2). COMMITTED or BACKED_OUT is the outcome; an ACTIVE unit is backed out by
the one who asks. Without the database there is no outcome: no time that passes makes one, and a row that is missing
says nothing. The row goes when nobody needs it any more: after the answer, and after the prepared branch has ended
durably.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from broker.core.queues.unit import IN_DOUBT
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from broker.core.prepared.branches import PreparedBranch
    from broker.core.queues.unit import Unit
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0
"""Between two attempts to learn outcomes while the database is out of reach."""

TIDY_SECONDS: Final = 0.2
"""The time that the rows of units that are over may stay, so that many go together."""


_OUTCOME: Final = "SELECT outcome_of_unit($1, $2, $3, $4)"
_FORGET: Final = "SELECT forget_units($1, $2, $3)"


class OutcomePendingError(Exception):
    """There is no decision to be had now."""


class UnknownOutcome:
    """A unit whose outcome is to be learned. `unit` is to be settled by it; None: it has been, as backed out, and
    nobody has tried to commit it.
    """

    __slots__ = ("branch", "resolved", "unit")

    def __init__(
        self, unit: Unit | None = None, branch: PreparedBranch | None = None, resolved: bool | None = None
    ) -> None:
        self.unit = unit
        self.branch = branch
        self.resolved = resolved  # as committed or not, by an administrator who did not wait


class Outcomes:
    """The units of one member that are in doubt, and those that are over and still have their rows."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self.doubts: dict[UUID, UnknownOutcome] = {}
        self._over: dict[UUID, None] = {}
        self._missing: set[UUID] = set()
        self.busy: set[UUID] = set()  # whose ends are under way: who ends them sees to their rows
        self._news = anyio.Event()

    def enter(self, id: UUID, doubt: UnknownOutcome) -> None:
        """The outcome of a unit is to be learned when that can be."""
        self.doubts[id] = doubt
        logger.warning(
            "outcome of a unit of work unknown unit=%s member=%s",
            id,
            self._member.manager.name,
            extra={"event": "outcome_unknown"},
        )
        self._news.set()

    def resolved(self, id: UUID, *, committed: bool) -> None:
        """An administrator has decided about a prepared branch. What the database says is told when it can be
        learned.
        """
        self.doubts[id] = UnknownOutcome(resolved=committed)
        self._news.set()

    def over(self, id: UUID) -> None:
        """Nobody needs the row of this unit any more."""
        self._over[id] = None
        self._news.set()

    # Learning them

    async def learn(self, id: UUID, *, never: bool = False) -> bool:
        """True if the unit is committed; if it is not decided, it is backed out. `never`: nobody has tried to commit
        it, so there may be no row of it. Raises OutcomePendingError.
        """
        try:
            ((state,),) = await self._database.repeat(_OUTCOME, self._database.member, self._database.epoch, id, never)
        except MQError as error:
            raise OutcomePendingError(str(error)) from error
        if state is None:
            if id not in self._missing:
                self._missing.add(id)
                logger.error(
                    "the database has no row of this unit of work, its outcome is lost unit=%s",
                    id,
                    extra={"event": "outcome_lost"},
                )
            raise OutcomePendingError(f"there is no row of unit of work {id}: RESOLVE INDOUBT({id}) ends it")
        return bool(state == "COMMITTED")

    async def learn_all(self) -> bool:
        """Learn the outcomes of all units in doubt, and let them take effect. Whether there are none any more."""
        for id, doubt in list(self.doubts.items()):
            try:
                committed = await self.learn(id, never=doubt.unit is None)
            except OutcomePendingError as error:
                logger.debug("outcome still unknown unit=%s: %s", id, error)
                continue
            if self.doubts.pop(id, None) is not doubt:
                continue  # an administrator has decided meanwhile
            logger.info(
                "outcome of a unit of work learned unit=%s committed=%s",
                id,
                committed,
                extra={"event": "outcome_learned"},
            )
            if doubt.resolved is not None and doubt.resolved != committed:
                logger.error(
                    "a unit of work is torn: its prepared branch was resolved otherwise unit=%s shared_committed=%s",
                    id, committed, extra={"event": "unit_of_work_torn"},
                )  # fmt: skip
            if doubt.unit is None:
                self.over(id)
            else:
                await self._member.units.end(doubt.unit, doubt.branch, committed=committed)
        return not self.doubts

    async def start(self) -> None:
        """The member has joined the group, in a new life: what its last ones have left ends, prepared branches and
        units that nobody has decided; then the rows go (queue-sharing rule 10.3.7). What cannot be learned stays in
        doubt.
        """
        for id, branch in self._member.core.branches.by_id.items():
            if branch.unit.state == IN_DOUBT:
                self.doubts.setdefault(id, UnknownOutcome(branch.unit, branch))
        async with self._database.look() as session:
            rows = await session.fetch(
                "SELECT id FROM unit_of_work WHERE member = $1 AND epoch < $2",
                self._database.member,
                self._database.epoch,
            )
        for row in rows:
            if row["id"] not in self._over and row["id"] not in self.busy:
                self.doubts.setdefault(row["id"], UnknownOutcome())
        await self.learn_all()

    # Life

    async def serve(self) -> None:
        """Learn outcomes and remove rows, for as long as the member lives."""
        while not self._member.stopping:
            if not (self.doubts or self._over):
                await self._news.wait()
            self._news = anyio.Event()
            with anyio.move_on_after(TIDY_SECONDS if not self.doubts else AGAIN_SECONDS):
                await self._member.stopped.wait()
            try:
                await self.learn_all()
                await self.tidy()
            except Exception as error:
                mistake(error, "the end of units of work")

    def stop(self) -> None:
        """The member ends."""
        self._news.set()

    async def end(self) -> None:
        """The member leaves: learn what can be learned, and leave no row behind that nobody needs."""
        await self._member.units.mixed.all_ended()
        await self.learn_all()
        await self.tidy()

    async def tidy(self) -> None:
        """Remove the rows of units that are over; where that cannot be now, they stay for the next time."""
        over, self._over = list(self._over), {}

        if over:
            try:
                await self._database.repeat(_FORGET, self._database.member, self._database.epoch, over)
            except MQError as error:
                logger.debug("rows of units stay units=%d: %s", len(over), error)
                self._keep(over)

    def _keep(self, over: Iterable[UUID]) -> None:
        self._over = dict.fromkeys(over) | self._over
