"""The protocol machine: frames survive any cut, and nothing but frames comes through."""

from __future__ import annotations

import itertools
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire import Endpoint, Role, State, Verb, WireError
from broker.wire.protocol import TRANSITIONS
from broker.wire.unpacking import unpack_careful
from broker.wire.verbs import CALLS
from tests.core.effort import Effort
from tests.wire.ends import HELLO, WELCOME, Pair, received

HANDSHAKE = {Verb.HELLO, Verb.WELCOME, Verb.REFUSED}
CLIENT_SAYS = sorted(CALLS | {Verb.TAKEN, Verb.CANCEL})
SERVER_SAYS = [Verb.ANSWER, Verb.FAILED, Verb.CANCELLED, Verb.ENDED, Verb.REPLIES]

items = st.lists(
    st.none() | st.booleans() | st.integers(-(2**31), 2**63) | st.text(max_size=9) | st.binary(max_size=300), max_size=6
)
numbers = st.integers(0, 2**32 - 1)


def frames(verbs: list[Verb]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    one = st.tuples(st.sampled_from(verbs), numbers, numbers, items).map(lambda f: (*f[:3], *f[3]))
    return st.lists(one, min_size=1, max_size=8)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(said=frames(CLIENT_SAYS), data=st.data())
def test_what_the_client_says_arrives_however_it_is_cut(said: list[tuple[Any, ...]], data: st.DataObject) -> None:
    pair = Pair()
    written = b"".join(pair.client.send(*frame) for frame in said)
    cuts = data.draw(st.lists(st.integers(0, len(written))))
    assert received(pair.server, written, cuts) == [list(frame) for frame in said]


@given(said=frames(SERVER_SAYS))
def test_what_the_queue_manager_says_arrives_byte_by_byte(said: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    written = b"".join(pair.server.send(*frame) for frame in said)
    assert received(pair.client, written, range(len(written))) == [list(frame) for frame in said]


def test_a_handshake_opens_both_ends() -> None:
    pair = Pair(opened=False)
    assert pair.server.receive(pair.client.send(*HELLO)) == [list(HELLO)]
    assert (pair.client.state, pair.server.state) == (State.OFFERED, State.OFFERED)
    assert pair.client.receive(pair.server.send(*WELCOME)) == [list(WELCOME)]
    assert (pair.client.state, pair.server.state) == (State.OPEN, State.OPEN)


def test_a_refusal_closes_both_ends() -> None:
    pair = Pair(opened=False)
    pair.server.receive(pair.client.send(*HELLO))
    pair.client.receive(pair.server.send(Verb.REFUSED, 0, 0, 2025, "full"))
    assert (pair.client.state, pair.server.state) == (State.CLOSED, State.CLOSED)


def at(role: Role, state: State) -> Endpoint:
    """An end of a line in this state."""
    pair = Pair(opened=state in (State.OPEN, State.CLOSED))
    if state is State.OFFERED:
        pair.server.receive(pair.client.send(*HELLO))
    if state is State.CLOSED:
        pair.client.receive(pair.server.send(Verb.REFUSED, 0, 0, 2009, ""))
    end = pair.client if role is Role.CLIENT else pair.server
    assert end.state is state
    return end


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("state", State)
def test_each_state_hears_what_the_table_allows_the_other_end_and_nothing_else(role: Role, state: State) -> None:
    sent_by_client = set(CLIENT_SAYS) | {Verb.HELLO, Verb.HEARTBEAT}
    sent_by_server = set(SERVER_SAYS) | {Verb.WELCOME, Verb.REFUSED, Verb.HEARTBEAT}
    others = sent_by_server if role is Role.CLIENT else sent_by_client
    for verb in Verb:
        end = at(role, state)
        data = framed(msgpack.packb((verb, 0, 0)))
        if verb in others and verb in TRANSITIONS[state]:
            assert end.receive(data) == [[verb, 0, 0]]
            assert end.state is TRANSITIONS[state][verb]
        else:
            with pytest.raises(WireError, match=f"{verb.name} from the {role.other.value} on a line that is"):
                end.receive(data)


@pytest.mark.parametrize("role", Role)
def test_an_end_never_says_what_is_the_others_to_say(role: Role) -> None:
    mine = {*SERVER_SAYS, Verb.REFUSED, Verb.HEARTBEAT} if role is Role.SERVER else {*CLIENT_SAYS, Verb.HEARTBEAT}
    for verb in Verb:
        end = at(role, State.OPEN)
        if verb in mine:
            end.send(verb, 0, 0)
        else:
            with pytest.raises(AssertionError):
                end.send(verb, 0, 0)


def test_no_number_of_a_verb_is_used_twice() -> None:
    assert len({verb.value for verb in Verb}) == len(Verb.__members__)


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        (b"", "incomplete"),
        (b"\xc1", "not a frame"),
        (b"\x01", "at least three"),
        (b"\x92\x31\x00", "at least three"),
        (b"\x83\x01\x01\x02\x02\x03\x03", "not a frame"),
        (b"\x93\x31\x00", "incomplete"),
        (b"\x93\x31\x00\x00\x00", "extra data"),
        (b"\x93\xc3\x00\x00", "not all integers"),
        (b"\x93\xcb\x40\x48\x80\x00\x00\x00\x00\x00\x00\x00", "not all integers"),
        (b"\x93\x31\xc0\x00", "not all integers"),
        (b"\x93\x31\x00\xa1a", "not all integers"),
        (b"\x93\x31\xff\x00", "out of range"),
        (b"\x93\x31\x00\xff", "out of range"),
        (b"\x93\x31\xcf\x00\x00\x00\x01\x00\x00\x00\x00\x00", "out of range"),
        (b"\x93\x31\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "out of range"),
        (b"\x93\x7f\x00\x00", "verb 127 from the client"),
        (b"\x94\x31\x00\x00\xa1\xff", "utf-8"),
        (b"\x94\x31\x00\x00\xd4\x01\x00", "max_ext_len"),
        (b"\x94\x31\x00\x00\xc7\x00\x05", "extension type 5"),
        (b"\x94\x31\x00\x00\xd6\xff\x00\x00\x00\x00", "max_ext_len"),
        (b"\x94\x31\x00\x00\x81\x01\x01", "map key"),
        (b"\x94\x31\x00\x00" + b"\x91" * 4000 + b"\x00", "not a frame"),
        (b"\x94\x31\x00\x00\xdd\x00\x00\x04\x01" + bytes(1025), "max_array_len"),
    ],
)
def test_what_is_not_a_frame_is_a_wire_error(payload: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        Pair().server.receive(framed(payload))


@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_wire_error(data: bytes) -> None:
    for state in (State.NEW, State.OPEN):
        for role in Role:
            end = at(role, state)
            try:
                end.receive(framed(data))
                end.receive(data)
            except WireError:
                pass


msgpacked = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(value=msgpacked, verb=st.sampled_from([None, *CLIENT_SAYS]))
def test_no_msgpack_value_raises_anything_but_a_wire_error(value: object, verb: Verb | None) -> None:
    payload = msgpack.packb(value if verb is None else [verb, 1, 1, value])
    try:
        Pair().server.receive(framed(payload))
    except WireError:
        pass


def test_a_frame_over_the_limit_is_refused_at_its_length() -> None:
    pair = Pair(frame_bytes=10_000)
    with pytest.raises(WireError, match="10001 bytes is over the limit of 10000"):
        pair.server.receive((10_001).to_bytes(4, "big"))


def test_a_frame_at_the_limit_is_taken() -> None:
    pair = Pair(frame_bytes=10_000)
    frame = pair.client.send(Verb.MQSC, 1, 1, "x" * (10_000 - 7))
    assert len(frame) == 10_004
    assert len(received(pair.server, frame, range(0, 10_004, 7))) == 1


def test_a_length_over_the_limit_that_comes_byte_by_byte_is_refused_with_its_last_byte() -> None:
    server = Pair(frame_bytes=10_000).server
    assert received(server, b"\x00\x00\x27", range(3)) == []
    with pytest.raises(WireError, match="over the limit"):
        server.receive(b"\x11")


def test_before_the_handshake_only_a_small_frame_is_taken() -> None:
    end = Endpoint(Role.SERVER)
    with pytest.raises(WireError, match="over the limit of 4096"):
        end.receive((4097).to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("said", "name", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP", b"HTTP/1.1 400 Bad Request\r\n"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP", b"HTTP/1.1 400 Bad Request\r\n"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "TLS", b"\x15\x03\x01\x00\x02\x02"),
        (b"TSH \x00\x00\x01\x0c", "IBM MQ", b""),
        (b"TSHM\x00\x00\x01\x0c", "IBM MQ", b""),
        ("TSH ".encode("cp037"), "IBM MQ", b""),
    ],
)
def test_another_protocol_on_the_line_is_refused_by_name_with_an_answer_of_its_own(
    said: bytes, name: str, answer: bytes
) -> None:
    for cut in range(len(said)):
        end = Endpoint(Role.SERVER)
        with pytest.raises(WireError, match=f"a client of {name} has come") as caught:
            received(end, said, [cut])
        assert caught.value.answer is not None
        assert caught.value.answer.startswith(answer)


def test_what_is_no_protocol_known_or_comes_later_is_just_too_long() -> None:
    with pytest.raises(WireError, match="over the limit") as caught:
        Endpoint(Role.SERVER).receive(b"SSH-2.0-OpenSSH\r\n")
    assert caught.value.answer is None
    with pytest.raises(WireError, match="over the limit"):
        Pair().server.receive(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(WireError, match="over the limit"):
        Endpoint(Role.CLIENT).receive(b"HEAD")


def test_a_long_frame_may_be_a_message_or_a_text() -> None:
    pair = Pair()
    for body in (b"x" * 1_000_000, "é" * 500_000):
        frame = [Verb.PUT, 1, 1, 1, None, [0, -1, 3], body]
        assert received(pair.server, pair.client.send(*frame), [5, 70_000]) == [frame]


@pytest.mark.parametrize("body", [[[]] * 70_000, {str(number): None for number in range(20_000)}, [b"x" * 70_000]])
def test_a_long_frame_of_anything_else_is_refused_before_it_is_unpacked(body: object) -> None:
    pair = Pair()
    with pytest.raises(WireError, match="neither a message nor a text"):
        pair.server.receive(pair.client.send(Verb.SET, 1, 1, body))


@pytest.mark.parametrize(
    "head",
    [
        b"\xdd\x00\x98\x96\x80",
        b"\xdc\xff\xff",
        b"\x91\xdd\x00\x98\x96\x80",
        b"\x91\xdf\x00\x98\x96\x80",
        b"\x91\xdc\x03\xff",
        b"\xdc\x04\x00",
    ],
)
def test_what_a_long_frame_costs_is_bounded_by_the_items_that_it_may_have(head: bytes) -> None:
    """Of a frame twice as long no more is looked at."""
    short, long = (Effort.of(_refused, head + b"\xc4\x00" * count) for count in (100_000, 200_000))
    assert long.at_most(1, short)
    assert long.calls < 20 * 1024


def test_of_a_long_frame_of_many_items_each_is_looked_at_once() -> None:
    items = [b"\x01", b"\xc0", b"\x90", b"\x80", b"\xcf" + bytes(8), b"\x92\x01\xc4\x00", b"\xa1x"]
    message = b"\xc6" + (100_000).to_bytes(4, "big") + bytes(100_000)
    frame = b"\xdc\x03\x77" + b"".join(items * 126) + b"\xdc\x04\x00" + b"\xc4\x00" * 1024 + message * 4
    assert len(unpack_careful(frame)) == 7 * 126 + 5
    assert Effort.of(unpack_careful, frame).copied < 4 * 64 * 1024


@pytest.mark.parametrize("length", [60, 64, 65, 511, 512, 513, 4000, 65_532, 65_533, 65_534])
def test_a_long_frame_may_have_so_much_that_is_no_message(length: int) -> None:
    arrays = b"".join(b"\xdc\x03\x00" + b"\x01" * 768 for _ in range(length // 771))
    arrays = bytes([0xDC]) + (length // 771 + length % 771).to_bytes(2, "big") + arrays + b"\x01" * (length % 771)
    frame = b"\x92" + arrays + b"\xc6" + (100_000).to_bytes(4, "big") + bytes(100_000)
    if length <= 65_533:  # and 3 bytes of its head
        assert len(unpack_careful(frame)[0]) == length // 771 + length % 771
    else:
        with pytest.raises(ValueError, match="more than 65536 bytes of it are neither"):
            unpack_careful(frame)


def _refused(frame: bytes) -> None:
    with pytest.raises((ValueError, msgpack.UnpackException)):
        unpack_careful(frame)


@pytest.mark.parametrize("start", [b"", b"\x01", b"\xdf\x00\x00\x00\x01", b"\xc1", b"\xdd\xff\xff\xff\xff"])
def test_a_long_frame_that_is_no_frame_is_refused(start: bytes) -> None:
    with pytest.raises(WireError, match="not a frame"):
        Pair().server.receive(framed(start + bytes(70_000)))


def test_a_client_takes_a_long_answer_of_many_parts() -> None:
    pair = Pair()
    figures = {"queues": [{"name": f"Q{number}", "depth": number} for number in range(10_000)]}
    assert received(pair.client, pair.server.send(Verb.ANSWER, 1, 1, figures)) == [[Verb.ANSWER, 1, 1, figures]]


def test_a_value_that_msgpack_cannot_say_leaves_the_line_as_it_was() -> None:
    pair = Pair()
    with pytest.raises(TypeError):
        pair.client.send(Verb.PUT, 1, 1, object())
    with pytest.raises(OverflowError):
        pair.client.send(Verb.PUT, 1, 1, 2**64)
    assert received(pair.server, pair.client.send(Verb.COMMIT, 1, 2)) == [[Verb.COMMIT, 1, 2]]


@given(st.lists(st.integers(0, 3000), max_size=40), st.lists(st.integers(1, 4000), min_size=1, max_size=40))
def test_frames_are_cut_alike_together_and_one_by_one(lengths: list[int], pieces: list[int]) -> None:
    """`receive` cuts short frames in a way of its own: it comes to what `feed` and `next` come to."""
    pair = Pair()
    data = b"".join(pair.client.send(Verb.PUT, 1, number, bytes(length)) for number, length in enumerate(lengths, 1))
    together, singly = pair.server, Pair().server
    start = 0
    for piece in itertools.cycle(pieces):
        part = data[start : start + piece]
        start += piece
        singly.feed(part)
        one_by_one = []
        while (frame := singly.next()) is not None:
            one_by_one.append(frame)
        assert together.receive(part) == one_by_one
        assert (together.kept, together.wanted) == (singly.kept, singly.wanted)
        if start >= len(data):
            break
    assert together.kept == 0
