"""The decorator that names the process definition which a coroutine function serves.

It tags the function and does nothing else: there is no registry. `triggers.handlers` finds the tags in the modules that
a trigger monitor is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from broker.mqi import MQTMC2

if TYPE_CHECKING:
    from broker import Connection

TriggerMessage: TypeAlias = MQTMC2
"""What a handler is told: the queue, the process definition, and their data. `bytes(trigger)` is the MQTMC2."""

HandlerFunction: TypeAlias = "Callable[[TriggerMessage, Connection], Coroutine[Any, Any, object]]"

Function = TypeVar("Function", bound=Callable[..., Coroutine[Any, Any, object]])

_TAG: Final = "__trigger_processes__"
_PROCESS_NAME: Final = re.compile(r"[A-Za-z0-9%/_.]{1,48}")


def process(name: str) -> Callable[[Function], Function]:
    """Make a coroutine function the handler of the process definition `name`.

    The name is taken as it is, like a name in quotes in a command: `DEFINE PROCESS(orders)` defines ORDERS. More than
    one decorator on a function makes it serve more than one process. Raises ValueError for what cannot be the name of a
    process definition, TypeError for a function that is not `async def`.
    """
    if not isinstance(name, str):
        raise TypeError(f'process takes the name of a process definition, as in @process("ORDERS"), not {name!r}')
    if not _PROCESS_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of a process definition: 1 to 48 of A-Z a-z 0-9 % / _ .")

    def tag(function: Function) -> Function:
        if not iscoroutinefunction(function):
            raise TypeError(f"@process({name!r}): {function!r} is not a coroutine function (async def)")
        setattr(function, _TAG, (*processes_of(function), name))
        return function

    return tag


def processes_of(function: object) -> tuple[str, ...]:
    """The names of the process definitions that a function is tagged with."""
    names: tuple[str, ...] = getattr(function, _TAG, ())
    return names
