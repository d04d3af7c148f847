"""What schedules say, which runs are due when their instants have come, and how their queues are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.mqi.names import is_name
from triggers.schedule.interval import seconds
from triggers.schedule.periodic_schedule import (
    LATE_MAX,
    RUNS_MAX,
    Due,
    DueRun,
    Schedule,
    in_units,
    read_schedule,
    read_tick,
    run_q_name,
    schedule_q_name,
)
from triggers.schedule.tick import Tick

HOUR = 3600.0


def at(moment: str) -> float:
    """Seconds since 1970 of a moment in UTC."""
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()


def hourly(**given: Any) -> Schedule:
    return Schedule("shop", "report", every=HOUR, **given)


THREE, NINE = at("2026-05-01T03:00"), at("2026-05-01T09:00")
HOURS = [THREE + number * HOUR for number in range(6)]
"""The hours missed from 03:00 to before 09:00."""


@pytest.mark.parametrize("late", [0.0, 0.5, LATE_MAX])
@pytest.mark.parametrize("missed", ["one", "all", "none"])
def test_an_instant_that_is_at_most_a_minute_late_has_its_run(missed: Any, late: float) -> None:
    assert hourly(missed=missed).due(THREE, THREE + late) == Due((DueRun(THREE),), THREE + HOUR, 0)


def test_h5_3_one_run_makes_up_for_a_day_that_was_missed() -> None:
    daily = Schedule("shop", "report", cron="0 3 * * *")
    assert daily.due(THREE, NINE) == Due((DueRun(THREE, 1),), THREE + 86400, 1)


@pytest.mark.parametrize(
    ("missed", "now", "due"),
    [
        ("one", NINE - 30, Due((DueRun(HOURS[-1], 6),), NINE, 6)),
        ("one", NINE + 30, Due((DueRun(NINE, 6),), NINE + HOUR, 6)),
        ("all", NINE - 30, Due(tuple(DueRun(each, 1, made_up=True) for each in HOURS), NINE, 6)),
        ("all", NINE + 30, Due(tuple(DueRun(each, 1, made_up=True) for each in HOURS), NINE, 6)),
        ("none", NINE - 30, Due((), NINE, 6)),
        ("none", NINE + 30, Due((), NINE, 6)),
    ],
)
def test_h5_3_hours_that_were_missed_are_made_up_for_as_the_schedule_says(missed: Any, now: float, due: Due) -> None:
    assert hourly(missed=missed).due(THREE, now) == due


def test_what_is_released_early_is_run_once_and_its_successor_comes_as_ever() -> None:
    assert hourly().due(THREE, THREE - 5000) == Due((DueRun(THREE),), THREE + HOUR, 0)


@pytest.mark.parametrize("schedule", [{"every": 1.0}, {"cron": "* * * * *"}])
def test_of_very_many_missed_instants_the_last_thousand_are_made_up_for(schedule: Any) -> None:
    first = at("2026-05-01T00:00")
    now = first + 40 * 86400
    found = Schedule("shop", "report", missed="all", **schedule).due(first, now)
    assert len(found.runs) == found.missed == RUNS_MAX
    assert found.runs[-1].scheduled_at == found.next_at - (60 if "cron" in schedule else 1)
    assert now - LATE_MAX <= found.next_at <= now


def test_an_instant_that_the_timetable_has_no_more_is_run_all_the_same() -> None:
    """As when the rules of a time zone change while the schedule waits."""
    odd = THREE + 600
    assert hourly().due(odd, odd + 1) == Due((DueRun(odd),), THREE + HOUR, 0)
    assert hourly().due(odd, odd + 100) == Due((DueRun(odd, 1),), THREE + HOUR, 1)


@given(
    every=st.sampled_from([1, 7, 60, 420, 3600]),
    missed=st.sampled_from(["one", "all", "none"]),
    lates=st.lists(st.floats(-100, 5000), max_size=30),
)
def test_however_late_schedules_are_taken_every_instant_is_run_or_missed_once(
    every: int, missed: Any, lates: list[float]
) -> None:
    schedule = Schedule("shop", "report", every=every, missed=missed)
    instant = schedule.timetable().after(1.79e9)
    for late in lates:
        due = schedule.due(instant, instant + late)
        assert [run.scheduled_at for run in due.runs] == sorted({run.scheduled_at for run in due.runs})
        assert all(instant <= run.scheduled_at < due.next_at for run in due.runs)
        passed = round((due.next_at - instant) / every)
        if not due.missed:
            assert (len(due.runs), passed) == (1, 1)
        elif due.missed < RUNS_MAX:
            since = passed - due.missed
            assert 0 <= since <= (LATE_MAX // every + 1 if missed == "one" else 0)
            assert len(due.runs) == {"one": 1, "all": due.missed, "none": 0}[missed]
        instant = due.next_at


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule("shop", "report", every=300.0, offset=30.0, missed="all", overlap="queue"),
        Schedule("shop", "report", cron="0 3 * * *", tz="Europe/Berlin", missed="none", overlap="parallel"),
    ],
)
def test_a_schedule_message_says_all_of_its_schedule(schedule: Schedule) -> None:
    assert read_schedule(schedule.message(THREE).encode()) == (schedule, THREE)


def test_what_a_later_version_adds_to_a_schedule_message_is_passed_over() -> None:
    fields = {**json.loads(hourly().message(THREE)), "color": "red"}
    assert read_schedule(json.dumps(fields).encode()) == (hourly(), THREE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"at": 5}',
        b'{"at": "x", "app": "a", "function": "f", "every": 5}',
        b'{"at": 5, "app": "a", "function": "f"}',
        b'{"at": 5, "app": "a", "function": "f", "cron": "* * *"}',
        b'{"at": 5, "app": "a", "function": "f", "every": "5"}',
        b'{"at": 5, "app": "a", "function": "f", "every": 5, "missed": "two"}',
    ],
)
def test_what_is_no_schedule_message_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever is wrong with it
        read_schedule(data)


def test_a_run_message_tells_the_instant_in_the_zone_of_the_schedule() -> None:
    berlin = Schedule("shop", "report", cron="0 5 * * *", tz="Europe/Berlin")
    tick = read_tick(berlin.run_message(DueRun(THREE, 2)).encode())
    assert tick == Tick(datetime(2026, 5, 1, 5, 0, tzinfo=ZoneInfo("Europe/Berlin")), 2)
    assert tick.scheduled_at.utcoffset() == ZoneInfo("Europe/Berlin").utcoffset(datetime(2026, 5, 1, 5, 0))
    assert read_tick(hourly().run_message(DueRun(THREE)).encode()) == Tick(datetime(2026, 5, 1, 3, 0, tzinfo=UTC))


@pytest.mark.parametrize(
    "data", [b"", b"5", b"{}", b'{"scheduled_at": 1e300, "missed": 0}', b'{"scheduled_at": [], "missed": 0}']
)
def test_what_is_no_run_message_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="no run message"):
        read_tick(data)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"every": 5.0, "missed": "two"}, "missed='two' of report: one of 'one', 'all', 'none'"),
        ({"every": 5.0, "overlap": "no"}, "overlap='no' of report: one of 'skip', 'queue', 'parallel'"),
        ({"every": 0.5}, "at least 1 second"),
        ({"cron": "* * 30 2 *"}, "never comes"),
        ({"cron": "@daily", "tz": "Mars"}, "no time zone"),
    ],
)
def test_a_schedule_that_names_no_instants_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Schedule("shop", "report", **given)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Schedule("a", "f", every=300.0), "every 5m"),
        (Schedule("a", "f", every=5400.0, offset=1.5), "every 90m offset 1.5s"),
        (Schedule("a", "f", cron="@daily", tz="Europe/Berlin"), "cron @daily Europe/Berlin"),
    ],
)
def test_a_schedule_is_told_in_words(schedule: Schedule, words: str) -> None:
    assert schedule.words() == words


@given(st.integers(1, 10**13))
def test_lengths_of_time_are_told_as_they_are_read(microseconds: int) -> None:
    assert seconds(in_units(microseconds / 1e6)) == pytest.approx(microseconds / 1e6, abs=1e-6)


@pytest.mark.parametrize(
    ("app", "function", "name"),
    [
        ("shop", "report", "PERIODIC.SHOP.REPORT"),
        ("Shop.eu", "send_all", "PERIODIC.SHOP.EU.SEND_ALL"),
        ("shop", "f" * 30, f"PERIODIC.SHOP.{'F' * 30}"),
    ],
)
def test_the_queue_of_a_schedule_is_named_after_app_and_function(app: str, function: str, name: str) -> None:
    assert schedule_q_name(app, function) == name


@pytest.mark.parametrize(
    ("app", "function"), [("shop", "f" * 31), ("shop", "bericht_für"), ("my-shop", "report"), ("s" * 99, "f")]
)
def test_a_name_that_is_too_long_or_no_name_ends_in_digits_of_its_own(app: str, function: str) -> None:
    name = schedule_q_name(app, function)
    assert name.startswith("PERIODIC.")
    assert len(run_q_name(name)) <= 48
    assert {schedule_q_name(app, function + "x"), schedule_q_name(app + "x", function)}.isdisjoint({name})
    assert schedule_q_name(app, function) == name


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_whatever_is_named_has_a_name_of_a_queue(app: str, function: str) -> None:
    assert is_name(run_q_name(schedule_q_name(app, function)))
