"""A session, frame by frame, against a queue manager whose answers the test decides."""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import Any

import pytest

from broker.interface.answers import Opened, Placed
from broker.mqi import MQRC, MQError, ObjectDescriptor
from broker.server import served_calls
from broker.server.session import Session
from broker.wire import Verb
from broker.wire.frames import FRAME_BYTES, PRODUCT, VERSION
from broker.wire.structures import object_fields
from tests.server.fakes import GMO, HELLO, PMO, Client, FakeCall, FakeReceipt, connected
from tests.wire.ends import fields
from tests.wire.samples import DELIVERY, PLACED

OD = object_fields(ObjectDescriptor(object_name="ORDERS"))
PUT = (7, None, PMO, b"hello")
GET = (7, None, GMO, None)


def refusal(frames: list[list[Any]]) -> str:
    """The text of the REFUSED that is all of these frames."""
    ((verb, _, _, _, text),) = frames
    assert verb == Verb.REFUSED
    assert isinstance(text, str)
    return text


def reads(client: Client) -> bool:
    """True if the session reads what this client sends."""
    return client.transport.reading


# The handshake.


async def test_a_hello_is_welcomed_with_the_name_of_the_queue_manager_and_its_limits() -> None:
    client = Client(connected=False, frame_bytes=100_000)
    assert await client.hears() == [[Verb.WELCOME, 0, 0, PRODUCT, VERSION, "QM1", 30_000, 100_000]]


@pytest.mark.parametrize(("wanted", "agreed"), [(60_000, 30_000), (5_000, 5_000), (1, 1_000), (-1, 1_000)])
async def test_the_shorter_heartbeat_is_agreed_but_none_under_a_second(wanted: int, agreed: int) -> None:
    client = Client(hello=(PRODUCT, VERSION, VERSION, wanted, FRAME_BYTES), connected=False)
    assert (await client.hears())[0][6] == agreed


async def test_a_client_of_a_newer_version_that_still_speaks_ours_is_welcomed() -> None:
    client = Client(hello=(PRODUCT, VERSION, VERSION + 5, 30_000, FRAME_BYTES, "new"), connected=False)
    assert (await client.hears())[0][:5] == [Verb.WELCOME, 0, 0, PRODUCT, VERSION]


@pytest.mark.parametrize(
    ("hello", "complaint"),
    [
        ((PRODUCT, VERSION + 1, VERSION + 2, 30_000, FRAME_BYTES), "the client speaks versions 2 to 3"),
        ((PRODUCT, 0, VERSION - 1, 30_000, FRAME_BYTES), "the client speaks versions 0 to 0"),
        (("AMQP", VERSION, VERSION, 30_000, FRAME_BYTES), "'AMQP' is not EverMQ"),
        ((PRODUCT, VERSION, VERSION), "Hello has other fields"),
        ((PRODUCT, "1", VERSION, 30_000, FRAME_BYTES), "Hello has other fields"),
        ((PRODUCT, True, VERSION, 30_000, FRAME_BYTES), "Hello has other fields"),
    ],
)
async def test_a_hello_that_does_not_fit_is_refused(hello: tuple[Any, ...], complaint: str) -> None:
    client = Client(hello=hello, connected=False)
    assert complaint in refusal(await client.hears())
    assert client.transport.closed


async def test_a_call_before_the_handshake_is_refused() -> None:
    client = Client(hello=None)
    client.session.data_received(b"\x00\x00\x00\x04\x93\x18\x01\x01")
    assert client.transport.closed
    assert client.manager.ports == []


async def test_a_line_that_says_nothing_is_cut_after_ten_seconds() -> None:
    client = Client(hello=None)
    await client.manager.clock.advance(9.9)
    assert not client.transport.aborted
    await client.manager.clock.advance(0.1)
    assert client.transport.aborted


async def test_a_line_over_the_limit_is_told_so() -> None:
    client = Client(connected=False, connections=1)
    second = Session(client.server)
    await client.hears()
    other = Client(hello=None)
    second.connection_made(other.transport)  # type: ignore[arg-type]
    other.end.send(Verb.HELLO, 0, 0, *HELLO)
    assert refusal(await other.hears()) == "the queue manager has 1 lines already"
    assert client.server.sessions == 2
    second.connection_lost(None)
    assert client.server.sessions == 1


# Conversations.


async def test_a_conversation_tells_the_queue_manager_who_it_is() -> None:
    client = Client(connected=False)
    await client.hears()
    client.say(Verb.CONNECT, 5, 1, "QM1", "orders", "alice")
    assert await client.hears() == [[Verb.ANSWER, 5, 1, "QM1"]]
    assert client.port.names == ("orders", "alice", "127.0.0.1:40000")


async def test_a_conversation_may_name_a_channel() -> None:
    client = Client(connected=False)
    await client.hears()
    client.say(Verb.CONNECT, 5, 1, "QM1", "orders", "alice", "APP.SVRCONN", 0, b"")
    assert await client.hears() == [[Verb.ANSWER, 5, 1, "QM1"]]


async def test_a_secret_on_a_trusted_line_is_not_looked_at_and_is_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client(connected=False)
    await client.hears()
    client.say(Verb.CONNECT, 5, 1, "QM1", "orders", "alice", "", 1, b"canary")
    assert await client.hears() == [[Verb.ANSWER, 5, 1, "QM1"]]
    assert "frame received" in caplog.text
    assert "canary" not in caplog.text


async def test_another_name_than_the_queue_managers_is_2058() -> None:
    client = await connected()
    client.say(Verb.CONNECT, 2, 2, "QM2", "", "")
    ((verb, conversation, number, reason, _, detail, _),) = await client.hears()
    assert (verb, conversation, number, reason) == (Verb.FAILED, 2, 2, MQRC.Q_MGR_NAME_ERROR)
    assert detail == "QM2 is not here; this is QM1"


async def test_the_queue_managers_refusal_of_a_conversation_is_the_answer() -> None:
    client = await connected()
    client.manager.refusal = MQError(MQRC.Q_MGR_QUIESCING, "QM1 is quiescing")
    client.say(Verb.CONNECT, 2, 2, "", "", "")
    assert await client.hears() == [[Verb.FAILED, 2, 2, MQRC.Q_MGR_QUIESCING, 2, "QM1 is quiescing", None]]


async def test_conversations_over_the_limit_are_2025() -> None:
    client = await connected(conversations=1)
    client.say(Verb.CONNECT, 2, 2, "", "", "")
    assert (await client.hears())[0][3] == MQRC.MAX_CONNS_LIMIT_REACHED


@pytest.mark.parametrize("conversation", [0, 1])
async def test_the_number_of_a_new_conversation_must_be_new(conversation: int) -> None:
    client = await connected()
    client.say(Verb.CONNECT, conversation, 2, "", "", "")
    assert "is not the number of a new conversation" in refusal(await client.hears())


async def test_a_call_of_an_unknown_conversation_is_2018() -> None:
    client = await connected()
    client.say(Verb.COMMIT, 2, 2)
    assert await client.hears() == [[Verb.FAILED, 2, 2, MQRC.HCONN_ERROR, 2, "the connection has ended", None]]


async def test_disconnecting_ends_the_conversation_and_not_the_line() -> None:
    client = await connected()
    client.say(Verb.DISCONNECT, 1, 2, False)
    assert (client.last.name, client.last.arguments) == ("disconnect", (False,))
    client.last.set_result(0)
    assert await client.hears() == [[Verb.ANSWER, 1, 2, 0]]
    client.say(Verb.COMMIT, 1, 3)
    assert (await client.hears())[0][:4] == [Verb.FAILED, 1, 3, MQRC.HCONN_ERROR]
    client.say(Verb.CONNECT, 1, 4, "", "", "")
    assert await client.hears() == [[Verb.ANSWER, 1, 4, "QM1"]]


async def test_a_conversation_that_the_queue_manager_ended_is_announced_with_its_first_error() -> None:
    client = await connected()
    client.say(Verb.COMMIT, 1, 2)
    client.port.broken = True
    client.last.set_exception(MQError(MQRC.Q_MGR_STOPPING, "QM1 is stopping"))
    assert await client.hears() == [
        [Verb.FAILED, 1, 2, MQRC.Q_MGR_STOPPING, 2, "QM1 is stopping", None],
        [Verb.ENDED, 1, 0, MQRC.Q_MGR_STOPPING, "QM1 is stopping"],
    ]


# Calls.


async def test_calls_are_made_in_the_order_sent_and_answered_in_the_order_finished() -> None:
    client = await connected()
    client.say_together((Verb.OPEN, 1, 2, OD, 16), (Verb.PUT, 1, 3, *PUT), (Verb.COMMIT, 1, 4))
    opening, put, commit = client.port.calls
    assert [call.name for call in client.port.calls] == ["open", "put", "commit"]
    commit.set_result(0)
    put.set_result(PLACED)
    opening.set_result(Opened(7, "ORDERS", "ORDERS", "QM1", 0))
    assert [frame[:4] for frame in await client.hears()] == [
        [Verb.ANSWER, 1, 4, 0],
        [Verb.ANSWER, 1, 3, b"kept"],
        [Verb.ANSWER, 1, 2, 7],
    ]
    assert {call.fate for call in client.port.calls} == {"taken "}


async def test_the_replies_of_one_turn_leave_in_one_write() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(PLACED)
    writes = len(client.transport.writes)
    client.say_together(*((Verb.PUT, 1, number, *PUT) for number in range(2, 102)))
    assert len(await client.hears()) == 100
    assert len(client.transport.writes) == writes + 1


async def test_an_error_answers_its_call() -> None:
    client = await connected()
    client.say_together((Verb.PUT, 1, 2, *PUT), (Verb.PUT, 1, 3, 7, "no descriptor", PMO, b""))
    client.last.set_exception(MQError(MQRC.Q_FULL, "ORDERS is full"))
    wrong, full = await client.hears()
    assert wrong[:4] == [Verb.FAILED, 1, 3, MQRC.MD_ERROR]
    assert full == [Verb.FAILED, 1, 2, MQRC.Q_FULL, 2, "ORDERS is full", None]


@pytest.mark.parametrize("number", [0, 2])
async def test_the_number_of_a_new_call_must_be_new(number: int) -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    client.say(Verb.COMMIT, 1, number)
    assert f"{number} is not the number of a new call" in refusal(await client.hears())


async def test_a_number_is_free_again_after_its_final_frame() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(0)
    for _ in range(3):
        client.say(Verb.COMMIT, 1, 2)
        assert await client.hears() == [[Verb.ANSWER, 1, 2, 0]]


async def test_calls_over_the_bound_are_refused_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_calls, "CALLS_MAX", 2)
    client = await connected()
    client.say_together(*((Verb.GET, 1, number, *GET) for number in (2, 3, 4)))
    assert [frame[2:4] for frame in await client.hears()] == [[4, MQRC.RESOURCE_PROBLEM]]


async def test_leases_are_returned_and_done_without_an_answer() -> None:
    client = await connected()
    client.say_together((Verb.TRIGGER_DONE, 1, 0, [1, 2]), (Verb.TRIGGER_RETURN, 1, 0, [3]))
    client.say_together((Verb.TRIGGER_DONE, 9, 0, [1]), (Verb.TRIGGER_RETURN, 9, 0, [1]))
    assert client.port.end_reported == [("done", [1, 2]), ("return", [3])]
    assert await client.hears() == []


async def test_frames_are_logged_at_the_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    client = await connected()
    with caplog.at_level(logging.INFO, "broker.server"):
        client.say(Verb.COMMIT, 1, 2)
        client.last.set_result(0)
        await client.hears()
    assert caplog.messages == []
    with caplog.at_level(logging.DEBUG, "broker.server"):
        client.say(Verb.COMMIT, 1, 3)
        client.last.set_result(0)
        await client.hears()
    received, written = caplog.messages
    assert received.startswith("frame received peer=")
    assert "verb=COMMIT conversation=1 call=3 bytes=" in received
    assert "frames=1 bytes=" in written


async def test_a_mistake_of_the_queue_manager_in_a_call_is_2195_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    client = await connected()
    client.say(Verb.COMMIT, 1, 2)
    client.last.set_exception(KeyError("oops"))
    assert (await client.hears())[0][3] == MQRC.UNEXPECTED_ERROR
    assert "COMMIT failed by a mistake of the queue manager" in caplog.text


async def test_a_mistake_of_the_queue_manager_at_a_call_answers_it(caplog: pytest.LogCaptureFixture) -> None:
    client = await connected()

    def fail(call: FakeCall) -> None:
        raise KeyError("oops")

    client.port.answer = fail
    client.say(Verb.COMMIT, 1, 2)
    assert (await client.hears())[0][:4] == [Verb.FAILED, 1, 2, MQRC.UNEXPECTED_ERROR]
    assert "KeyError: 'oops'" in caplog.text
    client.port.answer = lambda call: call.set_result(0)
    client.say(Verb.COMMIT, 1, 3)
    assert await client.hears() == [[Verb.ANSWER, 1, 3, 0]]


async def test_a_mistake_of_the_queue_manager_outside_calls_ends_the_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connected()
    monkeypatch.setattr(client.port, "trigger_done", None)
    client.say(Verb.TRIGGER_DONE, 1, 0, [1])
    assert "TypeError in the queue manager, see its log" in refusal(await client.hears())
    assert client.port.breaks == 1
    assert caplog.records[-1].levelno == logging.ERROR


async def test_an_answer_that_has_no_form_in_a_frame_is_2195(caplog: pytest.LogCaptureFixture) -> None:
    client = await connected()
    client.say(Verb.STATUS, 1, 2)
    client.last.set_result({"started": object()})
    assert (await client.hears())[0][3] == MQRC.UNEXPECTED_ERROR
    assert client.last.fate == "abandoned "
    assert "STATUS has no form in msgpack" in caplog.text


async def test_a_message_over_the_clients_limit_is_2010_and_goes_back() -> None:
    client = Client(hello=(PRODUCT, VERSION, VERSION, 30_000, 10_000))
    client.say(Verb.GET, 1, 2, *GET)
    client.last.set_result(DELIVERY._replace(data=bytes(10_000)))
    assert (await client.hears())[-1][:4] == [Verb.FAILED, 1, 2, MQRC.DATA_LENGTH_ERROR]
    assert client.last.fate == "abandoned "


# Gets.


async def test_a_message_is_taken_when_the_client_says_so() -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    client.last.set_result(DELIVERY)
    assert await client.hears() == [[Verb.ANSWER, 1, 2, *DELIVERY[:-1]]]
    assert client.last.fate == ""
    client.say(Verb.TAKEN, 0, 0, [2])
    assert client.last.fate == "taken "


@pytest.mark.parametrize("numbers", [[2], [3], [2, 2]])
async def test_a_message_that_was_not_given_cannot_be_taken(numbers: list[int]) -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    if len(numbers) == 2:
        client.last.set_result(DELIVERY)
        await client.hears()
    client.say(Verb.TAKEN, 0, 0, numbers)
    assert "which has no answer to take" in refusal(await client.hears())


async def test_a_get_cancelled_while_it_waits_is_withdrawn() -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    client.say(Verb.CANCEL, 1, 2)
    assert client.last.cancelled()
    assert client.last.fate == "abandoned "
    assert await client.hears() == [[Verb.CANCELLED, 1, 2]]


async def test_a_get_cancelled_in_the_turn_of_its_answer_gives_the_message_back() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(DELIVERY)
    client.say_together((Verb.GET, 1, 2, *GET), (Verb.CANCEL, 1, 2))
    assert client.last.fate == "abandoned "
    assert await client.hears() == [[Verb.CANCELLED, 1, 2]]


async def test_a_get_cancelled_after_its_answer_gives_the_message_back_without_a_word() -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    client.last.set_result(DELIVERY)
    await client.hears()
    client.say(Verb.CANCEL, 1, 2)
    assert client.last.fate == "abandoned "
    assert await client.hears() == []


async def test_a_get_that_failed_in_the_turn_of_its_cancellation_is_cancelled() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_exception(MQError(MQRC.NO_MSG_AVAILABLE))
    client.say_together((Verb.GET, 1, 2, *GET), (Verb.CANCEL, 1, 2))
    assert await client.hears() == [[Verb.CANCELLED, 1, 2]]


async def test_a_cancellation_that_crosses_the_final_frame_is_ignored() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_exception(MQError(MQRC.NO_MSG_AVAILABLE))
    client.say(Verb.GET, 1, 2, *GET)
    assert (await client.hears())[0][:4] == [Verb.FAILED, 1, 2, MQRC.NO_MSG_AVAILABLE]
    client.say(Verb.CANCEL, 1, 2)
    assert await client.hears() == []


async def test_a_call_that_the_queue_manager_drops_is_2009() -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    client.last.cancel()
    assert (await client.hears())[0][:4] == [Verb.FAILED, 1, 2, MQRC.CONNECTION_BROKEN]


async def test_a_get_that_was_refused_in_the_same_write_cannot_be_taken_and_is_answered() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_exception(MQError(MQRC.NO_MSG_AVAILABLE))
    client.say_together((Verb.GET, 1, 2, *GET), (Verb.TAKEN, 0, 0, [2]))
    failed, refused = await client.hears()
    assert failed[:4] == [Verb.FAILED, 1, 2, MQRC.NO_MSG_AVAILABLE]
    assert "which has no answer to take" in refusal([refused])


async def test_a_waiting_get_that_is_said_to_be_taken_is_withdrawn_with_the_line() -> None:
    client = await connected()
    client.say_together((Verb.GET, 1, 2, *GET), (Verb.TAKEN, 0, 0, [2]))
    assert "which has no answer to take" in refusal(await client.hears())
    assert (client.last.cancelled(), client.last.fate) == (True, "abandoned ")


async def test_the_message_itself_is_not_kept_until_it_is_taken() -> None:
    client = await connected()
    client.say(Verb.GET, 1, 2, *GET)
    receipt = FakeReceipt()
    call = client.last
    call.given_receipt = receipt
    call.set_result(DELIVERY)
    await client.hears()
    gone = weakref.ref(call)
    client.port.calls.clear()
    del call
    assert gone() is None
    client.say(Verb.TAKEN, 0, 0, [2])
    assert receipt.fate == "taken "


# The end of the line.


async def test_the_end_of_very_many_calls_leaves_the_event_loop_to_others() -> None:
    client = await connected()
    for start in range(2, 10_002, 250):
        client.say_together(*((Verb.GET, 1, number, *GET) for number in range(start, start + 250)))
    client.session.connection_lost(None)
    turns = 0
    while client.port.breaks == 0:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 9
    assert {call.fate for call in client.port.calls} == {"abandoned "}


async def test_nothing_is_handled_of_a_line_that_is_gone() -> None:
    client = await connected()
    connect = (Verb.CONNECT, 2, 1000, "", "", "")
    client.say_together(*((Verb.HEARTBEAT, 0, 0) for _ in range(300)), connect)
    client.session.connection_lost(None)
    await client.hears()
    assert len(client.manager.ports) == 1


async def test_disconnecting_twice_is_answered_twice() -> None:
    client = await connected()
    client.say_together((Verb.DISCONNECT, 1, 2, True), (Verb.DISCONNECT, 1, 3, True), (Verb.CONNECT, 2, 4, "", "", ""))
    assert [call.name for call in client.manager.ports[0].calls] == ["disconnect"]
    client.manager.ports[0].calls[0].set_result(0)
    assert [frame[:4] for frame in await client.hears()] == [
        [Verb.FAILED, 1, 3, MQRC.HCONN_ERROR],
        [Verb.ANSWER, 2, 4, "QM1"],
        [Verb.ANSWER, 1, 2, 0],
    ]


async def test_a_cut_line_breaks_all_conversations_and_abandons_what_was_not_answered() -> None:
    client = await connected()
    client.say(Verb.CONNECT, 2, 2, "", "", "")
    for number in (3, 4, 5):
        client.say(Verb.GET, 2, number, *GET)
    waiting, answered, unwritten = client.port.calls
    answered.set_result(DELIVERY)
    await client.hears()
    unwritten.set_result(DELIVERY)
    client.session.connection_lost(None)
    assert [port.breaks for port in client.manager.ports] == [1, 1]
    assert (waiting.fate, answered.fate, unwritten.fate) == ("abandoned ", "taken ", "abandoned ")
    assert waiting.cancelled()
    assert client.server.sessions == 0


async def test_closing_answers_what_is_done_breaks_the_rest_and_says_why() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(0) if call.name == "commit" else None
    client.say_together((Verb.GET, 1, 2, *GET), (Verb.COMMIT, 1, 3))
    client.session.close(MQRC.Q_MGR_STOPPING, "QM1 is stopping")
    assert await client.hears() == [[Verb.ANSWER, 1, 3, 0], [Verb.REFUSED, 0, 0, 2162, "QM1 is stopping"]]
    assert client.port.breaks == 1
    assert client.transport.closed
    client.session.close(MQRC.Q_MGR_STOPPING, "again")
    assert await client.hears() == []


async def test_a_client_that_does_not_read_the_last_frame_is_cut_after_five_seconds() -> None:
    client = await connected()
    client.session.close(MQRC.Q_MGR_STOPPING, "QM1 is stopping")
    await client.manager.clock.advance(4.9)
    assert not client.transport.aborted
    await client.manager.clock.advance(0.1)
    assert client.transport.aborted


# Heartbeats.


async def test_a_session_with_nothing_to_say_sends_heartbeats() -> None:
    client = await connected()
    for _ in range(4):
        await client.manager.clock.advance(15)
        client.say(Verb.HEARTBEAT, 0, 0)
    assert [frame[0] for frame in await client.hears()] == [Verb.HEARTBEAT] * 2


async def test_a_session_that_talks_sends_none() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(0)
    for number in range(2, 12):
        client.say(Verb.COMMIT, 1, number)
        await client.manager.clock.advance(14)
    assert {frame[0] for frame in await client.hears()} == {Verb.ANSWER}


async def test_a_client_silent_for_two_heartbeats_and_a_half_is_cut() -> None:
    client = await connected()
    await client.manager.clock.advance(15)
    await client.manager.clock.advance(74)
    assert not client.transport.aborted
    await client.manager.clock.advance(1)
    assert client.transport.aborted


# Other protocols.


@pytest.mark.parametrize(
    ("said", "name", "answer", "advice"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP", b"HTTP/1.1 400 Bad Request\r\n", ""),
        (
            b"\x16\x03\x01\x02\x00\x01\x00",
            "TLS",
            b"\x15\x03\x01\x00\x02\x02\x46",
            "; this port is without: mq:// leads to it, and mqs:// to the one of [tls]",
        ),
        (b"TSH \x00\x00\x01\x0c", "IBM MQ", b"", ""),
    ],
)
async def test_a_client_of_another_protocol_is_named_in_the_log_and_told_in_its_own_words(
    said: bytes, name: str, answer: bytes, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(hello=None)
    client.session.data_received(said)
    client.session.data_received(said)
    assert b"".join(client.transport.writes).startswith(answer)
    assert bool(answer) == any(client.transport.writes)
    assert client.transport.closed
    assert [record.getMessage() for record in caplog.records] == [
        f"line refused peer=127.0.0.1:40000: a client of {name} has come to the port of an EverMQ queue manager{advice}"
    ]


# Flow control.


async def test_very_many_small_frames_leave_the_event_loop_to_others_and_keep_their_order() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(0)
    client.say_together(*((Verb.COMMIT, 1, number) for number in range(2, 5002)))
    assert len(client.port.calls) == 256
    assert not reads(client)
    await asyncio.sleep(0)
    assert len(client.port.calls) == 1256
    client.say(Verb.COMMIT, 1, 5002)  # what the socket had read already
    heard: list[int] = []
    while len(heard) < 5001:
        heard += [frame[2] for frame in await client.hears()]
    assert heard == list(range(2, 5003))
    assert reads(client)


async def test_frames_that_have_come_are_not_handled_while_there_is_no_room_for_them() -> None:
    client = await connected(in_flight_bytes=65_536)
    client.say_together(*((Verb.PUT, 1, number, 7, None, PMO, bytes(30_000)) for number in range(2, 7)))
    assert len(client.port.calls) == 3
    for call in list(client.port.calls):
        call.set_result(PLACED)
    await client.hears()
    assert len(client.port.calls) == 5


async def test_reading_pauses_over_the_limit_in_flight_and_goes_on_under_half_of_it() -> None:
    client = await connected(in_flight_bytes=100_000)
    for number in range(2, 6):
        client.say(Verb.PUT, 1, number, 7, None, PMO, bytes(30_000))
        assert reads(client) == (number < 5)
    for call, reading in zip(client.port.calls, (False, False, True, True), strict=True):
        call.set_result(PLACED)
        await client.hears()
        assert reads(client) == reading


async def test_waiting_gets_and_trigger_waits_weigh_nothing() -> None:
    client = await connected(in_flight_bytes=65_536)
    for number in range(2, 1000):
        client.say(Verb.GET, 1, number, *GET)
    client.say(Verb.TRIGGER_WAIT, 1, 1000, 0)
    assert reads(client)


async def test_other_calls_weigh_something() -> None:
    client = await connected(in_flight_bytes=65_536)
    client.say_together(*((Verb.COMMIT, 1, number) for number in range(2, 200)))
    assert not reads(client)


async def test_a_cancelled_call_weighs_nothing_any_more() -> None:
    client = await connected(in_flight_bytes=65_536)
    for number in range(2, 10):
        client.say_together((Verb.PUT, 1, number, 7, None, PMO, bytes(60_000)), (Verb.CANCEL, 1, number))
    assert reads(client)


async def test_a_client_that_does_not_read_is_not_read_from_and_its_replies_wait() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(PLACED)
    client.session.pause_writing()
    assert not reads(client)
    client.say(Verb.PUT, 1, 2, *PUT)
    assert await client.hears() == []
    client.session.resume_writing()
    assert reads(client)
    assert await client.hears() == [[Verb.ANSWER, 1, 2, *fields(Verb.PUT, PLACED)]]


async def test_a_client_is_not_cut_for_its_silence_while_nobody_reads_what_it_says() -> None:
    client = await connected(send_timeout=2000.0)
    client.session.pause_writing()
    await client.manager.clock.advance(1000)
    assert not client.transport.aborted


async def test_many_replies_leave_in_writes_of_a_bounded_size() -> None:
    client = await connected()
    client.port.answer = lambda call: call.set_result(Placed(bytes(10_000), *PLACED[1:]))
    client.say_together(*((Verb.PUT, 1, number, *PUT) for number in range(2, 202)))
    assert len(await client.hears() + await client.hears()) == 200
    assert max(map(len, client.transport.writes)) < 300_000


@pytest.mark.parametrize("state", ["paused", "closed"])
async def test_nothing_is_done_to_a_socket_that_is_closing(state: str) -> None:
    client = await connected(in_flight_bytes=65_536)
    client.say(Verb.PUT, 1, 2, 7, None, PMO, bytes(70_000))
    if state == "closed":
        client.transport.close()
    client.session.pause_writing()
    client.session.resume_writing()
    client.last.set_result(PLACED)
    await client.hears()
    assert reads(client) == (state == "paused")
