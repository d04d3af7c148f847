"""Sends settlements: those of one turn of the event loop in one call (handlers rule 12.1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.mqi import Settled, Settlement
    from triggers.serving.run import Run

SETTLE_MAX: Final = 1000
"""The number of settlements that a call has at most."""


class Settles(Protocol):
    """A receiver of settlements: `broker.Deliveries` is one, for all deliveries of its connection."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]: ...


class Settler:
    """Settles the deliveries of a connection.

    `reported` is called for each with the queue manager's answer, or with None where there is none: the line was cut,
    and the queue manager's word holds, whatever it is (handlers rule 1, row 10).
    """

    def __init__(self, through: Settles, reported: Callable[[Run, Settlement, Settled | None], None]) -> None:
        self._through = through
        self._reported = reported
        self._gathered: list[tuple[Run, Settlement]] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Event | None = None

    def add(self, run: Run, settlement: Settlement) -> None:
        """Settle a delivery, with what else is settled in this turn of the loop."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._send)
        self._gathered.append((run, settlement))

    async def drain(self) -> None:
        """Return when all that was added has been answered."""
        while self._gathered or self._calls:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), SETTLE_MAX):
            task = asyncio.get_running_loop().create_task(
                self._settle(gathered[start : start + SETTLE_MAX]), name="settle deliveries"
            )
            self._calls.add(task)
            task.add_done_callback(self._answered)

    async def _settle(self, gathered: Sequence[tuple[Run, Settlement]]) -> None:
        settled: Sequence[Settled | None]
        try:
            settled = await self._through.settle([settlement for _, settlement in gathered])
        except MQError:
            settled = [None] * len(gathered)
        for (run, settlement), answer in zip(gathered, settled, strict=True):
            self._reported(run, settlement, answer)

    def _answered(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._idle is not None:
            self._idle.set()
        if not call.cancelled() and (error := call.exception()) is not None:
            raise error  # a mistake of ours: the loop's exception handler tells it
