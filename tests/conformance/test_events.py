"""Limits of queues, and the event messages about them (semantics 13)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.mqi import MQAT, MQCA, MQFMT, MQGMO, MQIA, MQMF, MQMT, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, browsed, drained, fails

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.system import System

PERFORMANCE = "SYSTEM.ADMIN.PERFM.EVENT"
QUEUE_MANAGER = "SYSTEM.ADMIN.QMGR.EVENT"
MQCACF_APPL_NAME = 3024


class Event(NamedTuple):
    """An event message, taken apart."""

    command: int
    reason: int
    parameters: dict[int, int | str]


def event_of(message: Message) -> Event:
    """Unpack an event message: a header of nine integers, then numbers and strings."""
    kind, length, _, command, *_, reason, count = struct.unpack_from("<9i", message.data)
    assert (kind, length) == (7, 36)
    parameters: dict[int, int | str] = {}
    start = length
    for _ in range(count):
        kind, length, parameter, value = struct.unpack_from("<4i", message.data, start)
        if kind == 3:
            parameters[parameter] = value
        else:
            (size,) = struct.unpack_from("<i", message.data, start + 16)
            parameters[parameter] = message.data[start + 20 : start + 20 + size].decode().rstrip()
        start += length
    assert start == message.length
    return Event(command, reason, parameters)


@pytest.fixture
async def events(system: System, connection: Connection) -> Queue:
    """The queue of performance events, which a queue manager has from the beginning; they are enabled."""
    await system.mqsc("ALTER QMGR PERFMEV(ENABLED)")
    return await connection.open(PERFORMANCE, ALL)


async def reasons(events: Queue) -> list[int]:
    """Get all events: their reasons."""
    found = []
    while await depth(events):
        found.append(event_of(await events.get()).reason)
    return found


async def depth(queue: Queue) -> int:
    return int((await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH])


async def put_and_get(queue: Queue, puts: int, gets: int = 0) -> None:
    for _ in range(puts):
        await queue.put(b"")
    for _ in range(gets):
        await queue.get()


async def test_t13_1_a_full_queue_takes_no_more_until_a_get_makes_room(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    await put_and_get(queue, 2)
    with fails(MQRC.Q_FULL):
        await queue.put(b"")
    assert await browsed(queue) == [b"", b""]
    with fails(MQRC.Q_FULL):
        await queue.put(b"")
    await queue.get()
    await queue.put(b"")


@pytest.mark.parametrize(("length", "reason"), [(11, MQRC.MSG_TOO_BIG_FOR_Q), (10, None), (0, None)])
async def test_t13_2_a_message_may_be_as_long_as_maxmsgl(
    system: System, queue: Queue, length: int, reason: MQRC | None
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    if reason is None:
        await queue.put(bytes(length))
        assert await drained(queue) == [bytes(length)]
    else:
        with fails(reason):
            await queue.put(bytes(length))


async def test_t13_4_a_queue_with_get_disabled_gives_nothing_but_takes_puts_and_commits(
    system: System, connection: Connection, queue: Queue
) -> None:
    await put_and_get(queue, 2)
    await queue.get(options=MQGMO.SYNCPOINT)
    await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    for options in (MQGMO.BROWSE_FIRST, MQGMO.SYNCPOINT):
        with fails(MQRC.GET_INHIBITED):
            await queue.get(options=options)
    await queue.put(b"")
    await connection.commit()
    assert await depth(queue) == 2


async def test_t13_5_the_message_that_reaches_the_high_limit_makes_an_event_and_no_later_one(
    system: System, queue: Queue, events: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10) QDEPTHHI(80) QDPHIEV(ENABLED)")
    await put_and_get(queue, 7, 2)
    await put_and_get(queue, 2)
    assert await reasons(events) == []
    await system.pass_time(5)
    await queue.put(b"")
    await system.rest()
    message = await events.get()
    assert event_of(message) == Event(
        45,
        MQRC.Q_DEPTH_HIGH,
        {
            MQCA.Q_MGR_NAME: "QM1",
            MQCA.BASE_OBJECT_NAME: "Q",
            MQIA.TIME_SINCE_RESET: 5,
            MQIA.HIGH_Q_DEPTH: 8,
            MQIA.MSG_ENQ_COUNT: 10,
            MQIA.MSG_DEQ_COUNT: 2,
        },
    )
    md = message.md
    assert (md.format, md.msg_type, md.put_appl_type, md.put_appl_name) == (
        MQFMT.EVENT,
        MQMT.DATAGRAM,
        MQAT.QMGR,
        "QM1",
    )
    await put_and_get(queue, 1, 2)
    await put_and_get(queue, 2)
    assert await reasons(events) == []


async def test_a_message_got_whole_counts_as_all_its_segments(system: System, queue: Queue, events: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10) QDEPTHHI(30) QDEPTHLO(0) QDPHIEV(ENABLED) QDPLOEV(ENABLED)")
    for flags in (MQMF.SEGMENT, MQMF.SEGMENT, MQMF.LAST_SEGMENT):
        await queue.put(b"part", MessageDescriptor(msg_flags=flags), options=MQPMO.LOGICAL_ORDER)
    await system.rest()
    assert await reasons(events) == [MQRC.Q_DEPTH_HIGH]
    assert (await queue.get(options=MQGMO.COMPLETE_MSG)).data == b"part" * 3
    await system.rest()
    low = event_of(await events.get())
    assert (low.reason, low.parameters[MQIA.MSG_DEQ_COUNT]) == (MQRC.Q_DEPTH_LOW, 3)


async def test_depth_events_arm_one_another(system: System, queue: Queue, events: Queue) -> None:
    await system.mqsc(
        "ALTER QLOCAL(Q) MAXDEPTH(10) QDEPTHHI(80) QDEPTHLO(20) QDPHIEV(ENABLED) QDPLOEV(ENABLED) QDPMAXEV(ENABLED)"
    )
    await put_and_get(queue, 2, 1)
    assert await reasons(events) == []  # low is armed by high or full only
    for _ in range(2):
        await put_and_get(queue, 9)
        for _ in range(2):
            with fails(MQRC.Q_FULL):
                await queue.put(b"")
        assert await reasons(events) == [MQRC.Q_DEPTH_HIGH, MQRC.Q_FULL]
        await put_and_get(queue, 0, 7)
        assert await reasons(events) == []
        await put_and_get(queue, 0, 2)
        assert await reasons(events) == [MQRC.Q_DEPTH_LOW]


async def test_an_event_is_no_part_of_the_unit_of_work_that_causes_it(
    system: System, connection: Connection, queue: Queue, events: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1) QDPHIEV(ENABLED) QDEPTHHI(100)")
    await queue.put(b"", options=MQPMO.SYNCPOINT)
    await system.rest()
    assert await reasons(events) == [MQRC.Q_DEPTH_HIGH]
    await connection.backout()
    assert await reasons(events) == []


async def test_the_depth_is_what_it_was_when_a_unit_of_work_is_backed_out(
    system: System, connection: Connection, queue: Queue, events: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10) QDPHIEV(ENABLED) QDEPTHHI(50)")
    await put_and_get(queue, 4)
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.put(b"", options=MQPMO.SYNCPOINT)
    await connection.backout()
    await queue.put(b"")
    await system.rest()
    event = event_of(await events.get())
    assert (event.reason, event.parameters[MQIA.HIGH_Q_DEPTH]) == (MQRC.Q_DEPTH_HIGH, 5)


async def test_without_a_queue_for_it_an_event_is_lost(system: System, connection: Connection, queue: Queue) -> None:
    await system.mqsc(f"DELETE QLOCAL({PERFORMANCE})\nDEFINE QLOCAL(DEAD)\nALTER QLOCAL(Q) MAXDEPTH(0)")
    await system.mqsc("ALTER QMGR PERFMEV(ENABLED) DEADQ(DEAD)")
    with fails(MQRC.Q_FULL):
        await queue.put(b"")
    assert await drained(await connection.open("DEAD", ALL)) == []


async def test_service_interval_events_alternate(system: System, queue: Queue, events: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) QSVCIEV(HIGH) QSVCINT(1000)")
    await put_and_get(queue, 1, 1)
    await system.pass_time(10)
    await put_and_get(queue, 3, 1)
    assert await reasons(events) == []  # an empty queue waits for nobody
    await system.pass_time(1.5)
    await put_and_get(queue, 1, 1)
    assert await reasons(events) == [MQRC.Q_SERVICE_INTERVAL_HIGH]
    await put_and_get(queue, 1, 2)
    assert await reasons(events) == [MQRC.Q_SERVICE_INTERVAL_OK]
    await system.pass_time(1.5)
    await queue.get()
    assert await reasons(events) == [MQRC.Q_SERVICE_INTERVAL_HIGH]


async def test_service_interval_ok_alone_tells_of_prompt_gets(system: System, queue: Queue, events: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) QSVCIEV(OK) QSVCINT(1000)")
    await put_and_get(queue, 4, 2)
    assert await reasons(events) == [MQRC.Q_SERVICE_INTERVAL_OK]
    await system.pass_time(1.5)
    await put_and_get(queue, 0, 1)
    assert await reasons(events) == []
    await put_and_get(queue, 0, 1)
    assert await reasons(events) == [MQRC.Q_SERVICE_INTERVAL_OK]


async def test_inhibited_calls_make_events(system: System, connection: Connection, queue: Queue) -> None:
    await system.mqsc("ALTER QMGR INHIBTEV(ENABLED)")
    events = await connection.open(QUEUE_MANAGER, ALL)
    await system.mqsc("ALTER QLOCAL(Q) PUT(DISABLED) GET(DISABLED)")
    with fails(MQRC.PUT_INHIBITED):
        await queue.put(b"", MessageDescriptor())
    with fails(MQRC.GET_INHIBITED):
        await queue.get()
    reported: dict[int, int | str] = {
        MQCA.Q_MGR_NAME: "QM1",
        MQCA.Q_NAME: "Q",
        MQIA.APPL_TYPE: MQAT.UNIX,
        MQCACF_APPL_NAME: "scenario",
    }
    assert [event_of(await events.get()) for _ in range(2)] == [
        Event(44, MQRC.PUT_INHIBITED, reported),
        Event(44, MQRC.GET_INHIBITED, reported),
    ]
    assert await drained(events) == []
