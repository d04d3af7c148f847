"""Orders to end, for commands that have something to put away: daemons of their own, temporary folders."""

from __future__ import annotations

import signal

import anyio

from broker.cli.program import CannotRunError


async def handle_signals() -> None:
    """A task for a task group: an order to end becomes an error in it, so that all is put away on the way out."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for number in signals:
            raise CannotRunError(f"ended by {number.name}")
