"""The log records of handlers (handlers rule 13.2)."""

from __future__ import annotations

import logging

import pytest

from broker.testing import VirtualClock
from triggers import UnreadableError
from triggers.serving.outcomes import Ended, OutcomeLog, brief

MSG_ID = bytes(23) + b"\x2a"


def ended(outcome: str, error: BaseException | None = None, *, handler: str = "shop:ship", attempt: int = 1) -> Ended:
    return Ended(outcome, "ORDERS", handler, MSG_ID, attempt, 6, 0.25, 0.125, 0.0, error)


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def log(clock: VirtualClock) -> OutcomeLog:
    return OutcomeLog(clock)


@pytest.mark.parametrize(
    ("outcome", "level"),
    [
        ("done", "DEBUG"), ("later", "DEBUG"), ("returned", "INFO"), ("expired", "INFO"), ("retry", "WARNING"),
        ("unknown", "WARNING"), ("dead", "ERROR"), ("held", "ERROR"),
    ],
)  # fmt: skip
def test_each_outcome_has_a_level(log: OutcomeLog, caplog: pytest.LogCaptureFixture, outcome: str, level: str) -> None:
    caplog.set_level("DEBUG")
    log.write(ended(outcome))
    assert [record.levelname for record in caplog.records] == [level]


def test_a_record_has_its_fields_in_the_text_and_beside_it(log: OutcomeLog, caplog: pytest.LogCaptureFixture) -> None:
    log.write(ended("retry", raised("the van is out\nsecond line"))._replace(next_at=1767225600.5))
    (record,) = caplog.records
    assert record.getMessage() == (
        f"handled outcome=retry queue=ORDERS handler=shop:ship msg_id={MSG_ID.hex()} attempt=1 limit=6 wait_s=0.25 "
        "run_s=0.125 next_at=1767225600.5 error=ValueError: the van is out"
    )
    assert record.__dict__["queue"] == "ORDERS"
    assert record.__dict__["attempt"] == 1
    assert record.exc_info is None, "a retry is one line"


def test_a_dead_letter_is_shown_with_its_traceback(log: OutcomeLog, caplog: pytest.LogCaptureFixture) -> None:
    error = raised("no such item")
    log.write(ended("dead", error))
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_body_that_is_not_what_the_annotation_says_is_one_line(
    log: OutcomeLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.write(ended("dead", UnreadableError("count: 'x' is no int")))
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.getMessage().endswith(" error=UnreadableError: count: 'x' is no int")


async def test_h13_2_of_equal_failures_few_are_shown_in_full_and_all_are_counted(
    log: OutcomeLog, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(80):
        for _ in range(125):
            log.write(ended("dead", raised("the same")))
        await clock.advance(0.125)
    log.write(ended("dead", raised("the same")))
    assert len(caplog.records) == 10_001
    full = [record for record in caplog.records if record.exc_info is not None]
    assert len(full) == 2
    assert full[1].__dict__["unshown"] + len(full) == 10_001


def test_other_exceptions_and_other_handlers_are_shown(log: OutcomeLog, caplog: pytest.LogCaptureFixture) -> None:
    log.write(ended("dead", raised("one")))
    log.write(ended("dead", raised("one"), handler="shop:bill"))
    log.write(ended("dead", KeyError("another type")))
    assert [record.exc_info is not None for record in caplog.records] == [True, True, True]


def test_it_remembers_a_thousand_kinds_at_most(log: OutcomeLog) -> None:
    for number in range(1100):
        log.write(ended("dead", raised("x"), handler=f"shop:{number}"))
    assert len(log._shown) == 1000
    assert ("shop:1099", ValueError) in {kind[:2] for kind in log._shown}


def test_what_is_not_logged_is_not_made(log: OutcomeLog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    class Unprintable(Exception):
        def __str__(self) -> str:
            raise AssertionError

    log.write(ended("done", Unprintable()))
    assert caplog.records == []


def test_an_exception_in_one_line() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert brief(ValueError("a\nb")) == "ValueError: a"
    assert brief(ValueError()) == "ValueError"
    assert brief(ValueError("\n")) == "ValueError"
    assert brief(Broken()) == "Broken: (its text cannot be made)"
