"""Reaching a queue manager: a line to an address, past its handshake, and the first conversation on it.

Where there are several addresses they are tried in order, from one that chance chooses, until one not only answers but
lets the program connect. So `mq://h1,h2/GRP1` reaches a member of the group GRP1, whichever of them is in it, and
programs spread over all.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.client.line import Line
from broker.clock import asyncio_loop
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from broker.client.address import Address
    from broker.clock import Clock


T = TypeVar("T")

PLACE_SECONDS: Final = 5.0
"""The time to try one of several addresses."""


async def reach(address: Address, clock: Clock, begin: Callable[[Line], Awaitable[T]]) -> tuple[Line, T]:
    """A line to the first of the addresses `in_turn` at which `begin` succeeds, and what that comes to. Raises what
    `dial` and `begin` do; of several addresses HOST_NOT_AVAILABLE (2538), which says of each why it would not do, or
    what all of them have answered; RuntimeError where no event loop of asyncio runs.
    """
    asyncio_loop()
    if not address.others:
        return await _begun(address, clock, begin)
    failed: list[tuple[Address, MQError]] = []
    for place in in_turn(address):
        try:
            return await within(PLACE_SECONDS, clock, place, _begun(place, clock, begin))
        except MQError as error:
            failed.append((place, error))
    reasons = {error.reason for _, error in failed}
    reason = reasons.pop() if len(reasons) == 1 else MQRC.HOST_NOT_AVAILABLE
    raise MQError(reason, "; ".join(f"{place}: {error.detail}" for place, error in failed))


def in_turn(address: Address) -> Sequence[Address]:
    """The addresses, in the order in which they are to be tried this time: theirs, from a random one on."""
    places = address.all
    start = random.randrange(len(places))
    return (*places[start:], *places[:start])


async def _begun(address: Address, clock: Clock, begin: Callable[[Line], Awaitable[T]]) -> tuple[Line, T]:
    line = await dial(address, clock)
    try:
        return line, await begin(line)
    except BaseException:
        line.abort("nobody waits for it")
        raise


async def within(seconds: float, clock: Clock, place: Address, reaching: Coroutine[Any, Any, T]) -> T:
    """Return what comes of reaching a place, if it takes no longer than so many seconds. Raises what it does, or
    HOST_NOT_AVAILABLE (2538).
    """
    task = asyncio.get_running_loop().create_task(reaching)
    timer = clock.call_later(seconds, lambda: _cancel(task))
    try:
        await asyncio.wait((task,))
    finally:
        timer.cancel()
        task.cancel()
    if task.cancelled():
        raise MQError(MQRC.HOST_NOT_AVAILABLE, f"{place} has not answered within {seconds:g} s")
    return task.result()


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def dial(address: Address, clock: Clock) -> Line:
    """Open a line; whatever ends this early leaves no socket behind. Raises HOST_NOT_AVAILABLE (2538),
    Q_MGR_NOT_AVAILABLE (2059), or what the line was refused with.
    """
    line = Line(clock, str(address))
    try:
        await _reach(address, line)
        await line.welcomed
    except BaseException:
        line.welcomed.cancel()
        line.abort("nobody waits for it")
        raise
    return line


async def _reach(address: Address, line: Line) -> None:
    loop = asyncio.get_running_loop()
    try:
        if address.path:
            await loop.create_unix_connection(lambda: line, address.path)
        else:
            await loop.create_connection(lambda: line, address.host, address.port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise MQError(MQRC.HOST_NOT_AVAILABLE, f"nobody answers at {address}: {why}") from error
