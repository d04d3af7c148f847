"""Calls that are made together: what is asked for in one turn of the event loop goes in one call, with what has waited
for others to come.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from broker.mqi.errors import MQError
from broker.mqi.external_units import UNITS_MAX
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Receiver = TypeVar("Receiver")
Item = TypeVar("Item")


class TurnCalls(Generic[Receiver, Item]):
    """Gathers items for receivers. `call` is a call for one of them: it returns an answer for each item, in their
    order, or raises the MQError that all of them have. Any other exception is UNEXPECTED_ERROR (2195) for them.
    """

    def __init__(self, call: Callable[[Receiver, Sequence[Item]], Awaitable[Sequence[int]]], name: str) -> None:
        self._call = call
        self._name = name  # of its tasks
        self._gathered: dict[Receiver, list[tuple[Item, asyncio.Future[int]]]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None  # while all that is gathered may wait
        self._idle: asyncio.Event | None = None

    @property
    def busy(self) -> bool:
        """True if something is not answered."""
        return bool(self._gathered or self._calls)

    def add(self, receiver: Receiver, item: Item, *, within: float = 0.0) -> asyncio.Future[int]:
        """Send an item with what else comes in this turn of the loop, or within so many seconds. Return the future of
        its answer.
        """
        loop = asyncio.get_running_loop()
        if not self._gathered:
            if within:
                self._timer = loop.call_later(within, self._send)
            else:
                loop.call_soon(self._send)
        elif not within:
            self.hurry()
        answer: asyncio.Future[int] = loop.create_future()
        self._gathered.setdefault(receiver, []).append((item, answer))
        return answer

    def hurry(self, within: float = inf) -> None:
        """Send in this turn of the loop what waits for others to come, if it would not wait any longer than this."""
        if self._timer is not None:
            loop = asyncio.get_running_loop()
            if self._timer.when() - loop.time() <= within:
                self._timer.cancel()
                self._timer = None
                loop.call_soon(self._send)

    async def drain(self) -> None:
        """Return when all that was added is answered."""
        while self.busy:
            self.hurry()
            self._idle = asyncio.Event()
            await self._idle.wait()

    def _send(self) -> None:
        gathered, self._gathered, self._timer = self._gathered, {}, None
        for receiver, items in gathered.items():
            for start in range(0, len(items), UNITS_MAX):
                sending = self._answer(receiver, items[start : start + UNITS_MAX])
                call = asyncio.get_running_loop().create_task(sending, name=self._name)
                self._calls.add(call)
                call.add_done_callback(self._answered)

    async def _answer(self, receiver: Receiver, items: Sequence[tuple[Item, asyncio.Future[int]]]) -> None:
        try:
            answers = await self._call(receiver, [item for item, _ in items])
        except MQError as error:
            _fail(items, error.reason, error.detail)
            return
        except Exception as error:
            _fail(items, MQRC.UNEXPECTED_ERROR, type(error).__name__)
            raise
        for (_, answer), value in zip(items, answers, strict=True):
            if not answer.done():
                answer.set_result(value)

    def _answered(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if self._idle is not None:
            self._idle.set()
        if not call.cancelled() and (error := call.exception()) is not None:
            raise error  # a mistake of ours: the loop's exception handler tells it


def _fail(items: Sequence[tuple[object, asyncio.Future[int]]], reason: int, detail: str) -> None:
    for _, answer in items:
        if not answer.done():
            answer.set_exception(MQError(reason, detail))
