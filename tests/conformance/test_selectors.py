"""Selectors at MQOPEN: which messages are there for a handle (semantics 14; the language itself is in
tests/core/test_selector.py).
"""

from __future__ import annotations

import asyncio

import pytest

from broker import Connection, Queue
from broker.mqi import (
    MQGMO,
    MQMF,
    MQMO,
    MQOO,
    MQOT,
    MQPMO,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
)
from tests.conformance.expect import browsed, drained, fails, name_of
from tests.conformance.system import System

FOR_ALL = MQOO.INPUT_SHARED | MQOO.BROWSE
WAIT = GetMessageOptions(options=MQGMO.WAIT, wait_interval=-1)


async def select(connection: Connection, text: str, options: int = FOR_ALL) -> Queue:
    return await connection.open(ObjectDescriptor(object_name="Q", selection_string=text), options)


async def put_colours(queue: Queue, *colours: str) -> None:
    for number, colour in enumerate(colours, 1):
        await queue.put(f"{colour}{number}", properties={"colour": colour, "n": number})


async def test_t14_5_a_selector_brings_only_what_it_is_true_of(
    system: System, connection: Connection, queue: Queue
) -> None:
    await put_colours(queue, "blue", "red")
    red = await select(connection, "colour = 'red'")
    assert (await red.get()).data == b"red2"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await red.get()
    assert system.depth() == 1
    assert await drained(queue) == [b"blue1"]


async def test_the_first_match_in_queue_order_is_given(connection: Connection, queue: Queue) -> None:
    for priority, colour in ((1, "red"), (5, "blue"), (5, "red"), (3, "red")):
        await queue.put(f"{colour}{priority}", MessageDescriptor(priority=priority), properties={"colour": colour})
    assert await drained(await select(connection, "colour = 'red'")) == [b"red5", b"red3", b"red1"]


async def test_a_browse_sees_only_what_is_selected(connection: Connection, queue: Queue) -> None:
    await put_colours(queue, "blue", "red", "blue", "red")
    red = await select(connection, "colour = 'red'")
    assert await browsed(red) == [b"red2", b"red4"]
    await red.get(options=MQGMO.BROWSE_FIRST)
    assert (await red.get(options=MQGMO.MSG_UNDER_CURSOR)).data == b"red2"
    assert await browsed(queue) == [b"blue1", b"blue3", b"red4"]


async def test_match_options_and_the_selector_must_both_match(connection: Connection, queue: Queue) -> None:
    for colour, correl_id in (("blue", "A"), ("red", "B"), ("red", "A")):
        await queue.put(colour + correl_id, MessageDescriptor(correl_id=name_of(correl_id)), properties={"c": colour})
    red = await select(connection, "c = 'red'")
    by_correl_id = GetMessageOptions(match_options=MQMO.MATCH_CORREL_ID)
    assert (await red.get(MessageDescriptor(correl_id=name_of("A")), by_correl_id)).data == b"redA"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await red.get(MessageDescriptor(correl_id=name_of("A")), by_correl_id)


async def test_a_selector_sees_the_descriptor(connection: Connection, queue: Queue) -> None:
    sent = [(await queue.put(f"P{priority}", MessageDescriptor(priority=priority))).md for priority in (2, 7)]
    urgent = await select(connection, "Root.MQMD.Priority >= 5")
    assert await browsed(urgent) == [b"P7"]
    one = await select(connection, f"Root.MQMD.MsgId = '0x{sent[0].msg_id.hex()}'")
    assert await browsed(one) == [b"P2"]


async def test_a_message_that_was_backed_out_is_selected_by_its_count(connection: Connection, queue: Queue) -> None:
    await put_colours(queue, "red", "blue")
    again = await select(connection, "Root.MQMD.BackoutCount > 0")
    assert await browsed(again) == []
    await queue.get(options=MQGMO.SYNCPOINT)
    await connection.backout()
    assert await browsed(again) == [b"red1"]


async def test_a_waiting_get_is_served_by_what_it_selects(
    system: System, connection: Connection, queue: Queue, other: Connection
) -> None:
    red = await select(other, "colour = 'red'")
    waiting = asyncio.ensure_future(red.get(options=WAIT))
    await system.waiting("Q", 1)
    await put_colours(queue, "blue", "red")
    assert (await waiting).data == b"red2"
    assert await browsed(queue) == [b"blue1"]


async def test_a_getter_that_selects_is_served_before_a_general_one(
    system: System, connection: Connection, queue: Queue, beside: Connection
) -> None:
    anything = asyncio.ensure_future(queue.get(options=WAIT))
    await system.waiting("Q", 1)
    red = await select(beside, "colour = 'red'")
    chosen = asyncio.ensure_future(red.get(options=WAIT))
    await system.waiting("Q", 2)
    putter = await (await system.connect("putter")).open("Q", MQOO.OUTPUT)
    await put_colours(putter, "red", "red")
    assert (await chosen).data == b"red1"
    assert (await anything).data == b"red2"


async def test_what_another_backs_out_is_offered_to_a_getter_that_selects(
    system: System, connection: Connection, queue: Queue, other: Connection
) -> None:
    await put_colours(queue, "blue", "red")
    red = await select(other, "colour = 'red'")
    assert len([await queue.get(options=MQGMO.SYNCPOINT) for _ in range(2)]) == 2
    waiting = asyncio.ensure_future(red.get(options=WAIT))
    await system.waiting("Q", 1)
    await connection.backout()
    assert (await waiting).data == b"red2"


async def test_an_uncommitted_message_is_not_selected(connection: Connection, queue: Queue, other: Connection) -> None:
    red = await select(other, "colour = 'red'")
    await queue.put(b"red", options=MQPMO.SYNCPOINT, properties={"colour": "red"})
    with fails(MQRC.NO_MSG_AVAILABLE):
        await red.get()
    await connection.commit()
    assert (await red.get()).data == b"red"


async def test_two_handles_with_one_selector_are_each_on_their_own(connection: Connection, queue: Queue) -> None:
    await put_colours(queue, "red", "red")
    first, second = [await select(connection, "colour = 'red'") for _ in range(2)]
    assert (await first.get(options=MQGMO.BROWSE_NEXT)).data == b"red1"
    assert (await second.get(options=MQGMO.BROWSE_NEXT)).data == b"red1"
    await first.close()
    assert (await second.get(options=MQGMO.BROWSE_NEXT)).data == b"red2"


async def test_complete_message_is_selected_by_its_first_segment(connection: Connection, queue: Queue) -> None:
    for part, flags in ((1, MQMF.SEGMENT), (2, MQMF.LAST_SEGMENT)):
        properties = {"part": part}
        md = MessageDescriptor(msg_flags=flags)
        await queue.put(f"part{part}", md, MQPMO.LOGICAL_ORDER | MQPMO.SYNCPOINT, properties=properties)
    await connection.commit()
    last = await select(connection, "part = 2")
    with fails(MQRC.NO_MSG_AVAILABLE):
        await last.get(options=MQGMO.COMPLETE_MSG)
    first = await select(connection, "part = 1")
    message = await first.get(options=MQGMO.COMPLETE_MSG)
    assert (message.data, dict(message.properties)) == (b"part1part2", {"part": 1})


@pytest.mark.parametrize("text", ["colour =", "colour = 'red", "5", "Root.MQMD.Colour = 1", "not " * 500 + "a"])
async def test_what_is_no_selector_is_refused_at_open(connection: Connection, text: str) -> None:
    with fails(MQRC.SELECTOR_SYNTAX_ERROR):
        await select(connection, text)


async def test_a_selector_that_is_too_long_is_refused(connection: Connection) -> None:
    with fails(MQRC.SELECTION_STRING_ERROR):
        await select(connection, "a = 1" + " " * 20_000)


async def test_a_selector_is_only_for_input_and_browse(connection: Connection) -> None:
    with fails(MQRC.SELECTOR_INVALID_FOR_TYPE):
        await select(connection, "a = 1", MQOO.OUTPUT)
    with fails(MQRC.SELECTOR_INVALID_FOR_TYPE):
        await connection.put1(ObjectDescriptor(object_name="Q", selection_string="a = 1"), b"")
    with fails(MQRC.SELECTOR_INVALID_FOR_TYPE):
        od = ObjectDescriptor(object_type=MQOT.Q_MGR, selection_string="a = 1")
        await connection.open(od, MQOO.INQUIRE)


async def test_messages_ends_when_nothing_more_is_selected(connection: Connection, queue: Queue) -> None:
    await put_colours(queue, "red", "blue", "red")
    red = await select(connection, "colour = 'red'")
    assert [message.data async for message in red.messages(options=MQGMO.BROWSE_NEXT)] == [b"red1", b"red3"]
    assert [message.data async for message in red.messages()] == [b"red1", b"red3"]
    assert await drained(queue) == [b"blue2"]


async def test_messages_waits_as_long_as_it_is_told(system: System, connection: Connection, queue: Queue) -> None:
    await put_colours(queue, "red")

    async def consume() -> list[bytes]:
        return [message.data async for message in queue.messages(wait=5)]

    consumer = asyncio.ensure_future(consume())
    await system.waiting("Q", 1)
    await system.pass_time(5)
    assert await consumer == [b"red1"]
