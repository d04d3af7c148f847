"""Decide the units that their owners have left: those of workers that have died, and of programs that gave up.

One DOUBTS call is under way, and nothing is asked of the database while there are none. What it answers is leased to
this resolver's connection. A unit whose transaction has not ended is asked for again after 2 s, doubling to 60 s, for
ever: nothing is given up, and nothing is discarded by age.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Final

from broker.databases.errors import ProgramDatabaseError
from broker.mqi.errors import MQError
from broker.mqi.external_units import Decided, Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.clock import Clock
    from broker.databases.opened import OpenDatabase
    from broker.interface.connection import Connection
    from broker.transactions.decisions import DecisionSender

logger = logging.getLogger(__name__)

AGAIN_MIN: Final = 2.0
AGAIN_MAX: Final = 60.0
"""Seconds until a unit is asked for again, doubling from the one to the other."""

SEND_MIN: Final = 1.0
"""Seconds until a decision that the queue manager could not write is sent again, doubling likewise."""

AT_A_TIME: Final = 4
"""The number of units that are asked for at a time: each holds a connection, for 2 s where it waits for a lock."""


class Resolver:
    """Decides units of one database, over one connection to the queue manager."""

    def __init__(
        self,
        opened: OpenDatabase,
        clock: Clock,
        decisions: DecisionSender,
        connection: Connection,
    ) -> None:
        self._opened = opened
        self._clock = clock
        self._decisions = decisions
        self._connection = connection
        self._places = asyncio.Semaphore(AT_A_TIME)
        self.asks = 0
        """The number of questions to the database that are under way, or wait for their turn."""
        self._asking: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Decide what is left, until cancelled. Raises MQError when the connection ends."""
        sending = asyncio.get_running_loop().create_task(self._send_kept(), name="send decisions again")
        self._asking.add(sending)
        try:
            while True:
                self._ask(each.unit for each in await self._connection.doubts(self._opened.id, wait=True))
        finally:
            for task in self._asking:
                task.cancel()
            if self._asking:
                await asyncio.wait(self._asking)

    async def _send_kept(self) -> None:
        """Send again what was not answered over other connections, and what there was no room for."""
        pause = SEND_MIN
        while True:
            await self._decisions.send_kept(self._connection)
            if not self._decisions.kept:
                pause = SEND_MIN
                await self._decisions.keeps.wait()
            await self._clock.sleep(pause)
            pause = min(2 * pause, AGAIN_MAX)

    def _ask(self, units: Iterable[bytes]) -> None:
        for unit in units:
            task = asyncio.get_running_loop().create_task(self._resolve(unit), name="resolve a unit")
            self._asking.add(task)
            task.add_done_callback(self._resolved)

    async def _resolve(self, unit: bytes) -> None:
        """Ask the database for a unit's outcome until it tells, and decide it so."""
        if (known := self._decisions.kept.get(unit)) is not None:
            await self._decisions.send(self._connection, known)
        elif (outcome := await self._outcome(unit)) is not None:
            answer = await self._decisions.send(self._connection, Decision(unit, outcome))
            if answer == Decided.DONE:
                logger.info(
                    "a unit was left in doubt, and is decided as its database says: unit=%s database=%s committed=%s",
                    uuid.UUID(bytes=unit), self._opened.label, outcome, extra={"event": "unit_resolved"},
                )  # fmt: skip

    async def _outcome(self, unit: bytes) -> bool | None:
        """Return the outcome that the database has; None if somebody else has decided the unit meanwhile. The queue
        manager is asked for that before each further question: the marker of a decided unit goes, and a unit without
        one is aborted.
        """
        pause = AGAIN_MIN
        while True:
            self.asks += 1
            try:
                async with self._places:
                    outcome = await self._opened.probe(unit, self._connection.q_mgr_instance)
                if outcome is not None:
                    return outcome
            except ProgramDatabaseError as error:
                logger.error(
                    "a unit in doubt cannot be decided: unit=%s database=%s %s",
                    uuid.UUID(bytes=unit), self._opened.label, error, extra={"event": "unit_not_resolved"},
                )  # fmt: skip
            finally:
                self.asks -= 1
            await self._clock.sleep(pause)
            pause = min(2 * pause, AGAIN_MAX)
            if not await self._is_in_doubt(unit):
                return None

    async def _is_in_doubt(self, unit: bytes) -> bool:
        """True if the queue manager says so; where the connection has ended, the units are another resolver's."""
        try:
            return bool(await self._connection.in_doubt(self._opened.id, [unit]))
        except MQError:
            return False

    def _resolved(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a mistake of ours: the loop's exception handler tells it
