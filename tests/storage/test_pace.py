"""When a record is written on the event loop (log rule 4.6)."""

from __future__ import annotations

from broker.storage.log.pace import INLINE_BYTES_MAX, Pace

FAST, SLOW = 0.0001, 0.0021


def paced(*seconds: float) -> Pace:
    """A pace that has seen these writes, which all ended at the moment 0."""
    pace = Pace(adaptive=True)
    for each in seconds:
        pace.took(each, 0.0)
    return pace


def test_the_first_writes_go_to_the_thread() -> None:
    assert not paced().inline(1, 0.0)


def test_after_fast_ones_records_are_written_on_the_loop_unless_they_are_long() -> None:
    pace = paced(FAST)
    assert pace.inline(INLINE_BYTES_MAX, 0.0)
    assert not pace.inline(INLINE_BYTES_MAX + 1, 0.0)


def test_a_slow_write_means_the_thread_for_a_second_and_until_the_mean_is_low_again() -> None:
    """log case 47."""
    pace = paced(*[FAST] * 50, SLOW)
    assert not pace.inline(1, 0.9)
    assert pace.inline(1, 1.0)
    assert not paced(*[FAST] * 50, 0.1).inline(1, 60.0)


def test_a_disk_that_is_evenly_slower_goes_to_the_thread() -> None:
    assert not paced(*[FAST] * 50, *[0.0015] * 50).inline(1, 60.0)
    assert paced(*[0.0015] * 50, *[FAST] * 50).inline(1, 60.0)


def test_never_means_never() -> None:
    pace = Pace(adaptive=False)
    pace.took(0.0, 0.0)
    assert not pace.inline(1, 60.0)
