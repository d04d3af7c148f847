"""The order of the steps, and the end of each way in which one of them fails: the flow alone (traps 1 to 5, 13)."""

from __future__ import annotations

import asyncio

import pytest

from broker import MQError
from broker.mqi import MQRC
from broker.transactions import CommitRefusedError, OutcomeUnknownError, TransactionStep, end_prepared, finished

BROKEN = MQError(MQRC.CONNECTION_BROKEN)
REFUSED = MQError(MQRC.HOBJ_ERROR)


class Flow:
    """Both sides of a transaction; what they are asked to do, in its order, and what fails."""

    def __init__(self, **fails: BaseException | bool | None) -> None:
        self.unit = bytes(16)
        self.label = "orders"
        self.done: list[str] = []
        self._fails = fails

    def _do(self, what: str) -> None:
        self.done.append(what)
        failure = self._fails.get(what)
        if isinstance(failure, BaseException):
            raise failure

    async def prepare(self) -> None:
        self._do("prepare")

    async def commit(self) -> None:
        self._do("commit")

    async def rollback(self) -> None:
        self._do("rollback")

    async def release(self) -> None:
        self._do("release")

    async def ask(self) -> bool | None:
        self._do("ask")
        found = self._fails["outcome"]
        assert not isinstance(found, BaseException)
        return found

    async def decide(self, *, committed: bool | None, error: BaseException | None = None) -> None:
        self._do({True: "decide commit", False: "decide backout", None: "give up"}[committed])

    async def reached(self, step: TransactionStep) -> None: ...

    async def run(self) -> list[str]:
        try:
            await end_prepared(self, self)
        except (MQError, CommitRefusedError) as error:
            self.done.append(type(error).__name__)
        return self.done


async def test_commit_is_sent_behind_the_prepare_and_told_behind_its_answer() -> None:
    assert await Flow().run() == ["prepare", "commit", "release", "decide commit"]


async def test_a_prepare_that_is_refused_rolls_back_and_decides_nothing() -> None:
    assert await Flow(prepare=REFUSED).run() == ["prepare", "rollback", "MQError"]


async def test_a_prepare_without_an_answer_rolls_back_before_the_unit_is_decided() -> None:
    assert await Flow(prepare=BROKEN).run() == ["prepare", "rollback", "decide backout", "MQError"]


async def test_a_commit_that_is_refused_is_decided_as_backout() -> None:
    done = await Flow(commit=CommitRefusedError("40001")).run()
    assert done == ["prepare", "commit", "rollback", "decide backout", "CommitRefusedError"]


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (True, ["decide commit"]),
        (False, ["decide backout", "CommitRefusedError"]),
        (None, ["give up", "MQError"]),
    ],
)
async def test_a_commit_without_an_answer_is_neither_done_nor_failed_but_asked_for(
    outcome: bool | None, end: list[str]
) -> None:
    flow = Flow(commit=OutcomeUnknownError("lost"), outcome=outcome)
    assert await flow.run() == ["prepare", "commit", "release", "ask", *end]


async def test_a_commit_that_is_broken_off_is_left_to_a_resolver() -> None:
    flow = Flow(commit=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await flow.run()
    assert flow.done == ["prepare", "commit", "give up"]


async def test_what_is_behind_the_marker_is_finished_before_a_cancellation_is_raised() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        done.set()

    task = asyncio.ensure_future(finished(work()))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert done.is_set()
