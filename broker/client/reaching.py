"""Reaching a queue manager: a line to an address, past its handshake, and the first conversation on it.

Where there are several addresses they are tried in order, from one that chance chooses, until one not only answers but
lets the program connect. So `mq://h1,h2/GRP1` reaches a member of the group GRP1, whichever of them is in it, and
programs spread over all.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.client.identity import is_loopback
from broker.client.line import Line
from broker.clock import asyncio_loop
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from broker.client.address import Address
    from broker.client.identity import ClientIdentity
    from broker.client.tls import TLS
    from broker.clock import Clock


T = TypeVar("T")

START_ONE: Final = "; start one with: evermq run"
"""The advice where nobody answers."""

PLACE_SECONDS: Final = 5.0
"""The time to try one of several addresses."""

DIAL_SECONDS: Final = 10.0
"""The time that one dial may take which nobody waits for alone."""


async def reach(
    address: Address, clock: Clock, identity: ClientIdentity, begin: Callable[[Line], Awaitable[T]]
) -> tuple[Line, T]:
    """A line to the first of the addresses `in_turn` at which `begin` succeeds, and what that comes to. Raises what
    `dial` and `begin` do; of several addresses HOST_NOT_AVAILABLE (2538), which says of each why it would not do, or
    what all of them have answered; RuntimeError where no event loop of asyncio runs.
    """
    asyncio_loop()
    if not address.others:
        return await _begun(address, clock, identity, begin)
    failed: list[tuple[Address, MQError]] = []
    for place in in_turn(address):
        try:
            return await within(PLACE_SECONDS, clock, place, _begun(place, clock, identity, begin))
        except MQError as error:
            failed.append((place, error))
    reasons = {error.reason for _, error in failed}
    reason = reasons.pop() if len(reasons) == 1 else MQRC.HOST_NOT_AVAILABLE
    text = "; ".join(f"{place}: {error.detail.removesuffix(START_ONE)}" for place, error in failed)
    raise MQError(reason, text + (START_ONE if any(error.detail.endswith(START_ONE) for _, error in failed) else ""))


def in_turn(address: Address) -> Sequence[Address]:
    """The addresses, in the order in which they are to be tried this time: theirs, from a random one on."""
    places = address.all
    start = random.randrange(len(places))
    return (*places[start:], *places[:start])


async def _begun(
    address: Address, clock: Clock, identity: ClientIdentity, begin: Callable[[Line], Awaitable[T]]
) -> tuple[Line, T]:
    line = await dial(address, clock, identity)
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
        raise not_answered(str(place), seconds)
    return task.result()


def not_answered(where: str, seconds: float) -> MQError:
    """HOST_NOT_AVAILABLE (2538) for a place that was given so many seconds."""
    return MQError(MQRC.HOST_NOT_AVAILABLE, f"{where} has not answered within {seconds:g} s")


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


async def dial(address: Address, clock: Clock, identity: ClientIdentity) -> Line:
    """Open a line, which brings the secret of this identity, asked for now, with its first CONNECT; whatever ends this
    early leaves no socket behind. Raises HOST_NOT_AVAILABLE (2538), Q_MGR_NOT_AVAILABLE (2059), SECURITY_ERROR (2063),
    SSL_INITIALIZATION_ERROR (2393), what the line was refused with, or what a function that gives the secret raises.
    """
    security = await identity.parameters()
    if security.secret:
        await _check_private(address)
    line = _line(address, clock, identity)
    try:
        transport = await _reach(address, line, identity.tls)
        if security.secret and not _is_private(address, transport):
            raise _in_the_clear(address)
        await line.welcomed
    except BaseException:
        line.welcomed.cancel()
        line.abort("nobody waits for it")
        raise
    line.security = security
    line.dial_another = partial(dial, address, clock, identity)
    return line


def _line(address: Address, clock: Clock, identity: ClientIdentity) -> Line:
    if not address.tls:
        return Line(clock, str(address), identity)
    from broker.client.tls import SecuredLine

    return SecuredLine(clock, str(address), identity)


async def _reach(address: Address, line: Line, tls: TLS | None) -> asyncio.BaseTransport:
    loop = asyncio.get_running_loop()
    transport: asyncio.BaseTransport
    try:
        if tls is not None:
            from broker.client.tls import open_line

            return await open_line(address, line, tls)
        if address.path:
            transport, _ = await loop.create_unix_connection(lambda: line, address.path)
        else:
            transport, _ = await loop.create_connection(lambda: line, address.host, address.port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise MQError(MQRC.HOST_NOT_AVAILABLE, f"nobody answers at {address}: {why}{START_ONE}") from error
    return transport


async def _check_private(address: Address) -> None:
    """Raise SECURITY_ERROR (2063) where a secret would leave this machine in the clear, before there is a socket."""
    if address.tls or address.path or is_loopback(address.host):
        return
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError:
        return  # nobody answers there, which the dial will say
    if not all(is_loopback(str(info[4][0])) for info in found):
        raise _in_the_clear(address)


def _is_private(address: Address, transport: asyncio.BaseTransport) -> bool:
    """True unless a name has led elsewhere than it did before."""
    return address.tls or bool(address.path) or is_loopback(str(transport.get_extra_info("peername")[0]))


def _in_the_clear(address: Address) -> MQError:
    return MQError(
        MQRC.SECURITY_ERROR,
        f"a password or token goes over TLS alone, or within this machine, and {address} is neither: connect to mqs://",
    )
