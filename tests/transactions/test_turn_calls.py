"""What is asked for in one turn of the event loop goes in one call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.mqi import MQRC
from broker.mqi.external_units import UNITS_MAX
from broker.transactions import Decision, TurnCalls
from broker.transactions.decisions import NOT_SENT, DecisionSender

if TYPE_CHECKING:
    from collections.abc import Sequence


async def test_items_of_one_turn_are_one_call_for_each_receiver_and_no_more_than_a_call_takes() -> None:
    calls: list[tuple[str, int]] = []

    async def call(receiver: str, items: Sequence[int]) -> list[int]:
        calls.append((receiver, len(items)))
        return [item * 2 for item in items]

    made = TurnCalls(call, "calls")
    answers = [made.add("one", item) for item in range(UNITS_MAX + 1)]
    others = [made.add("other", item) for item in (7, 8)]
    assert made.busy
    await made.drain()
    assert (calls, made.busy) == ([("one", UNITS_MAX), ("one", 1), ("other", 2)], False)
    assert [each.result() for each in (*answers, *others)] == [*range(0, 2 * UNITS_MAX + 1, 2), 14, 16]
    assert await made.add("one", 3) == 6
    assert calls[3:] == [("one", 1)]


async def test_what_may_wait_goes_with_what_may_not_with_who_hurries_and_when_its_time_is_over() -> None:
    calls: list[list[int]] = []

    async def call(receiver: str, items: Sequence[int]) -> list[int]:
        calls.append(list(items))
        return [0] * len(items)

    made = TurnCalls(call, "calls")
    patient = made.add("one", 1, within=1e6)
    for _ in range(3):
        await asyncio.sleep(0)
    assert (calls, made.busy) == ([], True)
    await made.add("one", 2)
    assert calls == [[1, 2]]
    assert patient.done()
    patient = made.add("one", 3, within=1e6)
    made.hurry(within=1.0)  # it would wait for longer
    assert made.busy
    for _ in range(3):
        await asyncio.sleep(0)
    assert not patient.done()
    made.hurry(within=1e6)
    made.hurry()
    await patient
    made.hurry()  # with nothing there
    made.add("one", 4, within=1e6)
    await made.drain()
    await made.add("one", 5, within=1e-6)
    first, second = made.add("one", 6), made.add("one", 7, within=1e6)  # behind one that does not wait
    await asyncio.gather(first, second)
    assert calls == [[1, 2], [3], [4], [5], [6, 7]]


async def test_an_error_of_a_call_is_the_answer_to_each_of_its_items_and_to_no_other() -> None:
    async def call(receiver: str, items: Sequence[int]) -> list[int]:
        if receiver == "gone":
            raise MQError(MQRC.CONNECTION_BROKEN, "cut")
        return [0] * len(items)

    made = TurnCalls(call, "calls")
    lost = [made.add("gone", 1), made.add("gone", 2)]
    left = made.add("gone", 3)
    left.cancel()
    assert await made.add("there", 4) == 0
    for each in lost:
        with pytest.raises(MQError, match="cut"):
            await each


async def test_a_mistake_in_a_call_is_told_and_nobody_waits_for_it() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    async def call(receiver: str, items: Sequence[int]) -> list[int]:
        raise KeyError(receiver)

    made = TurnCalls(call, "calls")
    with pytest.raises(MQError, match="KeyError") as failed:
        await made.add("one", 1)
    await made.drain()
    assert (failed.value.reason, [type(each) for each in told]) == (MQRC.UNEXPECTED_ERROR, [KeyError])


async def test_a_decision_that_a_mistake_keeps_from_being_sent_is_kept() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    sender = DecisionSender(bytes(16), "orders", lambda unit, _: None)
    connection: Any = object()  # which has no `decide`
    assert await sender.send(connection, Decision(b"u" * 16, commit=True)) == NOT_SENT
    assert (list(sender.kept), [type(each) for each in told]) == ([b"u" * 16], [AttributeError])
