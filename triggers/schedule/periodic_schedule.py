"""Schedules of periodic work: what they say, and what is to be run when they come due (handlers rules 5.1 to 5.3).

1. Each schedule has two queues. On the first stands one *schedule message*, delayed until the next instant. Whoever
   takes it when it is due puts, in the unit that removes it, *run messages* on the second and the schedule message for
   the instant after. So there is no leader and no clock process, and a kill at any point leaves one or the other.
2. The next instant is the one after that which was due, never after "now": nothing drifts, and a clock that is set back
   repeats nothing.
3. An instant is *missed* when its schedule message is taken more than `LATE_MAX` seconds after it. Of those that were
   missed together, `missed` says what becomes: "one" run for all of them and for what has come due since, one run for
   each ("all", of more than `RUNS_MAX` the last), or "none". An instant that was not missed has its run.
4. `overlap` says what becomes of a run that is due while another waits, runs or is to be tried again: it is left out
   ("skip"; never one of those that "all" makes up for), comes after it ("queue"), or beside it ("parallel").

Pure: it is told the time.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, get_args
from zoneinfo import ZoneInfo

from triggers.schedule.cron import Cron
from triggers.schedule.interval import Interval
from triggers.schedule.tick import Tick

Missed: TypeAlias = Literal["one", "all", "none"]
Overlap: TypeAlias = Literal["skip", "queue", "parallel"]

LATE_MAX: Final = 60.0
RUNS_MAX: Final = 1000

PREFIX: Final = "PERIODIC."
RUN_SUFFIX: Final = ".RUN"
SCHEDULE_KEY: Final = "schedule"
"""The key of schedule messages on their queue: there is one, whoever registers it and however often."""

RUN_KEY: Final = "run"
"""The key of the run messages of which there is one at a time."""

_NAME_MAX: Final = 48 - len(RUN_SUFFIX)
_DIGITS: Final = 8
_NOT_OF_NAMES: Final = re.compile(r"[^A-Z0-9_.]")


class Timetable(Protocol):
    """Instants, in seconds since 1970."""

    def after(self, instant: float) -> float:
        """The first one after this."""

    def before(self, instant: float) -> float:
        """The last one before this."""


class DueRun(NamedTuple):
    """A run that is due: for which instant, and how many were missed for which there is no other run. One that makes up
    for a missed instant is not left out where runs overlap.
    """

    scheduled_at: float
    missed: int = 0
    made_up: bool = False


class Due(NamedTuple):
    """The outcome of a schedule message that was taken: the runs to put, the instant of the next one, and how many
    instants were missed.
    """

    runs: tuple[DueRun, ...]
    next_at: float
    missed: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of a periodic function in the code: `every` so many seconds with `offset`, or at the instants of
    `cron` in the zone `tz`.

    Raises ValueError for what names no instants.
    """

    app: str
    function: str
    every: float = 0.0
    offset: float = 0.0
    cron: str = ""
    tz: str = "UTC"
    missed: Missed = "one"
    overlap: Overlap = "skip"

    def __post_init__(self) -> None:
        for name, value, allowed in (("missed", self.missed, Missed), ("overlap", self.overlap, Overlap)):
            if value not in get_args(allowed):
                raise ValueError(
                    f"{name}={value!r} of {self.function}: one of {', '.join(map(repr, get_args(allowed)))}"
                )
        self.timetable()

    def timetable(self) -> Timetable:
        """Its instants."""
        return Cron(self.cron, self.tz) if self.cron else Interval(self.every, self.offset)

    @property
    def q_name(self) -> str:
        """The queue of its schedule message."""
        return schedule_q_name(self.app, self.function)

    def due(self, at: float, now: float) -> Due:
        """Return what to do `now` that the instant `at` has come. One that was released early has come."""
        timetable = self.timetable()
        missed = _missed(timetable, at, now)
        if not missed:
            return Due((DueRun(at),), timetable.after(at), 0)
        if self.missed == "one":
            latest = missed[-1]
            while (following := timetable.after(latest)) <= now:
                latest = following
            return Due((DueRun(latest, len(missed)),), timetable.after(latest), len(missed))
        runs = tuple(DueRun(each, 1, made_up=True) for each in missed) if self.missed == "all" else ()
        return Due(runs, timetable.after(missed[-1]), len(missed))

    def message(self, at: float) -> str:
        """The data of the delayed schedule message."""
        return json.dumps({**self._fields(), "at": at})

    def run_message(self, run: DueRun) -> str:
        """The data of a run message."""
        return json.dumps({"app": self.app, "function": self.function, "tz": self.tz, **_run_fields(run)})

    def words(self) -> str:
        """Return the schedule in words, for people."""
        if self.cron:
            return f"cron {self.cron} {self.tz}"
        return f"every {in_units(self.every)}" + (f" offset {in_units(self.offset)}" if self.offset else "")

    def _fields(self) -> dict[str, Any]:
        instants = {"cron": self.cron, "tz": self.tz} if self.cron else {"every": self.every, "offset": self.offset}
        return {"app": self.app, "function": self.function, **instants, "missed": self.missed, "overlap": self.overlap}


def _run_fields(run: DueRun) -> dict[str, Any]:
    return {"scheduled_at": run.scheduled_at, "missed": run.missed}


def _missed(timetable: Timetable, at: float, now: float) -> list[float]:
    """The instants from `at` on that were missed, of many the last."""
    found: list[float] = []
    instant = timetable.before(now - LATE_MAX)
    while instant > at and len(found) < RUNS_MAX:
        found.append(instant)
        instant = timetable.before(instant)
    if now - at > LATE_MAX and len(found) < RUNS_MAX:
        found.append(at)  # an instant of the timetable, unless the rules of its zone have changed
    found.reverse()
    return found


def read_schedule(data: bytes) -> tuple[Schedule, float]:
    """Unpack a schedule message: the schedule and the instant it waits for. Raises ValueError for any other message."""
    fields = _object(data, "schedule message")
    try:
        at = float(fields.pop("at"))
        return Schedule(**{name: value for name, value in fields.items() if name in Schedule.__slots__}), at
    except (KeyError, TypeError) as error:
        raise ValueError(f"no schedule message: {error}") from error


def read_tick(data: bytes) -> Tick:
    """Unpack the tick in a run message. Raises ValueError for any other message."""
    fields = _object(data, "run message")
    try:
        zone = ZoneInfo(fields.get("tz", "UTC"))
        scheduled_at = datetime.fromtimestamp(float(fields["scheduled_at"]), UTC)
        return Tick(scheduled_at.astimezone(zone), int(fields["missed"]))
    except (KeyError, TypeError, OverflowError, OSError) as error:
        raise ValueError(f"no run message: {error!r}") from error


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise ValueError(f"no {what}: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"no {what}: {data[:80]!r}")
    return fields


def schedule_q_name(app: str, function: str) -> str:
    """The name of the queue of a schedule: PERIODIC.<APP>.<FUNCTION> in capitals.

    What no name of a queue may have becomes `_`. A name that was changed so, or is too long to have `.RUN` behind it,
    ends in digits of a hash of what was to be named: so no two functions come to share a queue.
    """
    full_name = f"{PREFIX}{app}.{function}"
    name = _NOT_OF_NAMES.sub("_", full_name.upper())
    if name == full_name.upper() and len(name) <= _NAME_MAX:
        return name
    digits = sha256(full_name.encode()).hexdigest()[:_DIGITS].upper()
    return f"{name[: _NAME_MAX - _DIGITS - 1].rstrip('._')}.{digits}"


def run_q_name(q_name: str) -> str:
    """The name of the queue of its run messages."""
    return q_name + RUN_SUFFIX


def in_units(length: float) -> str:
    """A length of time as `seconds` reads it."""
    for unit, size in (("w", 604800), ("d", 86400), ("h", 3600), ("m", 60)):
        if length and length % size == 0:
            return f"{length // size:.0f}{unit}"
    return f"{length:.6f}".rstrip("0").rstrip(".") + "s"
