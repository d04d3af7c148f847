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

from broker.client.reaching import dial, in_turn, within
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.client.address import Address
    from broker.client.identity import ClientIdentity
    from broker.client.line import Line
    from broker.client.reconnecting import ReconnectingPort
    from broker.clock import Clock

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 0.1
LAST_SECONDS: Final = 5.0
"""The wait before the first try, and the longest one."""

REFUSALS_MAX: Final = 2
"""The tries in turn at which the user is refused, until no more is tried: a wrong password gets no better."""

DIAL_SECONDS: Final = 10.0
"""The time that one try may take."""


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
        refusals = 0  # in turn, of the user
        while True:
            await self.clock.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, LAST_SECONDS)
            refused: MQError | None = None
            for place in in_turn(self.address):  # of a group: whichever member lets the connections go on
                try:
                    line = await self._dialled(place)
                    if line is not None and await self._resume(line):
                        logger.info("line again there to=%s after_s=%.1f", place, self.clock.monotonic() - since)
                        return
                except MQError as error:
                    logger.debug("line not there yet to=%s: %s", place, error)
                    refused = error if error.reason == MQRC.NOT_AUTHORIZED else refused
            refusals = refusals + 1 if refused else 0
            if refused and refusals == REFUSALS_MAX:
                self._give_up(refused)
                return

    async def _dialled(self, place: Address) -> Line | None:
        """Return a line, None where the function that gives the secret fails. Raises MQError."""
        try:
            return await within(DIAL_SECONDS, self.clock, place, dial(place, self.clock, self._identity))
        except MQError:
            raise
        except Exception as error:  # of the program's function: its text may hold the secret
            logger.warning("line not there yet to=%s: no secret, for %s", place, type(error).__name__)
            return None

    async def _resume(self, line: Line) -> bool:
        """Let the connections that are down go on, on this line. Raises MQError when one cannot: then it is of no use.
        False when others are down by now, which the queue manager has ended later.
        """
        down = [port for port in self.ports if port.down]
        for port in down:
            try:
                await port.resume(line)
            except MQError:
                line.abort("the connections on it could not go on")
                raise
        if line.broken:
            return False
        for port in down:
            port.go_on()
        return not any(port.down for port in self.ports)

    def _give_up(self, refused: MQError) -> None:
        """The user is refused: so are the calls that wait, and those to come."""
        logger.error("line not made again to=%s: %s", self.address, refused)
        for port in [port for port in self.ports if port.down]:
            port.refuse(refused)
