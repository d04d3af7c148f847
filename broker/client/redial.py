"""The line of `connect(url, reconnect=True)`, made again whenever it breaks.

One task tries, while the line is down, after 0.1 s, then after twice as long each time, up to 5 s, each wait times 0.5
to 1 by chance, for ever, unless the user is refused: so thousands of workers do not all come at once when a queue
manager is back. That the line is lost is logged once, and that it is there again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any, Final

from broker.client.reaching import DIAL_SECONDS, dial, in_turn, within
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.refusals import Refusals

if TYPE_CHECKING:
    from broker.client.address import Address
    from broker.client.identity import ClientIdentity
    from broker.client.reconnecting import ReconnectingPort
    from broker.clock import Clock

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 0.1
LAST_SECONDS: Final = 5.0
"""The wait before the first try, and the longest one."""


class Redial:
    """The line that connections of a program share, and those connections."""

    def __init__(self, address: Address, identity: ClientIdentity, clock: Clock) -> None:
        self.address = address
        self._identity = identity
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
        refusals = Refusals()
        while True:
            await self.clock.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, LAST_SECONDS)
            refused: MQError | None = None
            for place in self._places():
                try:
                    if await self._made_again(place):
                        logger.info("line again there to=%s after_s=%.1f", place, self.clock.monotonic() - since)
                        return
                except MQError as error:
                    logger.debug("line not there yet to=%s: %s", place, error)
                    refused = error if error.reason == MQRC.NOT_AUTHORIZED else refused
                except Exception as error:  # of the function that gives the secret: its text may hold that
                    logger.warning("line not there yet to=%s: no secret, for %s", place, type(error).__name__)
            refusals.note(refused)
            if refused and refusals.are_final:
                self._give_up(refused)
                return

    def _places(self) -> list[Address]:
        """The places to try, of a group whichever member lets the connections go on; but first where others of the
        program are, on lines that live.
        """
        living = {port.where for port in self.ports if not port.down}
        return sorted(in_turn(self.address), key=lambda place: str(place) not in living)

    async def _made_again(self, place: Address) -> bool:
        """Let the connections that are down go on, on a line to this place. Raises MQError, and what a function that
        gives the secret raises, when one cannot: then no line of this try is of use. False when some are down by now,
        which the queue manager has ended later.
        """
        line = await within(DIAL_SECONDS, self.clock, place, dial(place, self.clock, self._identity))
        down = [port for port in self.ports if port.down]
        try:
            for port in down:
                await port.resume(line)
        except Exception:
            (line.pool or line).abort("the connections on it could not go on")
            raise
        for port in down:
            if not port.cut:
                port.go_on()
        return not any(port.down for port in self.ports)

    def _give_up(self, refused: MQError) -> None:
        """The user is refused: so are the calls that wait, and those to come."""
        logger.error("line not made again to=%s: %s", self.address, refused)
        for port in [port for port in self.ports if port.down]:
            port.refuse(refused)
