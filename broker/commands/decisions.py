"""An administrator's decisions for programs that are gone: RESOLVE and RESET, and the replies to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.commands.requests import ResetRequest, ResolveConsumerRequest, ResolveUnitRequest
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from broker.commands.requests import Decision


def decided(decision: Decision, removed: int, returned: int) -> CommandReply:
    """The reply to what has been carried out: so many messages are `removed`, so many `returned` to their queues."""
    match decision:
        case ResolveConsumerRequest(name):
            what = f"consumer {name} resolved: {_messages(removed)} removed, {_messages(returned)} back on their queues"
            return _reply("EMQ0004I", what)
        case ResolveUnitRequest(name):
            return _reply("EMQ0005I", f"unit {name} resolved: {_messages(removed)} removed")
        case ResetRequest(name):
            return _reply(
                "EMQ0006I", f"sink {name} reset: {_messages(removed)} removed, and any query may publish to it"
            )


def _reply(code: str, what: str) -> CommandReply:
    return CommandReply(code=code, text=f"{code}: EverMQ {what}.")


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
