"""The search for the outcome of a COMMIT that was not answered: as a resolver does, and in a time that is bounded."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Final, Protocol

from broker.databases.errors import ProgramDatabaseError
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.transactions.time_limit import limited

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.databases.opened import OpenDatabase

logger = logging.getLogger(__name__)

PAUSE_MIN: Final = 0.1
PAUSE_MAX: Final = 2.0
"""Seconds between two questions, doubling from the one to the other."""

LAST: Final = 3.0
"""Seconds for which is asked at least, however long COMMIT has taken: a question may wait 2 s for a lock."""


class Named(Protocol):
    """A unit that a database decides."""

    unit: bytes

    @property
    def label(self) -> str:
        """The database, for people."""


async def outcome_of(opened: OpenDatabase, clock: Clock, unit: bytes, q_mgr: str, deadline: float) -> bool | None:
    """Return the outcome of a unit, as soon as the database tells: True for committed. None: it does not, in time."""
    wait = max(deadline - clock.monotonic(), LAST)
    asking = await limited(clock, wait, _ask(opened, clock, unit, q_mgr), "ask for a commit")
    return None if asking.cancelled() else asking.result()


async def _ask(opened: OpenDatabase, clock: Clock, unit: bytes, q_mgr: str) -> bool | None:
    pause = PAUSE_MIN
    while True:
        try:
            outcome = await opened.probe(unit, q_mgr)
        except ProgramDatabaseError as error:
            logger.warning("unit %s: %s", uuid.UUID(bytes=unit), error, extra={"event": "unit_not_asked"})
            return None
        if outcome is not None:
            return outcome
        await clock.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX)


def pending(of: Named) -> MQError:
    """OUTCOME_PENDING (2124) for a unit that a resolver decides, when the database is there again."""
    return MQError(
        MQRC.OUTCOME_PENDING,
        f"unit {uuid.UUID(bytes=of.unit)}: the database {of.label} has not said whether it has committed; it is "
        "decided when a program with this database asks again, with nothing to be done by hand",
    )
