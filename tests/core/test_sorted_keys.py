"""SortedKeys against a sorted list."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.queues.shelf.sorted_keys import LOAD, SortedKeys

KEYS = st.integers(0, 60)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard"]), KEYS), max_size=80)


def filled(keys: list[int]) -> SortedKeys[int]:
    held: SortedKeys[int] = SortedKeys()
    for key in keys:
        held.add(key)
    return held


def compare(held: SortedKeys[int], model: list[int], probe: int) -> None:
    """Everything the set tells, told by a sorted list as well."""
    held.check_invariants()
    assert list(held) == model
    assert len(held) == len(model)
    assert held.first() == (model[0] if model else None)
    assert held.last() == (model[-1] if model else None)
    assert (probe in held) == (probe in model)
    assert list(held.after(probe)) == model[bisect_right(model, probe) :]
    assert held.count_below(probe) == bisect_left(model, probe)


@settings(derandomize=True, deadline=None)
@given(steps=STEPS, probe=KEYS)
def test_it_holds_what_a_sorted_list_holds(steps: list[tuple[str, int]], probe: int) -> None:
    held: SortedKeys[int] = SortedKeys()
    model: list[int] = []
    for step, key in steps:
        if step == "discard":
            held.discard(key)
            model = [other for other in model if other != key]
        elif key not in model:
            held.add(key)
            insort(model, key)
        compare(held, model, probe)


@pytest.mark.parametrize("seed", range(6))
def test_it_holds_what_a_sorted_list_holds_over_many_chunks(seed: int) -> None:
    draw = random.Random(seed)
    keys = draw.sample(range(40 * LOAD), 6 * LOAD)
    held = filled(keys)
    gone = set(draw.sample(keys, draw.choice([LOAD, 3 * LOAD, 6 * LOAD - 1])))
    for key in gone:
        held.discard(key)
    model = sorted(set(keys) - gone)
    for probe in (-1, 0, *draw.sample(range(40 * LOAD), 20), *model[:2], *model[-2:]):
        compare(held, model, probe)


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_keys_may_come_in_order_from_either_end(order: str) -> None:
    keys = list(range(5 * LOAD))
    held = filled(keys if order == "ascending" else keys[::-1])
    compare(held, keys, 2 * LOAD)


def test_a_set_emptied_from_the_front_can_be_filled_again() -> None:
    keys = list(range(3 * LOAD))
    held = filled(keys)
    for key in keys:
        assert held.first() == key
        held.discard(key)
    compare(held, [], 0)
    held.add(7)
    compare(held, [7], 6)


def test_what_is_backed_out_goes_back_to_its_place_in_the_middle_of_a_full_chunk() -> None:
    keys = list(range(0, 4 * LOAD, 2))
    held = filled(keys)
    for key in range(1, 2 * LOAD, 2):
        held.add(key)
    compare(held, sorted([*keys, *range(1, 2 * LOAD, 2)]), LOAD)
