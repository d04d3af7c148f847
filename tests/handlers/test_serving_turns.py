"""What is decided within one turn of the event loop, on deliveries that the test itself hands out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, cast

from broker import Connection, Delivered, Message
from broker.interface import GetAnswer
from broker.mqi import MQTMC2, Became, MessageDescriptor, Outcome, Settled, Settlement
from broker.mqi.layouts.packing import pack_md
from broker.testing import VirtualClock
from broker.testing.clock import settle
from triggers.app.handler import handler
from triggers.serving.outcomes import OutcomeLog
from triggers.serving.serving import QueueService

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DELIVERY = GetAnswer(
    pack_md(MessageDescriptor()), bytes(24), bytes(24), bytes(24), 1, 0, 0, -1, 0, 0, -1, 0, bytes(16), b"a", 1, 0
)  # fmt: skip


class Handed:
    """Deliveries of a queue, so many; `at_next_take` is called when all are out."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.calls: list[list[Settlement]] = []
        self.takes: list[int] = []
        self.at_next_take: Callable[[], None] = lambda: None
        self.port = cast("Any", self)
        self.broken = False

    def deliveries(self, q_name: str, options: object) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def take(self, count: int) -> list[Delivered]:
        self.takes.append(count)
        if not self.left:
            self.at_next_take()
            await asyncio.Event().wait()
        count = min(count, self.left)
        self.left -= count
        return [Delivered(self.left + n, 1, 6, 0.0, (Message(DELIVERY),), MQTMC2("Q")) for n in range(count)]

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        self.calls.append(list(settlements))
        await asyncio.sleep(0)
        became = {Outcome.DONE: Became.GONE, Outcome.RETURNED: Became.RETURNED}
        return [Settled(each.id, became.get(Outcome(each.outcome), Became.DELAYED)) for each in settlements]

    @property
    def outcomes(self) -> list[int]:
        return [each.outcome for call in self.calls for each in call]


def service(handed: Handed, function: Callable[..., Any], **options: Any) -> QueueService:
    clock = VirtualClock()
    return QueueService(cast("Connection", handed), handler(function, "Q", options), clock, OutcomeLog(clock))  # type: ignore[arg-type]


async def test_what_is_taken_and_has_not_begun_when_it_stops_is_returned() -> None:
    called = []

    async def handle(body: bytes) -> None:
        called.append(body)

    handed = Handed(5)
    serving = service(handed, handle)
    handed.at_next_take = serving.stop  # in the turn in which the tasks were made
    await serving.run()
    assert handed.outcomes == [Outcome.RETURNED] * 5
    assert called == []
    assert serving.cancelled_runs == 0


async def test_what_ends_in_one_turn_is_settled_in_one_call() -> None:
    async def handle(body: bytes) -> None: ...

    handed = Handed(100)
    serving = service(handed, handle)
    running = asyncio.ensure_future(serving.run())
    await settle()
    serving.stop()
    await running
    assert [len(call) for call in handed.calls] == [100]
    assert handed.outcomes == [Outcome.DONE] * 100


async def test_no_more_is_taken_than_there_are_places() -> None:
    go_on = asyncio.Event()

    async def handle(body: bytes) -> None:
        await go_on.wait()

    handed = Handed(5)
    serving = service(handed, handle, concurrency=3)
    running = asyncio.ensure_future(serving.run())
    await settle()
    assert (serving.running, handed.takes, handed.left) == (3, [3], 2)
    go_on.set()
    await settle()
    assert (serving.running, handed.left, max(handed.takes)) == (0, 0, 3)
    serving.stop()
    await running


async def test_handlers_that_are_cancelled_with_all_tasks_of_the_loop_have_not_failed() -> None:
    async def handle(body: bytes) -> None:
        await asyncio.Event().wait()

    handed = Handed(2)
    serving = service(handed, handle)
    running = asyncio.ensure_future(serving.run())
    await settle()
    for run in list(serving.runs):
        assert run.task is not None
        run.task.cancel()
    running.cancel()
    await asyncio.wait((running,))
    assert handed.outcomes == [Outcome.RETURNED] * 2


async def test_no_more_than_twice_the_places_are_unsettled() -> None:
    held = asyncio.Event()

    class Slow(Handed):
        async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
            await held.wait()
            return await super().settle(settlements)

    async def handle(body: bytes) -> None: ...

    handed = Slow(10)
    serving = service(handed, handle, concurrency=2)
    running = asyncio.ensure_future(serving.run())
    await settle()
    assert (serving.unsettled, serving.running, handed.left) == (4, 0, 6)
    held.set()
    await settle()
    serving.stop()
    await running
    assert handed.outcomes == [Outcome.DONE] * 10
