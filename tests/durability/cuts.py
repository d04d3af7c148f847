"""A daemon whose power is cut again and again, while client programs put and get, and while it starts.

Its data are on a file system that is shut down at once: what was written and not synced is gone, but for pages that the
seed has written back. The moments are of a seed's choice, or a certain system call: before it, after it, or when a part
of a write is done. After each start the ledger is compared with what is on the queues.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Final

from broker.cli.program import lone
from tests.durability.daemon import daemon
from tests.durability.image import image
from tests.durability.interposer import Calls, interposer
from tests.durability.ledger import Figures, Ledger
from tests.durability.load import DEPTH, Load
from tests.durability.outcome import Outcome, UnavailableError
from tests.durability.program import DEFINITIONS, HARDENED, browsed

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from tests.durability.daemon import Daemon
    from tests.durability.image import Image
    from tests.durability.interposer import Interposer

_WAYS_TO_MOUNT: Final = ("", "data=writeback")
_UNITS_MAX: Final = 200
_SELDOM_WRITTEN: Final = ("lock", "ballast", "-shm")


class Moment(Enum):
    """The moment of a power cut."""

    LOAD = "at a random moment under load"
    CALL = "at a chosen system call under load"
    START = "at a random moment of a start"
    CALL_OF_START = "at a chosen system call of a start"


@dataclass
class Cuts:
    """The power cuts, and what the programs were told meanwhile."""

    seeds: list[int] = field(default_factory=list)
    moments: Counter[Moment] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    """The system calls at which it was cut: "pwrite64 log", and how often."""
    connections: int = 0
    figures: Figures = field(default_factory=Figures)

    def __iadd__(self, other: Cuts) -> Cuts:
        self.seeds += other.seeds
        self.moments += other.moments
        self.points += other.points
        self.connections += other.connections
        self.figures += other.figures
        return self


async def cut_under_load(folder: Path, seed: int, cuts: int) -> Cuts:
    """Cut the power at least so many times; where no library can be interposed, at random moments only.

    Raises AssertionError with the seed, the number of the cut and the complaint; UnavailableError.
    """
    random = Random(seed)
    with ExitStack() as stack:
        disk = stack.enter_context(image(folder, options=random.choice(_WAYS_TO_MOUNT)))
        try:
            between = stack.enter_context(interposer(folder, disk.path))
        except UnavailableError:
            between = None
        settings = store_settings(random) | (between.settings if between else {})
        async with daemon(folder, DEFINITIONS, disk.path / "data", settings) as server:
            run = _Run(seed, server, disk, between)
            while run.cuts.moments.total() < cuts:
                try:
                    await run.cut()
                except Exception as error:
                    done = run.cuts.moments.total()
                    raise AssertionError(f"seed {seed}, cut {done}, {run.last}: {lone(error)}") from error
            return run.ended()


def store_settings(random: Random) -> dict[str, str]:
    """The settings of a store: its log may be short, so that it turns often and some batches find no place in it."""
    length = random.choice((256 * 1024, 1024 * 1024, 16 * 1024 * 1024))
    return {"EVERMQ_JOURNAL_FILE_BYTES": str(length), "EVERMQ_JOURNAL_INLINE": random.choice(("adaptive", "never"))}


class _Run:
    """One daemon's way through its cuts. `last` says how the last one was made."""

    def __init__(self, seed: int, server: Daemon, disk: Image, between: Interposer | None) -> None:
        self.random = Random(seed)
        self.cuts = Cuts([seed])
        self.last = ""
        self._ledger = Ledger(HARDENED)
        self._load = Load(self._ledger, Random(self.random.random()))
        self._server = server
        self._disk = disk
        self._between = between
        self._start_seconds = 0.5
        self._calls_of_start = 50

    async def cut(self) -> None:
        """Run the load, cut the power, perhaps again during the starts that follow, and reconcile."""
        self.last = ""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._load.run(self._server.url))
            await self._under_load()
        while self.random.randrange(3) == 0:
            await self._during_start()
        await self._start()
        self._ledger.reconcile(await browsed(self._server.url))

    def ended(self) -> Cuts:
        """Return what was done."""
        self.cuts.connections = self._load.connections
        self.cuts.figures = self._ledger.figures
        return self.cuts

    async def _under_load(self) -> None:
        self._load.depth = self.random.choice((0, DEPTH, DEPTH))
        self._load.large = self.random.randrange(3) == 0
        units = self.random.randrange(1, _UNITS_MAX)
        if self._between is None or self.random.randrange(3) == 0:
            await self._load.progress(units)
            await asyncio.sleep(self.random.random() * 0.005)
            await self._power_off(Moment.LOAD)
            return
        await self._load.progress(1)
        number, hundredths = 2 ** self.random.randrange(8), self._hundredths()
        if self.random.randrange(2):
            self._between.stop_at(number, hundredths, self.random.choice((Calls.ANY, Calls.SYNC, Calls.WRITE)))
        else:
            self._between.stop_at(number, hundredths, only=self.random.choice(self._files()))
        stopped = await first_of(self._between.stopped(), self._load.progress(_UNITS_MAX))
        await self._power_off(Moment.CALL if stopped else Moment.LOAD)

    async def _during_start(self) -> None:
        if self._between is None or self.random.randrange(3) == 0:
            await self._server.launch()
            await asyncio.sleep(self.random.random() * self._start_seconds)
            await self._power_off(Moment.START)
            return
        number = self.random.randrange(1, self._calls_of_start + 1)
        self._between.stop_at(number, self._hundredths())
        await self._server.launch()
        stopped = await first_of(self._between.stopped(), self._server.ready())
        await self._power_off(Moment.CALL_OF_START if stopped else Moment.START)

    async def _start(self) -> None:
        began = monotonic()
        before = self._between.calls if self._between else 0
        await self._server.start()
        self._start_seconds = monotonic() - began
        if self._between:
            self._calls_of_start = self._between.calls - before
            assert self._calls_of_start, "nothing stands between this daemon and its disk"

    async def _power_off(self, moment: Moment) -> None:
        """Cut the power, end the daemon, and mount the disk again."""
        server, random = self._server, self.random
        assert server.running, f"it ended by itself: {''.join(server.log[-5:])}"
        self.cuts.moments[moment] += 1
        self.last += f"{moment.value}, "
        if self._between:
            if met := self._between.met:
                self.cuts.points[re.sub(r"\d+\b(?=\.db|$)", "N", met)] += 1
                self.last += f"{met}, "
            self._between.let_go()
        await power_off(server, self._disk, random if random.randrange(2) else None)
        if self._between and random.randrange(4):
            self._between.reboot()

    def _hundredths(self) -> int:
        return self.random.choice((0, 100, self.random.randrange(100)))

    def _files(self) -> list[str]:
        """The files that are written to."""
        return sorted(each.name for each in self._server.data.iterdir() if not each.name.endswith(_SELDOM_WRITTEN))


async def power_off(server: Daemon, disk: Image, random: Random | None = None) -> None:
    """Cut the power, end the daemon, and mount the disk again. With `random`, some pages are written back before.

    The daemon is stopped first: no program is answered by a machine without power. A call that it has made goes on
    until it meets the cut.
    """
    server.suspend()
    if random is not None:
        disk.write_back_some(random)
    disk.cut()
    await server.end()
    disk.remount()


async def first_of(one: Awaitable[str], other: Awaitable[None]) -> str:
    """Return what `one` returns, or nothing if `other` ends first."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return str(tasks[0].result())
        tasks[1].result()
        return ""
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def without_syncs(folder: Path, seed: int, cuts: int) -> Outcome:
    """The control: a daemon that syncs nothing must lose what it acknowledged, each time, and this suite must see it.

    Raises AssertionError when a cut was not noticed.
    """
    random = Random(seed)
    complaints = []
    for number in range(cuts):
        place = folder / f"control-{number}"
        place.mkdir()
        with image(place) as disk, interposer(place, disk.path) as between:
            between.take_syncs_away()
            async with daemon(place, DEFINITIONS, disk.path / "data", between.settings) as server:
                assert between.calls, "nothing stands between this daemon and its disk"
                complaints.append(await _complaint(server, disk, random))
    assert all(complaints), f"seed {seed}: {complaints.count('')} of {cuts} cuts were not noticed"
    return Outcome(
        f"power cut {cuts} times under load, from a daemon that syncs nothing (the control)",
        f"{len(complaints)} times the check found acknowledged messages gone; the first time it said: {complaints[0]}",
    )


async def _complaint(server: Daemon, disk: Image, random: Random) -> str:
    """Cut the power from this daemon; return a complaint, or nothing if all is well."""
    ledger = Ledger(HARDENED)
    load = Load(ledger, random)
    disk.sync()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load.run(server.url))
        await load.progress(random.randrange(100, _UNITS_MAX))
        await power_off(server, disk)
    try:
        await server.start()
        ledger.reconcile(await browsed(server.url))
    except AssertionError as complaint:
        await server.end()
        return str(complaint).partition("\n")[0].partition(":")[0]
    return ""
