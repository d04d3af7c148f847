"""Deliveries of shared queues whose worker, its line or the database is lost at any moment."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker.mqi import MQRC, MessageDescriptor, MQError
from broker.mqi.delivery_fields import Became, Outcome
from tests.handlers.desk import TERMS, bodies, settle
from tests.sharing.members import lose_line
from tests.sharing.workers import BY_ACCOUNT, HANDLED, depth, keyed, messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

    from broker import Queue
    from tests.sharing.members import Members
    from tests.sharing.workers import Workers


pytestmark = pytest.mark.postgres

DEFINITIONS = HANDLED


@contextmanager
def at_piece(members: Members, pieces: int, act: Callable[[], object]) -> Iterator[None]:
    """Do something when so many more pieces have come to QM1 from the database, before the next is passed on."""
    line = members.lines["QM1"]

    def judge(piece: bytes) -> bytes | None:
        nonlocal pieces
        pieces -= 1
        if pieces >= 0:
            return piece
        line.to_client = None
        return None if act() else piece

    line.to_client = judge
    yield
    line.to_client = None


@pytest.mark.parametrize("pieces", [1, 3, 4, 6])
async def test_who_stops_waiting_has_taken_nothing(
    members: Members, workers: Workers, there: Queue, pieces: int
) -> None:
    worker = await workers.start("QM1")
    taking = asyncio.ensure_future(worker.take())
    await members.clock.rest()
    with at_piece(members, pieces, lambda: taking.cancel() and None):
        await there.put("a")
        await members.clock.rest()
    if taking.cancelled():
        assert await messages(members, "Q") == [b"a"]
    else:
        await settle(worker, Outcome.DONE, *await taking)
    assert await depth(members) == 0


@pytest.mark.parametrize("pieces", [1, 3, 4, 6])
async def test_whose_connection_ends_while_a_message_is_taken_has_not_had_it(
    members: Members, there: Queue, pieces: int
) -> None:
    connection = await members.connect("QM1")
    deliveries = connection.deliveries("Q", options=TERMS)
    await deliveries.__aenter__()
    taking = asyncio.ensure_future(deliveries.take())
    await members.clock.rest()
    with at_piece(members, pieces, lambda: lose_line(connection)):
        await there.put("a")
        await members.clock.advance(2)
    lose_line(connection)
    with suppress(MQError):
        await taking
    await members.clock.advance(2)
    assert await messages(members, "Q") == [b"a"]


def cut_after(members: Members, pieces: int) -> AbstractContextManager[None]:
    """All sessions of QM1 are cut off when so many more pieces have come from the database; the next is lost."""

    def cut() -> bool:
        members.lines["QM1"].cut_lines()
        return True

    return at_piece(members, pieces, cut)


@asynccontextmanager
async def lost_after(members: Members, pieces: int) -> AsyncIterator[None]:
    """The database is lost to QM1 when so many more pieces have come from it, until the end: nobody waits for it."""
    line = members.lines["QM1"]
    cutting: list[asyncio.Future[None]] = []

    def cut() -> bool:
        line.cut_lines()
        cutting.append(asyncio.ensure_future(line.cut()))
        return True

    with at_piece(members, pieces, cut), patch("broker.sharing.database.database.SETTLE_SECONDS", 0.0):
        yield
        await members.clock.rest()
        await asyncio.gather(*cutting)
        await members.clock.rest()
        await line.mend()


@pytest.mark.parametrize("pieces", [0, 2, 4, 5, 6])
async def test_wherever_the_line_breaks_a_message_is_taken_once(
    members: Members, workers: Workers, here: Queue, there: Queue, pieces: int
) -> None:
    worker = await workers.start("QM1", BY_ACCOUNT)
    taking = asyncio.ensure_future(worker.take())
    await members.clock.rest()
    with cut_after(members, pieces):
        await keyed(there, "a1")
        await members.clock.advance(3)
    (taken,) = await taking
    assert bodies([taken]) == ["a1"]
    assert await members.group.value("SELECT count(*) FROM held WHERE kind = 2") == 1
    (settled,) = await settle(worker, Outcome.DONE, taken)
    assert settled.became == Became.GONE
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


@pytest.mark.parametrize("pieces", [2, 4, 6])
async def test_where_nobody_knows_what_was_taken_it_comes_again(
    members: Members, workers: Workers, there: Queue, pieces: int
) -> None:
    worker = await workers.start("QM1")
    taking = asyncio.ensure_future(worker.take())
    await members.clock.rest()
    async with lost_after(members, pieces):
        await there.put("a")
    await members.clock.advance(3)
    await settle(worker, Outcome.DONE, *await taking)
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


@pytest.mark.parametrize("pieces", [0, 1, 3])
@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED])
async def test_wherever_the_line_breaks_a_delivery_ends_as_its_worker_is_told(
    members: Members, workers: Workers, here: Queue, outcome: Outcome, pieces: int
) -> None:
    worker = await workers.start("QM1", TERMS._replace(attempts=None))
    await here.put("a")
    (taken,) = await worker.take()
    await (await worker.connect(taken)).put1("OUT", "reply", MessageDescriptor(persistence=1))
    with cut_after(members, pieces):
        settling = asyncio.ensure_future(settle(worker, outcome, taken))
        await members.clock.advance(3)
        (settled,) = await settling
    gone = settled.became in (Became.GONE, Became.DEAD)
    assert await messages(members, "OUT") == ([b"reply"] if settled.became == Became.GONE else [])
    assert len(await messages(members, "DEAD")) == (settled.became == Became.DEAD)
    if not gone:
        await members.clock.advance(60)
        (again,) = await worker.take()
        await settle(worker, Outcome.DONE, again)
    await members.clock.rest()  # the rows of what was got go after the answers
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


@pytest.mark.parametrize("pieces", [0, 1, 2])
@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED])
async def test_where_nobody_knows_how_a_delivery_has_ended_nothing_is_lost_or_doubled(
    members: Members, workers: Workers, here: Queue, outcome: Outcome, pieces: int
) -> None:
    worker = await workers.start("QM1", TERMS._replace(attempts=None))
    await here.put("a")
    (taken,) = await worker.take()
    async with lost_after(members, pieces):
        settling = asyncio.ensure_future(settle(worker, outcome, taken))
    (settled,) = await settling
    while members.member("QM1").units.outcomes.doubts:
        await members.clock.rest()
    await members.clock.advance(70)
    back = await members.group.value("SELECT count(*) FROM message WHERE queue = 'Q' AND state = 1")
    dead = len(await messages(members, "DEAD"))
    gone = outcome == Outcome.DONE and not back
    assert back + dead + gone == 1
    if settled.reason != MQRC.OUTCOME_PENDING:
        assert (settled.became == Became.GONE, settled.became == Became.DEAD) == (gone, bool(dead))
    if back:
        await settle(worker, Outcome.DONE, *await worker.take())


async def test_a_delivery_that_ends_while_the_database_is_away_comes_again(
    members: Members, workers: Workers, here: Queue
) -> None:
    worker = await workers.start("QM1")
    await here.put("a")
    (taken,) = await worker.take()
    await members.lines["QM1"].cut()
    with patch("broker.sharing.database.database.SETTLE_SECONDS", 0.0):
        (settled,) = await settle(worker, Outcome.FAILED, taken)
    assert settled.became == Became.DELAYED
    await members.lines["QM1"].mend()
    await members.clock.advance(2)
    (again,) = await worker.take()
    assert again.attempt == 2
    await settle(worker, Outcome.DONE, again)


async def test_a_step_on_a_shared_queue_is_refused_with_a_sentence(workers: Workers, there: Queue) -> None:
    worker = await workers.start("QM1")
    await there.put("a")
    (taken,) = await worker.take()
    with pytest.raises(MQError, match="Q is a shared queue, whose messages the queue-sharing group keeps") as refused:
        await worker.step(taken, "charge", b"1")
    assert refused.value.reason == MQRC.OPTION_NOT_VALID_FOR_TYPE
    await settle(worker, Outcome.DONE, taken)
