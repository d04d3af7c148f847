"""The deaths of workers: each is drawn from a seed, and happens at a named place of a transaction, by `kill -9`."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.transactions import TransactionStep

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENT: Final = "event=demo_death"
"""A worker that kills itself says so first, on its log."""

SKIPPED_MAX: Final = 2
COMMIT_SECONDS: Final = 0.004
"""The latest that a worker is killed behind COMMIT that it has sent, at first."""
_SOONER: Final = 0.5


class DeathPlace(StrEnum):
    """A place at which a worker dies: behind a step of a transaction, or while COMMIT is on its way."""

    BEGIN = "begin"
    WORK = "work"
    MARK = "mark"
    PREPARE = "prepare"
    IN_COMMIT = "in commit"
    COMMIT = "commit"
    DECIDE = "decide"

    @property
    def step(self) -> TransactionStep:
        """The step behind which it is, or begins."""
        return TransactionStep.PREPARE if self is DeathPlace.IN_COMMIT else TransactionStep(self.value)


class Death(NamedTuple):
    """One death: where, behind how many transactions that pass the place unharmed, and how many seconds behind it."""

    place: DeathPlace
    skipped: int = 0
    seconds: float = 0.0


def drawn(kills: int, seed: int) -> Iterator[Death]:
    """Deaths from a seed: as many at each place, in a random order, one more at some where it does not come out."""
    source = random.Random(seed)
    places = [place for turn in range(-(-kills // len(DeathPlace))) for place in _shuffled(source)][:kills]
    source.shuffle(places)
    for place in places:
        seconds = source.uniform(0, COMMIT_SECONDS) if place is DeathPlace.IN_COMMIT else 0.0
        yield Death(place, source.randint(0, SKIPPED_MAX), seconds)


def _shuffled(source: random.Random) -> list[DeathPlace]:
    return source.sample(list(DeathPlace), len(DeathPlace))


class Mortal:
    """The death of this process, told of each step of its transactions."""

    def __init__(self, death: Death) -> None:
        self._death = death
        self._passed = 0
        self._in_commit = 0
        self._seconds = death.seconds
        self._armed = False

    async def reached(self, step: TransactionStep) -> None:
        """A transaction has made a step: die, if it is that of the death."""
        if self._death.place is DeathPlace.IN_COMMIT:
            self._look_at_commit(step)
        elif step is self._death.place.step and self._is_due():
            self._die()

    def _is_due(self) -> bool:
        self._passed += 1
        return self._passed > self._death.skipped

    def _look_at_commit(self, step: TransactionStep) -> None:
        if step is TransactionStep.PREPARE:
            self._in_commit += 1
            if self._is_due() and not self._armed:
                self._armed = True
                threading.Thread(target=self._die_in_commit, args=(self._seconds,), daemon=True).start()
        elif step is TransactionStep.COMMIT:
            self._in_commit -= 1

    def _die_in_commit(self, seconds: float) -> None:
        """Die in so many seconds, unless COMMIT has been answered by then: then sooner in the next one."""
        time.sleep(seconds)
        if self._in_commit > 0:
            self._die()
        self._seconds *= _SOONER
        self._armed = False

    def _die(self) -> None:
        os.write(2, f"{EVENT} place={self._death.place.name}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
