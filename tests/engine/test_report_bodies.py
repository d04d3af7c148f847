"""Reports that carry bodies which are only on disk: the commit, or the discard, waits for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQFB, MQGMO, MQRC, MQRO, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFailedError
from broker.testing import FaultStore
from tests.engine.bench import ALL, opened, reason_of
from tests.engine.trial import slow_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker import Queue
    from broker.interface.port import Call
    from tests.engine.bench import Bench

CONFIRMED = MessageDescriptor(report=MQRO.COD_WITH_FULL_DATA, reply_to_q="REPLIES")


SYNCPOINT_GET = GetMessageOptions(options=MQGMO.SYNCPOINT)


class Unreadable(MemoryStore):
    """Takes messages and gives no body back."""

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        asyncio.get_running_loop().call_soon(done, {}, StoreFailedError("unreadable"))


async def replies_of(bench: Bench) -> Queue:
    """REPLIES, newly defined, on the bench's connection."""
    await bench.connection.mqsc("DEFINE QLOCAL(REPLIES) DEFPSIST(YES)")
    return await bench.connection.open("REPLIES", ALL)


async def feedbacks(replies: Queue) -> list[int]:
    found = []
    while await reason_of(replies.get(options=MQGMO.BROWSE_FIRST)) == MQRC.NONE:
        found.append((await replies.get()).md.feedback)
    return found


def heard(call: Call[Any]) -> None:
    """Somebody hears the answer, be it an error."""
    if not call.cancelled():
        call.exception()


async def test_calls_behind_a_commit_that_reads_wait_their_turn() -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        replies = await replies_of(bench)
        await bench.queue.put(b"A" * 50, CONFIRMED)
        got, _, report = await asyncio.gather(
            bench.queue.get(options=MQGMO.SYNCPOINT), bench.connection.commit(), replies.get()
        )
        assert (got.data, report.data, report.md.feedback) == (b"A" * 50, b"A" * 50, MQFB.COD)
        assert bench.depth == 0


@pytest.mark.parametrize("turns", range(8))
async def test_a_get_given_up_while_its_commit_reads_is_either_confirmed_or_back(turns: int) -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        replies = await replies_of(bench)
        await bench.queue.put(b"A", CONFIRMED)
        getting = asyncio.ensure_future(bench.queue.get(options=MQGMO.SYNCPOINT))
        committing = asyncio.ensure_future(bench.connection.commit())
        for _ in range(turns):
            await asyncio.sleep(0)
        getting.cancel()
        assert await committing == MQRC.NONE
        await asyncio.wait([getting])
        await bench.idle()
        given_up = getting.cancelled()
        assert given_up or getting.result().data == b"A"
        assert await feedbacks(replies) in ([[MQFB.COD], []] if given_up else [[MQFB.COD]])
        assert bench.depth == given_up


@pytest.mark.parametrize("turns", range(8))
async def test_a_line_cut_while_a_commit_reads_loses_and_doubles_nothing(turns: int) -> None:
    async with opened(slow_store(), body_bytes=0) as bench:
        replies = await replies_of(bench)
        await bench.queue.put(b"A", CONFIRMED)
        port = bench.manager.converse("other")
        opening = port.open(ObjectDescriptor(object_name="Q"), ALL)
        await opening
        port.get(opening.result().hobj, None, SYNCPOINT_GET, None).add_done_callback(heard)
        port.commit().add_done_callback(heard)
        for _ in range(turns):
            await asyncio.sleep(0)
        port.break_()
        await bench.idle()
        await bench.idle()
        assert (await feedbacks(replies), bench.depth) in (([MQFB.COD], 0), ([], 1))


async def test_a_commit_whose_bodies_cannot_be_read_is_answered_nothing_definite() -> None:
    async with opened(FaultStore(Unreadable()), body_bytes=0) as bench:
        await replies_of(bench)
        await bench.queue.put(b"A", CONFIRMED)
        calls = bench.queue.get(options=MQGMO.SYNCPOINT), bench.connection.commit()
        assert await asyncio.gather(*map(reason_of, calls)) == [MQRC.CONNECTION_BROKEN] * 2


async def test_an_expired_message_that_cannot_be_read_stays_in_the_store() -> None:
    async with opened(FaultStore(Unreadable()), body_bytes=0) as bench:
        await replies_of(bench)
        md = MessageDescriptor(report=MQRO.EXPIRATION_WITH_DATA, reply_to_q="REPLIES", expiry=10)
        await bench.queue.put(b"A", md)
        bench.manager.clock._now += 2  # type: ignore[attr-defined]
        assert await reason_of(bench.queue.get()) == MQRC.NO_MSG_AVAILABLE
        assert isinstance(await bench.manager.stopped(), StoreFailedError)
        assert len(bench.store.written) == 2  # the definition of REPLIES and the message
