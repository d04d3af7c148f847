"""The answers to calls as fields of frames: `fields` at the queue manager's end, `result` at the client's.

A client trusts its queue manager with the values in an answer, not with their number: an answer that it cannot take
apart is a WireError, which breaks the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.interface.port import Delivery, Lease, Opened, PendingQueue, PendingStarts, Placed
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQCC
from broker.mqi.replies import CommandReply
from broker.wire.frames import Frame, Verb, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


# The queue manager's end.


def _same(result: tuple[Any, ...]) -> tuple[Any, ...]:
    return result


def _single(result: object) -> tuple[Any, ...]:
    return (result,)


def pairs(values: Mapping[int, int | str]) -> list[tuple[int, int | str]]:
    """Attributes by selector as a frame carries them: maps there have texts for keys."""
    return list(values.items())


def _pairs(values: Mapping[int, int | str]) -> tuple[Any, ...]:
    return (pairs(values),)


def _replies(replies: Iterable[CommandReply]) -> tuple[Any, ...]:
    return (
        [(reply.code, reply.text, reply.ok, reply.syntax_error, list(reply.attributes)) for reply in replies],
    )  # fmt: skip


_FIELDS: Final[dict[int, Callable[[Any], tuple[Any, ...]]]] = {
    Verb.CONNECT: _single,
    Verb.DISCONNECT: _single,
    Verb.OPEN: _same,
    Verb.CLOSE: _single,
    Verb.PUT: _same,
    Verb.PUT1: _same,
    Verb.GET: _same,
    Verb.BEGIN: _single,
    Verb.COMMIT: _single,
    Verb.BACKOUT: _single,
    Verb.INQUIRE: _pairs,
    Verb.SET: _single,
    Verb.MQSC: _replies,
    Verb.STATUS: _single,
    Verb.TRIGGER_PENDING: _same,
    Verb.TRIGGER_WAIT: _single,
    Verb.TRIGGER_TAKE: _single,
}


def fields(verb: int, result: Any) -> tuple[Any, ...]:
    """The items of the ANSWER to a call with this verb."""
    return _FIELDS[verb](result)


def error_fields(error: MQError) -> tuple[Any, ...]:
    """The items of the FAILED for an error."""
    partial = tuple(error.message) if isinstance(error.message, tuple) else None
    return error.reason, error.completion, error.detail, partial


# The client's end.


def _only(items: Frame, kind: type) -> Any:
    (value,) = items
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _number(items: Frame) -> int:
    number: int = _only(items, int)
    return number


def _name(items: Frame) -> str:
    name: str = _only(items, str)
    return name


def _attributes(items: Frame) -> dict[int, int | str]:
    return dict(_only(items, list))


def _command_replies(items: Frame) -> list[CommandReply]:
    return [
        CommandReply(code=code, text=text, ok=ok, syntax_error=syntax_error, attributes=tuple(attributes))
        for code, text, ok, syntax_error, attributes in _only(items, list)
    ]


def _figures(items: Frame) -> dict[str, Any]:
    figures: dict[str, Any] = _only(items, dict)
    return figures


def _pending(items: Frame) -> PendingStarts:
    posts, queues = items
    return PendingStarts(posts, [PendingQueue(*queue) for queue in queues])


def _leases(items: Frame) -> list[Lease]:
    return [Lease(*lease) for lease in _only(items, list)]


_RESULTS: Final[dict[int, Callable[[Frame], Any]]] = {
    Verb.CONNECT: _name,
    Verb.DISCONNECT: _number,
    Verb.OPEN: Opened._make,
    Verb.CLOSE: _number,
    Verb.PUT: Placed._make,
    Verb.PUT1: Placed._make,
    Verb.GET: Delivery._make,
    Verb.BEGIN: _number,
    Verb.COMMIT: _number,
    Verb.BACKOUT: _number,
    Verb.INQUIRE: _attributes,
    Verb.SET: _number,
    Verb.MQSC: _command_replies,
    Verb.STATUS: _figures,
    Verb.TRIGGER_PENDING: _pending,
    Verb.TRIGGER_WAIT: _number,
    Verb.TRIGGER_TAKE: _leases,
}


def result(verb: int, frame: Frame) -> Any:
    """What a call with this verb returns, from its ANSWER. Raises WireError."""
    try:
        return _RESULTS[verb](frame[3:])
    except (TypeError, ValueError) as error:
        raise WireError(f"the answer to {Verb(verb).name} makes no sense: {error}") from error


def error(frame: Frame) -> MQError:
    """The error in a FAILED. Raises WireError."""
    try:
        reason, completion, detail, partial = frame[3:]
        return MQError(reason, detail, MQCC(completion), None if partial is None else Delivery(*partial))
    except (TypeError, ValueError) as cause:
        raise WireError(f"the error of a call makes no sense: {cause}") from cause
