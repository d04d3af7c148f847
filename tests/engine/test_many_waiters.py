"""Ten thousand programs wait on one queue, each for the reply with its own CorrelId."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from broker import MQError, QueueManager
from broker.interface.port import answer
from broker.mqi import MQGMO, MQOO, MQRC, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Connection
    from broker.engine.conversation import Conversation
    from broker.interface import Call, GetAnswer

WAITERS = 10_000


def correl_id(number: int) -> bytes:
    return number.to_bytes(24, "big")


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    async with (
        QueueManager.open(name="QM1", defaults="mq", clock=VirtualClock()) as manager,
        manager.connect() as connection,
    ):
        await connection.mqsc("DEFINE QLOCAL(REPLIES)")
        yield connection
        manager.core.check_invariants()


async def test_one_put_wakes_the_right_one_of_10_000_waiting_getters(connection: Connection) -> None:
    port = connection.port
    opened = await answer(port.open(ObjectDescriptor(object_name="REPLIES"), MQOO.INPUT_SHARED | MQOO.OUTPUT))
    gmo = GetMessageOptions(options=MQGMO.WAIT, wait_interval=60_000)
    waiting: list[Call[GetAnswer]] = [
        port.get(opened.hobj, MessageDescriptor(correl_id=correl_id(number)), gmo, None)
        for number in range(1, WAITERS + 1)
    ]
    for number in (7_000, 1, WAITERS):
        await connection.put1("REPLIES", b"%d" % number, MessageDescriptor(correl_id=correl_id(number)))
        assert (await answer(waiting[number - 1])).data == b"%d" % number
    assert sum(call.done() for call in waiting) == 3
    assert sum(call.cancel() for call in waiting) == WAITERS - 3


STEPS = 50
MANY = 40 * STEPS


class Waiting:
    """Very many gets of one handle of a conversation."""

    def __init__(self, manager: QueueManager) -> None:
        self.manager = manager
        self.port: Conversation = manager.converse()
        descriptor = ObjectDescriptor(object_name="REPLIES")
        self.hobj = self.port.open(descriptor, MQOO.INPUT_SHARED).result().hobj
        gmo = GetMessageOptions(options=MQGMO.WAIT | MQGMO.FAIL_IF_QUIESCING, wait_interval=-1)
        self.gets = [self.port.get(self.hobj, None, gmo, None) for _ in range(MANY)]

    @property
    def ended(self) -> int:
        return sum(get.done() for get in self.gets)

    @property
    def reasons(self) -> set[int]:
        errors = [get.exception() for get in self.gets]
        return {error.reason for error in errors if isinstance(error, MQError)}


@pytest.fixture
async def waiting(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", STEPS)
    assert isinstance(connection.port.manager, QueueManager)  # type: ignore[attr-defined]
    return Waiting(connection.port.manager)  # type: ignore[attr-defined]


async def close(waiting: Waiting) -> None:
    await waiting.port.close(waiting.hobj, 0)


async def inhibit(waiting: Waiting) -> None:
    await waiting.manager.converse().mqsc("ALTER QLOCAL(REPLIES) GET(DISABLED)")


async def quiesce(waiting: Waiting) -> None:
    await waiting.manager.quiesce(0)


@pytest.mark.parametrize(
    ("end", "reason"),
    [(close, MQRC.HOBJ_ERROR), (inhibit, MQRC.GET_INHIBITED), (quiesce, MQRC.Q_MGR_QUIESCING)],
)
async def test_very_many_waits_end_a_slice_at_a_time(
    waiting: Waiting, end: Callable[[Waiting], Awaitable[None]], reason: MQRC
) -> None:
    ending = asyncio.ensure_future(end(waiting))
    ended = [0]
    while ended[-1] < MANY:
        await asyncio.sleep(0)
        ended.append(waiting.ended)
        assert len(ended) < MANY
    if end is not quiesce:
        await ending
    ending.cancel()
    assert max(after - before for before, after in pairwise(ended)) <= 2 * STEPS
    assert waiting.reasons == {reason}
    assert not waiting.manager.core.objects.queues["REPLIES"].waiters.count
    waiting.port.break_()


async def test_a_handle_is_closed_when_all_its_waits_have_ended_though_nobody_waits_for_that(waiting: Waiting) -> None:
    closing, behind = waiting.port.close(waiting.hobj, 0), waiting.port.begin()
    await asyncio.sleep(0)
    closing.cancel()
    assert not behind.done()
    assert await behind == 0
    assert waiting.ended == MANY
    assert not waiting.port.hconn.handles
    waiting.port.break_()


async def test_gets_that_have_not_been_told_yet_are_when_the_queue_manager_ends(waiting: Waiting) -> None:
    await inhibit(waiting)
    assert 0 < waiting.ended < MANY
    waiting.manager._end()
    assert waiting.ended == MANY
    assert waiting.reasons == {MQRC.GET_INHIBITED}


async def test_a_wait_that_cannot_be_told_keeps_nobody_else_from_it(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(reason: int) -> None:
        raise KeyError("injected")

    monkeypatch.setattr(waiting.gets[7], "ended", wrong)
    await inhibit(waiting)
    for _ in range(MANY):
        await asyncio.sleep(0)
    assert waiting.ended == MANY - 1
    assert not waiting.gets.pop(7).done()
    assert waiting.reasons == {MQRC.GET_INHIBITED}
