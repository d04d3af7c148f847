"""The structures of the calls about deliveries and about messages that wait, as fields of frames.

Why handlers failed are byte strings behind the settlements, which name them by their places, since all that is neither
bytes nor a text in a frame must be short (`broker.wire.unpacking`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.mqi.delivery_fields import (
    BATCH_MAX,
    ERROR_BYTES,
    EXCEPTION_BYTES,
    FAILURES_MAX,
    HISTORY_VALUE_MAX,
    KEY_BYTES,
    NO_FAILURE,
    NOT_RETURNED,
    SETTLE_MAX,
    TRACEBACK_BYTES,
    TYPE_BYTES,
    Failure,
    Outcome,
    PutExtras,
    Returned,
    ServiceOptions,
    Settlement,
    check_feedback,
)
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.wire.fields import LABEL_MAX, Field, list_of, name, read, seconds, structure
from broker.wire.frames import Frame, WireError
from broker.wire.unpacking import unpack_careful

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.port import Call, Port

_BACKOFF_MAX: Final = 1000
_FAILURE_LIMITS: Final = (EXCEPTION_BYTES, ERROR_BYTES, TRACEBACK_BYTES)
_FAILURE_BYTES: Final = 16 + sum(_FAILURE_LIMITS)

_pack: Final = msgpack.Packer().pack


put_extras: Final = structure(
    PutExtras,
    "the extra options of the put",
    (
        seconds("delay", "the delay"),
        seconds("deliver_at", "the instant"),
        Field("key", bytes, "the key", high=KEY_BYTES),
        replace(seconds("window", "the window"), optional=True),
    ),
)
"""Makes the extra options of a put of its list. Raises OPTIONS_ERROR (2046)."""


_waits: Final = list_of(seconds("backoff", "backoff among the options of the handler"))

_SERVICE_OPTIONS: Final = (
    Field("handler", str, high=LABEL_MAX),
    Field("attempts", int, optional=True),
    Field("backoff", list, low=1, high=_BACKOFF_MAX, make=lambda values: tuple(_waits(values))),
    Field("doubles", bool),
    Field("jitter", bool),
    Field("crashes", int),
    name("dead_letter", ""),
    name("last_dead_letter", ""),
    Field("traceback", int, high=TRACEBACK_BYTES),
    Field("batch", int, low=1, high=BATCH_MAX),
    seconds("batch_wait"),
    Field("groups", bool),
    Field("whole", bool),
    Field("order_by", str, high=LABEL_MAX),
    Field("total", int),
    seconds("rate"),
    Field("burst", int),
    Field("retry_unreadable", bool),
    name("history", ""),
    seconds("history_span"),
    Field("history_value", int, high=HISTORY_VALUE_MAX),
)
_WITHOUT_HISTORY: Final = ServiceOptions._fields.index("history")
"""The number of fields of the options that have no history."""

service_options: Final = structure(
    ServiceOptions,
    "the options of the handler",
    [replace(term, what=f"{term.name} among the options of the handler") for term in _SERVICE_OPTIONS],
    _WITHOUT_HISTORY,
)
"""Makes the options of a handler of their list. Raises OPTIONS_ERROR (2046), OBJECT_NAME_ERROR (2152)."""


def packed_service_options(options: ServiceOptions) -> tuple[Any, ...]:
    """The options of a handler as SERVE carries them; those of the history only where there is one."""
    return options if options.history else options[:_WITHOUT_HISTORY]


# Settlements.


def _feedback(feedback: int) -> int:
    check_feedback(feedback)
    return feedback


_SETTLEMENTS: Final = (Field("settlements", list, "the settlements", low=1, high=SETTLE_MAX),)
_NO_FAILURES: Final = [NO_FAILURE]
_USUAL: Final = (
    Field("id", int, "the delivery"),
    Field("outcome", int, "the outcome of a delivery", high=max(Outcome)),
    seconds("ran", "the time for which the handler ran"),
)
_MORE: Final = (
    Field("failure", int, "the place of a failure"),
    Field("timed_out", bool, "whether the handler took too long"),
    Field("feedback", int, "the feedback", make=_feedback),
    seconds("seconds", "the wait of the message"),
    Field("counted", bool, "whether the attempt counts"),
    Field("failed", list, "the messages that failed", high=BATCH_MAX),
)
_ALONE: Final = (Field("place", int, "the place of a message"), _MORE[0])
_VALUE: Final = (Field("value", int, "the place of a returned value", low=1),)
_RETURNED: Final = (
    Field("json", bytes, "the JSON of a returned value", high=HISTORY_VALUE_MAX),
    Field("type", str, "the type of a returned value", high=TYPE_BYTES),
    Field("length", int, "the length of a returned value"),
)
_JSON_ALONE: Final = NOT_RETURNED[1:]
_RETURNED_BYTES: Final = 32 + HISTORY_VALUE_MAX + 4 * TYPE_BYTES
_INLINE_BYTES: Final = 8 * 1024
"""So many bytes of returned values stand in the settlements themselves, which must be short; others behind them."""

_DEFAULTS: Final = tuple(Settlement._field_defaults[field.name] for field in _MORE)
"""A settlement with these ends behind the usual fields."""

_LENGTHS: Final = (len(_USUAL), len(_USUAL) + len(_MORE), len(_USUAL) + 1, len(_USUAL) + len(_MORE) + 1)
_VALUED: Final = _LENGTHS[2:]
"""The number of fields of a settlement, and of one that has a value."""


def packed_settlements(settlements: Sequence[Settlement]) -> tuple[Any, ...]:
    """Settlements as SETTLE carries them: their fields, then why handlers failed, each once, and what they returned."""
    failures: dict[Failure, int] = {NO_FAILURE: 0}
    valued: list[tuple[int, Returned]] = []
    room = _INLINE_BYTES

    def place(failure: Failure) -> int:
        return failures.setdefault(failure, len(failures))

    fields: list[tuple[Any, ...]] = []
    for id, outcome, failure, timed_out, feedback, wait, counted, failed, ran, value in settlements:
        inline: tuple[bytes, ...] = ()
        if value is not NOT_RETURNED and value != NOT_RETURNED:
            json = value.json
            if json and len(json) <= room and value[1:] == _JSON_ALONE:
                room -= len(json)
                inline = (json,)
            else:
                valued.append((len(fields), value))
        if (failure, timed_out, feedback, wait, counted, failed) == _DEFAULTS:
            fields.append((id, int(outcome), ran, *inline))
        else:
            alone = [(at, place(why)) for at, why in failed]
            fields.append((id, int(outcome), ran, place(failure), timed_out, feedback, wait, counted, alone, *inline))
    items = [_pack(failure) for failure in failures if failure is not NO_FAILURE]
    for at, value in valued:
        items.append(_pack(value))
        fields[at] = (*fields[at], len(items))
    return fields, *items


def settle(port: Port, frame: Frame, _: object) -> Call[Any]:
    """Make the call of a SETTLE. Raises WireError or MQError."""
    if len(frame) < 4:
        raise WireError("SETTLE has no settlements")
    return port.settle_deliveries(settlements_of(frame, 3))


def settlements_of(frame: Frame, at: int) -> list[Settlement]:
    """Return the settlements that stand in a frame from there on, with the failures that they name. Raises WireError or
    MQError.
    """
    (settlements,) = read(_SETTLEMENTS, frame, at)
    named = frame[at + 1 :]
    if len(named) > FAILURES_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"the settlements name more than {FAILURES_MAX} failures")
    if not named:
        return [_settlement(fields, _NO_FAILURES, named) for fields in settlements]
    some = [fields for fields in settlements if type(fields) is list and len(fields) in _VALUED]
    valued = {fields[-1] for fields in some if type(fields[-1]) is int}
    failures = [NO_FAILURE]
    for place, item in enumerate(named, 1):
        failures.append(NO_FAILURE if place in valued else _failure(item))
    return [_settlement(fields, failures, named) for fields in settlements]


def _settlement(fields: Any, failures: list[Failure], named: list[Any]) -> Settlement:
    """A settlement of its fields: the usual ones, or all; and behind them what the handler returned, or its place."""
    if type(fields) is not list or len(fields) not in _LENGTHS:
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement has other fields than it should")
    id, outcome, ran = read(_USUAL, fields)
    value = _returned(fields[-1], named) if len(fields) in _VALUED else NOT_RETURNED
    if len(fields) < len(_USUAL) + len(_MORE):
        return Settlement(id, outcome, ran=ran, value=value)
    failure, timed_out, feedback, wait, counted, failed = read(_MORE, fields, len(_USUAL))
    alone = tuple([_alone(pair, failures) for pair in failed])
    return Settlement(id, outcome, _of(failures, failure), timed_out, feedback, wait, counted, alone, ran, value)


def _returned(told: Any, named: list[Any]) -> Returned:
    """Return the value that a handler has returned, of its JSON or of the place where it stands."""
    if type(told) is bytes:
        return Returned(told)
    (place,) = read(_VALUE, [told])
    if place > len(named):
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement names a returned value that is not there")
    found = _unpacked(named[place - 1], _RETURNED_BYTES, "a returned value")
    if type(found) is not list or len(found) != len(_RETURNED):
        raise MQError(MQRC.OPTIONS_ERROR, "a returned value has other fields than it should")
    return Returned(*read(_RETURNED, found))


def _alone(pair: Any, failures: list[Failure]) -> tuple[int, Failure]:
    if type(pair) is not list or len(pair) != 2:
        raise MQError(MQRC.OPTIONS_ERROR, "a message that failed is not its place and why it failed")
    place, failure = read(_ALONE, pair)
    return place, _of(failures, failure)


def _of(failures: list[Failure], place: int) -> Failure:
    if place >= len(failures):
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement names a failure that is not there")
    return failures[place]


def _failure(packed: Any) -> Failure:
    fields = _unpacked(packed, _FAILURE_BYTES, "a failure")
    if type(fields) is not list or len(fields) != len(_FAILURE_LIMITS):
        raise MQError(MQRC.OPTIONS_ERROR, "a failure has other fields than it should")
    for value, longest in zip(fields, _FAILURE_LIMITS, strict=True):
        if type(value) is not str or len(value.encode()) > longest:
            raise MQError(MQRC.OPTIONS_ERROR, f"a failure has no text of at most {longest} bytes where it should")
    return Failure(*fields)


def _unpacked(packed: Any, longest: int, what: str) -> Any:
    if type(packed) is not bytes or len(packed) > longest:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what} must be a byte string of at most {longest} bytes")
    try:
        return unpack_careful(packed)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise MQError(MQRC.OPTIONS_ERROR, f"{what}: {error}") from error
