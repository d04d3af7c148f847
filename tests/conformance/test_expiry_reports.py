"""Expiry and the reports on it (semantics 12.1, 12.3)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.config import Config, LimitsConfig
from broker.mqi import MQFB, MQGMO, MQIA, MQMF, MQMO, MQPMO, MQRC, MQRO, GetMessageOptions, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH
from tests.conformance.expect import ALL, browsed, drained, fails, name_of
from tests.conformance.system import System
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Connection, Queue

BODY = bytes(range(256)) + bytes(44)
PERSISTENT = 1


@pytest.fixture
async def replies(system: System, connection: Connection) -> Queue:
    """QLOCAL(REPLIES), to which the reports go."""
    await system.mqsc("DEFINE QLOCAL(REPLIES)")
    return await connection.open("REPLIES", ALL)


async def depth(queue: Queue) -> int:
    """CURDEPTH as MQINQ tells it."""
    return int((await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH])


def mortal(expiry: int = 10, report: int = MQRO.EXPIRATION, **fields: int | bytes) -> MessageDescriptor:
    """A descriptor of a message that lives for `expiry` tenths of a second and reports its end."""
    return MessageDescriptor(expiry=expiry, report=report, reply_to_q="REPLIES", **fields)  # type: ignore[arg-type]


async def test_t12_1_an_expired_message_counts_until_a_get_meets_it(system: System, queue: Queue) -> None:
    await queue.put(b"hello", MessageDescriptor(expiry=10))
    await system.pass_time(1.2)
    assert await depth(queue) == 1
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    assert await depth(queue) == 0


async def test_t12_2_a_get_tells_what_is_left_rounded_up(system: System, queue: Queue) -> None:
    await queue.put(b"hello", MessageDescriptor(expiry=600))
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).md.expiry == 600
    await system.pass_time(2)
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).md.expiry == 580
    await system.pass_time(57.99)
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).md.expiry == 1
    await queue.put(b"for ever")
    assert [(await queue.get()).md.expiry for _ in range(2)] == [1, -1]


async def test_t12_3_an_expiration_report_carries_the_first_bytes(system: System, queue: Queue, replies: Queue) -> None:
    placed = await queue.put(BODY, mortal(report=MQRO.EXPIRATION_WITH_DATA))
    await system.pass_time(1.2)
    assert await depth(replies) == 0
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    await system.rest()
    report = await replies.get()
    assert (report.md.feedback, report.data, report.md.correl_id) == (MQFB.EXPIRATION, BODY[:100], placed.md.msg_id)
    assert (report.md.expiry, report.md.report, report.md.persistence) == (-1, 0, placed.md.persistence)


@pytest.mark.parametrize("options", [MQGMO.BROWSE_FIRST, MQGMO.SYNCPOINT])
async def test_t12_9_a_message_is_reported_once_whoever_meets_it(
    system: System, connection: Connection, queue: Queue, replies: Queue, options: MQGMO
) -> None:
    await queue.put(b"dead", mortal())
    await queue.put(b"alive")
    await system.pass_time(1.2)
    for _ in range(2):
        assert (await queue.get(options=MQGMO.BROWSE_FIRST)).data == b"alive"
    assert (await queue.get(options=options)).data == b"alive"
    await system.rest()
    assert await drained(replies) == [b""]
    await connection.backout()
    assert await browsed(queue) == [b"alive"]
    assert await drained(replies) == []


async def test_the_scan_reports_what_nobody_meets(system: System, queue: Queue, replies: Queue) -> None:  # B14
    await queue.put(b"hello", mortal())
    await system.pass_time(100)
    assert await depth(queue) == 0
    report = await replies.get(options=GetMessageOptions(options=MQGMO.WAIT, wait_interval=1000))
    assert report.md.feedback == MQFB.EXPIRATION


async def test_a_put_to_a_full_queue_makes_room_and_reports_what_it_discards(
    system: System, queue: Queue, replies: Queue
) -> None:  # B14
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    await queue.put(b"dead", mortal())
    await system.pass_time(1.2)
    await queue.put(b"alive")
    assert await drained(queue) == [b"alive"]
    await system.rest()
    assert await drained(replies) == [b""]


async def test_a_message_that_expires_while_it_is_got_is_delivered(
    system: System, connection: Connection, queue: Queue, replies: Queue
) -> None:
    await queue.put(b"hello", mortal(report=MQRO.EXPIRATION | MQRO.COD))
    await queue.get(options=MQGMO.SYNCPOINT)
    await system.pass_time(1.2)
    await connection.commit()
    assert (await replies.get()).md.feedback == MQFB.COD
    assert await depth(replies) == 0


async def test_a_message_that_expired_while_it_was_got_is_expired_after_a_backout(
    system: System, connection: Connection, queue: Queue, replies: Queue
) -> None:
    await queue.put(b"hello", mortal())
    await queue.get(options=MQGMO.SYNCPOINT)
    await system.pass_time(1.2)
    await connection.backout()
    assert await depth(queue) == 1
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    await system.rest()
    assert (await replies.get()).md.feedback == MQFB.EXPIRATION


async def test_an_expiration_report_is_no_part_of_the_unit_of_work_that_met_it(
    system: System, connection: Connection, queue: Queue, replies: Queue, other: Connection
) -> None:
    await queue.put(b"dead", mortal())
    await queue.put(b"alive")
    await system.pass_time(1.2)
    assert (await queue.get(options=MQGMO.SYNCPOINT)).data == b"alive"
    await system.rest()
    assert await depth(replies) == 1
    assert await drained(replies) == [b""]
    await connection.backout()
    assert await depth(queue) == 1


async def test_an_expiration_report_that_passes_on_expiry_lives_for_a_minute(
    system: System, queue: Queue, replies: Queue
) -> None:
    await queue.put(b"hello", mortal(report=MQRO.EXPIRATION | MQRO.PASS_DISCARD_AND_EXPIRY))
    await system.pass_time(1.2)
    assert await drained(queue) == []
    await system.rest()
    assert (await replies.get()).md.expiry == 600


async def test_a_report_expires_too(system: System, queue: Queue, replies: Queue) -> None:
    await queue.put(b"hello", mortal(20, MQRO.COA | MQRO.EXPIRATION | MQRO.PASS_DISCARD_AND_EXPIRY))
    await system.pass_time(2.5)
    assert await drained(replies) == []
    assert await depth(queue) == 1


async def test_a_full_reply_queue_is_rid_of_what_is_expired_first(system: System, queue: Queue, replies: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(REPLIES) MAXDEPTH(1)")
    await replies.put(b"old", MessageDescriptor(expiry=10, report=MQRO.EXPIRATION, reply_to_q="Q"))
    await queue.put(b"hello", mortal())
    await system.pass_time(1.2)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    await system.rest()
    assert (await replies.get()).md.feedback == MQFB.EXPIRATION
    await system.rest()
    assert (await queue.get()).md.feedback == MQFB.EXPIRATION


async def test_an_expiration_report_that_cannot_be_put_is_a_dead_letter(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("DEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)")
    dead = await connection.open("DEAD", ALL)
    await queue.put(b"hello", mortal(report=MQRO.EXPIRATION_WITH_FULL_DATA))
    await system.pass_time(1.2)
    assert await drained(queue) == []
    await system.rest()
    letter = await dead.get()
    header = MQDLH.from_bytes(letter.data)
    assert (header.reason, header.dest_q_name) == (MQRC.UNKNOWN_OBJECT_NAME, "REPLIES")
    assert letter.data[MQDLH.SIZE :] == b"hello"


# Groups and segments


async def test_an_expired_first_item_leaves_a_group_without_an_entry(system: System, queue: Queue) -> None:
    await queue.put(b"1", MessageDescriptor(expiry=10, msg_flags=MQMF.MSG_IN_GROUP), MQPMO.LOGICAL_ORDER)
    await queue.put(b"2", MessageDescriptor(msg_flags=MQMF.LAST_MSG_IN_GROUP), MQPMO.LOGICAL_ORDER)
    await system.pass_time(1.2)
    logical = GetMessageOptions(options=MQGMO.LOGICAL_ORDER, match_options=MQMO.NONE)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=logical)
    assert (await queue.get()).data == b"2"


@pytest.mark.parametrize(
    "options", [MQGMO.ALL_MSGS_AVAILABLE, MQGMO.ALL_SEGMENTS_AVAILABLE, MQGMO.COMPLETE_MSG, MQGMO.LOGICAL_ORDER]
)
async def test_an_expired_part_makes_the_whole_incomplete(
    system: System, queue: Queue, replies: Queue, options: MQGMO
) -> None:
    for offset, expiry, flags in ((0, -1, MQMF.SEGMENT), (2, 10, MQMF.SEGMENT), (4, -1, MQMF.LAST_SEGMENT)):
        md = mortal(expiry, MQRO.EXPIRATION_WITH_DATA, group_id=name_of("G"), offset=offset, msg_flags=flags)
        await queue.put(bytes([offset, offset]), md)
    await system.pass_time(1.2)
    gmo = GetMessageOptions(options=options, match_options=MQMO.NONE)
    if options == MQGMO.LOGICAL_ORDER:
        assert (await queue.get(options=gmo)).data == b"\0\0"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=gmo)
    await system.rest()
    report = await replies.get()
    assert (report.data, report.md.offset, report.md.msg_flags) == (b"\2\2", 2, MQMF.SEGMENT)
    assert (report.md.group_id, report.md.original_length) == (name_of("G"), 2)


# Restart, and bodies that are only on disk


@pytest.fixture(params=["embedded", "tcp"])
async def lean(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[System]:
    """A queue manager on SQLite that keeps no body of a persistent message in memory; Q and REPLIES are defined."""
    make_store = partial(log_store, tmp_path / "data")
    config = Config(limits=LimitsConfig(body_bytes=0))
    async with System(make_store, request.param, config) as system:
        await system.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)\nDEFINE QLOCAL(REPLIES) DEFPSIST(YES)")
        yield system


async def test_a_report_carries_data_that_was_only_on_disk(lean: System) -> None:
    connection = await lean.connect()
    queue, replies = [await connection.open(name, ALL) for name in ("Q", "REPLIES")]
    for number in range(100):
        await queue.put(b"%d" % number, mortal(report=MQRO.EXPIRATION_WITH_DATA))
    await queue.put(b"plain", mortal())
    await lean.pass_time(1.2)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    assert sorted(await drained(replies)) == sorted([b"", *(b"%d" % number for number in range(100))])


async def test_a_commit_waits_for_the_data_of_its_confirmations(lean: System) -> None:
    connection = await lean.connect()
    queue, replies = [await connection.open(name, ALL) for name in ("Q", "REPLIES")]
    for data in (BODY, b"hello"):
        await queue.put(data, MessageDescriptor(report=MQRO.COD_WITH_FULL_DATA, reply_to_q="REPLIES"))
    got = await asyncio.gather(*(queue.get(options=MQGMO.SYNCPOINT) for _ in range(2)), connection.commit())
    assert got[-1] == MQRC.NONE
    assert await drained(replies) == [BODY, b"hello"]


async def test_reports_and_what_caused_them_survive_a_restart(lean: System) -> None:
    async with lean.reached.connect("first") as connection:
        queue = await connection.open("Q", ALL)
        await queue.put(b"hello", mortal(20, MQRO.COA | MQRO.EXPIRATION_WITH_DATA))
        await queue.put(b"later", mortal(100, MQRO.COD_WITH_DATA | MQRO.EXPIRATION))
    await lean.restart()
    await lean.pass_time(2.5)
    connection = await lean.connect()
    queue = await connection.open("Q", ALL)
    assert (await queue.get()).data == b"later"
    await connection.disconnect()
    await lean.restart()
    replies = await (await lean.connect()).open("REPLIES", ALL)
    reports = [await replies.get() for _ in range(3)]
    assert {(report.md.feedback, report.data) for report in reports} == {
        (MQFB.COA, b""),
        (MQFB.COD, b"later"),
        (MQFB.EXPIRATION, b"hello"),
    }
