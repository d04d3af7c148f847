"""Failed logins are answered late (security 8.2)."""

from __future__ import annotations

import pytest

from broker.engine.security.delays import FAILURES_MAX, FailedLogins


@pytest.mark.parametrize(
    ("fail_delay", "delays"),
    [
        (1, [1, 2, 4, 8, 16, 30, 30]),
        (0, [0, 0, 0, 0, 0, 0, 0]),
        (7, [7, 14, 28, 30, 30, 30, 30]),
        (60, [60, 60, 60, 60, 60, 60, 60]),  # FAILDLAY itself is never shortened
    ],
)
def test_x8_2_each_failure_of_an_address_and_user_doubles_the_delay(fail_delay: int, delays: list[float]) -> None:
    logins = FailedLogins()
    assert [logins.failed("a", "bob", float(now), fail_delay) for now in range(7)] == delays


def test_x8_2_another_address_and_another_user_are_not_delayed() -> None:
    logins = FailedLogins()
    for now in range(100):
        logins.failed("192.0.2.1", "bob", float(now), 1)
    assert logins.failed("192.0.2.2", "bob", 100.0, 1) == 1
    assert logins.failed("192.0.2.1", "alice", 100.0, 1) == 1
    assert logins.failed("192.0.2.1", "bob", 100.0, 1) == 30


def test_a_failure_is_forgotten_after_ten_minutes() -> None:
    logins = FailedLogins()
    logins.failed("a", "bob", 0.0, 1)
    logins.failed("b", "bob", 0.0, 1)
    assert logins.failed("a", "bob", 599.0, 1) == 2
    assert logins.failed("b", "bob", 600.0, 1) == 1
    assert logins.failed("a", "bob", 1199.0, 1) == 1
    assert len(logins) == 2


def test_the_oldest_of_too_many_goes() -> None:
    logins = FailedLogins()
    for number in range(FAILURES_MAX):
        logins.failed(f"{number}", "bob", 0.0, 1)
    assert logins.failed("0", "bob", 1.0, 1) == 2
    logins.failed("another", "bob", 1.0, 1)
    assert len(logins) == FAILURES_MAX
    assert logins.failed("0", "bob", 1.0, 1) == 4
    assert logins.failed("1", "bob", 1.0, 1) == 1
