"""How long a message waits before it is tried again (handlers rule 2.1)."""

from __future__ import annotations

import pytest

from broker.core.deliveries import backoff
from broker.mqi.delivery_fields import ServiceOptions

DOUBLED = ServiceOptions(backoff=(0.5, 600.0), jitter=False)
TABLE = ServiceOptions(backoff=(5.0, 7.0, 60.0), doubles=False, jitter=False)


@pytest.mark.parametrize(
    ("terms", "waits"),
    [
        (DOUBLED, {1: 0.5, 2: 1.0, 3: 2.0, 11: 512.0, 12: 600.0, 61: 600.0, 62: 600.0, 5000: 600.0}),
        (TABLE, {1: 5.0, 2: 7.0, 3: 60.0, 4: 60.0, 5000: 60.0}),
    ],
    ids=["doubled", "by the table"],
)
def test_the_wait_after_so_many_charged_attempts(terms: ServiceOptions, waits: dict[int, float]) -> None:
    assert {charged: backoff.wait_after(terms, charged, bytes(24)) for charged in waits} == waits


def test_the_jitter_is_a_half_to_one_of_the_wait_and_the_same_each_time() -> None:
    terms = DOUBLED._replace(backoff=(1.0, 1.0), jitter=True)
    found = [backoff.wait_after(terms, charged, bytes(24)) for charged in range(1, 200)]
    assert found == [backoff.wait_after(terms, charged, bytes(24)) for charged in range(1, 200)]
    assert 0.5 <= min(found) < 0.55 < 0.95 < max(found) <= 1.0


def test_what_was_refused_is_tried_again_after_a_second_then_two_and_a_minute_at_most() -> None:
    assert [backoff.refused(tries) for tries in (1, 2, 3, 6, 7, 8, 5000)] == [1.0, 2.0, 4.0, 32.0, 60.0, 60.0, 60.0]
