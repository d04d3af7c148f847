"""A device that fails once, at a system call of a seed's choice, and is well again: under load and during a start.

The kernel tells of it as it does of a real one: a direct write fails; a sync fails, its pages are taken for written,
and their old content comes back when the cache goes. The daemon ends (journal rule 7), is started again, and
acknowledges more; then the power is cut, and the ledger is compared with what is on the queues.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from broker.cli.program import lone
from tests.durability.cuts import first_of, power_off, store_settings
from tests.durability.daemon import COULD_NOT_RUN, daemon
from tests.durability.image import failing_image
from tests.durability.interposer import Calls, interposer
from tests.durability.ledger import Figures, Ledger
from tests.durability.load import Load
from tests.durability.program import DEFINITIONS, HARDENED, browsed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.durability.daemon import Daemon
    from tests.durability.image import Image
    from tests.durability.interposer import Interposer

_UNITS_AFTER: Final = 50
_NOTICED_SECONDS: Final = 60.0


@dataclass
class Faults:
    """The faults, and how each ended."""

    seeds: list[int] = field(default_factory=list)
    points: Counter[str] = field(default_factory=Counter)
    """The system calls: "pwritev2 log.N", and how often."""
    ended: int = 0
    """So often the daemon ended with its code for that; otherwise the call had nothing to do with the device."""
    cuts: int = 0
    figures: Figures = field(default_factory=Figures)

    def __iadd__(self, other: Faults) -> Faults:
        self.seeds += other.seeds
        self.points += other.points
        self.ended += other.ended
        self.cuts += other.cuts
        self.figures += other.figures
        return self


async def fail_once(folder: Path, seed: int, faults: int) -> Faults:
    """Let the device fail so many times, each time once. Raises AssertionError with the seed; UnavailableError."""
    random = Random(seed)
    with failing_image(folder, 1024) as device, interposer(folder, device.disk.path) as between:
        if random.randrange(3) == 0:
            between.refuse_direct_writes()
        settings = store_settings(random) | between.settings | device.settings
        async with daemon(folder, DEFINITIONS, device.disk.path / "data", settings) as server:
            run = _Run(random, server, device.disk, between)
            run.faults.seeds.append(seed)
            while run.faults.points.total() < faults:
                try:
                    await run.fail()
                except Exception as error:
                    done = run.faults.points.total()
                    raise AssertionError(f"seed {seed}, fault {done}, {between.met}: {lone(error)}") from error
            return run.faults


class _Run:
    """One daemon's way through its faults."""

    def __init__(self, random: Random, server: Daemon, disk: Image, between: Interposer) -> None:
        self.faults = Faults()
        self._random = random
        self._ledger = Ledger(HARDENED, counts=False)
        self._load = Load(self._ledger, Random(random.random()))
        self._server = server
        self._disk = disk
        self._between = between
        self.faults.figures = self._ledger.figures

    async def fail(self) -> None:
        """One fault, whatever comes of it, a start, and sometimes a power cut."""
        if self._random.randrange(4):
            await self._under_load()
        else:
            await self._during_start()
        self._note()
        if not self._server.running:
            await self._server.start()
        await self._audit()
        if self._random.randrange(2):
            await self._cut()

    async def _under_load(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._load.run(self._server.url))
            self._load.large = self._random.randrange(2) == 0
            await self._load.progress(1)
            only = self._random.choice(("", "log.", "manifest", ".db", "-wal"))
            kinds = self._random.choice((Calls.SYNC, Calls.SYNC | Calls.WRITE))
            self._between.fail_device_at(2 ** self._random.randrange(6), kinds, only)
            await first_of(self._between.stopped(), self._load.progress(4 * _UNITS_AFTER))
            with suppress(AssertionError):  # it has ended
                await self._load.progress(_UNITS_AFTER)
            await self._end()

    async def _during_start(self) -> None:
        await self._server.end()
        self._between.fail_device_at(self._random.randrange(1, 40), Calls.SYNC | Calls.WRITE)
        await self._server.launch()
        with suppress(AssertionError):  # it has ended
            await self._server.ready()
        await self._end()

    async def _end(self) -> None:
        """Kill the daemon, unless it has ended, as it may after a fault, and only so."""
        if self._server.failing:
            async with asyncio.timeout(_NOTICED_SECONDS):
                code = await self._server.ended()
            assert code == COULD_NOT_RUN, f"it ended with {code}: {''.join(self._server.log[-5:])}"
            assert self._between.met, f"it ended without a fault: {''.join(self._server.log[-5:])}"
            self.faults.ended += 1
        else:
            await self._server.end()

    def _note(self) -> None:
        if met := self._between.met:
            self.faults.points[re.sub(r"\d+\b(?=\.db|$)", "N", met)] += 1
            self._server.log.append(f"the fault was at {met}\n")
        self._between.let_go()

    async def _audit(self) -> None:
        self._ledger.reconcile(await browsed(self._server.url))

    async def _cut(self) -> None:
        """Have the daemon acknowledge more, and cut the power."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._load.run(self._server.url))
            await self._load.progress(self._random.randrange(1, _UNITS_AFTER))
            await power_off(self._server, self._disk)
        self._between.reboot()
        self._server.log.append("the power was cut\n")
        self.faults.cuts += 1
        await self._server.start()
        await self._audit()
