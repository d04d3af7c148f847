"""Preparations on their way to the queue manager: those of one turn of the event loop in one call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.transactions import PreparedDelivery

PREPARE_MAX: Final = 1000
"""The number of preparations that a call has at most."""


class Prepares(Protocol):
    """A receiver of preparations: `broker.Deliveries` is one, for all deliveries of its connection."""

    async def prepare(self, database: bytes, prepared: Sequence[PreparedDelivery], name: str = "") -> list[int]: ...


class Preparer:
    """Prepares the deliveries of a connection, for one database."""

    def __init__(self, through: Prepares, database: bytes, name: str) -> None:
        self._through = through
        self._database = database
        self._name = name
        self._gathered: list[tuple[PreparedDelivery, asyncio.Future[int]]] = []
        self._calls: set[asyncio.Task[None]] = set()

    def add(self, prepared: PreparedDelivery) -> asyncio.Future[int]:
        """Prepare a delivery, with what else is prepared in this turn of the loop. The answer is 0, or why it is
        refused; MQError where nobody knows.
        """
        loop = asyncio.get_running_loop()
        if not self._gathered:
            loop.call_soon(self._send)
        answer: asyncio.Future[int] = loop.create_future()
        self._gathered.append((prepared, answer))
        return answer

    def _send(self) -> None:
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), PREPARE_MAX):
            call = asyncio.get_running_loop().create_task(
                self._prepare(gathered[start : start + PREPARE_MAX]), name="prepare deliveries"
            )
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _prepare(self, gathered: Sequence[tuple[PreparedDelivery, asyncio.Future[int]]]) -> None:
        try:
            answers = await self._through.prepare(self._database, [prepared for prepared, _ in gathered], self._name)
        except MQError as error:
            for _, future in gathered:
                if not future.done():
                    future.set_exception(MQError(error.reason, error.detail))
            return
        for (_, future), answer in zip(gathered, answers, strict=True):
            if not future.done():
                future.set_result(answer)
