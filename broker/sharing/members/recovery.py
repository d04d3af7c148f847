"""Recovery: what a life of a member has left behind is brought to an end (queue-sharing rules 10.3.2 and 10.3.3).

Phase 1 finishes what was decided. Phase 2 backs out what was in flight, frees what browses had locked, and lets handles
and connection tags go, in this order: when a tag can be had again, nothing of its last user comes back any more.

Each step is one transaction, behind a fence on two rows: that of the recoverer, who may still write, and that of the
member, whose recovery nobody else has taken over. It touches only what is of earlier lives than the epoch that was
claimed. So a recoverer that stands still and goes on later does no harm, to a restarted owner neither; and whoever
goes on where another has stopped finds what is left.

Messages that are in the hands of a member and in no unit of work that goes on are freed, so that each recovery comes to
an end; one that does not says what holds it.

Units of work that are decided keep their rows: their owner asks for them at its next start (queue-sharing rule 10.3.4).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.sharing.database.sessions import DatabaseSession

    Transact = Callable[[Callable[[DatabaseSession], Awaitable[Any]]], Awaitable[Any]]

logger = logging.getLogger(__name__)

MESSAGES: Final = 1000
UNITS: Final = 20
"""So many are recovered by one transaction, which holds up others on the same queues as long as it takes."""

_PASSES: Final = 5
_HELD: Final = "SELECT held_after_recovery($1, $2)"


class StuckError(MQError):
    """There is something left that no step of a recovery brings to an end."""


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
    """The result of a recovery."""

    decided: int = 0
    units: int = 0
    locks: int = 0

    @property
    def total(self) -> int:
        return self.decided + self.units + self.locks

    def __bool__(self) -> bool:
        return bool(self.total)


async def recover(claim: Claim, transact: Transact) -> Recovered:
    """Bring to an end what was left. `transact` makes one step of it. Raises MQError: CF_NOT_AVAILABLE (2345) where
    the database, or the right to recover, is lost; StuckError where it makes no progress.
    """
    done = Recovered()
    level = logging.DEBUG if claim.own else logging.INFO  # of its own past a member tells what was there, in a line
    for _ in range(_PASSES):
        before = done.total
        _tell(level, "CSQE011I %s recovery phase 1 started", claim)
        done.decided += await _all(claim, transact, "recover_decided", MESSAGES)
        _tell(level, "CSQE013I %s recovery phase 1 completed", claim)
        _tell(level, "CSQE012I %s recovery phase 2 started", claim)
        done.units += await _all(claim, transact, "recover_units", UNITS)
        done.locks += await _all(claim, transact, "recover_locks", MESSAGES)
        if await transact(lambda session: session.fetchval(_call("end_recovery"), *claim.arguments)):
            _tell(level, "CSQE014I %s recovery phase 2 completed", claim)
            return done
        if done.total == before:
            await _stuck(claim, transact)
    raise MQError(
        MQRC.CF_STRUC_IN_USE,
        f"there are always more messages in the hands of {claim.member}, in lives of it before epoch {claim.claimed}",
    )


async def _stuck(claim: Claim, transact: Transact) -> None:
    """Nothing more can be done, and the recovery is not over: raise StuckError, unless it could be by now."""
    held = await transact(lambda session: session.fetchval(_HELD, claim.member, claim.claimed))
    if held is not None:
        logger.error(
            "recovery makes no progress member=%s by=%s epoch=%d: left are %s",
            claim.member, claim.by, claim.claimed, held,
        )  # fmt: skip
        raise StuckError(MQRC.CF_STRUC_IN_USE, f"the recovery of {claim.member} makes no progress: left are {held}")


async def _all(claim: Claim, transact: Transact, step: str, wanted: int) -> int:
    """Take one step after the other until there is no more to do."""
    query, total = _call(step, more=1), 0
    while True:
        done: int = await transact(lambda session: session.fetchval(query, *claim.arguments, wanted))
        total += done
        if done < wanted:
            return total


def _call(function: str, more: int = 0) -> str:
    arguments = ", ".join(f"${number}" for number in range(1, 6 + more))
    return f"SELECT {function}({arguments})"


def _tell(level: int, text: str, claim: Claim) -> None:
    phase = text % claim.by
    fields = {"event": "recovery_phase"}
    logger.log(level, "%s member=%s epoch=%d", phase, claim.member, claim.claimed, extra=fields)
