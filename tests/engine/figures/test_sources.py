"""The figures that parts of the engine count: calls, turns of the event loop, what the store tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from broker import QueueManager
from broker.engine.conversation import Conversation
from broker.engine.figures.call_counts import CALLS, FAST, CallCounts
from broker.engine.figures.loop_turns import EVERY_SECONDS, REMEMBERED, LoopTurns
from broker.mqi import MQRC, MQError
from broker.storage.store import StoreFailedError, StoreFullError
from broker.wire.verbs import BY_NAME
from tests.exposition import samples
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FakeLoop:
    """An event loop in the hand of a test: nothing is called before the test calls it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.soon: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> FakeLoop:
        self.timers.append((when, call))
        return self

    def call_soon(self, call: Callable[[], None]) -> FakeLoop:
        self.soon.append(call)
        return self

    def cancel(self) -> None:
        self.timers.clear()
        self.soon.clear()

    def turn(self, *, late: float = 0.0, took: float = 0.001) -> None:
        """The timer is due and comes late, and the loop takes so long to come round."""
        ((when, call),) = self.timers
        self.timers.clear()
        self.now = when + late
        call()
        self.now += took
        self.soon.pop()()


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def turns(loop: FakeLoop) -> LoopTurns:
    return LoopTurns(cast("Any", loop))


def test_no_turn_is_measured_before_the_first_scrape(loop: FakeLoop, turns: LoopTurns) -> None:
    assert not loop.timers
    turns.begin()
    turns.begin()
    assert [when for when, _ in loop.timers] == [loop.now + EVERY_SECONDS]


def test_a_turn_counts_and_the_longest_is_remembered(loop: FakeLoop, turns: LoopTurns) -> None:
    turns.begin()
    for took in (0.001, 0.3, 0.002):
        loop.turn(took=took)
    assert (turns.turns.count, round(turns.turns.sum, 3), round(turns.longest, 3)) == (3, 0.303, 0.3)


def test_a_timer_that_comes_late_tells_of_a_turn_that_held_the_loop(loop: FakeLoop, turns: LoopTurns) -> None:
    turns.begin()
    loop.turn(late=2.5)
    assert (turns.turns.count, round(turns.longest, 3)) == (1, 2.5)


def test_the_longest_turn_is_forgotten_after_a_minute_or_two(loop: FakeLoop, turns: LoopTurns) -> None:
    turns.begin()
    loop.turn(took=3)
    for _ in range(REMEMBERED):
        loop.turn()
    assert round(turns.longest) == 3
    for _ in range(REMEMBERED):
        loop.turn()
    assert round(turns.longest, 3) == 0.001


def test_at_the_end_nothing_is_measured(loop: FakeLoop, turns: LoopTurns) -> None:
    turns.begin()
    turns.end()
    assert not loop.timers


def test_each_call_of_a_port_has_a_count_and_the_fast_ones_count_themselves() -> None:
    assert BY_NAME.keys() == CALLS
    assert FAST < CALLS
    for name in CALLS:
        assert hasattr(getattr(Conversation, name), "__wrapped__") == (name not in FAST), name


def test_what_cannot_be_written_counts_as_a_full_disk_or_a_store_that_failed() -> None:
    counts = CallCounts()
    for error in (StoreFullError(""), StoreFullError(""), StoreFailedError("")):
        counts.not_written(error)
    assert counts.errors == {MQRC.STORAGE_MEDIUM_FULL: 2, MQRC.CONNECTION_BROKEN: 1}


async def test_a_command_counts_by_its_verb_in_full_and_a_call_by_its_name() -> None:
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        await connection.mqsc("DEF QLOCAL(Q)\nDISPLAY QLOCAL(Q)\ndis qmgr\nNONSENSE(Q)\n")
        with pytest.raises(MQError):
            await connection.put1("NOT.THERE", b"")
        found = samples(await connection.figures())
    assert {name: value for name, value in found.items() if name.startswith(("evermq_commands", "evermq_call"))} == {
        'evermq_calls_total{verb="figures"}': 1,
        'evermq_calls_total{verb="mqsc"}': 1,
        'evermq_calls_total{verb="put1"}': 1,
        'evermq_call_errors_total{reason="UNKNOWN_OBJECT_NAME"}': 1,
        'evermq_commands_total{verb="DEFINE"}': 1,
        'evermq_commands_total{verb="DISPLAY"}': 2,
        'evermq_commands_total{verb="OTHER"}': 1,
    }


async def test_the_store_tells_of_its_disk_and_a_queue_manager_in_memory_has_none(tmp_path: Path) -> None:
    async with QueueManager.open(name="QM1", store=log_store(tmp_path / "data")) as manager, manager.connect() as it:
        found = samples(await it.figures())
    assert 0 < found["evermq_disk_free_bytes"] <= found["evermq_disk_bytes"]
    assert found["evermq_database_bytes"] > 0
    assert 0 < found["evermq_log_file_fill_ratio"] < 1
    async with QueueManager.open(name="QM1") as manager, manager.connect() as it:
        assert "evermq_disk_free_bytes" not in samples(await it.figures())


async def test_the_queue_manager_tells_who_it_is() -> None:
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        (info,) = [name for name in samples(await connection.figures()) if name.startswith("evermq_info")]
    assert 'name="QM1"' in info
    assert 'group=""' in info
