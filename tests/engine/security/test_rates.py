"""MAXCALLS and MAXBYTES of a user (security 8.3)."""

from __future__ import annotations

import heapq
from random import Random

import pytest

from broker.core.security.facts import User
from broker.engine.security.rates import UserRate, UserRates


def served(rate: UserRate, slices: list[int], seconds: float, late: float = 0.0, size: int = 0) -> list[float]:
    """The instants of calls of lines that send as much as they may, a slice of so many calls each, whose reading goes
    on late by up to so many seconds.
    """
    random = Random(1)
    lines = [(0.0, number) for number in range(len(slices))]
    calls = []
    while lines[0][0] < seconds:
        now, number = heapq.heappop(lines)
        calls += [now] * slices[number]
        wait = rate.take(slices[number], slices[number] * size, now)
        heapq.heappush(lines, (now + wait + random.uniform(0, late), number))
    return calls


@pytest.mark.parametrize("late", [0.0, 0.002], ids=["punctual", "late"])
@pytest.mark.parametrize("slices", [[1], [2, 1], [1] * 5, [3]], ids=str)
def test_x8_3_a_user_makes_so_many_calls_a_second(slices: list[int], late: float) -> None:
    rate = UserRate()
    rate.limit(100, 0)
    calls = served(rate, slices, 20.0, late)
    for second in range(1, 20):
        assert 95 <= sum(second <= each < second + 1 for each in calls) <= 105


def test_x8_3_the_first_second_has_no_more() -> None:
    rate = UserRate()
    rate.limit(100, 0)
    rate.take(1, 0, 0.0)
    assert 95 <= len(served(rate, [1], 1.0)) <= 105


def test_a_slice_with_more_calls_is_paid_off_before_the_next() -> None:
    rate = UserRate()
    rate.limit(100, 0)
    assert rate.take(500, 0, 10.0) == pytest.approx(4.95)
    assert rate.take(1, 0, 14.95) == pytest.approx(0.01)


def test_who_was_quiet_saves_nothing_up() -> None:
    rate = UserRate()
    rate.limit(100, 0)
    assert rate.take(10, 0, 1000.0) == pytest.approx(0.05)


def test_bytes_are_limited_as_calls_are_and_the_longer_wait_holds() -> None:
    rate = UserRate()
    rate.limit(0, 1000)
    assert rate.take(1000, 2000, 10.0) == pytest.approx(1.95)
    both = UserRate()
    both.limit(1, 1000)
    assert both.take(1, 2000, 10.0) == pytest.approx(1.95)
    assert both.take(10, 0, 11.95) == pytest.approx(9.95)


def test_lines_of_a_user_share_its_rate_and_each_has_its_turn() -> None:
    rate = UserRate()
    rate.limit(100, 0)
    instants = [rate.take(1, 0, 1.0) for _ in range(50)]
    later = [each for each in instants if each]
    assert later == sorted(set(later))
    assert instants[-1] == pytest.approx(0.45)


def test_the_limits_are_those_that_the_user_has_now() -> None:
    rates = UserRates()
    assert rates.of(User("bob")) is None
    rate = rates.of(User("bob", max_calls=1))
    assert rate is not None
    assert rate is rates.of(User("bob", max_calls=2))
    assert rate is not rates.of(User("alice", max_calls=2))
    assert rate.take(100, 0, 1.0) == pytest.approx(49.95)
    assert rates.of(User("bob")) is None
    assert rate.take(100, 0, 1.0) == 0.0
    rate = rates.of(User("bob", max_bytes=1))
    assert rate is not None
    rates.forget("bob")
    rates.forget("bob")
    assert rate.take(100, 1000, 1.0) == 0.0
