"""Make replies to commands of the refusals of a queue-sharing group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.interpreter import refused
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.mqi.replies import CommandReply


def refusal_of(error: Exception) -> CommandReply | None:
    """The reply to a command that the group has refused; None where it has failed for another reason."""
    if isinstance(error, errors.CommandError):
        return refused(error)
    if not isinstance(error, MQError):
        return None
    match error.reason:
        case MQRC.OBJECT_ALREADY_EXISTS:
            return refused(errors.already_exists(error.detail))
        case MQRC.OBJECT_IN_USE:
            return refused(errors.in_use(error.detail))
        case MQRC.Q_NOT_EMPTY:
            return refused(errors.not_empty())
        case MQRC.UNKNOWN_OBJECT_NAME:
            return refused(errors.not_found(error.detail))
    return None
