"""A mistake of the queue manager in the end of a delivery holds no message: it is handed out again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.deliveries import dead_lettering, ending
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.mqi.delivery_fields import Became, Failure, Outcome, Settled, Settlement
from tests.handlers.desk import FAILURE, TERMS, Desk, desk, settle

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG = OverflowError("a mistake of ours")
SPOILED = int(MQRC.UNEXPECTED_ERROR)
SUM = ("succeeded", "failed", "rejected", "later", "crashed", "returned", "running", "unreadable")


def fails_once(monkeypatch: pytest.MonkeyPatch, module: object, name: str, *, after: bool = False) -> None:
    """A step of the core fails the first time, before it has done anything or after all of it."""
    step: Callable[..., Any] = getattr(module, name)

    def wrong(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(module, name, step)
        if after:
            step(*arguments, **named)
        raise WRONG

    monkeypatch.setattr(module, name, wrong)


async def handled_again(d: Desk, worker: Any) -> None:
    """The message comes again, and can be ended."""
    await d.clock.advance(2)
    (again,) = await worker.take()
    (settled,) = await settle(worker, Outcome.DONE, again)
    assert settled.became == Became.GONE
    assert (d.depth(), d.depth("DEAD"), d.depth("OUT")) == (0, 0, 0)
    counts = d.counts()
    assert counts["started"] == sum(counts[name] for name in SUM)


@pytest.mark.parametrize("puts", [False, True], ids=["", "puts"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("outcome", "module", "step"),
    [
        (Outcome.DONE, ending, "done"),
        (Outcome.FAILED, ending, "judge"),
        (Outcome.REJECTED, dead_lettering, "put"),
        (Outcome.UNREADABLE, dead_lettering, "put"),
        (Outcome.LATER, ending, "part"),
        (Outcome.RETURNED, ending, "freeze"),
    ],
)
async def test_a_mistake_in_a_settlement_is_told_and_its_message_comes_again(
    outcome: Outcome, module: object, step: str, monkeypatch: pytest.MonkeyPatch, *, after: bool, puts: bool
) -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a", "b")
        taken, other = await worker.take(2)
        if puts:
            connection = await worker.connect(taken)
            async with connection.open("OUT", MQOO.OUTPUT) as out:
                await out.put("x")
        fails_once(monkeypatch, module, step, after=after)
        failure = FAILURE if outcome in (Outcome.FAILED, Outcome.REJECTED, Outcome.UNREADABLE) else Failure()
        answers = await worker.settle(
            [Settlement(taken.id, outcome, failure, ran=1.0), Settlement(other.id, Outcome.DONE, ran=1.0)]
        )
        assert answers == [Settled(taken.id, Became.DELAYED, SPOILED, answers[0].attempts, answers[0].next_at),
                           Settled(other.id, Became.GONE)]  # fmt: skip
        await handled_again(d, worker)


async def test_a_mistake_in_the_end_of_a_worker_gives_back_all_that_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as d:
        await d.put("a", "b", "c")
        async with d.worker() as gone:
            assert len(await gone.take(3)) == 3
            fails_once(monkeypatch, ending, "give_back")
        async with d.worker() as worker:
            await d.clock.advance(2)
            again = await worker.take(3)
            await settle(worker, Outcome.DONE, *again)
            assert (len(again), d.depth()) == (3, 0)


@pytest.mark.parametrize("feedback", [2**32, 2**40, 10**9, 1, 65535])
async def test_a_feedback_that_no_dead_letter_can_bear_is_refused(feedback: int) -> None:
    async with desk() as d, d.worker() as worker:
        await d.put("a")
        (taken,) = await worker.take()
        with pytest.raises(MQError) as refused:
            await worker.settle([Settlement(taken.id, Outcome.REJECTED, FAILURE, feedback=feedback)])
        assert (refused.value.reason, str(feedback) in refused.value.detail) == (MQRC.OPTIONS_ERROR, True)
        (settled,) = await settle(worker, Outcome.DONE, taken)
        assert settled.became == Became.GONE


async def test_a_mistake_in_a_dead_letter_that_nobody_settles_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1.5: a message whose attempts are used up before a handler began."""
    async with desk() as d, d.worker(TERMS._replace(attempts=1)) as worker:
        await d.put("a")
        async with d.connection.open("Q", MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
            await d.connection.backout()
        fails_once(monkeypatch, dead_lettering, "put")
        take = asyncio.ensure_future(worker.take())
        await d.clock.advance(2)
        assert (d.depth(), d.depth("DEAD")) == (0, 1)
        take.cancel()
