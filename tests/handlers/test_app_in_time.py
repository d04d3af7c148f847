"""`app.test()` with time that passes: retries, delays, periodic work (handlers rule 11.1)."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from triggers import App, Retry, Tick

clinic = App("mq://127.0.0.1:1", name="clinic")

SEEN: list[str] = []


@clinic.handler("CALLS", retry=Retry(3, backoff=(60, 600)))
async def call(who: str) -> None:
    SEEN.append(who)
    if who == "nobody":
        raise LookupError(who)


@clinic.every("1h")
async def round_(tick: Tick) -> None:
    SEEN.append(f"{tick.scheduled_at:%d %H:%M}")


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


async def test_h11_2_idle_goes_through_all_attempts_in_no_time() -> None:
    async with clinic.test() as t:
        await t.put("CALLS", "nobody")
        begun = time.perf_counter()
        with t.failures() as seen:
            await t.idle(delayed=True)
        took = time.perf_counter() - begun
        assert len(seen) == 4
        assert SEEN.count("nobody") == 4
        assert 60 + 60 <= t.clock.monotonic() <= 60 + 120 + 240
        assert await t.messages("CALLS.DEAD") == ["nobody"]
        assert took < 30, "some hundredths of a second where nothing else runs, not minutes"


async def test_h11_6_a_day_has_its_hourly_runs_in_order_with_delayed_messages() -> None:
    async with clinic.test() as t:
        await t.put("CALLS", "at noon", delay=12 * 3600 + 60)
        await t.advance("1d")
    runs = [each for each in SEEN if each != "at noon"]
    assert len(runs) == 24
    assert runs == sorted(runs, key=lambda each: datetime.strptime(each, "%d %H:%M"))
    assert SEEN.index("at noon") == 12


@pytest.mark.parametrize("kill", [False, True])
async def test_h11_7_a_delay_outlives_a_restart_in_the_middle_of_it(kill: bool) -> None:
    async with clinic.test() as t:
        await t.put("CALLS", "ann", delay=600)
        await t.advance(300)
        await t.restart(kill=kill)
        assert "ann" not in SEEN
        await t.advance(299)
        assert "ann" not in SEEN
        await t.advance(2)
        assert "ann" in SEEN


async def test_idle_does_not_wait_for_periodic_work() -> None:
    async with clinic.test() as t:
        await t.put("CALLS", "ann", delay=60)
        await t.idle(delayed=True)
        assert SEEN == ["ann"]
        assert t.clock.monotonic() < 3600


async def test_idle_ends_where_something_is_tried_again_for_ever() -> None:
    app = App("mq://127.0.0.1:1", name="ever")

    @app.handler("CALLS", retry=Retry(None, backoff=86400.0))
    async def fail(who: str) -> None:
        raise LookupError(who)

    async with app.test() as t:
        await t.put("CALLS", "nobody")
        with t.failures(), pytest.raises(RuntimeError, match="some are tried again for ever"):
            await t.idle(delayed=True)
