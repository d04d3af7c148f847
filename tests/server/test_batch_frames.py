"""Batches, frame by frame: at the queue manager's end of a line, and at the client's."""

from __future__ import annotations

import asyncio
from operator import length_hint
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from broker.interface.answers import Opened, PlacedMany
from broker.interface.connection import Connection
from broker.interface.port import PUT_MANY_MAX
from broker.interface.queue import Queue
from broker.mqi import MQRC, GetMessageOptions, MessageDescriptor, MQError, checks
from broker.server import served_calls
from broker.wire import Verb
from tests.server.fakes import GMO, PMO, Client, connected
from tests.server.test_client_line import Host
from tests.server.test_client_line import connected as line_connected
from tests.wire.ends import fields
from tests.wire.samples import DELIVERY, PLACED, STOPPED, TOKEN

if TYPE_CHECKING:
    from broker.client.port import RemotePort

DONE = PlacedMany([PLACED])


def put_many(client: Client, number: int, after: int = 0, body: bytes = b"hello") -> None:
    client.say(Verb.PUT_MANY, 1, number, 7, PMO, after, None, body)


# The queue manager's end


async def test_a_batch_names_the_call_before_it_while_that_has_no_answer() -> None:
    client = await connected()
    put_many(client, 2)
    put_many(client, 3, after=2)
    first, second = client.port.calls
    assert (first.arguments[3], second.arguments[3]) == (None, first)
    first.set_result(DONE)
    await client.hears()
    put_many(client, 4, after=2)
    assert client.last.arguments[3] is None


@pytest.mark.parametrize("how", ["in part", "whole", "at once"])
async def test_what_comes_after_a_batch_that_failed_is_not_put_until_the_client_has_said_that_it_knows(
    how: str,
) -> None:
    client = await connected()
    if how == "at once":
        client.say(Verb.PUT_MANY, 1, 2, 7, None, 0, None, b"without options")
    else:
        put_many(client, 2)
        if how == "in part":
            client.last.set_result(STOPPED)
        else:
            client.last.set_exception(MQError(MQRC.Q_FULL))
    await client.hears()
    put_many(client, 3, after=2)
    put_many(client, 4, after=3)
    assert [frame[:4] for frame in await client.hears()] == [
        [Verb.FAILED, 1, 3, MQRC.OPERATION_NOT_ALLOWED],
        [Verb.FAILED, 1, 4, MQRC.OPERATION_NOT_ALLOWED],
    ]
    made = len(client.port.calls)
    for number in (2, 3, 4):
        client.say(Verb.CANCEL, 1, number)
    put_many(client, 5, after=2)
    assert len(client.port.calls) == made + 1
    assert await client.hears() == []


async def test_failed_batches_that_the_client_never_cancels_break_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_calls, "CALLS_MAX", 5)
    client = await connected()
    client.port.answer = lambda call: call.set_exception(MQError(MQRC.Q_FULL))
    for number in range(2, 7):
        put_many(client, number)
        await client.hears()
    put_many(client, 7)
    assert (await client.hears())[-1][0] == Verb.REFUSED


async def test_a_batch_weighs_as_much_as_its_messages() -> None:
    client = await connected(in_flight_bytes=100_000)
    put_many(client, 2, body=bytes(60_000))
    assert client.transport.reading
    client.say(Verb.PUT_MANY, 1, 3, 7, PMO, 0, None, bytes(20_000), None, bytes(20_000))
    assert not client.transport.reading


async def test_a_waiting_batch_of_gets_weighs_nothing() -> None:
    client = await connected(in_flight_bytes=65_536)
    for number in range(2, 1000):
        client.say(Verb.GET_MANY, 1, number, 7, None, GMO, 64)
    assert client.transport.reading


async def test_the_messages_of_a_batch_are_taken_or_given_back_together() -> None:
    client = await connected()
    for number in (2, 3):
        client.say(Verb.GET_MANY, 1, number, 7, None, GMO, 64)
        client.last.set_result([DELIVERY, DELIVERY])
    assert [frame[:3] for frame in await client.hears()] == [[Verb.ANSWER, 1, 2], [Verb.ANSWER, 1, 3]]
    client.say(Verb.TAKEN, 0, 0, [2])
    client.say(Verb.CANCEL, 1, 3)
    assert [call.fate for call in client.port.calls] == ["taken ", "abandoned "]


async def test_what_is_given_back_has_no_answer() -> None:
    client = await connected()
    client.say(Verb.GIVE_BACK, 1, 0, 7, [TOKEN, TOKEN], TOKEN)
    client.say(Verb.GIVE_BACK, 9, 0, 7, [TOKEN], TOKEN)
    assert client.port.end_reported == [("give back", 7, [TOKEN, TOKEN], TOKEN)]
    assert await client.hears() == []


# The client's end


def open_queue(port: RemotePort) -> Queue:
    return Queue(Connection(port), Opened(7, "Q", "Q", "QM1", 0), 0)


def answer_put(host: Host, frame: list[Any]) -> None:
    host.say(Verb.ANSWER, 1, frame[2], *fields(Verb.PUT_MANY, PlacedMany([PLACED] * ((len(frame) - 6) // 2))))


async def test_two_calls_of_a_batch_are_under_way_and_no_more_is_read_than_they_hold() -> None:
    host, port = await line_connected()
    left = iter([b"x"] * (5 * PUT_MANY_MAX - 1))
    putting = asyncio.ensure_future(open_queue(port).put_many(left))
    first, second = await host.hears()
    assert [frame[5] for frame in (first, second)] == [0, first[2]]
    assert [len(frame) for frame in (first, second)] == [6 + 2 * PUT_MANY_MAX] * 2
    assert length_hint(left) >= 2 * PUT_MANY_MAX - 2
    answer_put(host, first)
    (third,) = await host.hears()
    assert third[5] == second[2]
    for frame in (second, third):
        answer_put(host, frame)
    fourth, fifth = await host.hears()
    for frame in (fourth, fifth):
        answer_put(host, frame)
    assert len(await putting) == 5 * PUT_MANY_MAX - 1


async def test_a_call_of_a_batch_holds_256_kib_or_one_message() -> None:
    host, port = await line_connected()
    sizes = [100_000, 100_000, 100_000, 500_000, 10, 10]
    putting = asyncio.ensure_future(open_queue(port).put_many([bytes(size) for size in sizes]))
    held = []
    for _ in range(2):
        for frame in await host.hears():
            held.append([len(data) for data in frame[7::2]])
            answer_put(host, frame)
    assert held == [[100_000, 100_000], [100_000], [500_000], [10, 10]]
    assert len(await putting) == 6


async def test_a_descriptor_is_said_once_for_messages_that_follow_one_another() -> None:
    host, port = await line_connected()
    md = MessageDescriptor(priority=5)
    putting = asyncio.ensure_future(open_queue(port).put_many(["a", "b", (b"c", None), (b"d", md), (b"e", md)]))
    (frame,) = await host.hears()
    text, none, priority = frame[6], None, frame[12]
    assert frame[6::2] == [text, True, none, priority, True]
    answer_put(host, frame)
    await putting


async def test_a_batch_that_was_stopped_waits_for_what_is_under_way_and_says_that_no_more_comes() -> None:
    host, port = await line_connected()
    putting = asyncio.ensure_future(open_queue(port).put_many([b"x"] * 1000))
    first, second = await host.hears()
    host.say(Verb.ANSWER, 1, first[2], *fields(Verb.PUT_MANY, STOPPED))
    assert await host.hears() == [[Verb.CANCEL, 1, first[2]]]
    assert not putting.done()
    host.say(Verb.FAILED, 1, second[2], MQRC.OPERATION_NOT_ALLOWED, 2, "", None)
    with pytest.raises(MQError, match=r"2053\): messages\[1\]: ORDERS holds 5000 messages") as caught:
        await putting
    assert len(caught.value.results) == 1
    assert await host.hears() == [[Verb.CANCEL, 1, second[2]]]


async def test_a_cancelled_batch_sends_no_more() -> None:
    host, port = await line_connected()
    putting = asyncio.ensure_future(open_queue(port).put_many([b"x"] * 1000))
    first, second = await host.hears()
    putting.cancel()
    await asyncio.wait([putting])
    answer_put(host, first)
    answer_put(host, second)
    assert await host.hears() == []


async def test_gets_in_one_call_are_taken_with_one_number() -> None:
    host, port = await line_connected()
    getting = asyncio.ensure_future(open_queue(port).get_many(9))
    ((_, _, number, *items),) = await host.hears()
    assert (items[0], items[1], items[3]) == (7, None, 9)
    host.say(Verb.ANSWER, 1, number, [tuple(DELIVERY), tuple(DELIVERY)])
    assert [message.data for message in await getting] == [b"hello", b"hello"]
    assert await host.hears() == [[Verb.TAKEN, 0, 0, [number]]]


async def test_a_batch_of_gets_given_up_is_cancelled() -> None:
    host, port = await line_connected()
    call = port.get_many(7, None, GetMessageOptions(), 5)
    ((_, _, number, *_),) = await host.hears()
    call.withdraw()
    assert await host.hears() == [[Verb.CANCEL, 1, number]]


async def test_what_is_given_back_goes_before_the_commit_that_follows() -> None:
    host, port = await line_connected()
    port.give_back(7, [TOKEN], TOKEN)
    port.commit()
    assert [frame[0] for frame in await host.hears()] == [Verb.GIVE_BACK, Verb.COMMIT]


@pytest.mark.parametrize("value", [object(), 2**80, "\ud800", [object()]])
async def test_a_descriptor_that_has_no_form_in_a_frame_reaches_the_queue_manager_as_a_wrong_one(value: Any) -> None:
    """So it is its error, at its place in the batch, as it is for a program in the queue manager's process."""
    host, port = await line_connected()
    wrong = MessageDescriptor(format=value)
    batch = asyncio.ensure_future(open_queue(port).put_many([b"x", (b"y", wrong)]))
    (frame,) = await host.hears()
    assert frame[0] == Verb.PUT_MANY
    assert frame[6:8] == [None, b"x"]
    assert len(msgpack.unpackb(frame[8])) == len(wrong.to_tuple())
    with pytest.raises(MQError, match=r"format=.*a text") as caught:
        checks.descriptor(MessageDescriptor.from_tuple(msgpack.unpackb(frame[8])))
    assert caught.value.reason == MQRC.MD_ERROR
    batch.cancel()
