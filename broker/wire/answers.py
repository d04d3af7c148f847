"""Answers of calls other than their results (`broker.wire.results`): errors and command replies, as items of frames.

Some records end behind their usual fields where the others are at their defaults: those of the parameters here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.interface.answers import GetAnswer
from broker.interface.message import known_reason
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQCC
from broker.mqi.replies import CommandReply, ReplyPart, replies_of
from broker.mqi.structures import ResponseRecord
from broker.wire.frames import Frame, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Errors.


def error_fields(error: MQError) -> tuple[Any, ...]:
    """The items of the FAILED for an error."""
    partial = delivered(error.message) if isinstance(error.message, GetAnswer) else None
    fields = error.reason, error.completion, error.detail, partial
    return (*fields, error.records) if error.records else fields


def error(frame: Frame) -> MQError:
    """The error in a FAILED. Raises WireError."""
    try:
        return error_of(*frame[3:])
    except (TypeError, ValueError) as cause:
        raise WireError(f"the error of a call makes no sense: {cause}") from cause


def error_of(reason: Any, completion: Any, detail: Any, partial: Any, records: Iterable[Any] = ()) -> MQError:
    """The error of the items of a FAILED. Raises TypeError or ValueError."""
    message = None if partial is None else GetAnswer(*partial)
    return MQError(reason, detail, MQCC(completion), message, response_records(records))


def response_records(records: Iterable[Any]) -> tuple[ResponseRecord, ...]:
    """The records of a call for a distribution list. Raises TypeError or ValueError."""
    return tuple(ResponseRecord(MQCC(completion), known_reason(reason), *ids) for completion, reason, *ids in records)


def delivered(delivery: GetAnswer) -> tuple[Any, ...]:
    """A message as a frame carries it: without its instant, if it had none."""
    return delivery if delivery.deliver_at else delivery[:-1]


# Command replies.


def reply_parts(parts: Sequence[ReplyPart]) -> tuple[Any, ...]:
    """The items of REPLIES, and of the ANSWER to a MQSC some of whose replies have left in REPLIES."""
    found = [reply_fields(reply) for reply in replies_of(parts)]
    return (found, True) if parts and parts[0].continues else (found,)


def replies(frame: Frame) -> list[ReplyPart]:
    """The parts of command replies in a REPLIES, or in the ANSWER to a MQSC. Raises WireError."""
    try:
        match frame[3:]:
            case [found]:
                continues = False
            case [found, True]:
                continues = True
            case items:
                raise ValueError(f"{len(items)} items")
        return [ReplyPart(reply_of(*fields), continues and not place) for place, fields in enumerate(found)]
    except (TypeError, ValueError) as cause:
        raise WireError(f"the replies to MQSC make no sense: {cause}") from cause


def reply_fields(reply: CommandReply) -> tuple[Any, ...]:
    """A command reply. Its warnings come last, and only where there are any."""
    fields = reply.code, reply.text, reply.ok, reply.syntax_error, list(reply.attributes)
    return (*fields, list(reply.warnings)) if reply.warnings else fields


def reply_of(
    code: Any, text: Any, ok: Any, syntax_error: Any, attributes: Iterable[Any], warnings: Iterable[Any] = ()
) -> CommandReply:
    """The command reply of its fields. Raises TypeError."""
    return CommandReply(
        code=code,
        text=text,
        ok=ok,
        syntax_error=syntax_error,
        attributes=tuple(attributes),
        warnings=tuple(warnings),
    )
