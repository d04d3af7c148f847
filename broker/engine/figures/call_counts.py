"""The calls of programs, counted by their verbs; those that failed by their reasons, commands by theirs."""

from __future__ import annotations

from functools import wraps
from inspect import getmembers, isfunction
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.interface.port import Port
from broker.mqi.reasons import MQRC
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K", bound="type[Any]")

CALLS: Final = frozenset(
    name
    for name, method in getmembers(Port, isfunction)
    if str(method.__annotations__.get("return")).startswith("Call[") and name != "forward"
)
"""The methods of a port that are calls."""

FAST: Final = frozenset({"put", "put1", "get", "put_many", "get_many", "commit", "backout", "take_deliveries",
                         "settle_deliveries"})  # fmt: skip
"""Calls that count themselves: one function call more would be felt."""


class CallCounts:
    """The calls of all connections since the start of the queue manager."""

    __slots__ = ("commands", "errors", "verbs")

    def __init__(self) -> None:
        self.verbs = dict.fromkeys(sorted(CALLS), 0)
        self.errors: dict[int, int] = {}
        self.commands: dict[str, int] = {}

    def failed(self, reason: int) -> None:
        """A call was answered with this reason."""
        self.errors[reason] = self.errors.get(reason, 0) + 1

    def not_written(self, error: Exception) -> None:
        """The changes of a call could not be made durable."""
        self.failed(MQRC.STORAGE_MEDIUM_FULL if isinstance(error, StoreFullError) else MQRC.CONNECTION_BROKEN)

    def command(self, verb: str) -> None:
        """A command was run."""
        self.commands[verb] = self.commands.get(verb, 0) + 1


def counted(kind: K) -> K:
    """Let each call of a kind of conversation be counted that does not do so itself."""
    for name in CALLS - FAST:
        setattr(kind, name, _counted(getattr(kind, name), name))
    return kind


def _counted(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(method)
    def call(conversation: Any, *arguments: Any, **named: Any) -> Any:
        conversation.verbs[name] += 1
        return method(conversation, *arguments, **named)

    return call
