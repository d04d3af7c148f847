"""The arguments of calls: what a client sends, and what reaches the port of it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import QueueManager
from broker.engine.calls.batches import PutManyCall
from broker.interface.answers import PlacedMany
from broker.interface.port import Port
from broker.mqi import MQRC, GetMessageOptions, MessageDescriptor, MQError, ObjectDescriptor, PutMessageOptions
from broker.mqi.delivery_fields import HISTORY_VALUE_MAX, SETTLE_MAX, Failure, Outcome, Returned, Settlement
from broker.mqi.security_parameters import NO_SECURITY_PARAMETERS
from broker.server.request import weight_of
from broker.testing import VirtualClock
from broker.wire import Verb, WireError, arguments
from broker.wire.delivery_wire import packed_service_options, packed_settlements
from broker.wire.results import pairs
from broker.wire.structures import DescriptorPacker, object_fields, packed_get_options, packed_put_options
from broker.wire.verbs import BY_VERB, STARTED
from tests.conformance.expect import ALL
from tests.wire.ends import Pair, received
from tests.wire.recorder import RecordingPort
from tests.wire.samples import (
    CALLS,
    CHECKED,
    COLUMNS,
    FAILURE,
    HISTORY_TERMS,
    ITEMS,
    LIST_CALLS,
    MD,
    SECURED,
    TERMED_CALLS,
    TERMED_ITEMS,
    TERMS,
    TOKEN,
    UUID,
    VALUED_SETTLEMENTS,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def sent(verb: Verb, arguments_of_call: tuple[Any, ...]) -> list[Any]:
    """The frame of a call, as the other end receives it."""
    items: list[Any] = []
    for argument in ITEMS.get(verb, arguments_of_call):
        match argument:
            case MessageDescriptor():
                items.append(DescriptorPacker().pack(argument))
            case PutMessageOptions():
                items.append(packed_put_options(argument))
            case GetMessageOptions():
                items.append(packed_get_options(argument))
            case dict():
                items.append(pairs(argument))
            case ObjectDescriptor():
                items.append(object_fields(argument))
            case _:
                items.append(argument)
    pair = Pair()
    (frame,) = received(pair.server, pair.client.send(verb, 1, 1, *items))
    return frame


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    """A conversation with a queue manager: handle 1 is QLOCAL(Q), open for everything."""
    async with QueueManager.open(clock=VirtualClock()) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q)")
        assert (await connection.open("Q", ALL)).hobj == 1
        yield connection.port


async def reason_of(port: Port, frame: list[Any]) -> MQRC | int:
    """The reason with which the call fails that a frame asks for."""
    with pytest.raises(MQError) as caught:
        result = await BY_VERB[frame[0]].start(port, frame, lambda number: None)
        if isinstance(result, PlacedMany) and result.error is not None:
            raise result.error
    return caught.value.reason


def start(frame: list[Any]) -> list[tuple[Any, ...]]:
    port = RecordingPort()
    BY_VERB[frame[0]].start(cast("Port", port), frame, lambda number: None)
    return port.calls


@pytest.mark.parametrize("verb", CALLS)
async def test_a_call_reaches_the_port_as_it_was_made(verb: Verb) -> None:
    name, arguments_of_call = CALLS[verb]
    assert start(sent(verb, arguments_of_call)) == [(name, *arguments_of_call)]


@pytest.mark.parametrize("verb", LIST_CALLS)
async def test_a_call_for_a_distribution_list_reaches_the_port_as_it_was_made(verb: Verb) -> None:
    name, arguments_of_call = LIST_CALLS[verb]
    assert start(sent(verb, arguments_of_call)) == [(name, *arguments_of_call)]


@pytest.mark.parametrize("verb", TERMED_CALLS)
async def test_what_a_call_says_beside_its_options_reaches_the_port(verb: Verb) -> None:
    name, arguments_of_call = TERMED_CALLS[verb]
    assert start(sent(verb, TERMED_ITEMS[verb])) == [(name, *arguments_of_call)]


async def test_a_script_that_ends_at_its_first_failure_reaches_the_port_as_one() -> None:
    assert start([Verb.MQSC, 1, 1, *CHECKED]) == [("mqsc", *CHECKED)]


def test_every_call_that_start_makes_has_a_sample() -> None:
    assert CALLS.keys() == STARTED - {Verb.PUT_MANY}
    assert all(hasattr(Port, name) for name, _ in CALLS.values())


@pytest.mark.parametrize(
    "verb", CALLS.keys() - {Verb.SETTLE, Verb.PREPARE_DELIVERIES, Verb.DECIDE}
)  # which has any number of items
@pytest.mark.parametrize("change", ["an item too many", "an item too few"])
def test_a_call_with_another_number_of_items_breaks_the_line(verb: Verb, change: str) -> None:
    most = {Verb.MQSC: CHECKED, **TERMED_ITEMS}.get(verb, CALLS[verb][1])  # some may leave out an item
    frame = sent(verb, most if change == "an item too many" else CALLS[verb][1])
    frame = [*frame, None] if change == "an item too many" else frame[:-1]
    with pytest.raises(WireError, match=f"{verb.name} has {len(frame)} items"):
        start(frame)


PUT, GET = [2, -1, 3], [1, 5000, 2, TOKEN, 4]
PMO, GMO = msgpack.packb(PUT), msgpack.packb(GET)


def od(**fields: object) -> list[Any]:
    """An MQOD as a frame brings it, with these values in it."""
    od = ObjectDescriptor(**{"object_type": 1, **fields})  # type: ignore[arg-type]  # wrong ones too
    return list(object_fields(od))


LIST = [*od(), [["Q", ""]]]


def terms(**changes: object) -> list[Any]:
    """ServiceOptions as a frame brings them, with these values in them."""
    wanted = TERMS._replace(**changes)  # type: ignore[arg-type]  # wrong ones too
    return [list(each) if isinstance(each, tuple) else each for each in wanted]


def failure(exception: object = "E", error: object = "", traceback: object = "") -> bytes:
    """Return the error of a handler, as a frame brings it."""
    return packed(exception, error, traceback)


def returned(json: object = b"1", type: object = "", length: object = 0) -> bytes:
    """Return what a handler has returned, as a frame brings it."""
    return packed(json, type, length)


LONG: list[Any] = list(range(1000))
IDS = [bytes(24)] * 3


def packed(*fields: object) -> bytes:
    """A structure as a frame brings it."""
    found: bytes = msgpack.packb(fields)
    return found


@pytest.mark.parametrize(
    ("verb", "items", "reason"),
    [
        (Verb.OPEN, [None, 0], MQRC.OD_ERROR),
        (Verb.OPEN, [["Q", 1], 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(object_type="1"), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(object_type=2**40), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(object_name="Q" * 49), 16], MQRC.UNKNOWN_OBJECT_NAME),
        (Verb.OPEN, [od(object_q_mgr_name="Q" * 49), 16], MQRC.UNKNOWN_OBJECT_Q_MGR),
        (Verb.OPEN, [od(selection_string=5), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(dynamic_q_name="Q" * 49), 0], MQRC.DYNAMIC_Q_NAME_ERROR),
        (Verb.OPEN, [od(alternate_user_id="u" * 13), 0], MQRC.OD_ERROR),
        (Verb.OPEN, [[*od(), 5], 0], MQRC.RECS_PRESENT_ERROR),
        (Verb.OPEN, [[*od(), [["Q", ""]] * 65_536], 0], MQRC.RECS_PRESENT_ERROR),
        (Verb.OPEN, [[*od(), ["Q"]], 0], MQRC.OBJECT_RECORDS_ERROR),
        (Verb.OPEN, [[*od(), [["Q", None]]], 0], MQRC.OBJECT_RECORDS_ERROR),
        (Verb.OPEN, [[*od(), [["Q", "Q" * 49]]], 16], MQRC.UNKNOWN_OBJECT_Q_MGR),
        (Verb.OPEN, [[*od(), [], []], 0], MQRC.OD_ERROR),
        (Verb.OPEN, [od(), "1"], MQRC.OPTIONS_ERROR),
        (Verb.OPEN, [od(), True], MQRC.OPTIONS_ERROR),
        (Verb.CLOSE, [None, 0], MQRC.HOBJ_ERROR),
        (Verb.CLOSE, [2**40, 0], MQRC.HOBJ_ERROR),
        (Verb.CLOSE, [1, 1.5], MQRC.OPTIONS_ERROR),
        (Verb.PUT, ["1", None, PMO, b""], MQRC.HOBJ_ERROR),
        (Verb.PUT, [True, None, PMO, b""], MQRC.HOBJ_ERROR),
        (Verb.PUT, [2**40, None, PMO, b""], MQRC.HOBJ_ERROR),
        (Verb.PUT, [1, [], PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, True, PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, b"", PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, b"\xc1", PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, packed(), PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, b"\x80", PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, b"\xdc\xff\xff" + bytes(65_535), PMO, b""], MQRC.MD_ERROR),
        (Verb.PUT, [1, None, None, b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, PUT, b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, packed(0), b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, packed(0, 2**32), b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, packed(*PUT, 1), b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, packed(*PUT, "1", [5]), b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, packed(*PUT, 1, {}), b""], MQRC.RECS_PRESENT_ERROR),
        (Verb.PUT1, [LIST, None, packed(*PUT, 1, [[b"", b"", b"", 0]]), b""], MQRC.PUT_MSG_RECORDS_ERROR),
        (Verb.PUT1, [LIST, None, packed(*PUT, 1, [[*IDS, 2**40, bytes(32)]]), b""], MQRC.PUT_MSG_RECORDS_ERROR),
        (Verb.PUT, [1, None, packed(*PUT, 1, [[b"x" * 99] * 4] * 200), b""], MQRC.PMO_ERROR),
        (Verb.PUT, [1, None, PMO, "text"], MQRC.BUFFER_ERROR),
        (Verb.PUT, [1, None, PMO, None], MQRC.BUFFER_ERROR),
        (Verb.PUT_MANY, ["1", PMO, 0, None, b""], MQRC.HOBJ_ERROR),
        (Verb.PUT_MANY, [1, None, 0, None, b""], MQRC.PMO_ERROR),
        (Verb.GET, [[1], None, GMO, None], MQRC.HOBJ_ERROR),
        (Verb.GET, [True, None, GMO, None], MQRC.HOBJ_ERROR),
        (Verb.GET, [-(2**40), None, GMO, None], MQRC.HOBJ_ERROR),
        (Verb.GET, [1, None, None, None], MQRC.GMO_ERROR),
        (Verb.GET, [1, None, packed(0), None], MQRC.GMO_ERROR),
        (Verb.GET, [1, None, packed(0, "5", *GET[2:]), None], MQRC.WAIT_INTERVAL_ERROR),
        (Verb.GET, [1, None, packed(0, 5, "2", *GET[3:]), None], MQRC.GMO_ERROR),
        (Verb.GET, [1, None, packed(*GET[:3], b"short", 4), None], MQRC.MSG_TOKEN_ERROR),
        (Verb.GET, [1, None, GMO, "9"], MQRC.BUFFER_LENGTH_ERROR),
        (Verb.GET_MANY, [1, None, GMO, 0], MQRC.OPTIONS_ERROR),
        (Verb.GET_MANY, [1, None, GMO, True], MQRC.OPTIONS_ERROR),
        (Verb.GET_MANY, [1, None, None, 1], MQRC.GMO_ERROR),
        (Verb.INQUIRE, [1, 5], MQRC.SELECTOR_ERROR),
        (Verb.INQUIRE, [1, ["a"]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, {}], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[1]]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[1, None]]], MQRC.INT_ATTRS_ARRAY_ERROR),
        (Verb.SET, [1, [5]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[2**40, 1]]], MQRC.SELECTOR_ERROR),
        (Verb.SET, [1, [[10, 2**40]]], MQRC.INT_ATTRS_ARRAY_ERROR),
        (Verb.EXPLAIN, ["Q" * 49, None, None, None], MQRC.UNKNOWN_OBJECT_NAME),
        (Verb.EXPLAIN, [5, None, None, None], MQRC.OBJECT_NAME_ERROR),
        (Verb.EXPLAIN, ["Q", bytes(23), None, None], MQRC.MSG_ID_ERROR),
        (Verb.EXPLAIN, ["Q", None, "x" * 24, None], MQRC.CORREL_ID_ERROR),
        (Verb.EXPLAIN, ["Q", None, None, 7], MQRC.GROUP_ID_ERROR),
        (Verb.TRIGGER_TAKE, [5, 1], MQRC.OBJECT_NAME_ERROR),
        (Verb.TRIGGER_TAKE, ["Q", None], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, None, b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, 0.0, b""], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, ["1", 0.0, b"", 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [-1.0, 0.0, b"", 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [float("inf"), 0.0, b"", 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, float("nan"), b"", 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, True, b"", 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, 0.0, "key", 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, 0.0, bytes(256), 300.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, 0.0, b"key", -1.0], b""], MQRC.OPTIONS_ERROR),
        (Verb.PUT, [1, None, PMO, [0.0, 0.0, b"key", None], "text"], MQRC.BUFFER_ERROR),
        (Verb.PUT1, [od(), None, PMO, {}, b""], MQRC.OPTIONS_ERROR),
        (Verb.RELEASE_WAITING, [5, None], MQRC.OBJECT_NAME_ERROR),
        (Verb.RELEASE_WAITING, ["Q", bytes(23)], MQRC.MSG_ID_ERROR),
        (Verb.SERVE, [5, terms()], MQRC.OBJECT_NAME_ERROR),
        (Verb.SERVE, ["Q" * 49, terms()], MQRC.OBJECT_NAME_ERROR),
        (Verb.SERVE, ["Q", {}], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms()[:-1]], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(handler=b"h")], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(handler="h" * 257)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(attempts=-1)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(backoff=[])], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(backoff=[1.0, "2"])], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(backoff=[0.0] * 1001)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(jitter=1)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(crashes=True)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(dead_letter="Q" * 49)], MQRC.OBJECT_NAME_ERROR),
        (Verb.SERVE, ["Q", terms(traceback=4097)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(batch=0)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(batch=1001)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(rate=float("nan"))], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(total=2**64 - 1)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms()[:-4]], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(history="H" * 49)], MQRC.OBJECT_NAME_ERROR),
        (Verb.SERVE, ["Q", terms(history_span=float("inf"))], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(history_value=65537)], MQRC.OPTIONS_ERROR),
        (Verb.SERVE, ["Q", terms(history_value=-1)], MQRC.OPTIONS_ERROR),
        (Verb.STOP_SERVING, [-1], MQRC.OPTIONS_ERROR),
        (Verb.TAKE, [1, 0], MQRC.OPTIONS_ERROR),
        (Verb.TAKE, [1, -1], MQRC.OPTIONS_ERROR),
        (Verb.TAKE, ["1", 1], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [None], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]] * 501], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[5]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[["1", 0, 0.0]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[-1, 0, 0.0]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 6, 0.0]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, True, 0.0]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, -1.0]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 1, False, 0, 0.0, False, []]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, 0, 0, 0.0, False, []]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, False, -1, 0.0, False, []]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, False, 0, "1", False, []]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, False, 0, 0.0, False, {}]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, False, 0, 0.0, False, [[1]]]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, False, 0, 0.0, False, [[1, 2]]]], failure()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 1, 0.0, 0, False, 0, 0.0, False, [[0, 0], *LONG]]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]]], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 0]], returned()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, []]], returned()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, True]], returned()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 2]], returned()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], failure()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], returned(json="1")], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], returned(json=bytes(65537))], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], returned(type=b"int")], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], returned(length=-1)], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], b"\xc1"], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0, 1]], "returned"], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], returned()], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], "failure"], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], b"\xc1"], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], packed("E", "")], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], failure(exception=b"E")], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], failure(exception="E" * 257)], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], failure(error="\u20ac" * 342)], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], failure(traceback="T" * 4097)], MQRC.OPTIONS_ERROR),
        (Verb.SETTLE, [[[1, 0, 0.0]], *[failure()] * 1001], MQRC.OPTIONS_ERROR),
        (Verb.CONSUMER, ["C" * 49, []], MQRC.OBJECT_NAME_ERROR),
        (Verb.CONSUMER, [None, []], MQRC.OBJECT_NAME_ERROR),
        (Verb.CONSUMER, ["C", "Q"], MQRC.OBJECT_NAME_ERROR),
        (Verb.CONSUMER, ["C", [b"Q"]], MQRC.OBJECT_NAME_ERROR),
        (Verb.REGISTER, [5, None, None, None, False], MQRC.NO_SUBSCRIPTION),
        (Verb.REGISTER, ["u" * 65, None, None, None, False], MQRC.NO_SUBSCRIPTION),
        (Verb.REGISTER, [UUID, 5, None, None, False], MQRC.OPTIONS_ERROR),
        (Verb.REGISTER, [UUID, None, -1, None, False], MQRC.OPTIONS_ERROR),
        (Verb.REGISTER, [UUID, None, None, 2**63, False], MQRC.OPTIONS_ERROR),
        (Verb.CLAIM, [UUID, "7", 0, 1, 1, None, False], MQRC.OPTIONS_ERROR),
        (Verb.CLAIM, [UUID, 7, 0.5, 1, 1, None, False], MQRC.OPTIONS_ERROR),
        (Verb.CLAIM, [UUID, 7, 0, True, 1, None, False], MQRC.OPTIONS_ERROR),
        (Verb.CLAIM, [UUID, 7, 0, 1, None, None, False], MQRC.OPTIONS_ERROR),
        (Verb.CLAIM, [UUID, 7, 0, 1, 1, "1", False], MQRC.OPTIONS_ERROR),
        (Verb.PIN, [UUID, 7, None, 0, 1], MQRC.OPTIONS_ERROR),
        (Verb.PIN, [UUID, 7, "L", None, 1], MQRC.OPTIONS_ERROR),
        (Verb.READ_CLAIMED, [UUID, None, 0, 1], MQRC.OPTIONS_ERROR),
        (Verb.READ_CLAIMED, [UUID, 7, 0, []], MQRC.OPTIONS_ERROR),
        (Verb.ACKNOWLEDGE, [None, 7, 0], MQRC.NO_SUBSCRIPTION),
        (Verb.ACKNOWLEDGE, [UUID, 7, -1], MQRC.OPTIONS_ERROR),
        (Verb.RELEASE, [UUID, -7], MQRC.OPTIONS_ERROR),
        (Verb.QUEUE_RANGES, ["Q"], MQRC.OBJECT_NAME_ERROR),
        (Verb.QUEUE_RANGES, [[5]], MQRC.OBJECT_NAME_ERROR),
        (Verb.BROWSE_RANGE, [None, 0, 1, None, None, None], MQRC.OBJECT_NAME_ERROR),
        (Verb.BROWSE_RANGE, ["Q", "0", 1, None, None, None], MQRC.OPTIONS_ERROR),
        (Verb.BROWSE_RANGE, ["Q", 0, 1, bytes(23), None, None], MQRC.MSG_ID_ERROR),
        (Verb.BROWSE_RANGE, ["Q", 0, 1, None, "x" * 24, None], MQRC.CORREL_ID_ERROR),
        (Verb.BROWSE_RANGE, ["Q", 0, 1, None, None, 5], MQRC.GROUP_ID_ERROR),
        (Verb.BROWSE_CUTS, [5, 0, 1, 1, 1], MQRC.OBJECT_NAME_ERROR),
        (Verb.BROWSE_CUTS, ["Q", 0, 1, None, 1], MQRC.OPTIONS_ERROR),
        (Verb.SINK, ["S" * 49], MQRC.OBJECT_NAME_ERROR),
        (Verb.STAGE, ["S", 1, 0, bytes(15), None, 0, 0, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, ["S", 1, 0, "a" * 16, None, 0, 0, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, [5, 1, 0, TOKEN, None, 0, 0, True, COLUMNS], MQRC.OBJECT_NAME_ERROR),
        (Verb.STAGE, ["S", -1, 0, TOKEN, None, 0, 0, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, ["S", 1, None, TOKEN, None, 0, 0, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, ["S", 1, 0, TOKEN, 5, 0, 0, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, ["S", 1, 0, TOKEN, None, -1, 0, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, ["S", 1, 0, TOKEN, None, 0, 2**32, True, COLUMNS], MQRC.OPTIONS_ERROR),
        (Verb.STAGE, ["S", 1, 0, TOKEN, None, 0, 0, True, "columns"], MQRC.BUFFER_ERROR),
        (Verb.PUBLISH, ["S", None, None, b""], MQRC.OPTIONS_ERROR),
        (Verb.PUBLISH, ["S", 1, None, []], MQRC.OPTIONS_ERROR),
        (Verb.PUBLISH, ["S", 1, None, bytes(37)], MQRC.OPTIONS_ERROR),
        (Verb.PUBLISH, ["S", 1, "q" * 1025, b""], MQRC.OPTIONS_ERROR),
        (Verb.DISCARD, [{}, b""], MQRC.OBJECT_NAME_ERROR),
        (Verb.DISCARD, [[5], b""], MQRC.OBJECT_NAME_ERROR),
        (Verb.DISCARD, [["S"], []], MQRC.OPTIONS_ERROR),
        (Verb.DISCARD, [["S"], bytes(29)], MQRC.OPTIONS_ERROR),
        (Verb.DISCARD, [[], bytes(30)], MQRC.OPTIONS_ERROR),
        (Verb.DISCARD, [["S"], b"\xff" * 30], MQRC.OPTIONS_ERROR),
    ],
)
async def test_a_wrong_argument_is_the_error_of_the_call(
    port: Port, verb: Verb, items: list[Any], reason: MQRC
) -> None:
    assert await reason_of(port, [verb.value, 1, 1, *items]) == reason


@pytest.mark.parametrize(
    ("verb", "items"),
    [
        (Verb.DISCONNECT, [1]),
        (Verb.MQSC, [b"DISPLAY"]),
        (Verb.MQSC, [1, "DISPLAY"]),
        (Verb.MQSC, ["DISPLAY", True]),
        (Verb.MQSC, [True, True, "DISPLAY"]),
        (Verb.TRIGGER_WAIT, ["1"]),
        (Verb.GET, [1, None, GMO, None, 1]),
        (Verb.SETTLE, []),
        (Verb.REGISTER, [UUID, None, None, None, 1]),
        (Verb.CLAIM, [UUID, 7, 0, 1, 1, None, None]),
        (Verb.STAGE, ["S", 1, 0, TOKEN, None, 0, 0, 1, COLUMNS]),
        (Verb.PUT_MANY, []),
        (Verb.PUT_MANY, [1, PMO, 0]),
        (Verb.PUT_MANY, [1, PMO, 0, None]),
        (Verb.PUT_MANY, [1, PMO, None, None, b""]),
        (Verb.PUT_MANY, [1, PMO, 0, *[None, b""] * 129]),
    ],
)
def test_what_no_program_could_have_asked_for_breaks_the_line(verb: Verb, items: list[Any]) -> None:
    with pytest.raises(WireError):
        start([verb.value, 1, 1, *items])


@pytest.mark.parametrize("name", [field.name for field in fields(MessageDescriptor)])
async def test_no_field_of_a_descriptor_is_taken_with_another_type(port: Port, name: str) -> None:
    others: list[Any] = [None, True, 1.5, [], {}, b"" if isinstance(getattr(MD, name), str) else ""]
    for value in others:
        md = replace(MD, **{name: value})
        frame = [Verb.PUT, 1, 1, 1, packed(*md.to_tuple()), PMO, b""]
        assert await reason_of(port, frame) == MQRC.MD_ERROR


INTEGERS = [field.name for field in fields(MessageDescriptor) if isinstance(getattr(MD, field.name), int)]


@pytest.mark.parametrize("name", INTEGERS)
async def test_no_integer_of_a_descriptor_is_taken_beyond_32_bits(port: Port, name: str) -> None:
    for value in (2**32, -(2**31) - 1):
        beyond: dict[str, Any] = {name: value}
        frame = [Verb.PUT, 1, 1, 1, packed(*replace(MD, **beyond).to_tuple()), PMO, b""]
        assert await reason_of(port, frame) == MQRC.MD_ERROR


async def test_the_messages_of_a_batch_reach_the_port_with_their_descriptors() -> None:
    port, before = RecordingPort(), PutManyCall()
    frame = [Verb.PUT_MANY, 1, 2, 7, PMO, 1, packed(*MD.to_tuple()), b"A", True, b"B", None, b"C", True, b"D"]
    BY_VERB[frame[0]].start(cast("Port", port), frame, {1: before}.get)
    ((name, hobj, messages, options, after),) = port.calls
    assert (name, hobj, options.options, after) == ("put_many", 7, PUT[0], before)
    assert list(messages) == [(MD, b"A"), (MD, b"B"), (None, b"C"), (None, b"D")]


@pytest.mark.parametrize(("wrong", "reason"), [((b"", b""), MQRC.MD_ERROR), ((None, "text"), MQRC.BUFFER_ERROR)])
async def test_a_wrong_message_of_a_batch_is_found_when_those_before_it_have_been_put(
    wrong: tuple[Any, Any], reason: MQRC
) -> None:
    ((_, _, messages, _, _),) = start([Verb.PUT_MANY, 1, 2, 7, PMO, 0, None, b"A", *wrong, None, b"C"])
    assert next(messages) == (None, b"A")
    with pytest.raises(MQError) as caught:
        next(messages)
    assert caught.value.reason == reason


async def test_equal_structures_are_taken_apart_once() -> None:
    first, second, other = (
        start([Verb.PUT, 1, 1, 7, packed(*replace(MD, priority=priority).to_tuple()), PMO, b""])[0]
        for priority in (5, 5, 6)
    )
    assert first[2] is second[2]
    assert first[3] is second[3] is other[3]
    assert (first[2].priority, other[2].priority) == (5, 6)


def test_a_descriptor_like_the_one_before_it_is_packed_the_same() -> None:
    packer = DescriptorPacker()
    assert packer.pack(None) is None
    first = packer.pack(replace(MD))
    assert packer.pack(replace(MD)) is first
    assert packer.pack(replace(MD, priority=6)) != first


@pytest.mark.parametrize("persistence", [True, 1.0])
def test_a_wrong_descriptor_does_not_stand_for_a_right_one_that_looks_like_it(persistence: object) -> None:
    packer = DescriptorPacker()
    wrong = packer.pack(replace(MD, persistence=persistence))  # type: ignore[arg-type]  # what it is about
    assert packer.pack(MD) == DescriptorPacker().pack(MD) != wrong


def test_the_tokens_of_a_give_back_are_tokens() -> None:
    assert arguments.given_back([Verb.GIVE_BACK, 1, 0, 7, [TOKEN], TOKEN]) == (7, [TOKEN], TOKEN)
    for items in (
        [],
        [7, [TOKEN]],
        ["7", [TOKEN], TOKEN],
        [7, TOKEN, TOKEN],
        [7, [b"short"], TOKEN],
        [7, [TOKEN], None],
        [7, [TOKEN] * 501, TOKEN],
    ):
        with pytest.raises(WireError):
            arguments.given_back([Verb.GIVE_BACK, 1, 0, *items])


async def test_a_trigger_take_is_cut_to_ten_thousand_leases() -> None:
    assert start([Verb.TRIGGER_TAKE, 1, 1, "Q", 2**31]) == [("trigger_take", "Q", 10_000)]


def test_the_names_in_a_connect_are_checked() -> None:
    connect = BY_VERB[Verb.CONNECT].arguments
    found = connect([Verb.CONNECT, 1, 1, "QM1", "orders", "alice"])
    assert found == {"q_mgr_name": "QM1", "appl_name": "orders", "user": "alice"}
    with pytest.raises(WireError):
        connect([Verb.CONNECT, 1, 1, "QM1"])
    for names in (["Q" * 49, "", ""], ["", "a" * 257, ""], ["", "", 5]):
        with pytest.raises(MQError):
            connect([Verb.CONNECT, 1, 1, *names])


def test_a_list_of_numbers_holds_numbers() -> None:
    assert arguments.numbers([Verb.TAKEN, 0, 0, [1, 2]]) == [1, 2]
    for items in ([], [5], [[1], 2], [["1"]], [[True]], [[-1]], [[2**63]]):
        with pytest.raises(WireError):
            arguments.numbers([Verb.TAKEN, 0, 0, *items])


async def test_the_longest_settlements_reach_the_port_as_they_were_made() -> None:
    """What is in a frame beside bytes and texts is short, however much is settled in one."""
    longest = Failure("E" * 256, "e" * 1024, "t" * 4096)
    alone = tuple((place, longest._replace(error=f"{place}")) for place in range(1000))
    many = [Settlement(2**62 + number, Outcome.FAILED, FAILURE, ran=0.1) for number in range(500)]
    for settlements in (many, [Settlement(2**62, Outcome.DONE, failed=alone, ran=0.1)]):
        pair = Pair()
        (frame,) = received(pair.server, pair.client.send(Verb.SETTLE, 1, 1, *packed_settlements(settlements)))
        assert start(frame) == [("settle_deliveries", settlements)]
        assert weight_of(frame, 10**6) < 10**7


async def test_terms_like_these_are_taken() -> None:
    """So that each of the wrong ones above is wrong for one reason."""
    assert start([Verb.SERVE, 1, 1, "Q", terms()]) == [("serve", "Q", TERMS)]
    kept = HISTORY_TERMS._asdict()
    assert start([Verb.SERVE, 1, 1, "Q", terms(**kept)]) == [("serve", "Q", HISTORY_TERMS)]
    before = terms()[: len(packed_service_options(TERMS))]  # as a client without a history says them
    assert start([Verb.SERVE, 1, 1, "Q", before]) == [("serve", "Q", TERMS)]


async def test_what_handlers_returned_goes_with_their_settlements() -> None:
    pair = Pair()
    frame = Verb.SETTLE, 1, 1, *packed_settlements(VALUED_SETTLEMENTS)
    (frame_received,) = received(pair.server, pair.client.send(*frame))
    assert start(frame_received) == [("settle_deliveries", VALUED_SETTLEMENTS)]
    for count, length in ((100, HISTORY_VALUE_MAX), (SETTLE_MAX, 100)):  # most of them behind the settlements
        value = Returned(b'"' + b"v" * (length - 2) + b'"')
        one = Settlement(2**62, Outcome.DONE, failed=((0, FAILURE),), ran=0.1, value=value)
        many = [one._replace(id=2**62 + number) for number in range(count)]
        (frame_received,) = received(pair.server, pair.client.send(Verb.SETTLE, 1, 2, *packed_settlements(many)))
        assert start(frame_received) == [("settle_deliveries", many)]


def test_a_failure_is_kept_as_far_as_there_is_room_for_it() -> None:
    short = Failure("ValueError", "no", "Traceback")
    assert short.kept is short
    long = Failure("E" * 300, "\u20ac" * 400, "first" + "\u20ac" * 1500 + "last")
    kept = long.kept
    assert (kept.exception, kept.error) == ("E" * 256, "\u20ac" * 341)
    assert kept.traceback.endswith("\u20aclast")
    assert len(kept.traceback.encode()) in range(4094, 4097)
    assert kept.kept == kept
    assert Failure("E", "\udc80").kept == Failure("E", "?")


def test_the_arguments_of_a_connection_for_a_delivery_are_checked() -> None:
    connect = BY_VERB[Verb.DELIVERY_CONNECT].arguments
    found = connect([Verb.DELIVERY_CONNECT, 2, 1, 1, 17, "a"])
    assert found == {"taker": 1, "delivery": 17, "appl_name": "a"}
    wrong: list[list[Any]] = [[1, 17], ["1", 17, "a"], [1, 17, "a", None]]
    for items in wrong:
        with pytest.raises(WireError):
            connect([Verb.DELIVERY_CONNECT, 2, 1, *items])
    wrong = [[1, -1, "a"], [1, None, "a"], [1, 17, "a" * 257], [1, 17, 5]]
    for items in wrong:
        with pytest.raises(MQError):
            connect([Verb.DELIVERY_CONNECT, 2, 1, *items])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(verb=st.sampled_from(sorted(STARTED)), items=st.lists(values, max_size=6))
async def test_no_arguments_raise_anything_but_a_wire_error_or_an_mq_error(verb: Verb, items: list[Any]) -> None:
    try:
        start([verb.value, 1, 1, *items])
    except (WireError, MQError):
        pass


def test_a_connect_names_a_channel_and_a_secret_together_or_neither() -> None:
    row = BY_VERB[Verb.CONNECT]
    plain = {"q_mgr_name": "QM1", "appl_name": "orders", "user": "alice"}
    assert row.arguments([Verb.CONNECT, 1, 1, "QM1", "orders", "alice"]) == plain
    assert row.items(("QM1", "orders", "alice", NO_SECURITY_PARAMETERS)) == ["QM1", "orders", "alice"]
    items = msgpack.unpackb(msgpack.packb(row.items(SECURED)))
    assert items == ["QM1", "orders", "alice", "APP.SVRCONN", 1, b"secret"]
    assert row.arguments([Verb.CONNECT, 1, 1, *items]) == {**plain, "security": SECURED[3]}
    for some in (7, 8, 10):
        with pytest.raises(WireError, match=f"CONNECT has {some} items, not 6"):
            row.arguments([Verb.CONNECT, 1, 1, *items, b"more"][:some])


@pytest.mark.parametrize(
    ("channel", "kind", "secret", "reason"),
    [
        ("A" * 21, 1, b"secret", MQRC.UNKNOWN_CHANNEL_NAME),
        (b"APP", 1, b"secret", MQRC.UNKNOWN_CHANNEL_NAME),
        ("APP", 3, b"secret", MQRC.OPTIONS_ERROR),
        ("APP", True, b"secret", MQRC.OPTIONS_ERROR),
        ("APP", 1, "secret", MQRC.NOT_AUTHORIZED),
        ("APP", 1, b"secret" * 11_000, MQRC.NOT_AUTHORIZED),
    ],
)
def test_wrong_security_parameters_are_refused_without_being_told(
    channel: Any, kind: Any, secret: Any, reason: MQRC
) -> None:
    with pytest.raises(MQError) as raised:
        BY_VERB[Verb.CONNECT].arguments([Verb.CONNECT, 1, 1, "", "", "", channel, kind, secret])
    assert raised.value.reason == reason
    assert "secret" not in str(raised.value).replace("the secret", "")


def test_security_parameters_show_no_secret() -> None:
    assert repr(SECURED[3]) == "SecurityParameters(channel='APP.SVRCONN', kind=<CredentialKind.PASSWORD: 1>)"
