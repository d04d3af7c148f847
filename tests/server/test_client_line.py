"""The client's end of a line, frame by frame, against a queue manager that the test plays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.client.line import Line
from broker.interface.answers import Opened, StartLease
from broker.interface.port import Call, answer
from broker.mqi import MQRC, GetMessageOptions, MQError, ObjectDescriptor, PutMessageOptions
from broker.testing import VirtualClock
from broker.wire import Endpoint, Role, Verb
from broker.wire.frames import FRAME_BYTES, PRODUCT, VERSION
from tests.server.fakes import FakeTransport
from tests.wire.samples import DELIVERY, PLACED

if TYPE_CHECKING:
    from broker.client.port import RemotePort

WELCOME = (PRODUCT, VERSION, "QM1", 30_000, FRAME_BYTES)
OD = ObjectDescriptor(object_name="ORDERS")


class Host:
    """The queue manager's end of a line, and the line. `welcome` is what it answers HELLO with, None for nothing."""

    def __init__(self, welcome: tuple[Any, ...] | None = WELCOME) -> None:
        self.clock = VirtualClock()
        self.line = Line(self.clock, "here")
        self.transport = FakeTransport()
        self.end = Endpoint(Role.SERVER)
        self._read = 0
        self.line.connection_made(cast("asyncio.Transport", self.transport))
        self.hello = self.heard()[0]
        if welcome is not None:
            self.say(Verb.WELCOME, 0, 0, *welcome)

    async def connect(self) -> RemotePort:
        """Open the first conversation; what it took is heard already."""
        call = self.line.converse("", "test", "")
        await self.hears()
        self.say(Verb.ANSWER, 1, 1, "QM1")
        return cast("RemotePort", await answer(call))

    def say(self, *frame: Any) -> None:
        self.line.data_received(self.end.send(*frame))

    async def hears(self) -> list[list[Any]]:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.heard()

    def heard(self) -> list[list[Any]]:
        data = b"".join(self.transport.writes[self._read :])
        self._read = len(self.transport.writes)
        return self.end.receive(data)


async def connected() -> tuple[Host, RemotePort]:
    host = Host()
    return host, await host.connect()


def get(port: RemotePort) -> Call[Any]:
    return port.get(7, None, GetMessageOptions(), None)


def put(port: RemotePort, data: bytes = b"hello") -> Call[Any]:
    return port.put(7, None, PutMessageOptions(), data)


async def give_up(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def waiting(call: Call[Any]) -> asyncio.Task[Any]:
    """A program that awaits a call, as the methods of a connection do."""
    return asyncio.ensure_future(answer(call))


# The handshake.


async def test_a_line_says_hello_and_is_welcomed() -> None:
    host = Host(welcome=None)
    assert host.hello == [Verb.HELLO, 0, 0, PRODUCT, VERSION, VERSION, 30_000, FRAME_BYTES]
    assert not host.line.welcomed.done()
    host.say(Verb.WELCOME, 0, 0, *WELCOME)
    assert await host.line.welcomed is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    "welcome", [("AMQP", *WELCOME[1:]), (PRODUCT, 2, *WELCOME[2:]), (*WELCOME[:3], 0, FRAME_BYTES), (PRODUCT,)]
)
async def test_a_welcome_that_makes_no_sense_is_2059(welcome: tuple[Any, ...]) -> None:
    host = Host(welcome)
    with pytest.raises(MQError) as caught:
        await host.line.welcomed
    assert caught.value.reason == MQRC.Q_MGR_NOT_AVAILABLE
    assert host.transport.aborted


async def test_a_refusal_has_the_queue_managers_reason() -> None:
    host = Host(welcome=None)
    host.say(Verb.REFUSED, 0, 0, MQRC.MAX_CONNS_LIMIT_REACHED, "QM1 is full")
    with pytest.raises(MQError, match=r"MQRC_MAX_CONNS_LIMIT_REACHED \(2025\): here: QM1 is full"):
        await host.line.welcomed
    assert host.transport.closed


async def test_a_listener_that_says_nothing_for_ten_seconds_is_2059() -> None:
    host = Host(welcome=None)
    await host.clock.advance(10)
    with pytest.raises(MQError, match=r"2059\): here: no queue manager there has answered within 10 s"):
        await host.line.welcomed


async def test_what_listens_and_is_no_queue_manager_is_2059_with_a_question_about_the_port() -> None:
    host = Host(welcome=None)
    host.line.data_received(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(MQError, match=r"2059\): here: .*; is that the port of a queue manager\?"):
        await host.line.welcomed


# Calls.


async def test_the_calls_of_one_turn_leave_in_one_write_in_the_order_made() -> None:
    host, port = await connected()
    writes = len(host.transport.writes)
    for _ in range(50):
        put(port)
    port.commit()
    assert [frame[0] for frame in await host.hears()] == [Verb.PUT] * 50 + [Verb.COMMIT]
    assert len(host.transport.writes) == writes + 1


async def test_what_was_taken_in_a_turn_is_said_once_and_before_its_calls() -> None:
    host, port = await connected()
    programs = [waiting(get(port)) for _ in range(3)]
    numbers = [frame[2] for frame in await host.hears()]
    for number in numbers:
        host.say(Verb.ANSWER, 1, number, *DELIVERY)
    port.commit()
    for program in programs:
        assert await program == DELIVERY
    heard = await host.hears()
    assert [frame[0] for frame in heard] == [Verb.TAKEN, Verb.COMMIT]
    assert heard[0][3] == numbers


async def test_a_long_list_of_what_was_taken_is_said_in_parts() -> None:
    host, port = await connected()
    programs = [waiting(get(port)) for _ in range(501)]
    for frame in await host.hears():
        host.say(Verb.ANSWER, 1, frame[2], *DELIVERY)
    await asyncio.gather(*programs)
    assert [len(frame[3]) for frame in await host.hears()] == [500, 1]


async def test_leases_are_told_in_parts_and_only_while_the_connection_lives() -> None:
    host, port = await connected()
    port.trigger_done(list(range(700)))
    port.trigger_return([1])
    assert [(frame[0], len(frame[3])) for frame in await host.hears()] == [
        (Verb.TRIGGER_DONE, 500),
        (Verb.TRIGGER_DONE, 200),
        (Verb.TRIGGER_RETURN, 1),
    ]
    host.say(Verb.ENDED, 1, 0, MQRC.Q_MGR_STOPPING, "")
    port.trigger_return([1])
    assert await host.hears() == []


async def test_a_call_over_the_queue_managers_limit_is_2010_and_never_sent() -> None:
    host = Host((*WELCOME[:4], 10_000))
    port = await host.connect()
    with pytest.raises(MQError) as caught:
        await answer(put(port, bytes(10_000)))
    assert caught.value.reason == MQRC.DATA_LENGTH_ERROR
    assert await host.hears() == []


async def test_a_value_that_has_no_form_in_a_frame_is_a_type_error_and_no_call() -> None:
    host, port = await connected()
    with pytest.raises(TypeError):
        port.put(cast("int", object()), None, PutMessageOptions(), b"")
    assert await host.hears() == []


async def test_the_error_of_a_call_is_raised_to_its_program() -> None:
    host, port = await connected()
    program = waiting(port.commit())
    ((_, _, number),) = await host.hears()
    host.say(Verb.FAILED, 1, number, MQRC.BACKED_OUT, 1, "the store is full", None)
    with pytest.raises(MQError, match=r"MQRC_BACKED_OUT \(2003\): the store is full"):
        await program


async def test_calls_made_while_the_socket_takes_no_more_leave_when_it_does() -> None:
    host, port = await connected()
    host.line.pause_writing()
    for _ in range(3):
        put(port)
    assert await host.hears() == []
    host.line.resume_writing()
    assert len(await host.hears()) == 3


# Calls given up.


async def test_a_get_given_up_while_it_waits_is_cancelled() -> None:
    host, port = await connected()
    program = waiting(get(port))
    ((_, _, number, *_),) = await host.hears()
    await give_up(program)
    assert await host.hears() == [[Verb.CANCEL, 1, number]]
    host.say(Verb.CANCELLED, 1, number)
    assert not port.broken


async def test_a_get_given_up_in_the_turn_of_its_answer_is_cancelled() -> None:
    host, port = await connected()
    program = waiting(get(port))
    ((_, _, number, *_),) = await host.hears()
    host.say(Verb.ANSWER, 1, number, *DELIVERY)
    await give_up(program)
    assert await host.hears() == [[Verb.CANCEL, 1, number]]


async def test_a_get_whose_answer_crosses_its_cancellation_is_cancelled_once() -> None:
    host, port = await connected()
    program = waiting(get(port))
    ((_, _, number, *_),) = await host.hears()
    await give_up(program)
    host.say(Verb.ANSWER, 1, number, *DELIVERY)
    assert await host.hears() == [[Verb.CANCEL, 1, number]]


async def test_a_get_that_failed_is_not_cancelled() -> None:
    host, port = await connected()
    program = waiting(get(port))
    ((_, _, number, *_),) = await host.hears()
    host.say(Verb.FAILED, 1, number, MQRC.NO_MSG_AVAILABLE, 2, "", None)
    await give_up(program)
    assert await host.hears() == []


async def test_a_wait_for_starts_given_up_is_cancelled() -> None:
    host, port = await connected()
    program = waiting(port.trigger_wait(3))
    ((_, _, number, posts),) = await host.hears()
    assert posts == 3
    await give_up(program)
    assert await host.hears() == [[Verb.CANCEL, 1, number]]


OPENED = Opened(7, "ORDERS", "ORDERS", "QM1", 0)


@pytest.mark.parametrize("moment", ["before its answer", "in the turn of its answer"])
@pytest.mark.parametrize(
    ("make", "items", "undone"),
    [
        (lambda port: port.open(OD, 16), tuple(OPENED), [Verb.CLOSE, 1, 3, 7, 0]),
        (lambda port: port.trigger_take("ORDERS", 5), ([StartLease(4, b"")],), [Verb.TRIGGER_RETURN, 1, 0, [4]]),
        (lambda port: port.connect(""), ("QM1",), [Verb.DISCONNECT, 2, 3, False]),
    ],
)
async def test_what_a_call_given_up_brings_is_undone(
    make: Any, items: tuple[Any, ...], undone: list[Any], moment: str
) -> None:
    host, port = await connected()
    program = waiting(make(port))
    ((_, conversation, number, *_),) = await host.hears()
    if moment == "before its answer":
        await give_up(program)
        assert await host.hears() == []
        host.say(Verb.ANSWER, conversation, number, *items)
    else:
        host.say(Verb.ANSWER, conversation, number, *items)
        await give_up(program)
    assert await host.hears() == [undone]
    if undone[2]:
        host.say(Verb.ANSWER, undone[1], undone[2], 0)
    assert not port.broken


async def test_a_put_given_up_is_made_all_the_same() -> None:
    host, port = await connected()
    program = waiting(put(port))
    ((_, _, number, *_),) = await host.hears()
    await give_up(program)
    host.say(Verb.ANSWER, 1, number, *PLACED)
    assert await host.hears() == []


# Conversations.


async def test_conversations_share_the_line_and_the_last_one_closes_it() -> None:
    host, port = await connected()
    program = waiting(port.connect("second"))
    assert await host.hears() == [[Verb.CONNECT, 2, 2, "QM1", "second", ""]]
    host.say(Verb.ANSWER, 2, 2, "QM1")
    second = await program
    for each, number in ((port, 3), (second, 4)):
        assert not host.transport.closed
        program = waiting(each.disconnect(commit=True))
        assert (await host.hears())[0][0] == Verb.DISCONNECT
        host.say(Verb.ANSWER, each.conversation, number, 0)
        assert await program == 0
        assert each.broken
    assert host.transport.closed
    assert not host.transport.aborted


async def test_a_conversation_inherits_the_names_of_the_one_that_opened_it() -> None:
    host = Host()
    call = host.line.converse("QM1", "orders", "alice")
    await host.hears()
    host.say(Verb.ANSWER, 1, 1, "QM1")
    (await answer(call)).connect("").withdraw()
    assert await host.hears() == [[Verb.CONNECT, 2, 2, "QM1", "orders", "alice"]]


async def test_a_refused_conversation_leaves_the_others() -> None:
    host, port = await connected()
    program = waiting(port.connect(""))
    await host.hears()
    host.say(Verb.FAILED, 2, 2, MQRC.MAX_CONNS_LIMIT_REACHED, 2, "", None)
    with pytest.raises(MQError):
        await program
    assert not port.broken


async def test_a_first_conversation_that_is_refused_closes_the_line() -> None:
    host = Host()
    program = waiting(host.line.converse("QM2", "", ""))
    await host.hears()
    host.say(Verb.FAILED, 1, 1, MQRC.Q_MGR_NAME_ERROR, 2, "QM2 is not here", None)
    with pytest.raises(MQError, match="2058"):
        await program
    assert host.transport.closed


async def test_a_disconnect_given_up_hangs_up_after_it_was_said() -> None:
    host, port = await connected()
    program = waiting(port.disconnect(commit=False))
    await asyncio.sleep(0)
    await give_up(program)
    assert Verb.DISCONNECT in [frame[0] for frame in await host.hears()]
    assert host.transport.closed


async def test_a_disconnect_that_fails_ends_the_connection() -> None:
    host, port = await connected()
    program = waiting(port.disconnect(commit=True))
    await host.hears()
    host.say(Verb.FAILED, 1, 2, MQRC.BACKED_OUT, 2, "the store is full", None)
    with pytest.raises(MQError, match="2003"):
        await program
    assert port.broken
    assert host.transport.closed


async def test_a_conversation_that_the_queue_manager_ended_is_broken_and_says_so_once_before_2018() -> None:
    host, port = await connected()
    port.connect("").withdraw()
    await host.hears()
    host.say(Verb.ENDED, 1, 0, MQRC.Q_MGR_STOPPING, "QM1 is stopping")
    host.say(Verb.ENDED, 1, 0, MQRC.Q_MGR_STOPPING, "QM1 is stopping")
    assert port.broken
    for reason in ("2162", "2018", "2018"):
        with pytest.raises(MQError, match=rf"{reason}\): .* QM1 is stopping"):
            await answer(port.commit())


# The end of the line.


async def test_a_cut_line_ends_all_calls_and_later_ones_with_2009() -> None:
    host, port = await connected()
    programs = [waiting(get(port)), waiting(port.commit()), waiting(port.connect(""))]
    await host.hears()
    host.line.connection_lost(None)
    for program in [*programs, waiting(put(port))]:
        with pytest.raises(MQError, match=r"2009\): the line to here is broken: the queue manager has hung up"):
            await program
    assert port.broken


async def test_a_queue_manager_that_stops_ends_all_calls_with_its_reason() -> None:
    host, port = await connected()
    program = waiting(get(port))
    await host.hears()
    host.say(Verb.REFUSED, 0, 0, MQRC.Q_MGR_STOPPING, "QM1 is stopping")
    with pytest.raises(MQError, match=r"2162\): the line to here is broken: QM1 is stopping"):
        await program
    with pytest.raises(MQError, match="2009"):
        await answer(put(port))


@pytest.mark.parametrize(
    "frame",
    [
        (Verb.ANSWER, 1, 99, 0),
        (Verb.CANCELLED, 1, 99),
        (Verb.FAILED, 1, 2),
        (Verb.FAILED, 1, 2, 2053, 2, "", 5),
        (Verb.ANSWER, 1, 2, "zero"),
        (Verb.ANSWER, 1, 2, 0, 0),
    ],
)
async def test_a_queue_manager_that_breaks_the_protocol_breaks_the_line(frame: tuple[Any, ...]) -> None:
    host, port = await connected()
    program = waiting(port.commit())
    await host.hears()
    host.say(*frame)
    assert host.transport.aborted
    assert port.broken
    with pytest.raises(MQError, match=r"2009\): .* the queue manager broke the protocol"):
        await program


async def test_after_the_line_has_gone_nothing_more_is_said() -> None:
    host, port = await connected()
    call = get(port)
    ((_, _, number, *_),) = await host.hears()
    host.say(Verb.ANSWER, 1, number, *DELIVERY)
    host.line.connection_lost(OSError("reset"))
    call.take()
    call.abandon()
    port.trigger_done([1])
    assert await host.hears() == []


# Heartbeats.


async def test_a_client_with_nothing_to_say_sends_heartbeats_at_the_interval_agreed() -> None:
    host = Host((*WELCOME[:3], 10_000, FRAME_BYTES))
    await host.connect()
    for _ in range(8):
        host.say(Verb.HEARTBEAT, 0, 0)
        await host.clock.advance(5)
    assert [frame[0] for frame in await host.hears()] == [Verb.HEARTBEAT] * 4


async def test_a_queue_manager_silent_for_two_heartbeats_and_a_half_is_given_up() -> None:
    host, port = await connected()
    program = waiting(get(port))
    await host.clock.advance(15)
    await host.clock.advance(74)
    assert not port.broken
    await host.clock.advance(1)
    assert host.transport.aborted
    with pytest.raises(MQError, match="nothing was heard of the queue manager"):
        await program
