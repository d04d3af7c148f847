"""What goes wrong with the database: it restarts, crashes, freezes, is slow, is full of sessions, and is replaced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import asyncpg

from tests.sharing.chaos import tables
from tests.sharing.chaos.line_faults import meanwhile, terminate_session
from tests.sharing.chaos.scene import LEASE_SECONDS
from tests.sharing.postgres import Standby

if TYPE_CHECKING:
    from tests.sharing.chaos.scene import Scene

SLOWEST_SECONDS: Final = LEASE_SECONDS
"""Longer than the database lets a statement take."""
SESSIONS_MAX: Final = 64
"""Those of three members fit, and some more."""

_AGAIN_SECONDS: Final = 0.02


async def restart_database(scene: Scene) -> None:
    """Stop it in order, and start it again."""
    await asyncio.to_thread(scene.group.server.restart, "fast", scene.longer_or_shorter())


async def crash_database(scene: Scene) -> None:
    """Stop it at once, and start it again: nonpersistent messages are gone."""
    scene.ledger.database_crashed()
    await asyncio.to_thread(scene.group.server.restart, "immediate", scene.longer_or_shorter())
    scene.ledger.database_crashed()


async def freeze_database(scene: Scene) -> None:
    """None of its processes runs for a while."""
    scene.group.server.freeze()
    try:
        await asyncio.sleep(scene.longer_or_shorter())
    finally:
        scene.group.server.thaw()


async def exhaust_sessions(scene: Scene) -> None:
    """Somebody else takes all sessions of the database that can be had, again and again, for a while; now and then one
    of a member ends, which cannot have another then.
    """
    async with AsyncExitStack() as taken:
        until = asyncio.get_running_loop().time() + max(1.0, scene.longer_or_shorter())
        while asyncio.get_running_loop().time() < until:
            try:
                session = await asyncpg.connect(scene.group.server.dsn())
            except asyncpg.TooManyConnectionsError:
                scene.happened["session refused"] += 1
                await terminate_session(scene)
                await asyncio.sleep(_AGAIN_SECONDS * scene.random.randint(0, 20))
            else:
                taken.push_async_callback(session.close)


async def fail_over(scene: Scene) -> None:
    """A synchronous standby follows for a while, takes over when the database has crashed, and is the database then."""
    group = scene.group
    standby = await asyncio.to_thread(Standby, group.server)
    await asyncio.to_thread(standby.__enter__)
    scene.servers.push(standby)
    await asyncio.sleep(scene.random.uniform(1.0, 3.0))
    scene.ledger.database_crashed()
    await asyncio.to_thread(group.server.stop, "immediate")
    await asyncio.sleep(scene.longer_or_shorter())
    await asyncio.to_thread(standby.promote)
    group.server = standby
    for line in scene.lines:
        line.lead_to(standby)
    scene.ledger.database_crashed()


async def slow_statements(scene: Scene) -> None:
    """For a while statements take long, some of them, at random, behind the fence that they hold."""
    share, seconds = scene.random.choice((0.02, 0.1, 0.5)), scene.random.choice((0.1, 1.0, SLOWEST_SECONDS))
    await asyncio.to_thread(tables.be_slow, scene.group, share, seconds)
    await asyncio.sleep(scene.random.uniform(1.0, 5.0))
    await meanwhile(scene)
    await asyncio.to_thread(tables.be_slow, scene.group, 0.0, 0.0)
