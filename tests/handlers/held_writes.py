"""Work that a queue manager is killed in, at a write of its store that is held."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from broker.testing import FaultStore


async def until_held(store: FaultStore, work: Coroutine[Any, Any, None]) -> bool:
    """Return True if it comes to its end before the write that is held; else the queue manager is killed there."""
    working = asyncio.ensure_future(work)
    held = asyncio.ensure_future(store.wait_held())
    await asyncio.wait([working, held], return_when=asyncio.FIRST_COMPLETED)
    if held.done() and not working.done():
        store.kill()
        working.cancel()
        await asyncio.wait([working])
        return False
    held.cancel()
    await working
    return True
