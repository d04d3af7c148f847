"""Putting, getting and browsing: order, cursors, truncation (semantics 0.2, 5.4 and 8)."""

from __future__ import annotations

from time import gmtime, strftime
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQFMT, MQGMO, MQMT, MQOO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, browsed, drained, fails, name_of

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.system import System


def stamp(seconds: float) -> str:
    """Return an instant as PutDate and PutTime have it."""
    return strftime("%Y%m%d%H%M%S", gmtime(seconds)) + f"{int(seconds * 100) % 100:02}"


async def test_a_message_arrives_as_it_was_put(system: System, queue: Queue) -> None:
    md = MessageDescriptor(
        msg_type=MQMT.REQUEST, format="MYFORMAT", correl_id=name_of("order 7"), priority=5, reply_to_q="REPLIES"
    )
    before = stamp(system.clock.time())
    placed = await queue.put(b"\x00hello\xff", md)
    message = await queue.get()
    assert (message.data, message.length, message.reason) == (b"\x00hello\xff", 7, MQRC.NONE)
    assert message.md == placed.md
    assert (placed.md.correl_id, placed.md.priority, placed.md.format) == (name_of("order 7"), 5, "MYFORMAT")
    assert (placed.md.reply_to_q, placed.md.reply_to_q_mgr, placed.md.msg_type) == ("REPLIES", "QM1", MQMT.REQUEST)
    assert before <= placed.md.put_date + placed.md.put_time <= stamp(system.clock.time())
    assert placed.md.put_appl_name == "scenario"


async def test_text_is_sent_as_utf_8(queue: Queue) -> None:
    await queue.put("grüß Gott")
    message = await queue.get()
    assert (message.data.decode(), message.md.format, message.md.coded_char_set_id) == ("grüß Gott", MQFMT.STRING, 1208)


async def test_any_bytes_may_be_put_also_none(queue: Queue) -> None:
    for data in (b"", bytearray(b"array"), memoryview(b"view")):
        await queue.put(data)
    assert await drained(queue) == [b"", b"array", b"view"]


async def test_a_long_message_arrives_whole(system: System, queue: Queue) -> None:
    data = bytes(range(256)) * 16_000
    await queue.put(data)
    assert (await queue.get()).data == data


async def test_messages_come_by_priority_and_then_by_arrival(queue: Queue) -> None:
    for data, priority in ((b"A", 2), (b"B", 9), (b"C", 2), (b"D", 0), (b"E", 9), (b"F", -1)):
        await queue.put(data, MessageDescriptor(priority=priority))
    assert await browsed(queue) == await drained(queue) == [b"B", b"E", b"A", b"C", b"D", b"F"]


async def test_a_fifo_queue_ignores_priorities(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    for data, priority in ((b"A", 2), (b"B", 9), (b"C", 0)):
        await queue.put(data, MessageDescriptor(priority=priority))
    messages = [await queue.get() for _ in range(3)]
    assert [(message.data, message.md.priority) for message in messages] == [(b"A", 2), (b"B", 9), (b"C", 0)]


async def test_t8_8_positions_of_queued_messages_outlive_a_change_of_the_sequence(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(4)")
    await queue.put(b"A", MessageDescriptor(priority=2))
    await queue.put(b"B", MessageDescriptor(priority=6))
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    await queue.put(b"C", MessageDescriptor(priority=9))
    await queue.put(b"D", MessageDescriptor(priority=0))
    assert await drained(queue) == [b"B", b"C", b"D", b"A"]


async def test_a_priority_above_the_highest_is_a_warning(queue: Queue) -> None:
    await queue.put(b"nine", MessageDescriptor(priority=9))
    assert (await queue.put(b"ten", MessageDescriptor(priority=10))).reason == MQRC.PRIORITY_EXCEEDS_MAXIMUM
    assert [(await queue.get()).data, (await queue.get()).md.priority] == [b"nine", 10]


async def test_an_empty_queue_has_no_message_available(queue: Queue) -> None:
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=MQGMO.BROWSE_FIRST)


# The browse cursor


async def put_all(queue: Queue, *messages: tuple[bytes, int] | bytes) -> None:
    for message in messages:
        data, priority = message if isinstance(message, tuple) else (message, 0)
        await queue.put(data, MessageDescriptor(priority=priority))


async def browse(queue: Queue, step: MQGMO = MQGMO.BROWSE_NEXT) -> bytes:
    return (await queue.get(options=step)).data


async def browse_next(queue: Queue, count: int) -> list[bytes]:
    return [await browse(queue) for _ in range(count)]


async def test_t8_1_a_browse_finds_what_arrives_behind_the_cursor(queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    assert await browse_next(queue, 2) == [b"A", b"B"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        await browse(queue)
    await put_all(queue, b"C")
    assert await browse(queue) == b"C"


async def test_t8_2_a_browse_misses_what_arrives_before_the_cursor(queue: Queue) -> None:
    await put_all(queue, (b"A", 5), (b"B", 3))
    assert await browse(queue) == b"A"
    await put_all(queue, (b"C", 7), (b"D", 5), (b"E", 4))
    assert await browse_next(queue, 3) == [b"D", b"E", b"B"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        await browse(queue)
    assert await browse(queue, MQGMO.BROWSE_FIRST) == b"C"


async def test_t8_3_a_browse_skips_what_is_not_committed(queue: Queue, other_queue: Queue, other: Connection) -> None:
    await queue.put(b"A")
    await other_queue.put(b"B", options=MQPMO.SYNCPOINT)
    await queue.put(b"C")
    assert await browse_next(queue, 2) == [b"A", b"C"]
    await other.commit()
    with fails(MQRC.NO_MSG_AVAILABLE):
        await browse(queue)
    assert await browsed(queue) == [b"A", b"B", b"C"]


async def test_t8_4_the_message_under_the_cursor_may_go(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    assert await browse(queue) == b"A"
    assert (await other_queue.get()).data == b"A"
    for step in (MQGMO.BROWSE_MSG_UNDER_CURSOR, MQGMO.MSG_UNDER_CURSOR):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            await queue.get(options=step)
    assert await browse(queue) == b"B"


async def test_the_message_under_the_cursor_can_be_browsed_again_and_got(system: System, queue: Queue) -> None:
    await put_all(queue, b"A", b"B", b"C")
    assert await browse_next(queue, 2) == [b"A", b"B"]
    assert await browse(queue, MQGMO.BROWSE_MSG_UNDER_CURSOR) == b"B"
    assert await browse(queue, MQGMO.MSG_UNDER_CURSOR) == b"B"
    assert await browse(queue) == b"C"
    assert system.depth() == 2


async def test_t8_5_a_new_handle_has_no_message_under_its_cursor(connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        await queue.get(options=MQGMO.MSG_UNDER_CURSOR)
    for options, reason in ((MQOO.BROWSE, MQRC.NOT_OPEN_FOR_INPUT), (MQOO.INPUT_SHARED, MQRC.NOT_OPEN_FOR_BROWSE)):
        async with connection.open("Q", options) as handle:
            with fails(reason):
                await handle.get(options=MQGMO.MSG_UNDER_CURSOR)


async def test_t8_6_each_handle_has_a_cursor_of_its_own(connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    second = await connection.open("Q", MQOO.BROWSE)
    assert await browse_next(queue, 2) == [b"A", b"B"]
    assert await browse(second) == b"A"


async def test_t8_7_a_browse_that_does_not_fit_leaves_the_cursor(queue: Queue) -> None:
    await put_all(queue, b"A", b"B" * 20)
    assert await browse(queue) == b"A"
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await queue.get(options=MQGMO.BROWSE_NEXT, max_length=10)
    assert await browse(queue, MQGMO.BROWSE_MSG_UNDER_CURSOR) == b"A"
    assert await browse(queue) == b"B" * 20


async def test_t8_9_browsing_does_not_mind_exclusive_input(connection: Connection, other: Connection) -> None:
    await connection.open("Q", MQOO.INPUT_EXCLUSIVE)
    async with other.open("Q", MQOO.BROWSE) as handle:
        with fails(MQRC.NO_MSG_AVAILABLE):
            await browse(handle)


async def test_a_browse_by_identifier_goes_through_the_messages_that_have_it(queue: Queue) -> None:
    for data, correl_id in ((b"A", "x"), (b"B", "y"), (b"C", "x")):
        await queue.put(data, MessageDescriptor(correl_id=name_of(correl_id)))
    md = MessageDescriptor(correl_id=name_of("x"))
    assert [(await queue.get(md, MQGMO.BROWSE_NEXT)).data for _ in range(2)] == [b"A", b"C"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(md, MQGMO.BROWSE_NEXT)


async def test_a_browse_changes_nothing(system: System, queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    before = [(await queue.get(options=MQGMO.BROWSE_FIRST)).md for _ in range(2)]
    assert before[0] == before[1]
    assert system.depth() == 2
    assert await drained(queue) == [b"A", b"B"]


# Truncation


async def test_t5_5_a_message_that_does_not_fit_stays_and_its_beginning_is_shown(system: System, queue: Queue) -> None:
    await queue.put(bytes(range(100)))
    with fails(MQRC.TRUNCATED_MSG_FAILED) as caught:
        await queue.get(max_length=40)
    part: Message = caught.value.message  # type: ignore[assignment]
    assert (part.data, part.length, system.depth()) == (bytes(range(40)), 100, 1)
    assert part.md.msg_id != bytes(24)
    cut = await queue.get(options=MQGMO.ACCEPT_TRUNCATED_MSG, max_length=40)
    assert (cut.data, cut.length, cut.reason) == (bytes(range(40)), 100, MQRC.TRUNCATED_MSG_ACCEPTED)
    assert system.depth() == 0


@pytest.mark.parametrize(("data", "reason"), [(b"", MQRC.NONE), (b"x", MQRC.TRUNCATED_MSG_ACCEPTED)])
async def test_a_buffer_of_no_length_takes_an_empty_message(queue: Queue, data: bytes, reason: MQRC) -> None:
    await queue.put(data)
    message = await queue.get(options=MQGMO.ACCEPT_TRUNCATED_MSG, max_length=0)
    assert (message.data, message.length, message.reason) == (b"", len(data), reason)


async def test_a_buffer_of_less_than_no_length_is_an_error(queue: Queue) -> None:
    with fails(MQRC.BUFFER_LENGTH_ERROR):
        await queue.get(max_length=-1)


async def test_t5_12_browse_first_that_does_not_fit_starts_again(queue: Queue) -> None:  # B12
    await put_all(queue, b"A" * 20, b"B")
    assert await browse(queue) == b"A" * 20
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await queue.get(options=MQGMO.BROWSE_FIRST, max_length=10)
    with fails(MQRC.NO_MSG_UNDER_CURSOR):
        await browse(queue, MQGMO.BROWSE_MSG_UNDER_CURSOR)
    assert await browse(queue) == b"A" * 20


async def test_a_truncated_get_under_syncpoint_changes_nothing(system: System, queue: Queue) -> None:
    await queue.put(b"A" * 20)
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await queue.get(options=MQGMO.SYNCPOINT, max_length=10)
    assert (await queue.get()).md.backout_count == 0


# Options


async def test_options_are_flags_or_a_structure(queue: Queue) -> None:
    for options in (MQGMO.BROWSE_FIRST, GetMessageOptions(options=MQGMO.BROWSE_FIRST)):
        await queue.put(b"A")
        assert (await queue.get(options=options)).data == b"A"
        assert (await queue.get(options=GetMessageOptions())).data == b"A"


WRONG_GETS = [
    MQGMO.SYNCPOINT | MQGMO.NO_SYNCPOINT,
    MQGMO.SYNCPOINT | MQGMO.BROWSE_FIRST,
    MQGMO.SYNCPOINT_IF_PERSISTENT | MQGMO.BROWSE_NEXT,
    MQGMO.BROWSE_FIRST | MQGMO.BROWSE_NEXT,
    MQGMO.BROWSE_FIRST | MQGMO.MSG_UNDER_CURSOR,
]


@pytest.mark.parametrize("options", WRONG_GETS, ids=repr)
async def test_t5_6_options_that_do_not_go_together_are_refused(queue: Queue, options: MQGMO) -> None:
    await queue.put(b"A")
    with fails(MQRC.OPTIONS_ERROR):
        await queue.get(options=options)
    assert await drained(queue) == [b"A"]


async def test_the_structures_of_the_caller_are_never_changed(connection: Connection, queue: Queue) -> None:
    put_md, get_md, gmo = MessageDescriptor(), MessageDescriptor(), GetMessageOptions(options=MQGMO.BROWSE_FIRST)
    placed = await queue.put("text", put_md, persistence=0)
    async with connection.unit_of_work():
        await queue.get(get_md, gmo, wait=1)
        await queue.put(b"", put_md)
    assert (put_md, get_md) == (MessageDescriptor(), MessageDescriptor())
    assert gmo == GetMessageOptions(options=MQGMO.BROWSE_FIRST)
    assert placed.md is not put_md
    assert placed.md.msg_id != put_md.msg_id


async def test_wait_is_given_once(queue: Queue) -> None:
    await queue.put(b"A")
    with pytest.raises(ValueError, match="WAIT"):
        await queue.get(options=GetMessageOptions(options=MQGMO.WAIT, wait_interval=5), wait=1)
    assert (await queue.get(options=GetMessageOptions(), wait=1)).data == b"A"


async def test_handles_are_opened_for_what_they_do(connection: Connection) -> None:
    output, shared = await connection.open("Q", MQOO.OUTPUT), await connection.open("Q", MQOO.INPUT_SHARED)
    await output.put(b"A")
    with fails(MQRC.NOT_OPEN_FOR_INPUT):
        await output.get()
    with fails(MQRC.NOT_OPEN_FOR_OUTPUT):
        await shared.put(b"B")
    with fails(MQRC.NOT_OPEN_FOR_BROWSE):
        await shared.get(options=MQGMO.BROWSE_FIRST)
    with fails(MQRC.NOT_OPEN_FOR_INQUIRE):
        await shared.inquire(3)
    with fails(MQRC.NOT_OPEN_FOR_SET):
        await shared.set({9: 1})


async def test_a_closed_handle_is_no_handle(connection: Connection) -> None:
    handle = await connection.open("Q", ALL)
    assert await handle.close() == await handle.close() == MQRC.NONE
    with fails(MQRC.HOBJ_ERROR):
        await handle.put(b"A")
    with fails(MQRC.HOBJ_ERROR):
        await handle.get()
