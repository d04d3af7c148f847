"""Several programs that are interrupted at random, from a seed: nothing is lost, nothing doubled."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.config import Config
from broker.mqi import MQGMO, MQRC
from tests.conformance.system import System
from tests.engine.trial import Account, Program, found_on, slow_store, turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

PROGRAMS = 4
STEPS = 40


class Chaos:
    """Programs that share two queues, and the chance that governs them."""

    def __init__(self, system: System, random: Random, names: Iterator[int]) -> None:
        self.system = system
        self.random = random
        self.account = Account()
        self._names = names

    def name(self) -> bytes:
        """The data of a message that there was never before."""
        return b"message %d" % next(self._names)

    async def run(self) -> None:
        """Run one program after another on connections of their own."""
        steps = STEPS
        while steps > 0:
            program = Program(self.system, await self.system.connect(), self.account)
            await program.start()
            cut = self.random.random() < 0.3
            for _ in range(self.random.randrange(1, 10)):
                steps -= 1
                await self._step(program)
            if cut:
                await self._cut(program)
            elif self.random.random() < 0.5:
                await program.commit()
            if not program.connection.port.broken:
                await program.leave()

    async def _step(self, program: Program) -> None:
        """Make a few calls, and perhaps interrupt them."""
        task = asyncio.create_task(self._calls(program))
        await turns(self.random.randrange(40))
        if self.random.random() < 0.5:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await task

    async def _cut(self, program: Program) -> None:
        """Cut the line in the middle of some calls."""
        task = asyncio.create_task(self._calls(program))
        await turns(self.random.randrange(20))
        self.system.cut(program.connection)
        await asyncio.wait([task])
        error = task.exception()
        assert error is None or (isinstance(error, MQError) and error.reason == MQRC.CONNECTION_BROKEN), error

    async def _calls(self, program: Program) -> None:
        for _ in range(self.random.randrange(1, 4)):
            call = self.random.choice(CALLS)
            try:
                await call(self, program)
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise

    # What programs do

    async def get(self, program: Program) -> None:
        await program.get()

    async def get_in_unit(self, program: Program) -> None:
        await program.get_in_unit()

    async def put(self, program: Program) -> None:
        await program.put(self.name())

    async def put_in_unit(self, program: Program) -> None:
        await program.put_in_unit(self.name())

    async def commit(self, program: Program) -> None:
        await program.commit()

    async def backout(self, program: Program) -> None:
        await program.backout()

    async def browse(self, program: Program) -> None:
        await program.queue.get(options=MQGMO.BROWSE_NEXT)


CALLS: list[Callable[[Chaos, Program], Awaitable[None]]] = [
    Chaos.get,
    Chaos.get_in_unit,
    Chaos.get_in_unit,
    Chaos.put,
    Chaos.put_in_unit,
    Chaos.commit,
    Chaos.backout,
    Chaos.browse,
]


async def search(seed: int, way: str) -> None:
    """One run from a seed."""
    random = Random(seed)
    config = Config()
    config = replace(config, limits=replace(config.limits, body_bytes=random.choice([0, 30, 1 << 20])))
    store = slow_store()
    async with System(lambda: store, way, config) as system:
        persistence, hardened = random.choice([("NO", ""), ("YES", "HARDENBO"), ("YES", "NOHARDENBO")])
        await system.mqsc(f"DEFINE QLOCAL(Q) DEFPSIST({persistence}) {hardened}\nDEFINE QLOCAL(R) LIKE(Q)")
        chaos = Chaos(system, random, count())
        async with system.manager.connect() as setter:
            for _ in range(20):
                chaos.account.there.append(chaos.name())
                await setter.put1("Q", chaos.account.there[-1])
        stall = asyncio.create_task(stalls(store, Random(seed)))
        async with asyncio.TaskGroup() as tasks:
            for number in range(PROGRAMS):
                tasks.create_task(chaos.run(), name=f"program {number}")
        stall.cancel()
        store.release()
        chaos.account.check(await found_on(system, "Q", "R", backouts_max=None))


async def stalls(store: object, random: Random) -> None:
    """Let the store stall now and then."""
    while True:
        await turns(random.randrange(100))
        store.hold()  # type: ignore[attr-defined]
        await turns(random.randrange(30))
        store.release()  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["embedded", "tcp"])
@pytest.mark.parametrize("seed", range(25))
async def test_programs_interrupted_at_random_lose_and_double_nothing(seed: int, way: str) -> None:
    await search(seed, way)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", ["embedded", "tcp"])
@pytest.mark.parametrize("first", range(1000, 2000, 100))
async def test_programs_interrupted_at_random_for_long(first: int, way: str) -> None:
    for seed in range(first, first + 100):
        try:
            await search(seed, way)
        except BaseException as error:
            error.add_note(f"seed {seed}, {way}")
            raise
