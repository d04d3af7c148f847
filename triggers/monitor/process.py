"""The decorator that names the process definition which a function serves.

It tags the function and does nothing else: there is no registry. `triggers.monitor.handlers` finds the tags in the
modules that a trigger monitor is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from inspect import isasyncgenfunction, isfunction, isgeneratorfunction, signature
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, Unpack

from broker.mqi import MQTMC2

if TYPE_CHECKING:
    from broker import Connection
    from triggers.app.handler import Handler, HandlerOptions

TriggerMessage: TypeAlias = MQTMC2
"""The argument of a handler: the queue, the process definition, and their data. `bytes(trigger)` is the MQTMC2."""

HandlerFunction: TypeAlias = "Callable[[TriggerMessage, Connection], object]"

Function = TypeVar("Function", bound=Callable[..., object])

DELIVER: Final = ("trigger", "message", "batch", "group")

_TAG: Final = "__trigger_processes__"
_DELIVERIES: Final = "__trigger_deliveries__"
_USERS: Final = "__trigger_users__"
_PROCESS_NAME: Final = re.compile(r"[A-Za-z0-9%/_.]{1,48}")


def process(
    name: str, *, deliver: str = "trigger", user: str = "", **options: Unpack[HandlerOptions]
) -> Callable[[Function], Function]:
    """Make a function the handler of the process definition `name`: `async def`, or `def`, which runs in a thread.

    The name is taken as it is, like a name in quotes in a command: `DEFINE PROCESS(orders)` defines ORDERS. More than
    one decorator on a function makes it serve more than one process.

    - `deliver="trigger"`: the function is called with the trigger message and a connection, and gets for itself.
    - "message", "batch", "group": it is handed its message, up to `batch` of them, or a whole group, by the annotations
      of its parameters, in a unit of work that is committed when it returns and tried again when it raises. `options`
      are those of such a handler (`HandlerOptions`). The queues are trigger EVERY, without an initiation queue.

    With `user` its connections are that user's, and its calls are judged, where the trigger monitor is in the queue
    manager's own process. No attribute of the process definition chooses one.

    Raises ValueError for what cannot be the name of a process definition, for another `deliver`, and for options out of
    range; TypeError for what is no function, for a generator, and for arguments that the function cannot be given.
    """
    if not isinstance(name, str):
        raise TypeError(f'process takes the name of a process definition, as in @process("ORDERS"), not {name!r}')
    if not _PROCESS_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of a process definition: 1 to 48 of A-Z a-z 0-9 % / _ .")
    if deliver not in DELIVER:
        raise ValueError(f"deliver={deliver!r}: one of {', '.join(DELIVER)}")
    if deliver == "trigger" and options:
        raise TypeError(f'{", ".join(options)}: for deliver="message", "batch" or "group"; "trigger" has no options')
    if options.get("history") is not None:
        raise TypeError(f"@process({name!r}): history= is for handlers of an app, which defines the queue for it")
    if options.get("database") is not None:
        raise TypeError(f"@process({name!r}): database= is for handlers of an app, which opens the database")

    def tag(function: Function) -> Function:
        if not isfunction(function) or isgeneratorfunction(function) or isasyncgenfunction(function):
            raise TypeError(f"@process({name!r}): {function!r} is no function of the kind `async def` or `def`")
        if deliver == "trigger":
            _check_trigger(function, name)
        else:
            made = replace(_delivery(function, name, deliver, options), user=user)
            deliveries = {**getattr(function, _DELIVERIES, {}), name: made}
            setattr(function, _DELIVERIES, deliveries)
        setattr(function, _USERS, {**getattr(function, _USERS, {}), name: user})
        setattr(function, _TAG, (*processes_of(function), name))
        return function

    return tag


def _check_trigger(function: Callable[..., object], name: str) -> None:
    """Raises TypeError for a function that cannot be called with a trigger message and a connection."""
    try:
        signature(function).bind(None, None)
    except TypeError as error:
        place = f"{function.__qualname__} ({function.__code__.co_filename}, line {function.__code__.co_firstlineno})"
        raise TypeError(
            f"@process({name!r}): {place} is called with the trigger message and a connection: {error}; to be handed "
            'the message: deliver="message"'
        ) from None


def _delivery(function: Callable[..., object], name: str, deliver: str, options: HandlerOptions) -> Handler:
    """The function as a handler of queues that are yet to be named."""
    from triggers.app.handler import caller_names, handler  # which needs what stands here

    batch = options.get("batch")
    if deliver == "batch" and batch is None:
        raise ValueError(f'@process({name!r}): deliver="batch" needs batch=N, how many messages at most')
    if deliver != "batch" and batch is not None:
        raise ValueError(f'@process({name!r}): batch={batch} is for deliver="batch", not {deliver!r}')
    made = handler(function, name, options, caller_names(2))
    if made.arguments is not None and made.arguments.groups != (deliver == "group"):
        raise TypeError(f'@process({name!r}): deliver="group" and an argument of Group[T] belong together')
    return made


def delivery_of(function: object, process_name: str) -> Handler | None:
    """Return the handler to which messages of a process are delivered; None: it is started with the trigger message."""
    deliveries: dict[str, Handler] = getattr(function, _DELIVERIES, {})
    return deliveries.get(process_name) or next(iter(deliveries.values()), None)


def user_of(function: object, process_name: str) -> str:
    """Return the user whose the calls of a function are for a process; empty: it names none."""
    users: dict[str, str] = getattr(function, _USERS, {})
    return users[process_name] if process_name in users else next(iter(users.values()), "")


def processes_of(function: object) -> tuple[str, ...]:
    """The names of the process definitions that a function is tagged with."""
    names: tuple[str, ...] = getattr(function, _TAG, ())
    return names
