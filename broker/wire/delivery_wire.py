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
    KEY_BYTES,
    NO_FAILURE,
    SETTLE_MAX,
    TRACEBACK_BYTES,
    Failure,
    Outcome,
    PutExtras,
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
)

service_options: Final = structure(
    ServiceOptions,
    "the options of the handler",
    [replace(term, what=f"{term.name} among the options of the handler") for term in _SERVICE_OPTIONS],
)
"""Makes the options of a handler of their list. Raises OPTIONS_ERROR (2046), OBJECT_NAME_ERROR (2152)."""


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

_DEFAULTS: Final = tuple(Settlement._field_defaults[field.name] for field in _MORE)
"""A settlement with these ends behind the usual fields."""


def packed_settlements(settlements: Sequence[Settlement]) -> tuple[Any, ...]:
    """Settlements as SETTLE carries them: their fields, then why handlers failed, each once."""
    failures: dict[Failure, int] = {NO_FAILURE: 0}

    def place(failure: Failure) -> int:
        return failures.setdefault(failure, len(failures))

    fields: list[tuple[Any, ...]] = []
    for id, outcome, failure, timed_out, feedback, wait, counted, failed, ran in settlements:
        if (failure, timed_out, feedback, wait, counted, failed) == _DEFAULTS:
            fields.append((id, int(outcome), ran))
        else:
            alone = [(at, place(why)) for at, why in failed]
            fields.append((id, int(outcome), ran, place(failure), timed_out, feedback, wait, counted, alone))
    return fields, *[_pack(failure) for failure in failures if failure is not NO_FAILURE]


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
    failures = [NO_FAILURE, *map(_failure, named)] if named else _NO_FAILURES
    return [_settlement(fields, failures) for fields in settlements]


def _settlement(fields: Any, failures: list[Failure]) -> Settlement:
    """A settlement of its fields: the usual ones, or all."""
    if type(fields) is not list or len(fields) not in (len(_USUAL), len(_USUAL) + len(_MORE)):
        raise MQError(MQRC.OPTIONS_ERROR, "a settlement has other fields than it should")
    id, outcome, ran = read(_USUAL, fields)
    if len(fields) == len(_USUAL):
        return Settlement(id, outcome, ran=ran)
    failure, timed_out, feedback, wait, counted, failed = read(_MORE, fields, len(_USUAL))
    alone = tuple([_alone(pair, failures) for pair in failed])
    return Settlement(id, outcome, _of(failures, failure), timed_out, feedback, wait, counted, alone, ran)


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
    if type(packed) is not bytes or len(packed) > _FAILURE_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"a failure must be a byte string of at most {_FAILURE_BYTES} bytes")
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
