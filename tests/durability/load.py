"""The load: several client programs that put and get at random, until their lines break."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Final

from broker import MQError
from broker.mqi import MQRC
from tests.durability.program import EXACT, GONE, QUEUES, Program

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.durability.ledger import Ledger

REFUSALS: Final = frozenset({MQRC.STORAGE_MEDIUM_FULL, MQRC.BACKED_OUT})
"""The reasons that say for certain that nothing was done."""

DEPTH: Final = 600
"""About how many messages the load leaves on the queues."""

_LENGTHS: Final = (20, 200, 900, 2_000, 2_000, 9_000, 40_000)
_LARGE: Final = 200_000


class Load:
    """Programs for one ledger.

    `depth` is how many messages they aim to leave on the queues; 0 drains them. With `large` they put large ones only,
    which fill the write-ahead log soon.
    """

    def __init__(self, ledger: Ledger, random: Random, wanderers: int = 4) -> None:
        self.depth = DEPTH
        self.large = False
        self.connections = 0
        self.refusals = 0
        self.running = True
        self._ledger = ledger
        self._random = random
        self._wanderers = wanderers
        self._names = count()

    async def run(self, url: str) -> None:
        """Connect all the programs, and run them until the queue manager has gone."""
        self.running = True
        async with AsyncExitStack() as stack:
            programs = [
                await Program.start(stack, url, f"P{next(self._names)}", self._ledger)
                for _ in range(self._wanderers + 2)
            ]
            self.connections += len(programs)
            async with asyncio.TaskGroup() as tasks:
                for number, program in enumerate(programs):
                    tasks.create_task(self._run(program, number))
        self.running = False

    async def progress(self, units: int) -> None:
        """Return when so many more units are done."""
        enough = self._ledger.figures.units_done + units
        await self._until(lambda: self._ledger.figures.units_done >= enough)

    async def refused(self, steps: int) -> None:
        """Return when so many more steps were refused."""
        enough = self.refusals + steps
        await self._until(lambda: self.refusals >= enough)

    async def _until(self, come: Callable[[], bool]) -> None:
        while not come():
            await asyncio.sleep(0.001)
            assert self.running, "the queue manager has gone before its time"

    async def _run(self, program: Program, number: int) -> None:
        random = Random(self._random.random())
        wanderer = Wanderer(program, random, self)
        steps: Sequence[Callable[[], Awaitable[None]]] = (
            lambda: program.read("R", random.randrange(1, 30)),
            lambda: program.get_alone("S", wait=float("inf")),
        )
        step = steps[number] if number < len(steps) else wanderer.step
        while True:
            try:
                await step()
            except MQError as error:
                if error.reason in GONE:
                    return
                if error.reason not in REFUSALS:
                    raise
                self.refusals += 1

    def wants_more(self) -> bool:
        """True if there is to be more on the queues, rather than less."""
        return self._random.random() * 2 * self.depth > len(self._ledger.there)


class Wanderer:
    """A program that takes steps of its seed's choice."""

    def __init__(self, program: Program, random: Random, load: Load) -> None:
        self._program = program
        self._random = random
        self._load = load

    async def step(self) -> None:
        """Do something."""
        puts = (self._put_some, self._put_batch, self._put_unit)
        gets = (self._get_some, self._get_batch, self._get_unit, self._get_batch_unit, self._move)
        await self._random.choice(puts if self._load.wants_more() else gets)()

    async def _put_some(self) -> None:
        """Put outside syncpoint, many at a time."""
        queue = self._random.choice(QUEUES)
        await _all([self._program.put_alone(queue, *self._kind()) for _ in range(self._random.randrange(1, 17))])

    async def _get_some(self) -> None:
        """Get outside syncpoint, many at a time; where nothing is, wait a moment."""
        await _all([self._program.get_alone("S", wait=0.05) for _ in range(self._random.randrange(1, 9))])

    async def _put_batch(self) -> None:
        """Put outside syncpoint, many in one call, which makes several of it where they are large."""
        lengths = [self._kind()[0] for _ in range(self._random.randrange(1, 50))]
        await self._program.put_batch(self._random.choice(QUEUES), lengths, self._random.randrange(3))

    async def _get_batch(self) -> None:
        """Get outside syncpoint, many in one call; where nothing is, wait a moment."""
        await _unless_empty(self._program.get_batch_alone("S", self._random.randrange(1, 20), wait=0.05))

    async def _put_unit(self) -> None:
        """Put to two queues in a unit of work."""
        await self._unit(puts=self._random.sample(QUEUES, 2) * self._random.randrange(1, 4))

    async def _get_unit(self) -> None:
        """Get from two queues in a unit of work."""
        await self._unit(gets=EXACT * self._random.randrange(1, 5))

    async def _get_batch_unit(self) -> None:
        """Get from two queues in a unit of work, many in one call."""
        await self._unit(batches=EXACT)

    async def _move(self) -> None:
        """Get from one queue and put to another in a unit of work."""
        source, target = self._random.sample(QUEUES, 2)
        await self._unit(gets=[source] * self._random.randrange(1, 4), puts=[target])

    async def _unit(self, batches: Sequence[str] = (), gets: Sequence[str] = (), puts: Sequence[str] = ()) -> None:
        """A unit of work. One in eight is backed out, and one that finds no room for a call."""
        program = self._program
        unit = program.ledger.begin()
        try:
            for queue in batches:
                await _unless_empty(program.get_batch(unit, queue, self._random.randrange(1, 20)))
            for queue in gets:
                await _unless_empty(program.get(unit, queue))
            for queue in puts:
                await program.put(unit, queue, *self._kind())
        except MQError as error:
            if error.reason in REFUSALS:
                await program.backout(unit)
            raise
        if self._random.randrange(8):
            await program.commit(unit)
        else:
            await program.backout(unit)

    def _kind(self) -> tuple[int, int]:
        """The length and the priority of a message."""
        return _LARGE if self._load.large else self._random.choice(_LENGTHS), self._random.randrange(3)


async def _unless_empty(get: Awaitable[object]) -> None:
    try:
        await get
    except MQError as error:
        if error.reason != MQRC.NO_MSG_AVAILABLE:
            raise


async def _all(calls: Sequence[Awaitable[object]]) -> None:
    """Make these calls at once and let all end; then raise what went wrong, first of all what is no MQError."""
    results = await asyncio.gather(*map(_unless_empty, calls), return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, MQError)):
        raise error
