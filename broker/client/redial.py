"""The line of `connect(url, reconnect=True)`, made again whenever it breaks.

One task tries, while the line is down, after 0.1 s, then after twice as long each time, up to 5 s, each wait times 0.5
to 1 by chance, for ever: so thousands of workers do not all come at once when a queue manager is back. That the line is
lost is logged once, and that it is there again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any, Final

from broker.client.reaching import dial, in_turn, within
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from broker.client.address import Address
    from broker.client.line import Line
    from broker.client.reconnecting import ReconnectingPort
    from broker.clock import Clock

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 0.1
LAST_SECONDS: Final = 5.0
"""The wait before the first try, and the longest one."""

DIAL_SECONDS: Final = 10.0
"""The time that one try may take."""


class Redial:
    """The line that connections of a program share, and those connections."""

    def __init__(self, address: Address, clock: Clock) -> None:
        self.address = address
        self.clock = clock
        self.ports: dict[ReconnectingPort, None] = {}
        self._task: asyncio.Task[Any] | None = None

    def lost(self, why: MQError) -> None:
        """The line of a connection is lost: see to another, for all."""
        if self._task is None or self._task.done():
            logger.warning("line lost to=%s: %s; trying again until it is there", self.address, why.detail)
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"reconnect to {self.address}")

    def leave(self, port: ReconnectingPort) -> None:
        """A connection has ended; with the last one goes what is tried for it."""
        self.ports.pop(port, None)
        if not self.ports and self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        since, wait = self.clock.monotonic(), FIRST_SECONDS
        while True:
            await self.clock.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, LAST_SECONDS)
            for place in in_turn(self.address):  # of a group: whichever member lets the connections go on
                try:
                    line = await within(DIAL_SECONDS, self.clock, place, dial(place, self.clock))
                except MQError as error:
                    logger.debug("line not there yet to=%s: %s", place, error)
                    continue
                if await self._resume(line):
                    logger.info("line again there to=%s after_s=%.1f", place, self.clock.monotonic() - since)
                    return

    async def _resume(self, line: Line) -> bool:
        """Let the connections that are down go on, on this line. False when one cannot: then it is of no use; and when
        others are down by now, which the queue manager has ended later.
        """
        down = [port for port in self.ports if port.down]
        for port in down:
            try:
                await port.resume(line)
            except MQError as error:
                logger.debug("line there, and no connection to=%s: %s", self.address, error)
                line.abort("the connections on it could not go on")
                return False
        if line.broken:
            return False
        for port in down:
            port.go_on()
        return not any(port.down for port in self.ports)
