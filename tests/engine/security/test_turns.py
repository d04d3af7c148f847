"""Who is next: addresses take turns, then users, then who came first (security 8.2)."""

from __future__ import annotations

from random import Random

import pytest

from broker.engine.security.turns import Turns


def waiting(*things: tuple[str, str, int]) -> Turns[int]:
    turns: Turns[int] = Turns()
    for address, user, thing in things:
        turns.add(address, user, thing)
    return turns


def taken(turns: Turns[int]) -> list[int]:
    return [turns.take() for _ in range(len(turns))]


def test_addresses_take_turns() -> None:
    assert taken(waiting(("a", "u", 1), ("a", "u", 2), ("a", "u", 3), ("b", "u", 4), ("c", "u", 5))) == [1, 4, 5, 2, 3]


def test_users_of_an_address_take_turns() -> None:
    turns = waiting(("a", "u", 1), ("a", "u", 2), ("a", "v", 3), ("b", "w", 4), ("b", "w", 5))
    assert taken(turns) == [1, 4, 3, 5, 2]


def test_who_comes_back_is_behind_those_who_wait() -> None:
    turns = waiting(("a", "u", 1), ("b", "u", 2))
    assert turns.take() == 1
    turns.add("a", "u", 3)
    assert taken(turns) == [2, 3]


def test_who_leaves_takes_no_turn() -> None:
    turns = waiting(("a", "u", 1), ("a", "v", 2), ("b", "u", 3))
    turns.discard("a", "u", 1)
    turns.discard("a", "u", 1)
    turns.discard("c", "u", 1)
    assert len(turns) == 2
    assert taken(turns) == [2, 3]
    with pytest.raises(KeyError):
        turns.take()


@pytest.mark.parametrize("seed", range(20))
def test_x8_1_nobody_waits_for_more_than_one_of_each_other_address(seed: int) -> None:
    random = Random(seed)
    turns: Turns[int] = Turns()
    places: dict[int, tuple[str, str]] = {}
    for number in range(300):
        if random.random() < 0.6 or not places:
            place = random.choice("aaaaaaaabc"), random.choice("uuuv")
            before = {address for address, _ in places.values()}
            turns.add(*place, number)
            places[number] = place
            if place[0] not in before:  # it is alone at its address: all others may have one turn each
                copy = waiting(*((*where, each) for each, where in places.items()))
                assert taken(copy).index(number) <= len(before)
        elif random.random() < 0.3:
            number = random.choice(list(places))
            turns.discard(*places.pop(number), number)
        else:
            places.pop(turns.take())
        assert len(turns) == len(places)
    assert sorted(taken(turns)) == sorted(places)
