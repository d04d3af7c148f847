"""An actor: a program that a schedule takes a step further whenever it likes.

It is a coroutine that is driven by hand: it makes calls on a connection of its own, and pauses. So it can be left
where it is for as long as chance has it (a zombie), and ended at any place (killed), with its connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from broker import MQError
from broker.interface.port import answer
from broker.mqi import MQRC
from tests.simulation.claims.records import LogTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from random import Random

    from broker import Connection
    from tests.simulation.claims.records import Records

ENDED = frozenset({MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_STOPPING, MQRC.Q_MGR_QUIESCING})
"""A call ends with one of these, and nobody knows what it has done."""

REPEATS = 4
"""How often a program makes a call again whose answer was lost, at most."""


class World(Protocol):
    """The schedule, as actors need it."""

    random: Random
    records: Records
    quiet: bool  # nothing fails any more: come to an end
    life: int  # of the queue manager, from 1

    @property
    def now(self) -> float:
        """Seconds of the monotonic clock."""

    def connect(self, name: str) -> Connection:
        """A new connection to the queue manager, which is up whenever an actor takes a step."""

    def spawn(self, name: str, work: Callable[[Actor], Coroutine[Any, Any, None]]) -> Actor:
        """Another actor."""

    def note(self, text: str) -> None:
        """Add a line to the trace."""


class Actor:
    """One actor. `error` is what has ended it, None where it came to its end."""

    def __init__(self, world: World, name: str, work: Callable[[Actor], Coroutine[Any, Any, None]]) -> None:
        self.world = world
        self.name = name
        self.random = world.random
        self.over = False
        self.error: Exception | None = None
        self.perhaps = (
            False  # whether one of the calls that `ask` made last, before the last of them, may have been carried out
        )
        self._steps = work(self)
        self._awaited: asyncio.Future[Any] | None = None
        self._connection: Connection | None = None

    @property
    def ready(self) -> bool:
        """True if it can take a step: the call that it waits for is answered."""
        return not self.over and (self._awaited is None or self._awaited.done())

    def step(self) -> None:
        """Go on until the next call or pause."""
        try:
            self._awaited = self._steps.send(None)
        except StopIteration:
            self._end(None)
        except (MQError, LogTaken, TaskFailed) as error:
            self._end(error)

    def kill(self) -> None:
        """The process dies, wherever it is, and its line is cut."""
        if not self.over:
            self.close()
            self._end(None)
            self.world.note(f"{self.name} is killed")

    def close(self) -> None:
        """Take no step any more."""
        self._steps.close()

    def _end(self, error: Exception | None) -> None:
        self.over = True
        self.error = error
        self.world.note(f"{self.name} ends: {error}")
        if self._connection is not None:
            self._connection.port.break_()  # an embedded port is a Conversation

    # What its work may await

    @property
    def connection(self) -> Connection:
        """Its connection, a new one where the last has broken."""
        if self._connection is None or self._connection.port.broken:
            self._connection = self.world.connect(self.name)
        return self._connection

    async def pause(self) -> None:
        """Let others go on."""
        await asyncio.sleep(0)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    async def ask(self, verb: str, *arguments: Any, **named: Any) -> Any:
        """Make a call of the port, again where its answer was lost; and now and then once more, as if it had been."""
        self.perhaps = False
        again = not self.world.quiet and self.chance(0.04)
        for left in reversed(range(REPEATS)):
            try:
                found = await self._call(verb, arguments, named)
            except MQError as error:
                if error.reason not in ENDED or not left or self.chance(0.3):
                    raise
                self.perhaps = True
                await self.pause()
                continue
            if not again:
                return found
            self.perhaps = True
            again = False
            await self.pause()
        raise AssertionError("the last of all calls is answered or raises")

    async def _call(self, verb: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        self.world.note(f"{self.name} {verb} {arguments} {named or ''}")
        try:
            found = await answer(getattr(self.connection.port, verb)(*arguments, **named))
        except MQError as error:
            self.world.note(f"{self.name} {verb}: {error}")
            raise
        self.world.note(f"{self.name} {verb}: {found!r:.200}")
        return found


class TaskFailed(Exception):  # chance has it so
    """A task of Spark's has failed."""
