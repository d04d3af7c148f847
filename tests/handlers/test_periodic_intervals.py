"""Lengths of time, and what comes again and again after one of them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.schedule.interval import Interval, seconds


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (5, 5.0),
        (0.25, 0.25),
        (-3, -3.0),
        (timedelta(minutes=2), 120.0),
        ("5m", 300.0),
        ("1h 30m", 5400.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("2 d", 172800.0),
        ("1w", 604800.0),
    ],
)
def test_a_length_of_time_is_so_many_seconds(length: Any, expected: float) -> None:
    assert seconds(length) == expected


@pytest.mark.parametrize(
    "length", ["", "m", "5", "5 minutes", "5m!", "-5m", "1h,30m", "٣s", float("nan"), float("inf")]
)
def test_what_is_no_length_of_time_is_refused(length: Any) -> None:
    with pytest.raises(ValueError, match="is no length of time"):
        seconds(length)


@pytest.mark.parametrize("length", [None, True, b"5m", [5]])
def test_a_length_of_time_is_a_number_a_timedelta_or_text(length: Any) -> None:
    with pytest.raises(TypeError, match="a length of time is a number of seconds, a timedelta or text"):
        seconds(length)


@pytest.mark.parametrize("every", [0.999, 0, -5, "10ms", "11w 5000d"])
def test_an_interval_is_a_second_at_least_and_ten_years_at_most(every: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"every {every}: at least 1 second, and at most ten years")):
        Interval(every)


@pytest.mark.parametrize(
    ("every", "offset", "instant", "expected"),
    [
        ("5m", 0, 0.0, 300.0),
        ("5m", 0, 299.9, 300.0),
        ("5m", 0, 300.0, 600.0),
        ("5m", "30s", 300.0, 330.0),
        ("5m", "30s", 0.0, 30.0),
        ("5m", -30, 0.0, 270.0),
        ("5m", "11m", 0.0, 60.0),
        ("1d", "3h", 86400.0, 97200.0),
        (1.5, 0, 1.4, 1.5),
        (1.5, 0, 1.5, 3.0),
    ],
)
def test_the_next_instant_is_a_multiple_since_1970(every: Any, offset: Any, instant: float, expected: float) -> None:
    assert Interval(every, offset).after(instant) == expected


def test_h5_8_ten_thousand_runs_that_are_each_late_come_at_exact_multiples() -> None:
    interval = Interval("7m")
    instant = interval.after(1_790_000_000.25)
    first = instant
    for number in range(10_000):
        assert instant == first + number * 420
        assert instant % 420 == 0
        late = instant + 1.0
        assert interval.before(late) == instant
        instant = interval.after(instant)


@given(
    every=st.integers(1_000_000, 10**12),
    offset=st.integers(-(10**12), 10**12),
    instant=st.floats(0, 4e9).map(lambda each: round(each, 6)),
)
def test_instants_follow_one_another_exactly(every: int, offset: int, instant: float) -> None:
    interval = Interval(every / 1e6, offset / 1e6)
    after, before = interval.after(instant), interval.before(instant)
    assert before < instant < after
    assert round((after - before) * 1e6) in (every, 2 * every)
    assert (round(after * 1e6) - offset) % every == 0
    assert (round(before * 1e6) - offset) % every == 0
    assert interval.before(interval.after(before)) == before
