"""When cron expressions come: tables, and all instants of some days against a walk over each of their minutes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.schedule.cron import Cron


def instants(cron: Cron, begin: datetime, end: datetime) -> list[float]:
    """All instants from the one to before the other."""
    found = []
    instant = cron.after(begin.timestamp() - 1)
    while instant < end.timestamp():
        found.append(instant)
        instant = cron.after(instant)
    return found


def shown(expression: str, tz: str, begin: str, end: str) -> list[str]:
    """Return what the clock of the zone shows at each instant from the beginning of a day to that of another."""
    zone = ZoneInfo(tz)
    days = [datetime.fromisoformat(day).replace(tzinfo=zone) for day in (begin, end)]
    return [f"{datetime.fromtimestamp(each, zone):%m-%d %H:%M %z}" for each in instants(Cron(expression, tz), *days)]


@pytest.mark.parametrize(
    ("expression", "begin", "end", "expected"),
    [
        ("0 3 * * *", "2026-05-01", "2026-05-03", ["05-01 03:00", "05-02 03:00"]),
        ("@daily", "2026-05-01", "2026-05-03", ["05-01 00:00", "05-02 00:00"]),
        ("@MIDNIGHT", "2026-05-01", "2026-05-02", ["05-01 00:00"]),
        ("@weekly", "2026-05-01", "2026-05-12", ["05-03 00:00", "05-10 00:00"]),
        ("@monthly", "2026-05-01", "2026-07-01", ["05-01 00:00", "06-01 00:00"]),
        ("@yearly", "2026-05-01", "2028-01-01", ["01-01 00:00"]),
        ("@annually", "2026-05-01", "2028-01-01", ["01-01 00:00"]),
        ("30 6,18 1-3 may *", "2026-04-30", "2026-05-03", [
            "05-01 06:30", "05-01 18:30", "05-02 06:30", "05-02 18:30",
        ]),
        ("*/20 5 1 5 *", "2026-05-01", "2026-05-02", ["05-01 05:00", "05-01 05:20", "05-01 05:40"]),
        ("5-50/20 5 1 5 *", "2026-05-01", "2026-05-02", ["05-01 05:05", "05-01 05:25", "05-01 05:45"]),
        ("0 0 * * 7", "2026-05-01", "2026-05-05", ["05-03 00:00"]),
        ("0 0 * * 0", "2026-05-01", "2026-05-05", ["05-03 00:00"]),
        ("0 0 * * fri-sun", "2026-05-01", "2026-05-08", ["05-01 00:00", "05-02 00:00", "05-03 00:00"]),
        ("0 0 * * Mon-Fri/2", "2026-05-04", "2026-05-11", ["05-04 00:00", "05-06 00:00", "05-08 00:00"]),
        # Both days given: either. One of them with a `*`: both.
        ("0 0 13 * fri", "2026-02-01", "2026-02-21", ["02-06 00:00", "02-13 00:00", "02-20 00:00"]),
        ("0 0 */2 * sun", "2026-05-01", "2026-05-31", ["05-03 00:00", "05-17 00:00"]),
        ("0 0 29 2 *", "2026-01-01", "2032-03-01", ["02-29 00:00", "02-29 00:00"]),
        ("0 0 29 2 *", "2097-01-01", "2104-03-01", ["02-29 00:00"]),
        ("0 0 29 2 */7", "2026-01-01", "2033-01-01", ["02-29 00:00"]),
        ("0 0 31 2,4,5 *", "2026-01-01", "2026-12-31", ["05-31 00:00"]),
        ("  0   3 * *\t* ", "2026-05-01", "2026-05-02", ["05-01 03:00"]),
    ],
)  # fmt: skip
def test_an_expression_comes(expression: str, begin: str, end: str, expected: list[str]) -> None:
    assert shown(expression, "UTC", begin, end) == [f"{each} +0000" for each in expected]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("* * 30 2 *", "never comes: none of its months has a day 30"),
        ("0 0 31 2,4,6,9,11 *", "never comes: none of its months has a day 31"),
        ("* * * *", "has 4 fields"),
        ("", "has 0 fields"),
        ("0 0 3 * * *", "has 6 fields"),
        ("60 * * * *", "minute 60 is not from 0 to 59"),
        ("* 24 * * *", "hour 24 is not from 0 to 23"),
        ("* * 0 * *", "day of month 0 is not from 1 to 31"),
        ("* * * 13 *", "month 13 is not from 1 to 12"),
        ("* * * * 8", "day of week 8 is not from 0 to 7"),
        ("* * * may-jan *", "month 'may-jan' runs backwards: write 5-12,1-1"),
        ("* * * * monday", "day of week 'monday' is none of 0 to 7 or sun"),
        ("jan * * * *", "minute 'jan' is none of 0 to 59"),
        ("*/0 * * * *", "minute '*/0' has a step of 0"),
        ("5/10 * * * *", "write 5-59/10"),
        ("1,,2 * * * *", "minute '' is no number"),
        ("1- * * * *", "minute '1-' is no number"),
        ("-1 * * * *", "minute '-1' is no number"),
        ("?٣ * * * *", "is no number"),
        ("@reboot", "is none of @yearly, "),
    ],
)
def test_h5_10_what_never_comes_and_what_is_no_expression_are_refused(expression: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        Cron(expression)


@pytest.mark.parametrize("tz", ["", "Mars/Olympus_Mons", "../../etc/passwd", "Europe", "europe/berlin\0"])
def test_a_zone_that_is_not_known_is_refused(tz: str) -> None:
    with pytest.raises(ValueError, match="is no time zone that this system knows"):
        Cron("@daily", tz)


def test_an_expression_is_text() -> None:
    with pytest.raises(TypeError, match="a cron expression is text"):
        Cron(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "day", "expected"),
    [
        # Left out from 02:00 to 03:00; shown twice from 02:00 to 03:00.
        ("30 2 * * *", "2027-03-28", ["03:00 +0200"]),
        ("30 2 * * *", "2027-10-31", ["02:30 +0200"]),
        ("0,15,30 2,3 * * *", "2027-03-28", ["03:00 +0200", "03:15 +0200", "03:30 +0200"]),
        ("59 1-2 * * *", "2027-10-31", ["01:59 +0200", "02:59 +0200"]),
        ("*/30 2 * * *", "2027-03-28", []),
        ("*/30 2 * * *", "2027-10-31", ["02:00 +0200", "02:30 +0200", "02:00 +0100", "02:30 +0100"]),
        (
            "30 */2 * * *",
            "2027-03-28",
            [f"{h:02}:30 {'+0100' if h < 2 else '+0200'}" for h in range(0, 24, 2) if h != 2],
        ),
    ],
)
def test_h5_6_a_time_left_out_comes_behind_the_gap_and_one_shown_twice_once(
    expression: str, day: str, expected: list[str]
) -> None:
    following = str(date.fromisoformat(day) + timedelta(days=1))
    assert shown(expression, "Europe/Berlin", day, following) == [f"{day[5:]} {each}" for each in expected]


@pytest.mark.parametrize(("day", "runs"), [("2027-03-28", 23), ("2027-10-31", 25), ("2027-06-01", 24)])
def test_h5_6_what_comes_hourly_follows_elapsed_time(day: str, runs: int) -> None:
    following = str(date.fromisoformat(day) + timedelta(days=1))
    zone = ZoneInfo("Europe/Berlin")
    days = [datetime.fromisoformat(each).replace(tzinfo=zone) for each in (day, following)]
    found = instants(Cron("0 * * * *", "Europe/Berlin"), *days)
    assert len(found) == runs
    assert {later - earlier for earlier, later in pairwise(found)} == {3600.0}


def test_a_clock_that_is_set_back_over_midnight_shows_the_day_before_once_more() -> None:
    """At a minute past midnight, by an hour, as in Newfoundland until 2011."""
    zone = ZoneInfo("America/St_Johns")
    cron = Cron("* * * * *", "America/St_Johns")
    midnight = datetime(2010, 11, 7, tzinfo=zone).timestamp()
    following = cron.after(midnight)
    assert (following, datetime.fromtimestamp(following, zone).day) == (midnight + 60, 6)
    assert cron.before(following) == midnight


class Change(NamedTuple):
    """Days in which the clock of a zone changes."""

    tz: str
    first: str


CHANGES = [
    Change("UTC", "2026-02-27"),
    Change("Europe/Berlin", "2027-03-27"),
    Change("Europe/Berlin", "2027-10-30"),
    Change("America/New_York", "2026-10-31"),
    Change("Australia/Lord_Howe", "2026-04-04"),  # half an hour
    Change("Australia/Lord_Howe", "2026-10-03"),
    Change("America/Havana", "2026-03-07"),  # at midnight
    Change("America/Havana", "2026-10-31"),
    Change("America/St_Johns", "2010-11-06"),  # at a minute past midnight, back into the day before
    Change("America/St_Johns", "2010-03-13"),
    Change("Pacific/Apia", "2011-12-29"),  # 30 December is left out
    Change("Africa/Casablanca", "2026-02-14"),
]

DAYS = 4


def walked(change: Change) -> list[tuple[int, datetime]]:
    """Each minute of some days around a change, with what the clock shows."""
    zone = ZoneInfo(change.tz)
    begin = int(datetime.fromisoformat(change.first).replace(tzinfo=zone).timestamp()) - 86400
    minutes = range(begin - begin % 60, begin + (DAYS + 2) * 86400, 60)
    return [(minute, datetime.fromtimestamp(minute, zone).replace(tzinfo=None)) for minute in minutes]


WALKS = {change: walked(change) for change in CHANGES}


def expected(change: Change, times: set[tuple[int, int]], days: set[int], *, elapsed: bool) -> set[int]:
    """The instants of these hours and minutes on these days of the week, found by looking at each minute."""
    walk = WALKS[change]
    if elapsed:
        return {each for each, local in walk if (local.hour, local.minute) in times and local.isoweekday() % 7 in days}
    found = set[int]()
    day = walk[0][1].date()
    while day <= walk[-1][1].date():
        for hour, minute in times if day.isoweekday() % 7 in days else ():
            wanted = datetime(day.year, day.month, day.day, hour, minute)
            at = [each for each, local in walk if local == wanted]
            over = [each for each, local in walk if local > wanted]
            found.update(at[:1] or over[:1])
        day += timedelta(days=1)
    return found


def listed(numbers: set[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


@given(
    change=st.sampled_from(CHANGES),
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=4),
    days=st.sets(st.integers(0, 6), min_size=1),
    star=st.sampled_from(["", "minute", "hour"]),
)
def test_all_instants_are_those_that_a_walk_over_the_minutes_finds(
    change: Change, minutes: set[int], hours: set[int], days: set[int], star: str
) -> None:
    if star == "minute":
        minutes = set(range(0, 60, 7))
    if star == "hour":
        hours = set(range(24))
    words = ["*/7" if star == "minute" else listed(minutes), "*" if star == "hour" else listed(hours)]
    cron = Cron(f"{' '.join(words)} * * {listed(days)}", change.tz)
    begin, end = (datetime.fromtimestamp(WALKS[change][each][0], UTC) for each in (1440, -1440))
    times = {(hour, minute) for hour in hours for minute in minutes}
    wanted = sorted(
        each
        for each in expected(change, times, days, elapsed=bool(star))
        if begin.timestamp() <= each < end.timestamp()
    )
    found = instants(cron, begin, end)
    assert found == wanted
    assert [cron.before(each + 0.5) for each in found] == found
    assert [cron.before(each) for each in found[1:]] == found[:-1]
