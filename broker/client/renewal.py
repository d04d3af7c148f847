"""A fresh proof of the user of a line, before the one that it has ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from broker.clock import cancel_timer
from broker.interface.port import answer
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    import asyncio

    from broker.client.identity import ClientIdentity
    from broker.client.line import Line
    from broker.clock import Clock, Timer

logger = logging.getLogger(__name__)

SHARE: Final = 0.8
"""The share of the time left after which a fresh proof is brought."""

LEFT_MIN: Final = 1.0
"""Seconds before its end a proof is not renewed any more: the line ends with it."""


class Renewal:
    """Brings a fresh proof at four fifths of the time that is left, each time. One that cannot be had is asked for
    again at four fifths of what is left then.
    """

    def __init__(self, line: Line, identity: ClientIdentity, clock: Clock, seconds_left: float) -> None:
        self._line = line
        self._identity = identity
        self._clock = clock
        self._ends = 0.0
        self._timer: Timer | None = None
        self._task: asyncio.Task[Any] | None = None
        self._expect(seconds_left)

    def end(self) -> None:
        """The line is gone."""
        cancel_timer(self._timer)
        if self._task is not None:
            self._task.cancel()

    def _expect(self, seconds_left: float) -> None:
        self._ends = self._clock.monotonic() + seconds_left
        self._wait()

    def _wait(self) -> None:
        left = self._ends - self._clock.monotonic()
        if LEFT_MIN <= left < float("inf"):
            self._timer = self._clock.call_later(SHARE * left, self._begin)

    def _begin(self) -> None:
        self._task = self._line.loop.create_task(self._renew(), name="renew the proof of a user")

    async def _renew(self) -> None:
        try:
            security = await self._identity.parameters()
            left = await answer(self._line.authenticate(security.kind, security.secret))
        except Exception as error:
            # The text of what the program's own function raises may hold the secret.
            why = error if isinstance(error, MQError) else type(error).__name__
            logger.warning(
                "no fresh %s to=%s: %s",
                self._identity.kind.name.lower(),
                self._line.where,
                why,
                extra={"event": "credentials_not_renewed"},
            )
            self._wait()
        else:
            self._expect(left)
