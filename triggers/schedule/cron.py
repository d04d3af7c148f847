"""Cron expressions: at which instants a crontab's five fields come, in a time zone (handlers rule 5.4).

1. The fields are minute, hour, day of month, month and day of week, as crontab(5) has them: `*`, numbers, names of
   months and days, ranges, lists, steps behind a range or `*`; or one of `@yearly`, `@monthly`, `@weekly`, `@daily`,
   `@hourly` and their other names. 0 and 7 are Sunday. Where both the day of month and the day of week are given,
   without a `*`, either of them makes a day; else it takes both.
2. Where neither minute nor hour has a `*` or a step, they name times of the wall clock, each of which comes once a day:
   one that the clock leaves out at the first instant after the gap, one that it shows twice the first time.
3. Else they follow elapsed time: all instants come at which the clock shows what they say. So what comes hourly comes
   in both passes of an hour that the clock repeats.

Pure: it is told the time, and reads the rules of a zone from `zoneinfo` alone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SEARCH_DAYS: Final = 41 * 366  # a 29 February of one day of the week may take 40 years
_DAY: Final = timedelta(days=1)
_PART: Final = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?P<step>/\d+)?", re.ASCII)


class _Field(NamedTuple):
    """One of the five fields: what it is called, and which numbers and names it takes."""

    name: str
    least: int
    most: int
    names: Mapping[str, int]


_FIELDS: Final = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_DAY_NAMES)}),
)


class Cron:
    """The instants of a cron expression in a time zone, in seconds since 1970.

    `expression` has five fields or is a macro such as `@daily`; `tz` names a zone of the IANA database. Raises
    ValueError, which says what is wrong with which field, also for an expression that never comes (30 February) and for
    a zone that is not known; TypeError for what is no text.
    """

    def __init__(self, expression: str, tz: str = "UTC") -> None:
        if not isinstance(expression, str):
            raise TypeError(f'a cron expression is text such as "0 3 * * *", not {expression!r}')
        self.expression = " ".join(expression.split())
        self.tz = tz
        self._zone = _zone(tz)
        texts = _texts(self.expression)
        numbers = [_numbers(self.expression, field, text) for field, text in zip(_FIELDS, texts, strict=True)]
        self._times = [(hour, minute) for hour in sorted(numbers[1]) for minute in sorted(numbers[0])]
        self._follows_elapsed_time = any(sign in text for text in texts[:2] for sign in "*/")
        self._month_days, self._months = numbers[2], numbers[3]
        self._weekdays = {day % 7 for day in numbers[4]}
        self._either = not any("*" in text for text in (texts[2], texts[4]))
        if not self._either and not any(min(numbers[2]) <= _LONGEST_MONTHS[month - 1] for month in self._months):
            raise ValueError(f"{self.expression!r} never comes: none of its months has a day {min(numbers[2])}")
        self._instants = lru_cache(maxsize=8)(self._instants_of)

    def after(self, instant: float) -> float:
        """The first instant after this one."""
        day = self._day(instant) - _DAY
        for _ in range(_SEARCH_DAYS):
            for each in self._around(day):
                if each > instant:
                    return float(each)
            day += _DAY
        raise AssertionError(f"{self} has nothing after {instant}")

    def before(self, instant: float) -> float:
        """The last instant before this one."""
        day = self._day(instant)
        for _ in range(_SEARCH_DAYS):
            for each in reversed(self._around(day)):
                if each < instant:
                    return float(each)
            day -= _DAY
        raise AssertionError(f"{self} has nothing before {instant}")

    def _day(self, instant: float) -> date:
        """The day that the zone's calendar shows."""
        return datetime.fromtimestamp(instant, self._zone).date()

    def _around(self, day: date) -> list[int]:
        """The instants of a day and of the next, in order: where a clock is set back over midnight, they overlap."""
        return sorted({*self._instants(day), *self._instants(day + _DAY)})

    def _instants_of(self, day: date) -> list[int]:
        if not self._comes_on(day):
            return []
        found = set[int]()
        for hour, minute in self._times:
            local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self._zone)
            found.update(_shown(local) if self._follows_elapsed_time else [_once(local)])
        return sorted(found)

    def _comes_on(self, day: date) -> bool:
        in_month, in_week = day.day in self._month_days, day.isoweekday() % 7 in self._weekdays
        return day.month in self._months and ((in_month or in_week) if self._either else (in_month and in_week))

    def __repr__(self) -> str:
        return f"<Cron {self.expression!r} {self.tz}>"


def _zone(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (KeyError, OSError, ValueError, TypeError) as error:  # no such zone; a folder; no name at all
        raise ValueError(
            f"tz={tz!r} is no time zone that this system knows: give an IANA name such as Europe/Berlin, and "
            "where none is known, install the package tzdata"
        ) from error


def _texts(expression: str) -> list[str]:
    """The five fields of an expression."""
    if expression.startswith("@"):
        macro = MACROS.get(expression.lower())
        if macro is None:
            raise ValueError(f"{expression!r} is none of {', '.join(MACROS)}")
        return macro.split()
    texts = expression.lower().split()
    if len(texts) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        raise ValueError(f"{expression!r} has {len(texts)} fields: a cron expression has five, {names}")
    return texts


def _numbers(expression: str, field: _Field, text: str) -> frozenset[int]:
    """The numbers that a field stands for."""
    try:
        return frozenset(number for part in text.split(",") for number in _part(field, part))
    except ValueError as error:
        raise ValueError(f"{expression!r}: {field.name} {error}") from None


def _part(field: _Field, part: str) -> Iterable[int]:
    """The numbers of one element of a list."""
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is no number, name, range or step")
    step = int(found["step"][1:]) if found["step"] else 1
    if step < 1:
        raise ValueError(f"{part!r} has a step of 0")
    if found["first"] is None:
        return range(field.least, field.most + 1, step)
    first = last = _number(field, found["first"])
    if found["last"]:
        last = _number(field, found["last"])
        if found["last"] == "sun":
            last = 7
    elif found["step"]:
        raise ValueError(f"{part!r} has a step and no range: write {first}-{field.most}{found['step']}")
    if last < first:
        raise ValueError(f"{part!r} runs backwards: write {first}-{field.most},{field.least}-{last}")
    return range(first, last + 1, step)


def _number(field: _Field, text: str) -> int:
    number = field.names.get(text)
    if number is None:
        if not text.isdecimal():
            names = f" or {', '.join(field.names)}" if field.names else ""
            raise ValueError(f"{text!r} is none of {field.least} to {field.most}{names}")
        number = int(text)
    if not field.least <= number <= field.most:
        raise ValueError(f"{number} is not from {field.least} to {field.most}")
    return number


def _shown(local: datetime) -> Iterator[int]:
    """Yield the instants at which the clock shows a time: two where it is set back, none where it leaves the time
    out.
    """
    for fold in (0, 1):
        instant = local.replace(fold=fold).astimezone(UTC)
        if _clock(instant, local) == local.replace(tzinfo=None):
            yield int(instant.timestamp())


def _once(local: datetime) -> int:
    """The first instant at which the clock shows a time; where it leaves that out, the first one after the gap."""
    for instant in _shown(local):
        return instant
    # `fold` says which offset to take in a gap: that from before it leads behind its end, the other before its begin.
    before = int(local.replace(fold=1).astimezone(UTC).timestamp())
    behind = int(local.replace(fold=0).astimezone(UTC).timestamp())
    offset = datetime.fromtimestamp(before, local.tzinfo).utcoffset()
    while behind - before > 1:
        middle = (before + behind) // 2
        if datetime.fromtimestamp(middle, local.tzinfo).utcoffset() == offset:
            before = middle
        else:
            behind = middle
    return behind


def _clock(instant: datetime, local: datetime) -> datetime:
    """Return the time that the clock of a place shows at an instant."""
    return instant.astimezone(local.tzinfo).replace(tzinfo=None)
