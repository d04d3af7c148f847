"""Faults of a computer, and when they strike. Steps are counted, so a schedule that is repeated fails again."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NoReturn


class Crash(BaseException):
    """The process ends here. It is no Exception, so that no handler of the code under test takes it for an error."""


def fail(number: int, what: str) -> NoReturn:
    """Raise the OSError of that errno."""
    raise OSError(number, os.strerror(number), what)


@dataclass(slots=True)
class Countdown:
    """Strikes at the `after`-th call and at the `times - 1` that follow; `times` = None: for ever.

    Calls for other files than `name` do not count, if it is set.
    """

    after: int = 0
    times: int | None = 1
    name: str | None = None

    def strikes(self, name: str) -> bool:
        """True if this call is one that fails."""
        if self.after <= 0 or (self.name is not None and self.name != name):
            return False
        if self.after > 1:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
            if self.times <= 0:
                self.after = 0
        return True


@dataclass(slots=True)
class Faults:
    """The faults to come. Everything is off until it is set; `clear` turns all off again.

    `crash_in` is after how many steps the process ends, `crash_on` with what the name of the step begins at which it
    does.
    `syncs` counts syncs and direct writes, `reads` those from the medium or the cache. `background_failures` is how
    likely it is that dirty sectors, which the system writes back by itself, do not reach the medium: at a step, and
    when a process is killed. `thin` makes a full disk refuse room for blocks that files have, too. `struck` counts the
    faults that came about, `no_room` the calls that found none.
    """

    crash_in: int | None = None
    crash_on: str | None = None
    syncs: Countdown = field(default_factory=Countdown)
    reads: Countdown = field(default_factory=Countdown)
    background: float = 0.0
    background_failures: float = 0.0
    fills_in: int | None = None
    thin: bool = False
    struck: int = 0
    no_room: int = 0

    def clear(self) -> None:
        """Have nothing fail any more. What has failed keeps its consequences."""
        self.crash_in = self.crash_on = self.fills_in = None
        self.syncs, self.reads = Countdown(), Countdown()
        self.background_failures = 0.0
        self.thin = False
