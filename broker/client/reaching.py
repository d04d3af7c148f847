"""Reaching a queue manager: a line to an address, past its handshake."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from broker.client.line import Line
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.client.address import Address
    from broker.clock import Clock


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
