"""The answers to calls as fields of frames: `fields` at the queue manager's end, `result` at the client's.

A client trusts its queue manager with the values in an answer, not with their number: an answer that it cannot take
apart is a WireError, which breaks the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.interface.message import known_reason
from broker.interface.port import (
    NO_LIST,
    Delivery,
    Distribution,
    Lease,
    Opened,
    PendingQueue,
    PendingStarts,
    Placed,
    PlacedMany,
)
from broker.mqi.errors import MQError
from broker.mqi.explanations import Explanation, Finding
from broker.mqi.reasons import MQCC
from broker.mqi.replies import CommandReply, ReplyPart, replies_of
from broker.mqi.structures import ResponseRecord
from broker.wire import claims, handling
from broker.wire.frames import Frame, Verb, WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


# The queue manager's end.


def _distributed(result: Opened) -> tuple[Any, ...]:
    """The distribution comes last, and only of a distribution list."""
    return result[:-1] if result.distribution is NO_LIST else result


_PUT_FIELDS: Final = Placed._fields.index("resolved_q_name")
"""How many fields of Placed a put by a handle sends: what its name resolved to was said when it was opened."""

_PUT1_FIELDS: Final = Placed._fields.index("distribution")
"""How many a put without a handle sends."""

_USUAL: Final = tuple(Placed._field_defaults[name] for name in Placed._fields[_PUT1_FIELDS:])
_TERMS: Final = len(_USUAL) - 1
"""How many more each of them sends of a message that waits for an instant, or is a duplicate."""


def _put(result: Placed) -> tuple[Any, ...]:
    fields = result[:_PUT_FIELDS]
    return fields if result[_PUT1_FIELDS:] == _USUAL else (*fields, *_rest(result))


def _put1(result: Placed) -> tuple[Any, ...]:
    fields = result[:_PUT1_FIELDS]
    return fields if result[_PUT1_FIELDS:] == _USUAL else (*fields, *_rest(result))


def _rest(result: Placed) -> tuple[Any, ...]:
    """What comes behind the other fields where it is not usual: the distribution, or what became of the terms."""
    return (result.distribution,) if result.distribution is not NO_LIST else result[-_TERMS:]


def _placed_many(result: PlacedMany) -> tuple[Any, ...]:
    placed = [each[:_PUT_FIELDS] if each[_PUT1_FIELDS:] == _USUAL else _put(each) for each in result.placed]
    return placed, None if result.error is None else error_fields(result.error)


def _delivered_many(result: Sequence[Delivery]) -> tuple[Any, ...]:
    return ([handling.delivered(each) for each in result],)


def _single(result: object) -> tuple[Any, ...]:
    return (result,)


def pairs(values: Mapping[int, int | str]) -> list[tuple[int, int | str]]:
    """Attributes by selector as a frame carries them: maps there have texts for keys."""
    return list(values.items())


def _pairs(values: Mapping[int, int | str]) -> tuple[Any, ...]:
    return (pairs(values),)


def _replies(replies: Iterable[CommandReply]) -> tuple[Any, ...]:
    return ([_reply(reply) for reply in replies],)


def _reply(reply: CommandReply) -> tuple[Any, ...]:
    """The warnings come last, and only where there are any."""
    fields = reply.code, reply.text, reply.ok, reply.syntax_error, list(reply.attributes)
    return (*fields, list(reply.warnings)) if reply.warnings else fields


def reply_parts(parts: Sequence[ReplyPart]) -> tuple[Any, ...]:
    """The items of REPLIES, and of the ANSWER to a MQSC some of whose replies have left in REPLIES."""
    replies = _replies(replies_of(parts))
    return (*replies, True) if parts and parts[0].continues else replies


def _explanation(explanation: Explanation) -> tuple[Any, ...]:
    return explanation.q_name, [(each.code, each.text, each.figures) for each in explanation.findings]


FIELDS: Final[dict[int, Callable[[Any], tuple[Any, ...]]]] = {
    Verb.CONNECT: _single,
    Verb.DISCONNECT: _single,
    Verb.OPEN: _distributed,
    Verb.CLOSE: _single,
    Verb.PUT: _put,
    Verb.PUT1: _put1,
    Verb.PUT_MANY: _placed_many,
    Verb.GET: handling.delivered,
    Verb.GET_MANY: _delivered_many,
    Verb.SERIALIZE: _single,
    Verb.BEGIN: _single,
    Verb.COMMIT: _single,
    Verb.BACKOUT: _single,
    Verb.INQUIRE: _pairs,
    Verb.SET: _single,
    Verb.MQSC: _replies,
    Verb.STATUS: _single,
    Verb.TRIGGER_PENDING: tuple,
    Verb.TRIGGER_WAIT: _single,
    Verb.TRIGGER_TAKE: _single,
    Verb.TRIGGER_SWEEP: _single,
    Verb.EXPLAIN: _explanation,
    Verb.BACKUP: _single,
    **claims.FIELDS,
    **handling.FIELDS,
}
"""By verb: from what a call has come to, to the items of its ANSWER."""


def fields(verb: int, result: Any) -> tuple[Any, ...]:
    """The items of the ANSWER to a call with this verb."""
    return FIELDS[verb](result)


def error_fields(error: MQError) -> tuple[Any, ...]:
    """The items of the FAILED for an error."""
    partial = handling.delivered(error.message) if isinstance(error.message, Delivery) else None
    fields = error.reason, error.completion, error.detail, partial
    return (*fields, error.records) if error.records else fields


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
    return [_command_reply(*fields) for fields in _only(items, list)]


def _command_reply(
    code: str,
    text: str,
    ok: bool,
    syntax_error: bool,
    attributes: Iterable[dict[str, int | str | bool]],
    warnings: Iterable[str] = (),
) -> CommandReply:
    return CommandReply(
        code=code,
        text=text,
        ok=ok,
        syntax_error=syntax_error,
        attributes=tuple(attributes),
        warnings=tuple(warnings),
    )


def _figures(items: Frame) -> dict[str, Any]:
    figures: dict[str, Any] = _only(items, dict)
    return figures


def _pending(items: Frame) -> PendingStarts:
    posts, queues = items
    return PendingStarts(posts, [PendingQueue(*queue) for queue in queues])


def _leases(items: Frame) -> list[Lease]:
    return [Lease(*lease) for lease in _only(items, list)]


def _explained(items: Frame) -> Explanation:
    q_name, findings = items
    return Explanation(
        q_name=q_name,
        findings=tuple(Finding(code=code, text=text, figures=figures) for code, text, figures in findings),
    )


def _opened(items: Frame) -> Opened:
    return Opened(*_with_distribution(items, len(Opened._fields)))


def _placed(items: Frame) -> Placed:
    return Placed(*items) if len(items) == _PUT_FIELDS else _with_rest(items, _PUT_FIELDS)


def _placed_once(items: Frame) -> Placed:
    return Placed(*items) if len(items) == _PUT1_FIELDS else _with_rest(items, _PUT1_FIELDS)


def _with_rest(items: Frame, count: int) -> Placed:
    """A put with something behind its first fields: what became of its terms, or its distribution."""
    placed = Placed(*items[:count])
    if len(items) == count + _TERMS:
        deliver_at, duplicate, same_data = items[count:]
        return placed._replace(deliver_at=deliver_at, duplicate=duplicate, same_data=same_data)
    if len(items) != count + 1:
        raise TypeError(f"a put is not answered with {len(items)} items")
    *_, distribution = _with_distribution(items, count + 1)
    return placed._replace(distribution=distribution)


def _all_placed(items: Frame) -> PlacedMany:
    placed, failure = items
    return PlacedMany([_placed(fields) for fields in placed], failure and _error(failure))


def _delivery(items: Frame) -> Delivery:
    return Delivery(*items)


def _deliveries(items: Frame) -> list[Delivery]:
    return [Delivery(*fields) for fields in _only(items, list)]


def _with_distribution(items: Frame, length: int) -> Frame:
    """The fields of a result, whose last is the distribution; it is not sent but of a distribution list."""
    if len(items) != length:
        return items
    *others, (records, unknown_dest_count) = items
    return [*others, Distribution(_response_records(records), unknown_dest_count)]


def _response_records(records: Iterable[Any]) -> tuple[ResponseRecord, ...]:
    return tuple(ResponseRecord(MQCC(completion), known_reason(reason), *ids) for completion, reason, *ids in records)


_RESULTS: Final[dict[int, Callable[[Frame], Any]]] = {
    Verb.CONNECT: _name,
    Verb.DISCONNECT: _number,
    Verb.OPEN: _opened,
    Verb.CLOSE: _number,
    Verb.PUT: _placed,
    Verb.PUT1: _placed_once,
    Verb.PUT_MANY: _all_placed,
    Verb.GET: _delivery,
    Verb.GET_MANY: _deliveries,
    Verb.SERIALIZE: _number,
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
    Verb.TRIGGER_SWEEP: _number,
    Verb.EXPLAIN: _explained,
    Verb.BACKUP: _number,
    **claims.RESULTS,
    **handling.RESULTS,
}


def result(verb: int, frame: Frame) -> Any:
    """What a call with this verb returns, from its ANSWER. Raises WireError."""
    try:
        return _RESULTS[verb](frame[3:])
    except (TypeError, ValueError) as error:
        raise WireError(f"the answer to {Verb(verb).name} makes no sense: {error}") from error


def replies(frame: Frame) -> list[ReplyPart]:
    """The parts of command replies in a REPLIES, or in the ANSWER to a MQSC. Raises WireError."""
    try:
        items, continues = (frame[3:4], True) if frame[4:] == [True] else (frame[3:], False)
        found = _command_replies(items)
        return [ReplyPart(reply, continues and reply is found[0]) for reply in found]
    except (TypeError, ValueError) as error:
        raise WireError(f"the replies to MQSC make no sense: {error}") from error


def error(frame: Frame) -> MQError:
    """The error in a FAILED. Raises WireError."""
    try:
        return _error(frame[3:])
    except (TypeError, ValueError) as cause:
        raise WireError(f"the error of a call makes no sense: {cause}") from cause


def _error(fields: Sequence[Any]) -> MQError:
    reason, completion, detail, partial, *records = fields
    message = None if partial is None else Delivery(*partial)
    return MQError(reason, detail, MQCC(completion), message, _response_records(*records) if records else ())
