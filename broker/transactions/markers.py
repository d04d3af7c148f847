"""Delete markers that nobody needs any more.

`DecidedMarkers` deletes those of this program as their units are decided: once a second, in transactions of their own.
`clean` takes what programs that have died have left:

1. It reads markers first, and then asks which of their units are in doubt (transactions rule 9.3).
2. It takes the markers of the queue manager that it asks alone: by the instance of its data.
3. That answer rests on what is durable.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker.clock import cancel_timer
from broker.databases.errors import ProgramDatabaseError
from broker.databases.opened import DELETED_MAX

if TYPE_CHECKING:
    from broker.clock import Clock, Timer
    from broker.databases.opened import OpenDatabase
    from broker.interface.connection import Connection

logger = logging.getLogger(__name__)

INTERVAL: Final = 1.0
"""Seconds for which markers are gathered before they are deleted."""

OLD: Final = 3600.0
"""The age in seconds of a marker that a cleaner takes."""


class DecidedMarkers:
    """The markers of decided units, until they are deleted."""

    def __init__(self, opened: OpenDatabase, clock: Clock) -> None:
        self._opened = opened
        self._clock = clock
        self._units: list[bytes] = []
        self._closed = False
        self._timer: Timer | None = None
        self._deleting: asyncio.Task[None] | None = None

    @property
    def deleting(self) -> bool:
        """True if some are being deleted."""
        return self._deleting is not None

    def add(self, unit: bytes) -> None:
        """Delete the marker of this unit, soon."""
        self._units.append(unit)
        if self._timer is None and self._deleting is None:
            self._timer = self._clock.call_later(INTERVAL, self._begin)

    async def close(self) -> None:
        """Delete what is left."""
        self._closed = True
        cancel_timer(self._timer)
        if self._deleting is not None:
            await asyncio.wait((self._deleting,))
        while self._units:
            await self._delete()

    def _begin(self) -> None:
        self._timer = None
        self._deleting = asyncio.get_running_loop().create_task(self._delete(), name="delete decided markers")
        self._deleting.add_done_callback(self._deleted)

    async def _delete(self) -> None:
        units, self._units = self._units, []
        try:
            await self._opened.delete(units)
        except ProgramDatabaseError as error:  # a cleaner's, then
            logger.debug("markers not deleted count=%d: %s", len(units), error)

    def _deleted(self, deleting: asyncio.Task[None]) -> None:
        self._deleting = None
        if not deleting.cancelled() and (error := deleting.exception()) is not None:
            raise error  # a mistake of ours: the loop's exception handler tells it
        if self._units and not deleting.cancelled() and not self._closed:
            self._timer = self._clock.call_later(INTERVAL, self._begin)


async def clean(opened: OpenDatabase, connection: Connection, clock: Clock) -> int:
    """Delete the markers that are older than an hour, and whose units the queue manager has not in doubt, 1,000 a step.
    Return their number. Raises MQError, ProgramDatabaseError.
    """
    deleted = 0
    while True:
        old = await opened.old_markers(connection.q_mgr_instance, clock.time() - OLD, DELETED_MAX)
        in_doubt = set(await connection.in_doubt(opened.id, old)) if old else set()
        decided = [unit for unit in old if unit not in in_doubt]
        await opened.delete(decided)
        deleted += len(decided)
        if len(old) < DELETED_MAX or not decided:
            return deleted
