"""Disks that fail for a moment, heal, and then lose their power.

When write-back fails, the kernel tells so once, and from then on takes the page for written: what a program reads is
there, until the cache goes. So a store that tries a failed sync again, or that believes after a restart what it reads,
loses later what it acknowledged since. Each of these scenarios has brought a store to that.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from random import Random
from typing import TYPE_CHECKING, Final

from tests.durability.cuts import power_off
from tests.durability.daemon import COULD_NOT_RUN, daemon
from tests.durability.image import failing_image, thin_image
from tests.durability.interposer import interposer
from tests.durability.ledger import Ledger
from tests.durability.outcome import Outcome
from tests.durability.program import DEFINITIONS, HARDENED, Program, browsed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.durability.daemon import Daemon

_LENGTH: Final = 20_000
_NOTICED_SECONDS: Final = 5.0
_REST_SECONDS: Final = 0.3  # longer than a store waits with its upkeep


async def carry_over_failing(folder: Path, seeds: range, *, orderly: bool) -> Outcome:
    """A thin volume is short of room for a moment, when the log is carried over to the database, which has to grow."""
    ledgers = [await _carry_over_failing(_room(folder, seed), Random(seed), orderly=orderly) for seed in seeds]
    end = "an orderly stop, and the disk mounted anew" if orderly else "a power cut"
    return Outcome(
        f"thin volume short of room for a moment, when the log is carried over; later {end}; {_times(seeds)}",
        f"the daemon ended with code {COULD_NOT_RUN}; after a restart it went on; after {end} {_all_of(ledgers)}",
    )


async def log_failing(folder: Path, seeds: range, *, direct: bool) -> Outcome:
    """The device takes nothing for a moment, under a write of the log."""
    ledgers = [await _log_failing(_room(folder, seed), Random(seed), direct=direct) for seed in seeds]
    way = "past the page cache" if direct else "through the page cache"
    return Outcome(
        f"device that takes nothing for a moment, under a write of the log {way}; later a power cut; {_times(seeds)}",
        f"the daemon ended with code {COULD_NOT_RUN}; after a restart it went on; after the power cut "
        f"{_all_of(ledgers)}",
    )


def _room(folder: Path, seed: int) -> Path:
    room = folder / f"seed-{seed}"
    room.mkdir()
    return room


def _times(seeds: range) -> str:
    return f"{len(seeds)} times"


def _all_of(ledgers: list[Ledger]) -> str:
    messages = sum(len(ledger.there) for ledger in ledgers)
    return f"all {messages} messages were there that it had acknowledged before and since"


async def _carry_over_failing(folder: Path, random: Random, *, orderly: bool) -> Ledger:
    ledger = Ledger(HARDENED)
    with thin_image(folder) as thin:
        async with daemon(folder, DEFINITIONS, thin.disk.path / "data") as server:
            await _put(server, ledger, "before", 100)
            await asyncio.sleep(_REST_SECONDS)
            with thin.short_of_room():
                await _put(server, ledger, "meanwhile", random.randrange(50, 300))
                ended = await _ended(server)
            if ended:
                await server.start()
                ledger.reconcile(await browsed(server.url))
            for number in range(3):
                await _put(server, ledger, f"after{number}", random.randrange(50, 400))
                await asyncio.sleep(random.random() * _REST_SECONDS)
            if orderly:
                await server.stop()
                thin.disk.remount()
            else:
                await power_off(server, thin.disk)
            await server.start()
            ledger.reconcile(await browsed(server.url))
            assert ended, f"it went on after a failed sync: {''.join(server.log)}"
    return ledger


async def _log_failing(folder: Path, random: Random, *, direct: bool) -> Ledger:
    ledger = Ledger(HARDENED)
    with ExitStack() as stack:
        device = stack.enter_context(failing_image(folder))
        settings: dict[str, str] = {}
        if not direct:
            between = stack.enter_context(interposer(folder, device.disk.path))
            between.refuse_direct_writes()
            settings |= between.settings
        async with daemon(folder, DEFINITIONS, device.disk.path / "data", settings) as server:
            await _put(server, ledger, "before", random.randrange(1, 40))
            with device.failing():
                await _put(server, ledger, "meanwhile", 1_000)
                assert await _ended(server), "it went on after a failed write"
            await server.start()
            ledger.reconcile(await browsed(server.url))
            await _put(server, ledger, "after", random.randrange(50, 200))
            await power_off(server, device.disk)
            await server.start()
            ledger.reconcile(await browsed(server.url))
    return ledger


async def _put(server: Daemon, ledger: Ledger, name: str, messages: int) -> None:
    """Put so many messages, one after the other, as far as it goes."""
    async with AsyncExitStack() as stack:
        program = await Program.start(stack, server.url, name, ledger)
        for _ in range(messages):
            await program.put_alone("Q", _LENGTH)


async def _ended(server: Daemon) -> bool:
    """True if the daemon ends by itself within a few seconds, as journal rule 7 has it."""
    try:
        async with asyncio.timeout(_NOTICED_SECONDS):
            code = await server.ended()
    except TimeoutError:
        return False
    assert code == COULD_NOT_RUN, f"it ended with {code}: {''.join(server.log)}"
    return True
