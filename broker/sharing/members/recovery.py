"""Recovery: what a life of a member has left behind is brought to an end (queue-sharing rules 10.3.2 and 10.3.3).

Phase 1 finishes what was decided: units of work took effect with their decision. Phase 2 backs out what was in flight,
frees what browses had locked, and lets handles and connection tags go, in this order: when a tag can be had again,
nothing of its last user comes back any more.

Each step is one transaction, behind a fence on two rows: that of the recoverer, who may still write, and that of the
member, whose recovery nobody else has taken over. It touches only what is of earlier lives than the epoch that was
claimed. So a recoverer that stands still and goes on later does no harm, to a restarted owner neither; and whoever
goes on where another has stopped finds what is left.

A step backs out units of work, or where none are left frees what is held beside them. Both become fewer with each, so
it comes to an end.

Units of work that are decided keep their rows: their owner asks for them at its next start (queue-sharing rule 10.3.4).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.sharing.database.sessions import DatabaseSession

    Transact = Callable[[Callable[[DatabaseSession], Awaitable[Any]]], Awaitable[Any]]

logger = logging.getLogger(__name__)

UNITS: Final = 20
"""So many units of work are recovered by one transaction, which holds up others as long as it takes."""

STEP: Final = "SELECT * FROM recover($1, $2, $3, $4, $5, $6)"
"""With the arguments of a claim, and a number of units."""

_END: Final = "SELECT end_recovery($1, $2, $3, $4, $5)"


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a recovery: `by`, in its epoch `by_epoch`, recovers what `member` has left from before the epoch
    `claimed`. `lease`: for how many seconds nobody else takes the recovery over after a step of it.
    """

    by: str
    by_epoch: int
    member: str
    claimed: int
    lease: float

    @property
    def own(self) -> bool:
        """True if a member recovers what it has left itself."""
        return self.by == self.member

    @property
    def arguments(self) -> tuple[str, int, str, int, float]:
        """As the functions of the schema take it."""
        return self.by, self.by_epoch, self.member, self.claimed, self.lease


@dataclass(slots=True)
class Recovered:
    """The result of a recovery. `stray` are messages that were held in no active unit of work, which cannot be."""

    units: int = 0
    locks: int = 0
    stray: int = 0

    def __bool__(self) -> bool:
        return bool(self.units + self.locks + self.stray)


async def recover(claim: Claim, transact: Transact) -> Recovered:
    """Bring to an end what was left. `transact` makes one step of it. Raises MQError: CF_NOT_AVAILABLE (2345) where
    the database, or the right to recover, is lost.
    """
    done = Recovered()
    level = logging.DEBUG if claim.own else logging.INFO  # of its own past a member tells what was there, in a line
    _tell(level, "CSQE011I %s recovery phase 1 started", claim)
    _tell(level, "CSQE013I %s recovery phase 1 completed", claim)
    _tell(level, "CSQE012I %s recovery phase 2 started", claim)
    while True:
        while found := await _step(claim, transact):
            done = Recovered(done.units + found.units, done.locks + found.locks, done.stray + found.stray)
        if await transact(lambda session: session.fetchval(_END, *claim.arguments)):
            break
    if done.stray:
        logger.error(
            "messages were held in no unit of work, they are free again member=%s by=%s epoch=%d messages=%d",
            claim.member, claim.by, claim.claimed, done.stray, extra={"event": "messages_stray"},
        )  # fmt: skip
    _tell(level, "CSQE014I %s recovery phase 2 completed", claim)
    return done


async def _step(claim: Claim, transact: Transact) -> Recovered:
    row = await transact(lambda session: session.fetchrow(STEP, *claim.arguments, UNITS))
    return Recovered(row["units"], row["locks"], row["stray"])


def _tell(level: int, text: str, claim: Claim) -> None:
    phase = text % claim.by
    fields = {"event": "recovery_phase"}
    logger.log(level, "%s member=%s epoch=%d", phase, claim.member, claim.claimed, extra=fields)
