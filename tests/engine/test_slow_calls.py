"""Calls that take more than one step, and what may happen in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQCO, MQGMO, MQIA, MQOO, MQRC, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from broker.storage.store import StoreFullError
from tests.engine.bench import ALL, opened, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.engine.conversation import Conversation
    from tests.engine.bench import Bench

MODEL = ObjectDescriptor(object_name="M", dynamic_q_name="D")
FULL = StoreFullError("full")
MANY = 400  # expired messages, or gets that wait


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """QMODEL(M) makes permanent dynamic queues."""
    async with opened() as bench:
        await bench.connection.mqsc("DEFINE QMODEL(M) DEFTYPE(PERMDYN) DEFSOPT(SHARED) SHARE")
        yield bench


@pytest.fixture
async def port(bench: Bench) -> AsyncIterator[Conversation]:
    port = bench.manager.converse("port")
    yield port
    port.break_()


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step in each turn of the event loop."""
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 1)


def there(bench: Bench) -> bool:
    """True if the dynamic queue is there."""
    return "D" in bench.manager.core.objects.queues


async def overdue(bench: Bench) -> None:
    """Many messages on the dynamic queue whose time is up."""
    async with bench.connection.open("D", MQOO.OUTPUT) as queue:
        await queue.put_many([b""] * MANY, MessageDescriptor(expiry=10, persistence=0))
    await bench.manager.clock.advance(2)  # type: ignore[attr-defined]  # it is a virtual one


# A full store


async def test_a_model_queue_for_which_there_is_no_room_is_not_opened(bench: Bench) -> None:
    bench.store.fail_next(FULL)
    assert await reason_of(bench.connection.open(MODEL, ALL)) == MQRC.STORAGE_MEDIUM_FULL
    assert not there(bench)


async def test_a_dynamic_queue_whose_deletion_finds_no_room_stays_open(bench: Bench) -> None:
    queue = await bench.connection.open(MODEL, ALL)
    bench.store.fail_next(FULL)
    assert await reason_of(queue.close(MQCO.DELETE)) == MQRC.STORAGE_MEDIUM_FULL
    await queue.put(b"A")
    assert (await queue.get()).data == b"A"


async def test_attributes_for_which_there_is_no_room_are_not_set(bench: Bench) -> None:
    queue = await bench.connection.open("Q", MQOO.SET | MQOO.INQUIRE)
    bench.store.fail_next(FULL)
    assert await reason_of(queue.set({MQIA.INHIBIT_PUT: 1})) == MQRC.STORAGE_MEDIUM_FULL
    assert await queue.inquire(MQIA.INHIBIT_PUT) == {MQIA.INHIBIT_PUT: 0}


# Nobody waits, or the connection ends


async def test_an_open_that_nobody_waits_for_any_more_opens_nothing(bench: Bench, port: Conversation) -> None:
    bench.store.hold()
    opening = port.open(MODEL, ALL)
    await bench.store.wait_held()
    opening.cancel()
    bench.store.release()
    assert await port.begin() == 0
    assert there(bench)
    assert not port.hconn.handles


async def test_an_open_whose_connection_ends_opens_nothing_and_says_why(bench: Bench, port: Conversation) -> None:
    bench.store.hold()
    opening = port.open(MODEL, ALL)
    await bench.store.wait_held()
    port.break_(MQRC.Q_MGR_STOPPING)
    bench.store.release()
    assert await reason_of(opening) == MQRC.Q_MGR_STOPPING
    assert not port.hconn.handles


async def test_a_deletion_that_is_being_written_goes_on_when_the_connection_ends(
    bench: Bench, port: Conversation
) -> None:
    hobj = (await port.open(MODEL, ALL)).hobj
    bench.store.hold()
    closing = port.close(hobj, MQCO.DELETE)
    await bench.store.wait_held()
    port.break_()
    bench.store.release()
    assert await closing == 0
    assert not there(bench)


async def test_a_close_that_ends_many_waits_fails_when_its_connection_ends(
    bench: Bench, port: Conversation, slowly: None
) -> None:
    hobj = (await port.open(ObjectDescriptor(object_name="Q"), ALL)).hobj
    gmo = GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1)
    waits = [port.get(hobj, None, gmo, None) for _ in range(MANY)]
    closing = port.close(hobj, 0)
    assert not closing.done()
    port.break_()
    assert await reason_of(closing) == MQRC.CONNECTION_BROKEN
    assert {await reason_of(wait) for wait in waits} == {MQRC.HOBJ_ERROR, MQRC.CONNECTION_BROKEN}


# Expired messages on a queue that is to be deleted


async def test_expired_messages_do_not_keep_a_queue_from_being_deleted(bench: Bench) -> None:
    queue = await bench.connection.open(MODEL, ALL)
    await overdue(bench)
    assert await queue.close(MQCO.DELETE) == 0
    assert not there(bench)


async def test_a_queue_is_not_deleted_when_the_connection_ends_while_its_messages_are_discarded(
    bench: Bench, port: Conversation, slowly: None
) -> None:
    hobj = (await port.open(MODEL, ALL)).hobj
    await overdue(bench)
    closing = port.close(hobj, MQCO.DELETE)
    assert not closing.done()
    port.break_()
    assert await reason_of(closing) == MQRC.CONNECTION_BROKEN
    assert there(bench)


async def test_a_queue_that_another_handle_deletes_meanwhile_is_deleted_once(
    bench: Bench, port: Conversation, slowly: None
) -> None:
    hobj = (await port.open(MODEL, ALL)).hobj
    other = await bench.connection.open("D", ALL)
    await overdue(bench)
    closing = port.close(hobj, MQCO.DELETE)
    assert not closing.done()
    assert list(await asyncio.gather(closing, other.close(MQCO.DELETE_PURGE))) == [0, 0]
    assert not there(bench)
    assert [name for rows in bench.store.written for name in rows.dropped] == [("QUEUE", "D")]
