"""The end of a connection: who is told of it, what becomes of its unit of work, and that it ends once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQPMO, MQRC, GetMessageOptions, ObjectDescriptor
from tests.engine.bench import ALL, opened, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.engine.conversation import Conversation
    from broker.interface import Call, GetAnswer
    from tests.engine.bench import Bench

WAIT = GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1)
WAIT_IN_UNIT = GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=-1)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as bench:
        yield bench


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection ends a step at a time, one in each turn of the event loop."""
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 1)


def leaving(bench: Bench, handles: int = 1) -> Conversation:
    """A connection that has Q open, as often as that."""
    port = bench.manager.converse("leaving")
    for _ in range(handles):
        assert port.open(ObjectDescriptor(object_name="Q"), ALL).done()
    return port


def gets(port: Conversation, count: int = 1, options: GetMessageOptions = WAIT) -> list[Call[GetAnswer]]:
    """Gets that wait on each handle of a connection."""
    return [port.get(hobj, None, options, None) for hobj in port.hconn.handles for _ in range(count)]


# Who is told


async def test_a_call_after_the_end_tells_of_it(bench: Bench) -> None:
    port = leaving(bench)
    port.break_()
    assert not port.end_reported
    assert await reason_of(port.begin()) == MQRC.CONNECTION_BROKEN
    assert port.end_reported


async def test_a_get_that_waits_tells_of_the_end(bench: Bench) -> None:
    port = leaving(bench)
    (wait,) = gets(port)
    port.break_()
    assert await reason_of(wait) == MQRC.CONNECTION_BROKEN
    assert port.end_reported


@pytest.mark.parametrize("reported", [False, True])
async def test_leaving_a_connection_raises_what_no_call_has_told(bench: Bench, reported: bool) -> None:
    other = bench.manager.connect()
    await other.put1("Q", b"A", options=MQPMO.SYNCPOINT)
    other.port.break_()  # it is a conversation
    if reported:
        assert await reason_of(other.status()) == MQRC.CONNECTION_BROKEN
    assert await reason_of(other.disconnect()) == (MQRC.NONE if reported else MQRC.CONNECTION_BROKEN)


# It ends once


async def test_a_connection_that_has_ended_does_not_end_again(bench: Bench) -> None:
    port = leaving(bench)
    (wait,) = gets(port)
    port.break_()
    port.break_(MQRC.Q_MGR_STOPPING)
    assert await reason_of(wait) == MQRC.CONNECTION_BROKEN
    assert port.end_reported
    assert await reason_of(port.begin()) == MQRC.CONNECTION_BROKEN


async def test_a_connection_that_is_still_leaving_has_left_when_the_queue_manager_ends(
    bench: Bench, slowly: None
) -> None:
    port = leaving(bench, handles=2)
    waits = gets(port, count=3)
    port.break_()
    assert [wait.done() for wait in waits] == [True] + [False] * 5
    bench.manager._end()
    assert all(wait.done() for wait in waits)
    assert [await reason_of(wait) for wait in waits] == [MQRC.CONNECTION_BROKEN] + [MQRC.Q_MGR_STOPPING] * 5
    assert not port.hconn.handles
    assert bench.manager.status()["connections"] == 0


# Its unit of work


async def test_what_a_wait_is_granted_while_its_connection_leaves_goes_back(bench: Bench, slowly: None) -> None:
    port = leaving(bench, handles=2)
    first, second = gets(port, options=WAIT_IN_UNIT)
    port.break_()
    assert await reason_of(first) == MQRC.CONNECTION_BROKEN
    assert not second.done()
    await bench.connection.put1("Q", b"A", persistence=0)
    assert second.result().data == b"A"
    await bench.until(lambda: bench.manager.status()["connections"] == 1)
    assert bench.manager.core.objects.queues["Q"].uncommitted == 0
    message = await bench.queue.get()
    assert (message.data, message.md.backout_count) == (b"A", 1)


async def test_to_let_go_twice_of_what_holds_the_calls_is_harmless() -> None:
    async with opened() as bench:
        order = bench.manager.converse("test").call_order
        for hold in (order.hold, order.reveal):
            first, second = hold(), hold()
            first()
            first()
            assert order._held + order._revealing == 1
            second()
            assert order._held + order._revealing == 0
