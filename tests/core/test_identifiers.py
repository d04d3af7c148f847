"""Numbers and identifiers: none is ever given twice."""

from __future__ import annotations

import pytest

from broker.core.identifiers import INSTANCE_BITS, RESERVED_AHEAD, Identifiers
from broker.mqi import MQPMO
from tests.core.world import START_TIME, World


def test_an_identifier_is_amq_the_first_twelve_characters_of_the_name_and_the_counter() -> None:
    ids = Identifiers("A.QUEUE.MANAGER.WITH.A.LONG.NAME", START_TIME, 0, 1208)
    first, second = ids.identifier(), ids.identifier()
    assert first[:16] == b"AMQ A.QUEUE.MANA"
    assert len(first) == len(second) == 24
    assert second > first


def test_a_short_name_is_padded_with_blanks() -> None:
    assert Identifiers("QM1", START_TIME, 0, 1208).identifier()[:16] == b"AMQ QM1         "


def test_the_number_of_an_identifier_made_here_can_be_read_from_it() -> None:
    ids = Identifiers("QM1", START_TIME, 0, 1208)
    assert ids.number_of(ids.identifier(77)) == 77
    assert ids.number_of(Identifiers("QM2", START_TIME, 0, 1208).identifier(77)) is None


@pytest.mark.parametrize("number", [1, 77, 2**51 - 1, 2**51, 2**56 - 1])
def test_queue_managers_whose_names_begin_alike_make_different_identifiers_of_one_number(number: int) -> None:
    names = ("A.QUEUE.MANAGER.1", "A.QUEUE.MANAGER.2")
    one, other, none = (Identifiers(name, START_TIME, 0, 1208) for name in (*names, names[0]))
    one.belong_to(0x1ABC)
    other.belong_to(0x1ABD)
    made = {each.identifier(number) for each in (one, other, none)}
    assert len(made) == 3
    assert {id[:16] for id in made} == {b"AMQ A.QUEUE.MANA"}
    assert none.identifier(number)[16:] == number.to_bytes(8, "big")
    assert one.number_of(one.identifier(number)) == number
    assert other.number_of(one.identifier(number)) != number


def test_the_counter_stays_readable_in_an_identifier() -> None:
    """51 bits: until 2041 nothing of the counter and of the instance is mixed."""
    ids = Identifiers("QM1", START_TIME, 0, 1208)
    ids.belong_to(2**INSTANCE_BITS - 1)
    number = ids.next()
    assert int.from_bytes(ids.identifier(number)[16:], "big") == (2**13 - 1) * 2**51 + number


def test_numbers_start_at_the_clock_in_microseconds() -> None:
    assert Identifiers("QM1", START_TIME, 0, 1208).next() == int(START_TIME * 1_000_000) + 1


@pytest.mark.parametrize("clock_moved", [-86_400.0, -1.0, 0.0, 1e-6, 3600.0], ids=lambda moved: f"{moved}s")
@pytest.mark.parametrize("given", [1, 1_000, RESERVED_AHEAD * 6 // 10])
def test_no_number_is_repeated_after_a_restart_whatever_the_clock_does(given: int, clock_moved: float) -> None:
    """The mark is written with a batch, and a batch comes long before half of what was reserved is used up."""
    ids = Identifiers("QM1", START_TIME, 0, 1208)
    stored, last = 0, 0
    for number in range(given):
        last = ids.next()
        if number % 50_000 == 0:
            stored = ids.reserve() or stored
    again = Identifiers("QM1", START_TIME + clock_moved, stored, 1208)
    assert again.next() > last


def test_the_mark_is_stored_first_and_then_only_when_half_of_the_reserve_is_used() -> None:
    ids = Identifiers("QM1", START_TIME, 0, 1208)
    mark = ids.reserve()
    assert mark == int(START_TIME * 1_000_000) + RESERVED_AHEAD
    for _ in range(RESERVED_AHEAD // 2 - 1):
        ids.next()
    assert ids.reserve() == 0
    ids.next()
    assert ids.reserve() == mark + RESERVED_AHEAD // 2


def test_messages_put_before_and_after_a_restart_with_the_clock_set_back_have_different_ids(world: World) -> None:
    world.define("Q")
    before = [world.open().put(b"A", MQPMO.NEW_CORREL_ID).entry for _ in range(3)]
    world.pass_time(-3600)
    world.restart()
    after = [world.open().put(b"A", MQPMO.NEW_CORREL_ID).entry for _ in range(3)]
    ids = [id for entry in (*before, *after) for id in (entry.msg_id, entry.correl_id)]
    assert len(set(ids)) == len(ids)
    assert min(entry.id for entry in after) > max(entry.id for entry in before)


@pytest.mark.parametrize(
    ("now", "date", "time"),
    [
        (0.0, "19700101", "00000000"),
        (START_TIME, "20231114", "22132000"),
        (START_TIME + 0.25, "20231114", "22132025"),
        (START_TIME + 0.999, "20231114", "22132099"),
        (1_709_251_199.5, "20240229", "23595950"),
    ],
)
def test_a_stamp_is_gmt_to_the_hundredth_of_a_second(now: float, date: str, time: str) -> None:
    assert Identifiers("QM1", START_TIME, 0, 1208).stamp(now) == (date, time)


def test_a_stamp_follows_a_clock_that_is_set_back() -> None:
    ids = Identifiers("QM1", START_TIME, 0, 1208)
    stamps = [ids.stamp(now) for now in (START_TIME, START_TIME + 1, START_TIME)]
    assert [time for _, time in stamps] == ["22132000", "22132100", "22132000"]
