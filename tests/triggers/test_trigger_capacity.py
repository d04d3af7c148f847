"""How many handlers may be started, in all and for one queue."""

from __future__ import annotations

import pytest

from triggers.serving.capacity import Capacity


@pytest.mark.parametrize(
    ("max_tasks", "max_handlers", "running",          "room_for_a"),
    [
        (1000,     100,           {},                 100),
        (1000,     100,           {"A": 99},          1),
        (1000,     100,           {"A": 100},         0),
        (10,       100,           {},                 9),   # one of ten is kept
        (10,       100,           {"A": 9},           0),
        (10,       100,           {"B": 9},           1),   # ... for a queue that has none
        (10,       100,           {"B": 9, "C": 1},   0),
        (10,       100,           {"A": 1, "B": 7},   1),
        (100,      100,           {"B": 95},          1),   # a queue that has none gets one of the kept
        (100,      100,           {"A": 1, "B": 95},  0),
        (5,        100,           {"A": 4},           1),   # a tenth of five is none
        (1,        1,             {},                 1),
        (1,        1,             {"B": 1},           0),
    ],
)  # fmt: skip
def test_room(max_tasks: int, max_handlers: int, running: dict[str, int], room_for_a: int) -> None:
    capacity = Capacity(max_tasks, max_handlers)
    for q_name, places in running.items():
        capacity.occupy(q_name, places)
    assert capacity.room("A") == room_for_a


def test_places_given_back_are_free_again() -> None:
    capacity = Capacity(10, 2)
    capacity.occupy("A", 2)
    capacity.release("A")
    assert (capacity.room("A"), capacity.by_queue, capacity.total) == (1, {"A": 1}, 1)
    capacity.release("A")
    assert (capacity.room("A"), capacity.by_queue, capacity.total) == (2, {}, 0)
