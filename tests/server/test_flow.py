"""What one line holds, and what all lines hold, is bounded; whoever makes small calls is served all the same."""

from __future__ import annotations

import asyncio
import gc
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker.engine.calls.room import BOUNDLESS
from broker.interface.answers import PlacedMany
from broker.mqi import MQRC, MessageDescriptor, MQError
from broker.mqi.replies import CommandReply
from broker.server.flow import FREE_BYTES, WAITING_WEIGHT, Flow, MemoryReserve
from broker.wire import Verb
from broker.wire.structures import DescriptorPacker
from tests.server.fakes import GMO, PMO, Client, connected
from tests.wire.samples import DELIVERY, PLACED

if TYPE_CHECKING:
    pass

GET = (7, None, GMO, None)
PUT = (7, None, PMO)
LONG_MD = DescriptorPacker().pack(MessageDescriptor(reply_to_q="x" * 20_000))


def put(number: int, length: int) -> tuple[Any, ...]:
    return (Verb.PUT, 1, number, *PUT, bytes(length))


def reads(client: Client) -> bool:
    return client.transport.reading


def held(client: Client) -> int:
    return client.server.reserve.held


def begun(client: Client, length: int) -> bytes:
    """The rest of a put of which the session has got the first bytes."""
    frame = client.end.send(*put(100, length))
    client.session.data_received(frame[:10])
    return frame[10:]


async def together(count: int, **limits: Any) -> list[Client]:
    """Clients of one server, each with a line of its own."""
    first = await connected(**limits)
    return [first, *[await first.beside() for _ in range(count - 1)]]


# One line.


async def test_answers_that_are_not_written_count() -> None:
    client = await connected(in_flight_bytes=100_000)
    client.port.answer = lambda call: call.set_result(DELIVERY._replace(data=bytes(40_000)))
    client.session.pause_writing()
    client.say_together(*((Verb.GET, 1, number, *GET) for number in range(2, 12)))
    assert len(client.port.calls) == 3
    client.session.resume_writing()
    heard: list[Any] = []
    while len(heard) < 10:
        heard += await client.hears()
    assert held(client) == 0


@pytest.mark.parametrize(
    ("verb", "items", "result"),
    [
        (Verb.GET_MANY, (7, None, GMO, 10), [DELIVERY._replace(data=bytes(20_000))] * 2),
        (Verb.GET, GET, DELIVERY._replace(properties=bytes(40_000))),
        (Verb.PUT_MANY, (7, PMO, 0, None, b""), PlacedMany([PLACED._replace(packed_md=bytes(40_000))])),
        (Verb.STATUS, (), {"queues": [{}] * 40}),
        (Verb.GET, GET, MQError(MQRC.TRUNCATED_MSG_FAILED, message=DELIVERY._replace(data=bytes(40_000)))),
    ],
)
async def test_every_long_answer_counts_until_it_is_written(verb: Verb, items: tuple[Any, ...], result: Any) -> None:
    client = await connected()
    client.session.pause_writing()
    client.say(verb, 1, 2, *items)
    assert held(client) < 30_000
    if isinstance(result, MQError):
        client.last.set_exception(result)
    else:
        client.last.set_result(result)
    await client.hears()
    assert held(client) >= 40_000
    client.session.resume_writing()
    await client.hears()
    assert held(client) == 0


async def test_messages_that_a_get_has_on_its_way_count() -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    client.last.held = 50_000
    client.session.flow.got(50_000)
    client.last.set_result(DELIVERY)
    await client.hears()
    assert held(client) == 0
    client.say(Verb.GET, 1, 3, *GET)
    client.last.held = 50_000
    client.session.flow.got(50_000)
    client.say(Verb.CANCEL, 1, 3)
    assert client.session.flow.answers == 0
    assert held(client) == 0


async def test_descriptors_of_a_batch_count() -> None:
    client = await connected(in_flight_bytes=100_000)
    client.say(Verb.PUT_MANY, 1, 2, 7, PMO, 0, LONG_MD, b"", LONG_MD, b"")
    assert held(client) > 80_000


async def test_a_text_of_commands_counts_as_long_as_it_is_in_memory() -> None:
    client = await connected(in_flight_bytes=1_000_000)
    client.say(Verb.MQSC, 1, 2, "x" * 49_999 + "\N{GRINNING FACE}")
    assert held(client) > 4 * 50_000
    client.last.set_result([CommandReply(code="AMQ8405I", text="")])
    await client.hears()
    assert held(client) == 0


async def test_calls_that_wait_with_long_descriptors_are_refused_when_they_are_too_many() -> None:
    client = await connected(in_flight_bytes=200_000)
    for number in range(2, 6):
        client.say(Verb.GET, 1, number, 7, LONG_MD, GMO, None)
    refused = await client.hears()
    assert [frame[2:4] for frame in refused] == [[4, MQRC.RESOURCE_PROBLEM], [5, MQRC.RESOURCE_PROBLEM]]
    assert "[limits] in_flight_bytes = 200000" in refused[0][5]
    assert reads(client)
    client.say(Verb.CANCEL, 1, 2)
    client.say(Verb.GET, 1, 6, 7, LONG_MD, GMO, None)
    assert [frame[0] for frame in await client.hears()] == [Verb.CANCELLED]


async def test_calls_that_wait_on_all_lines_are_bounded_too() -> None:
    first, second = await together(2, server_bytes=1024 * 1024)
    most = 1024 * 1024 // WAITING_WEIGHT
    for number in range(2, most + 2):
        first.say(Verb.GET, 1, number, *GET)
    second.say(Verb.GET, 1, 2, *GET)
    (refused,) = await second.hears()
    assert refused[3] == MQRC.RESOURCE_PROBLEM
    assert "[limits] server_bytes = 1048576" in refused[5]
    first.session.connection_lost(None)
    second.say(Verb.GET, 1, 3, *GET)
    assert await second.hears() == []
    second.session.connection_lost(None)
    assert (second.server.reserve.waiting_calls, held(second)) == (0, 0)


async def test_an_answered_call_waits_no_longer() -> None:
    client = await connected(in_flight_bytes=100_000)
    for number in range(2, 20):
        client.say(Verb.GET, 1, number, 7, LONG_MD, GMO, None)
        client.last.set_result(DELIVERY)
        assert (await client.hears())[0][0] == Verb.ANSWER
    assert client.server.reserve.waiting_calls == 0


# Frames that are coming in.


async def test_a_frame_counts_in_its_whole_length_from_its_first_bytes_on_and_then_as_its_call() -> None:
    client = await connected()
    rest = begun(client, 1_000_000)
    assert 1_000_000 < held(client) < 1_001_000
    client.session.data_received(rest)
    assert 1_000_000 < held(client) < 1_002_000
    client.last.set_result(PLACED)
    await client.hears()
    assert held(client) == 0
    assert reads(client)


async def test_a_frame_for_which_its_own_line_has_no_room_waits_unread_until_the_calls_before_it_are_answered() -> None:
    client = await connected(in_flight_bytes=200_000)
    client.say(*put(2, 150_000))
    rest = begun(client, 150_000)
    assert not reads(client)
    client.last.set_result(PLACED)
    await client.hears()
    assert reads(client)
    client.session.data_received(rest)
    assert len(client.port.calls) == 2


async def test_a_frame_longer_than_all_room_comes_when_the_line_has_nothing_else_under_way() -> None:
    client = await connected(in_flight_bytes=65_536, server_bytes=1024 * 1024)
    rest = begun(client, 3_000_000)
    assert reads(client)
    client.session.data_received(rest[:1_000_000])
    assert reads(client)
    client.session.data_received(rest[1_000_000:])
    client.last.set_result(PLACED)
    await client.hears()
    assert (held(client), reads(client)) == (0, True)


async def test_frames_of_many_lines_come_as_far_as_there_is_room_and_one_more_and_then_in_turn() -> None:
    clients = await together(6, server_bytes=1024 * 1024)
    rests = [begun(client, 400_000) for client in clients]
    assert [reads(client) for client in clients] == [True, True, True, False, False, False]
    for client, rest in zip(clients, rests, strict=True):
        assert reads(client)
        client.session.data_received(rest)
        client.last.set_result(PLACED)
        await client.hears()
        await asyncio.sleep(0)
    assert held(clients[0]) == 0


async def test_a_line_that_goes_away_gives_back_the_room_of_its_frame() -> None:
    first, second, third = await together(3, server_bytes=1024 * 1024)
    begun(first, 2_000_000)
    begun(second, 2_000_000)
    begun(third, 2_000_000)
    for gone, next_one in ((first, second), (second, third)):
        assert not reads(next_one)
        gone.session.connection_lost(None)
        await asyncio.sleep(0)
        assert reads(next_one)


async def test_small_calls_are_handled_whatever_the_others_hold() -> None:
    first, second = await together(2, server_bytes=1024 * 1024, in_flight_bytes=4 * 1024 * 1024)
    for number in range(2, 5):
        first.say(*put(number, 600_000))
    assert not reads(first)
    for number in range(2, 10):
        second.say(*put(number, 1000))
    assert len(second.port.calls) == 8
    second.say(*put(20, FREE_BYTES))
    second.say(*put(21, 1000))
    assert len(second.port.calls) == 9
    for call in list(first.port.calls):
        call.set_result(PLACED)
    await first.hears()
    await asyncio.sleep(0)
    assert len(second.port.calls) == 10


# Deadlines.


async def test_a_frame_that_does_not_end_in_time_ends_the_line() -> None:
    client = await connected(frame_timeout=20.0)
    begun(client, 1000)
    await client.manager.clock.advance(19.9)
    assert not client.transport.closed
    await client.manager.clock.advance(0.1)
    ((verb, _, _, _, text),) = [frame for frame in await client.hears() if frame[0] != Verb.HEARTBEAT]
    assert verb == Verb.REFUSED
    assert "[limits] frame_timeout = 20 s" in text
    assert client.port.breaks == 1


async def test_a_frame_that_ends_in_time_does_not() -> None:
    client = await connected(frame_timeout=20.0)
    for _ in range(4):
        rest = begun(client, 1000)
        await client.manager.clock.advance(15)
        client.session.data_received(rest)
        client.last.set_result(PLACED)
        await client.hears()
    assert not client.transport.closed


async def test_the_time_in_which_nobody_reads_a_frame_is_not_its_own() -> None:
    client = await connected(frame_timeout=20.0, send_timeout=1000.0)
    rest = begun(client, 1000)
    await client.manager.clock.advance(15)
    client.session.pause_writing()
    await client.manager.clock.advance(100)
    client.session.resume_writing()
    await client.manager.clock.advance(15)
    assert not client.transport.closed
    client.session.data_received(rest)
    assert len(client.port.calls) == 1
    begun(client, 1000)
    client.session.pause_writing()
    await client.manager.clock.advance(100)
    client.session.resume_writing()
    await client.manager.clock.advance(20)
    assert client.transport.closed


async def test_a_client_that_does_not_read_its_answers_in_time_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    client = await connected(send_timeout=20.0)
    client.session.pause_writing()
    await client.manager.clock.advance(19.9)
    client.session.resume_writing()
    client.session.pause_writing()
    await client.manager.clock.advance(19.9)
    assert (client.transport.aborted, caplog.text) == (False, "")
    await client.manager.clock.advance(0.1)
    assert (client.transport.aborted, len(caplog.records)) == (True, 1)
    assert "answers not read within [limits] send_timeout = 20 s" in caplog.text


# The account itself.


async def test_calls_that_wait_for_room_go_on_when_there_is_some() -> None:
    reserve = MemoryReserve(1024 * 1024)
    flow = Flow(100_000, reserve, lambda: None)
    went_on: list[str] = []

    def second() -> None:
        went_on.append("second")
        flow.got(150_000)

    def written(size: int) -> None:
        flow.answers -= size
        flow.add(-size)

    flow.got(150_000)
    assert flow.congested
    for go_on in (partial(went_on.append, "first"), second, partial(went_on.append, "third")):
        flow.wait(go_on)
    flow.wake()
    assert went_on == []
    written(60_000)
    flow.wake()
    assert went_on == []  # it is under the limit, but not under half of it
    written(60_000)
    flow.wake()
    assert went_on == ["first", "second"]


async def test_a_call_that_waits_its_turn_does_not_wait_for_the_room_that_it_takes_itself() -> None:
    flow = Flow(100_000, MemoryReserve(1024 * 1024), lambda: None)
    flow.add(150_000)  # the call, unpacked: its frame was short enough to be read
    assert flow.full
    assert not flow.congested
    flow.got(1000)
    assert flow.congested


async def test_a_line_that_has_ended_holds_nothing_whatever_is_still_said_of_it() -> None:
    reserve = MemoryReserve(1024 * 1024)
    flow = Flow(100_000, reserve, lambda: None)
    flow.add(5000)
    flow.end()
    flow.add(5000)
    assert (flow.weight, reserve.held) == (0, 0)


def test_programs_in_the_process_have_room_without_bounds() -> None:
    BOUNDLESS.got(1 << 40)
    assert not BOUNDLESS.congested


async def test_a_refused_call_is_gone_at_once_with_all_that_came_with_it() -> None:
    client = await connected(in_flight_bytes=65_536)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, MQError) for each in gc.get_objects())
        for number in range(2, 12):
            client.say(Verb.GET, 1, number, 7, LONG_MD, GMO, None)
        assert {frame[3] for frame in await client.hears()} == {MQRC.RESOURCE_PROBLEM}
        assert sum(isinstance(each, MQError) for each in gc.get_objects()) == before
    finally:
        gc.enable()
