"""A daemon killed with SIGKILL again and again, at moments of a seed's choice, while client programs put and get.

After each restart the ledger is compared with what is on the queues.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final

from broker.cli.program import lone
from tests.durability.daemon import daemon
from tests.durability.ledger import Figures, Ledger
from tests.durability.load import DEPTH, Load
from tests.durability.program import DEFINITIONS, HARDENED, browsed, drained

if TYPE_CHECKING:
    from pathlib import Path

    from tests.durability.daemon import Daemon

_DAY: Final = 86_400.0
_CHECKPOINT_SECONDS: Final = 3.0  # as long as one is waited for


class Moment(Enum):
    """The moment of a kill."""

    LOAD = "under load"
    DRAIN = "while the queues are drained"
    CHECKPOINT = "while the log is carried over to the database"
    START = "during its start"


_OFTEN: Final = {Moment.LOAD: 5, Moment.DRAIN: 2, Moment.CHECKPOINT: 2, Moment.START: 2}


@dataclass
class Kills:
    """The kills of a daemon, and what the programs were told meanwhile."""

    seeds: list[int] = field(default_factory=list)
    moments: Counter[Moment] = field(default_factory=Counter)
    connections: int = 0
    figures: Figures = field(default_factory=Figures)

    def __iadd__(self, other: Kills) -> Kills:
        self.seeds += other.seeds
        self.moments += other.moments
        self.connections += other.connections
        self.figures += other.figures
        return self


async def kill_under_load(folder: Path, seed: int, kills: int, *, clock_steps: bool = False) -> Kills:
    """Kill a daemon so many times. With `clock_steps` its wall clock is up to a day off, another time at each start.

    Raises AssertionError with the seed, the number of the kill and the complaint.
    """
    run = _Run(seed, clock_steps=clock_steps)
    async with daemon(folder, DEFINITIONS) as server:
        for number in range(1, kills + 1):
            moment = run.random.choices(list(_OFTEN), list(_OFTEN.values()))[0]
            try:
                await run.kill(server, moment)
            except Exception as error:
                raise AssertionError(f"seed {seed}, kill {number} {moment.value}: {lone(error)}") from error
        await run.drain(server)
    return run.kills


class _Run:
    """One daemon's way through its kills."""

    def __init__(self, seed: int, *, clock_steps: bool) -> None:
        self.random = Random(seed)
        self.ledger = Ledger(HARDENED)
        self.kills = Kills([seed], figures=self.ledger.figures)
        self._load = Load(self.ledger, Random(self.random.random()))
        self._clock_steps = clock_steps
        self._start_seconds = 0.5

    async def kill(self, server: Daemon, moment: Moment) -> None:
        """Run the load, kill the daemon at such a moment, start it again and reconcile."""
        if moment is Moment.START:
            await server.kill()
            await server.launch()
            await asyncio.sleep(self.random.random() * self._start_seconds)
        else:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._load.run(server.url))
                moment = await self._wait_for(server, moment)
                await server.kill()
        self.kills.moments[moment] += 1
        await self._restart(server)

    async def drain(self, server: Daemon) -> None:
        """Get all that is left: it is what a browse has found."""
        left = await browsed(server.url)
        assert await drained(server.url) == {queue: [message.key for message in left[queue]] for queue in left}
        await server.stop()
        await server.start()
        assert not any((await browsed(server.url)).values()), "what was got came again after a restart"
        self.kills.connections = self._load.connections

    async def _restart(self, server: Daemon) -> None:
        await server.kill()
        if self._clock_steps:
            server.clock_offset = self.random.uniform(-_DAY, _DAY)
        began = monotonic()
        await server.start()
        self._start_seconds = monotonic() - began
        self.ledger.reconcile(await browsed(server.url))

    async def _wait_for(self, server: Daemon, moment: Moment) -> Moment:
        """Return at the moment, or a little after it; which it was, if the one wanted has not come."""
        self._load.depth, self._load.large = DEPTH, moment is Moment.CHECKPOINT
        await self._load.progress(self.random.randrange(1, 200))
        if moment is Moment.DRAIN:
            self._load.depth = 0
            await self._load.progress(self.random.randrange(1, max(len(self.ledger.there) // 10, 2)))
        elif moment is Moment.CHECKPOINT and not await _carry_over(server.data):
            moment = Moment.LOAD
        await asyncio.sleep(self.random.random() * 0.005)
        return moment


async def _carry_over(data: Path) -> bool:
    """Wait until the database is written to, which only happens when the log is carried over to it; whether it was."""
    before = _written(data)
    until = monotonic() + _CHECKPOINT_SECONDS
    while monotonic() < until:
        if _written(data) != before:
            return True
        await asyncio.sleep(0.001)
    return False


def _written(data: Path) -> dict[str, int]:
    """Return the time of the last write to each database."""
    return {file.name: os.stat(file).st_mtime_ns for file in data.glob("evermq-*.db")}
