"""The calls about deliveries and about messages that wait, as fields of frames: their arguments, and their answers.

What a call says beside the options of the MQI is in its frame only where it says something: a plain put or get is as
long as it ever was. Why handlers failed are byte strings behind the settlements, which name them by their places, since
all that is neither bytes nor a text in a frame must be short (`broker.wire.unpacking`).
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.interface.handling import Handed, Serving, Taken
from broker.interface.port import Delivery
from broker.mqi.checks import identifier
from broker.mqi.errors import MQError
from broker.mqi.handling import (
    BATCH_MAX,
    ERROR_BYTES,
    EXCEPTION_BYTES,
    FAILURES_MAX,
    KEY_BYTES,
    NO_FAILURE,
    SETTLE_MAX,
    TRACEBACK_BYTES,
    Failure,
    HandlingTerms,
    Outcome,
    PutTerms,
    Settled,
    Settlement,
    check_feedback,
)
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.wire.frames import Frame, Verb, WireError
from broker.wire.unpacking import unpack_careful
from broker.wire.values import number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.interface.port import Call, Port

_LABEL_MAX: Final = 256
_BACKOFF_MAX: Final = 1000
_TAKE_MAX: Final = 10_000
_OUTCOMES: Final = frozenset(Outcome)
_DONE: Final = Settlement(0, Outcome.DONE)
_USUAL: Final = 3
"""How many fields a settlement has that says no more than how long the handler ran."""

_TERMS: Final = tuple(HandlingTerms._fields)
_FAILURE_BYTES: Final = 16 + EXCEPTION_BYTES + ERROR_BYTES + TRACEBACK_BYTES

_pack: Final = msgpack.Packer().pack


# The client's side: what does not go as it is.


def packed_settlements(settlements: Sequence[Settlement]) -> tuple[Any, ...]:
    """Settlements as SETTLE carries them: their fields, then why handlers failed, each once."""
    failures: dict[Failure, int] = {NO_FAILURE: 0}

    def place(failure: Failure) -> int:
        return failures.setdefault(failure, len(failures))

    fields: list[tuple[Any, ...]] = []
    for each in settlements:
        id, outcome, failure, *others, failed, ran = each
        if each[2:-1] == _DONE[2:-1]:
            fields.append((id, int(outcome), ran))
        else:
            alone = [(at, place(why)) for at, why in failed]
            fields.append((id, int(outcome), ran, place(failure), *others, alone))
    return fields, *[_pack(failure) for failure in failures if failure is not NO_FAILURE]


# The queue manager's side: arguments.


def put_terms(fields: object) -> PutTerms:
    """What a put says beside its options. Raises OPTIONS_ERROR (2046)."""
    if type(fields) is not list or len(fields) != len(PutTerms._fields):
        raise MQError(MQRC.OPTIONS_ERROR, "the terms of the put have other fields than they should")
    delay, deliver_at, key, window = fields
    if type(key) is not bytes or len(key) > KEY_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"the key is not at most {KEY_BYTES} bytes")
    return PutTerms(
        _seconds(delay, "the delay"),
        _seconds(deliver_at, "the instant"),
        key,
        None if window is None else _seconds(window, "the window"),
    )


def _serve(port: Port, q_name: Any, terms: Any) -> Call[Any]:
    if type(terms) is not list or len(terms) != len(_TERMS):
        raise MQError(MQRC.OPTIONS_ERROR, "the terms of the handler have other fields than they should")
    return port.serve(_name(q_name), HandlingTerms(*map(_term, _TERMS, terms)))


def _term(name: str, value: Any) -> Any:
    """A field of HandlingTerms. Its type is that of its default."""
    check = _TERM_CHECKS.get(name) or _KIND_CHECKS[type(HandlingTerms._field_defaults[name])]
    return check(value, f"{name} among the terms of the handler")


def _label(value: Any, what: str) -> str:
    return text(value, _LABEL_MAX, MQRC.OPTIONS_ERROR, what)


def _target(value: Any, what: str) -> str:
    return text(value, NAME_LENGTH, MQRC.OBJECT_NAME_ERROR, what)


def _truth(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is neither true nor false")
    return value


def _backoff(value: Any, what: str) -> tuple[float, ...]:
    if type(value) is not list or not 1 <= len(value) <= _BACKOFF_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is no list of 1 to {_BACKOFF_MAX} numbers of seconds")
    return tuple([_seconds(each, what) for each in value])


def _batch(value: Any, what: str) -> int:
    if not 1 <= number(value, what) <= BATCH_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is not 1 to {BATCH_MAX}")
    return int(value)


def _traceback(value: Any, what: str) -> int:
    if number(value, what) > TRACEBACK_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is over {TRACEBACK_BYTES} bytes")
    return int(value)


def _attempts(value: Any, what: str) -> int | None:
    return None if value is None else number(value, what)


def _seconds(value: Any, what: str) -> float:
    if type(value) not in (int, float):
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is no number of seconds")
    if not (isfinite(value) and value >= 0):
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} is {value}: a number of seconds is 0 or more, and finite")
    return float(value)


_TERM_CHECKS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "attempts": _attempts,
    "backoff": _backoff,
    "batch": _batch,
    "dead_letter": _target,
    "last_dead_letter": _target,
    "traceback": _traceback,
}
_KIND_CHECKS: Final[dict[type, Callable[[Any, str], Any]]] = {
    str: _label,
    int: number,
    float: _seconds,
    bool: _truth,
}


def _stop_serving(port: Port, service: Any) -> Call[Any]:
    return port.stop_serving(number(service, "the service"))


def _take(port: Port, service: Any, count: Any) -> Call[Any]:
    wanted = number(count, "the number of deliveries")
    if wanted < 1:
        raise MQError(MQRC.OPTIONS_ERROR, "no delivery is asked for")
    return port.take_deliveries(number(service, "the service"), min(wanted, _TAKE_MAX))


def settle(port: Port, frame: Frame) -> Call[Any]:
    """Make the call of a SETTLE. Raises WireError or MQError."""
    if len(frame) < 4:
        raise WireError("SETTLE has no settlements")
    settlements = frame[3]
    if type(settlements) is not list or not 1 <= len(settlements) <= SETTLE_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"the settlements are no list of 1 to {SETTLE_MAX}")
    if len(frame) > 4 + FAILURES_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"the settlements name more than {FAILURES_MAX} failures")
    failures = [NO_FAILURE, *map(_failure, frame[4:])] if len(frame) > 4 else _NO_FAILURES
    return port.settle_deliveries([_settlement(each, failures) for each in settlements])


_NO_FAILURES: Final = [NO_FAILURE]


def _settlement(fields: Any, failures: list[Failure]) -> Settlement:
    if type(fields) is not list or len(fields) not in (_USUAL, len(Settlement._fields)):
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement has other fields than it should")
    id, outcome, ran = fields[:_USUAL]
    if type(id) is not int or type(outcome) is not int or outcome not in _OUTCOMES:
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement says of no delivery how it ends")
    ran = _seconds(ran, "for how long the handler ran")
    if len(fields) == _USUAL:
        return Settlement(number(id, "the delivery"), outcome, ran=ran)
    failure, timed_out, feedback, seconds, counted, failed = fields[_USUAL:]
    check_feedback(number(feedback, "the feedback"))
    return Settlement(
        number(id, "the delivery"),
        outcome,
        _of(failures, failure),
        _truth(timed_out, "whether the handler took too long"),
        feedback,
        _seconds(seconds, "until when the message waits"),
        _truth(counted, "whether the attempt counts"),
        tuple([_alone(each, failures) for each in _list(failed)]),
        ran,
    )


def _list(failed: Any) -> list[Any]:
    if type(failed) is not list or len(failed) > BATCH_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"the messages that failed are no list of at most {BATCH_MAX}")
    return failed


def _alone(pair: Any, failures: list[Failure]) -> tuple[int, Failure]:
    if type(pair) is not list or len(pair) != 2:
        raise MQError(MQRC.OPTIONS_ERROR, "a message that failed is not its place and why it failed")
    return number(pair[0], "the place of a message"), _of(failures, pair[1])


def _of(failures: list[Failure], place: Any) -> Failure:
    if type(place) is not int or not 0 <= place < len(failures):
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement names a failure that is not there")
    return failures[place]


def _failure(packed: Any) -> Failure:
    if type(packed) is not bytes or len(packed) > _FAILURE_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"a failure is no byte string of at most {_FAILURE_BYTES} bytes")
    try:
        fields = unpack_careful(packed)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MQError(MQRC.OPTIONS_ERROR, f"a failure: {error}") from error
    if type(fields) is not list or len(fields) != len(_FAILURE_LIMITS):
        raise MQError(MQRC.OPTIONS_ERROR, "a failure has other fields than it should")
    for value, longest in zip(fields, _FAILURE_LIMITS, strict=True):
        if type(value) is not str or len(value.encode()) > longest:
            raise MQError(MQRC.OPTIONS_ERROR, f"a failure has no text of at most {longest} bytes where it should")
    return Failure(*fields)


_FAILURE_LIMITS: Final = (EXCEPTION_BYTES, ERROR_BYTES, TRACEBACK_BYTES)


def _release_waiting(port: Port, q_name: Any, msg_id: Any) -> Call[Any]:
    return port.release_waiting(_name(q_name), identifier(msg_id, "msg_id", MQRC.MSG_ID_ERROR))


def _name(value: Any) -> str:
    return text(value, NAME_LENGTH, MQRC.OBJECT_NAME_ERROR, "the name of the queue")


def delivery_connection_arguments(frame: Frame) -> tuple[int, int, str]:
    """The conversation that has taken the delivery of a DELIVERY_CONNECT, the delivery and the application's name.
    Raises WireError or MQError.
    """
    if len(frame) != 6 or type(frame[3]) is not int:
        raise WireError("DELIVERY_CONNECT has other items than a conversation, a delivery and a name")
    name = text(frame[5], _LABEL_MAX, MQRC.OPTIONS_ERROR, "the name of the application")
    return frame[3], number(frame[4], "the delivery"), name


MAKERS: Final[dict[int, tuple[int, Callable[..., Call[Any]]]]] = {
    Verb.RELEASE_WAITING: (5, _release_waiting),
    Verb.SERVE: (5, _serve),
    Verb.STOP_SERVING: (4, _stop_serving),
    Verb.TAKE: (5, _take),
}
"""By verb: how many items its frame has, and what makes the call."""


# Answers, at the queue manager's end and at the client's.


def delivered(delivery: Delivery) -> tuple[Any, ...]:
    """A message as a frame carries it: without its instant, if it had none."""
    return delivery if delivery.deliver_at else delivery[:-1]


def _single(result: object) -> tuple[Any, ...]:
    return (result,)


def _taken(taken: Taken) -> tuple[Any, ...]:
    return taken.trigger, [(*each[:-1], [delivered(message) for message in each.messages]) for each in taken.deliveries]


def _settled(settled: Sequence[Settled]) -> tuple[Any, ...]:
    return ([each if each[2:] != _NOTHING_MORE else each[:2] for each in settled],)


_NOTHING_MORE: Final = Settled(0, 0)[2:]

FIELDS: Final[dict[int, Callable[[Any], tuple[Any, ...]]]] = {
    Verb.RELEASE_WAITING: _single,
    Verb.SERVE: tuple,
    Verb.STOP_SERVING: _single,
    Verb.TAKE: _taken,
    Verb.SETTLE: _settled,
    Verb.DELIVERY_CONNECT: lambda port: (port.q_mgr_name,),
}
"""By verb: from what a call has come to, to the items of its ANSWER."""


def _number(items: Frame) -> int:
    (value,) = items
    if type(value) is not int:
        raise TypeError(f"{value!r} is no integer")
    return value


def _port_name(items: Frame) -> str:
    (value,) = items
    if type(value) is not str:
        raise TypeError(f"{value!r} is no name")
    return value


def _found_taken(items: Frame) -> Taken:
    trigger, deliveries = items
    return Taken(trigger, [_handed(*fields) for fields in deliveries])


def _handed(id: int, attempt: int, limit: int, waited: float, messages: list[Any]) -> Handed:
    return Handed(id, attempt, limit, waited, [Delivery(*fields) for fields in messages])


def _found_settled(items: Frame) -> list[Settled]:
    (settled,) = items
    return [Settled(*fields) for fields in settled]


RESULTS: Final[dict[int, Callable[[Frame], Any]]] = {
    Verb.RELEASE_WAITING: _number,
    Verb.SERVE: Serving._make,
    Verb.STOP_SERVING: _number,
    Verb.TAKE: _found_taken,
    Verb.SETTLE: _found_settled,
    Verb.DELIVERY_CONNECT: _port_name,
}
"""By verb: from the items of an ANSWER to what its call returns. Raises TypeError or ValueError."""
