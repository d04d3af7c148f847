"""The timer in the event loop says how long nobody was served."""

from __future__ import annotations

import asyncio

import pytest

from broker.benchmarks.workloads import loop

MILLISECOND = 1_000_000


async def test_the_longest_hold_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(loop, "now", lambda: clock[0])
    watch = loop.HoldTimer()
    for moment in (31, 39, 40):  # The timer was due at 1, then at 32, then at 40.
        clock[0] = moment * MILLISECOND
        await _timers()
    assert watch.longest() == 30.0
    assert watch.longest() == 0.0
    clock[0] = 45 * MILLISECOND
    await _timers()
    assert watch.longest() == 4.0
    watch.close()
    clock[0] = 90 * MILLISECOND
    await _timers()
    assert watch.longest() == 0.0


async def _timers() -> None:
    """Wait until a timer that is due within a millisecond has come, once."""
    come = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.0011, come.set_result, None)
    await come
