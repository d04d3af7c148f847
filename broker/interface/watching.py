"""A connection whose calls are watched: whoever gives a program its connection learns of each coroutine that it makes,
with the line that made it, and so of one that the program forgets to await.
"""

from __future__ import annotations

import sys
from functools import cache, wraps
from inspect import iscoroutinefunction
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import FrameType

    from broker.interface.connection import Connection

    Watch: TypeAlias = Callable[[Coroutine[Any, Any, Any], FrameType], Coroutine[Any, Any, Any]]
    """Gives the program something in place of a coroutine, which the line of this frame has made."""

_OURS: Final = f"{__package__}."
"""The prefix of the modules of the interface, which awaits what it calls itself."""

C = TypeVar("C", bound="Connection")
T = TypeVar("T")


def watched(connection: C, watch: Watch) -> C:
    """The same connection, in the same state, whose calls and those of the queues it opens are watched."""
    view: C = object.__new__(_watching_connection(type(connection)))  # type: ignore[arg-type]
    view.__dict__ = connection.__dict__  # one state, be it used by way of the one or of the other
    view._watch = watch
    return view


@cache
def _watching_connection(kind: Any) -> Any:
    kind = _watching(kind)
    kind.__del__ = lambda connection: None  # it goes before the connection does
    kind.queue_kind = _watching(kind.queue_kind)
    kind.queue_kind._watch = property(attrgetter("_connection._watch"))
    return kind


def _watching(kind: type[T]) -> Any:
    """A class whose public coroutine functions are those of another, watched."""
    names = [name for name in dir(kind) if not name.startswith("_") and iscoroutinefunction(getattr(kind, name))]
    return type(kind.__name__, (kind,), {name: _watched_call(getattr(kind, name)) for name in names})


def _watched_call(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        made, caller = function(self, *args, **kwargs), sys._getframe(1)
        if caller.f_globals["__name__"].startswith(_OURS):
            return made
        return self._watch(made, caller)

    return call
