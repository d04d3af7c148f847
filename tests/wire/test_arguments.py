"""The arguments of calls: what a client sends, and what reaches the port of it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.interface.port import Port
from broker.mqi import MQRC, GetMessageOptions, MessageDescriptor, MQError, ObjectDescriptor, PutMessageOptions
from broker.wire import Verb, WireError, answers, arguments
from tests.wire.ends import Pair, received
from tests.wire.recorder import RecordingPort
from tests.wire.samples import CALLS, LIST_CALLS, MD, TOKEN


def sent(verb: Verb, arguments_of_call: tuple[Any, ...]) -> list[Any]:
    """The frame of a call, as the other end receives it."""
    items: list[Any] = []
    for argument in arguments_of_call:
        match argument:
            case MessageDescriptor():
                items.append(arguments.descriptor_fields(argument))
            case PutMessageOptions():
                items.append(arguments.put_fields(argument))
            case GetMessageOptions():
                items.append(arguments.get_fields(argument))
            case dict():
                items.append(answers.pairs(argument))
            case ObjectDescriptor():
                items.append(arguments.object_fields(argument))
            case _:
                items.append(argument)
    pair = Pair()
    (frame,) = received(pair.server, pair.client.send(verb, 1, 1, *items))
    return frame


def start(frame: list[Any]) -> list[tuple[Any, ...]]:
    port = RecordingPort()
    arguments.start(port, frame)
    return port.calls


@pytest.mark.parametrize("verb", CALLS)
async def test_a_call_reaches_the_port_as_it_was_made(verb: Verb) -> None:
    name, arguments_of_call = CALLS[verb]
    assert start(sent(verb, arguments_of_call)) == [(name, *arguments_of_call)]


@pytest.mark.parametrize("verb", LIST_CALLS)
async def test_a_call_for_a_distribution_list_reaches_the_port_as_it_was_made(verb: Verb) -> None:
    name, arguments_of_call = LIST_CALLS[verb]
    assert start(sent(verb, arguments_of_call)) == [(name, *arguments_of_call)]


def test_every_call_that_start_makes_has_a_sample() -> None:
    assert CALLS.keys() == arguments.STARTED
    assert all(hasattr(Port, name) for name, _ in CALLS.values())


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("change", ["an item too many", "an item too few"])
def test_a_call_with_another_number_of_items_breaks_the_line(verb: Verb, change: str) -> None:
    frame = sent(verb, CALLS[verb][1])
    frame = [*frame, None] if change == "an item too many" else frame[:-1]
    with pytest.raises(WireError, match=f"{verb.name} has {len(frame)} items"):
        start(frame)


PUT, GET = [2, -1, 3], [3, 5000, 2, TOKEN, 4]


def od(**fields: object) -> list[Any]:
    """An MQOD as a frame brings it, with these values in it."""
    od = ObjectDescriptor(**{"object_type": 1, **fields})  # type: ignore[arg-type]  # wrong ones too
    return list(arguments.object_fields(od))


@pytest.mark.parametrize(
    ("verb", "items", "reason"),
    [
        (Verb.OPEN, [None, 0], MQRC.OD_ERROR),
        (Verb.OPEN, [["Q", 1], 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(object_type="1"), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(object_type=2**40), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(object_name="Q" * 49), 0], MQRC.OBJECT_NAME_ERROR),
        (Verb.OPEN, [od(object_q_mgr_name="Q" * 49), 0], MQRC.OBJECT_Q_MGR_NAME_ERROR),
        (Verb.OPEN, [od(selection_string=5), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(dynamic_q_name="Q" * 49), 0], MQRC.DYNAMIC_Q_NAME_ERROR),
        (Verb.OPEN, [od(alternate_user_id="u" * 13), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [[*od(), 5], 0], MQRC.RECS_PRESENT_ERROR),
        (Verb.OPEN, [[*od(), [["Q", ""]] * 65_536], 0], MQRC.RECS_PRESENT_ERROR),
        (Verb.OPEN, [[*od(), ["Q"]], 0], MQRC.OBJECT_RECORDS_ERROR),
        (Verb.OPEN, [[*od(), [["Q", None]]], 0], MQRC.OBJECT_RECORDS_ERROR),
        (Verb.OPEN, [[*od(), [["Q", "Q" * 49]]], 0], MQRC.OBJECT_Q_MGR_NAME_ERROR),
        (Verb.OPEN, [[*od(), [], []], 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(), "1"], MQRC.OPTIONS_ERROR),
        (Verb.OPEN, [od(), True], MQRC.OPTIONS_ERROR),
        (Verb.CLOSE, [None, 0], MQRC.HOBJ_ERROR),
        (Verb.CLOSE, [2**40, 0], MQRC.HOBJ_ERROR),
        (Verb.CLOSE, [1, 1.5], MQRC.OPTIONS_ERROR),
        (Verb.PUT, ["1", None, PUT, b""], MQRC.HOBJ_ERROR),
        (Verb.PUT, [1, [], PUT, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, {}, PUT, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, None, None, b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, [0], b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, [0, 2**32], b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, [*PUT, 1], b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, [*PUT, "1", []], b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, [*PUT, 1, {}], b""], MQRC.RECS_PRESENT_ERROR),
        (Verb.PUT, [1, None, [*PUT, 1, [[b"", b"", b"", 0]]], b""], MQRC.PUT_MSG_RECORDS_ERROR),
        (Verb.PUT, [1, None, [*PUT, 1, [[b"", b"", b"", 2**40, b""]]], b""], MQRC.PUT_MSG_RECORDS_ERROR),
        (Verb.PUT, [1, None, PUT, "text"], MQRC.BUFFER_ERROR),
        (Verb.PUT, [1, None, PUT, None], MQRC.BUFFER_ERROR),
        (Verb.GET, [1, None, [0], None], MQRC.GMO_ERROR),
        (Verb.GET, [1, None, [0, "5", *GET[2:]], None], MQRC.GMO_ERROR),
        (Verb.GET, [1, None, [*GET[:3], b"short", 4], None], MQRC.MSG_TOKEN_ERROR),
        (Verb.GET, [1, None, GET, "9"], MQRC.BUFFER_LENGTH_ERROR),
        (Verb.INQUIRE, [1, 5], MQRC.SELECTOR_ERROR),
        (Verb.INQUIRE, [1, ["a"]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, {}], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[1]]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[1, None]]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [5]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[2**40, 1]]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[10, 2**40]]], MQRC.INT_ATTRS_ARRAY_ERROR),
        (Verb.EXPLAIN, ["Q" * 49, None, None, None], MQRC.OBJECT_NAME_ERROR),
        (Verb.EXPLAIN, ["Q", bytes(23), None, None], MQRC.MSG_ID_ERROR),
        (Verb.EXPLAIN, ["Q", None, "x" * 24, None], MQRC.CORREL_ID_ERROR),
        (Verb.EXPLAIN, ["Q", None, None, 7], MQRC.GROUP_ID_ERROR),
        (Verb.TRIGGER_TAKE, [5, 1], MQRC.OBJECT_NAME_ERROR),
        (Verb.TRIGGER_TAKE, ["Q", None], MQRC.OPTIONS_ERROR),
    ],
)
def test_a_wrong_argument_is_the_error_of_the_call(verb: Verb, items: list[Any], reason: MQRC) -> None:
    with pytest.raises(MQError) as caught:
        start([verb.value, 1, 1, *items])
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("verb", "items"), [(Verb.DISCONNECT, [1]), (Verb.MQSC, [b"DISPLAY"]), (Verb.TRIGGER_WAIT, ["1"])]
)
def test_what_no_program_could_have_asked_for_breaks_the_line(verb: Verb, items: list[Any]) -> None:
    with pytest.raises(WireError):
        start([verb.value, 1, 1, *items])


@pytest.mark.parametrize("name", [field.name for field in fields(MessageDescriptor)])
def test_no_field_of_a_descriptor_is_taken_with_another_type(name: str) -> None:
    others: list[Any] = [None, True, 1.5, [], {}, b"" if isinstance(getattr(MD, name), str) else ""]
    for value in others:
        md = replace(MD, **{name: value})
        with pytest.raises(MQError) as caught:
            start([Verb.PUT, 1, 1, 1, list(md.to_tuple()), PUT, b""])
        assert caught.value.reason == MQRC.MD_ERROR


@pytest.mark.parametrize("name", [field.name for field in fields(MessageDescriptor)])
def test_no_field_of_a_descriptor_is_taken_beyond_its_size(name: str) -> None:
    beyond: Any = {int: 2**32, str: "x" * 49, bytes: bytes(33)}[next(
        kind for kind in (int, str, bytes) if isinstance(getattr(MD, name), kind)
    )]  # fmt: skip
    with pytest.raises(MQError) as caught:
        start([Verb.PUT, 1, 1, 1, list(replace(MD, **{name: beyond}).to_tuple()), PUT, b""])
    assert caught.value.reason == MQRC.MD_ERROR


async def test_a_trigger_take_is_cut_to_ten_thousand_leases() -> None:
    assert start([Verb.TRIGGER_TAKE, 1, 1, "Q", 2**31]) == [("trigger_take", "Q", 10_000)]


def test_the_names_in_a_connect_are_checked() -> None:
    assert arguments.connect_arguments([Verb.CONNECT, 1, 1, "QM1", "orders", "alice"]) == ("QM1", "orders", "alice")
    with pytest.raises(WireError):
        arguments.connect_arguments([Verb.CONNECT, 1, 1, "QM1"])
    for names in (["Q" * 49, "", ""], ["", "a" * 257, ""], ["", "", 5]):
        with pytest.raises(MQError):
            arguments.connect_arguments([Verb.CONNECT, 1, 1, *names])


def test_a_list_of_numbers_holds_numbers() -> None:
    assert arguments.numbers([Verb.TAKEN, 0, 0, [1, 2]]) == [1, 2]
    for items in ([], [5], [[1], 2], [["1"]], [[True]], [[-1]], [[2**63]]):
        with pytest.raises(WireError):
            arguments.numbers([Verb.TAKEN, 0, 0, *items])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(verb=st.sampled_from(sorted(arguments.STARTED)), items=st.lists(values, max_size=6))
async def test_no_arguments_raise_anything_but_a_wire_error_or_an_mq_error(verb: Verb, items: list[Any]) -> None:
    try:
        start([verb.value, 1, 1, *items])
    except (WireError, MQError):
        pass
