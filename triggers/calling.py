"""How a handler is called: a coroutine function on the event loop, another function in a thread."""

from __future__ import annotations

import math
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Callable


async def called(function: Callable[..., Any], *arguments: object) -> object:
    """Call a handler; what it returned.

    A plain function has a thread of its own, in which `anyio.from_thread.run(queue.get)` makes a call of the MQI. It
    cannot be cancelled: it is left behind, and its connection ends, so that its calls are HCONN_ERROR (2018) from then
    on and what it returns changes nothing (handlers rule 1.7).
    """
    if iscoroutinefunction(function):
        return await function(*arguments)
    own = anyio.CapacityLimiter(math.inf)  # whoever calls handlers bounds how many run
    return await to_thread.run_sync(partial(function, *arguments), abandon_on_cancel=True, limiter=own)
