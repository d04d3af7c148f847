"""Places and rates before a login, in plain calls: time is a number, sockets are not there (X8.1)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from broker.config import LimitsConfig
from broker.log_rate import LogRate
from broker.server.security.lines import LOCAL, LineSecurity, address_of
from broker.server.security.places import ORIGINS_MAX, Place, PlaceChanges, Places, Stage, origin_of

A, B, C = "192.0.2.1", "192.0.2.2", "192.0.2.3"


class Hall:
    """Places, with what has become of those who came."""

    def __init__(self, **limits: int) -> None:
        self.now = 1000.0
        self.limits = LimitsConfig(**{"handshake_rate": 1000, **limits})
        self.places = Places(self.limits, self.now)
        self.begun: list[Place] = []
        self.closed: list[Place] = []

    def come(self, address: str, *, tls: bool = False, local: bool = False) -> Place | None:
        place, changes = self.places.arrive(address, self.now, tls=tls, local=local)
        self.follow(changes)
        return place

    def wait(self, seconds: float) -> None:
        """Let time pass; handshakes begin as they are due."""
        until = self.now + seconds
        while (delay := self.places.delay(self.now)) and self.now + delay < until:
            self.now += delay
            self.begun += self.places.due(self.now)
        self.now = until

    def seated(self, address: str, *, tls: bool = False) -> Place:
        place = self.come(address, tls=tls)
        assert place is not None
        return place

    def follow(self, changes: PlaceChanges) -> None:
        self.begun += changes.begun
        self.closed += changes.closed
        for place in changes.closed:
            self.follow(self.places.gone(place))
        self.begun += self.places.due(self.now)

    def shake(self, place: Place) -> None:
        self.places.shaken(place)
        self.begun += self.places.due(self.now)

    def log_in(self, place: Place) -> None:
        self.follow(self.places.logged_in(place, self.now))

    def fail(self, place: Place) -> None:
        self.places.failed(place, self.now)

    def leave(self, place: Place) -> None:
        self.follow(self.places.gone(place))

    def trust(self, address: str) -> None:
        place = self.seated(address)
        self.log_in(place)
        self.leave(place)


def test_x8_1_the_oldest_of_an_address_goes_for_one_more_of_it() -> None:
    hall = Hall(logins=10, logins_per_address=3)
    first, *others = [hall.seated(A) for _ in range(3)]
    other = hall.seated(B)
    last = hall.seated(A)
    assert hall.closed == [first]
    assert hall.begun == [first, *others, other, last]
    assert hall.places.taken == 4


def test_x8_1_of_too_many_in_all_the_oldest_of_the_address_with_most_goes() -> None:
    hall = Hall(logins=6, logins_per_address=4)
    alone = hall.seated(B)
    first, *_ = [hall.seated(A) for _ in range(3)]
    pair = [hall.seated(C) for _ in range(2)]
    hall.seated("192.0.2.4")
    assert hall.closed == [first]
    assert {alone.stage, *(each.stage for each in pair)} == {Stage.LOGIN}


def test_x8_1_a_flood_from_one_address_leaves_others_their_places() -> None:
    hall = Hall(handshake_rate=50)
    honest = [hall.seated(f"198.51.100.{number}", tls=True) for number in range(20)]
    for _ in range(10_000):
        hall.come(A, tls=True)
        hall.now += 0.0001
    assert not set(honest) & set(hall.closed)
    late = hall.seated(B, tls=True)
    assert late in hall.begun


def test_a_login_and_an_end_give_the_place_back() -> None:
    hall = Hall(logins=10, logins_per_address=3)
    one, two = hall.seated(A), hall.seated(A)
    hall.log_in(one)
    hall.leave(two)
    assert hall.places.taken == 0
    hall.leave(one)
    for _ in range(3):
        hall.seated(A)
    assert hall.closed == []


# Trust


def test_x8_1_trusted_lines_have_twenty_times_the_places_and_wait_for_more() -> None:
    hall = Hall(logins=1000, logins_per_address=2)
    hall.trust(A)
    hall.begun.clear()
    lines = [hall.seated(A) for _ in range(45)]
    assert hall.begun == lines[:40]
    hall.leave(lines[40])  # while it waits
    hall.log_in(lines[0])
    assert hall.begun == [*lines[:40], lines[41]]
    hall.leave(lines[1])
    assert hall.begun == [*lines[:40], *lines[41:43]]
    assert hall.closed == []


def test_x8_1_trusted_addresses_take_turns_and_leave_places_to_strangers() -> None:
    hall = Hall(logins=10, logins_per_address=4)
    hall.trust(A)
    hall.trust(B)
    hall.begun.clear()
    many = [hall.seated(A) for _ in range(20)]
    few = [hall.seated(B) for _ in range(4)]
    assert hall.begun == [*many[:3], *few[:2]]
    strangers = [hall.seated(C) for _ in range(4)]
    assert hall.begun == [*many[:3], *few[:2], *strangers]
    hall.seated(C)
    assert hall.closed == strangers[:1]
    hall.begun.clear()
    for place in (*many[:3], *few[:2]):
        hall.log_in(place)
    assert hall.begun == [many[3], few[2], many[4], few[3]]


def test_x8_1_an_address_that_is_trusted_and_holds_what_it_can_keeps_no_other_waiting() -> None:
    hall = Hall(logins=256, logins_per_address=32)
    names = [f"198.51.100.{number}" for number in range(8)]
    for name in (A, *names):
        hall.trust(name)
    for _ in range(10_000):
        hall.come(A)
    for name in names:
        assert hall.seated(name) in hall.begun
    assert hall.places.taken < 256


def test_a_trusted_line_takes_the_place_of_a_stranger_where_strangers_have_all() -> None:
    hall = Hall(logins=6, logins_per_address=3)
    hall.trust(A)
    first, *_ = [hall.seated(f"198.51.100.{number}") for number in range(6)]
    trusted = hall.seated(A)
    assert hall.closed == [first]
    assert trusted in hall.begun


@pytest.mark.parametrize(
    ("story", "trusted"),
    [
        ("s", True),
        ("sf", True),
        ("sff", False),
        ("ffs", False),
        ("ffss", True),
        ("s-", False),
        ("ff-s", True),
        ("s-f", False),
        ("", False),
    ],
)
def test_an_address_is_trusted_after_a_login_unless_it_has_failed_more_often(story: str, *, trusted: bool) -> None:
    """`s`: a login, `f`: one that fails, `-`: ten minutes."""
    hall = Hall()
    for step in story:
        match step:
            case "s":
                hall.trust(A)
            case "f":
                place = hall.seated(A)
                hall.fail(place)
                hall.leave(place)
            case _:
                hall.now += 600
    assert hall.seated(A).trusted == trusted


def test_lines_of_this_machine_are_trusted_from_the_start() -> None:
    hall = Hall(logins=10, logins_per_address=4)
    lines = [hall.come(LOCAL, local=True) for _ in range(500)]
    assert None not in lines
    assert hall.begun == lines[:3]


# Handshakes


def test_x8_1_sixteen_of_an_address_shake_hands_at_a_time() -> None:
    hall = Hall()
    lines = [hall.seated(A, tls=True) for _ in range(20)]
    hall.wait(0.1)
    other = hall.seated(B, tls=True)
    assert hall.begun == [*lines[:16], other]
    hall.shake(lines[3])
    assert hall.begun == [*lines[:16], other, lines[16]]
    hall.leave(lines[17])  # which waits
    hall.leave(lines[4])
    assert hall.begun[-1] is lines[18]
    assert (lines[3].stage, lines[18].stage, lines[19].stage) == (Stage.LOGIN, Stage.HANDSHAKE, Stage.QUEUED)


def test_x8_1_fifty_handshakes_a_second_after_a_hundred_at_once() -> None:
    hall = Hall(handshake_rate=50)
    at_once = [hall.come(A, tls=True) for _ in range(150)]
    assert [each is None for each in at_once] == [False] * 100 + [True] * 50
    hall.now += 1
    assert sum(hall.come(A, tls=True) is not None for _ in range(80)) == 50
    assert hall.come(B, tls=True) is not None
    assert hall.come(A) is not None  # which has no handshake to make


def test_x8_1_a_trusted_address_has_twenty_times_the_rate() -> None:
    hall = Hall(handshake_rate=50)
    hall.trust(A)
    hall.now += 2
    assert None not in [hall.come(A, tls=True) for _ in range(1500)]


def test_x8_1_handshakes_begin_in_turns_at_four_hundred_a_second_in_all() -> None:
    hall = Hall(handshake_rate=50)
    at_once = [hall.seated(f"198.51.100.{number}", tls=True) for number in range(4)]
    assert hall.begun == at_once
    assert hall.places.delay(hall.now) == 0
    hall.begun.clear()
    many = [hall.seated(A, tls=True) for _ in range(16)]
    few = [hall.seated(B, tls=True) for _ in range(2)]
    assert hall.begun == []
    assert hall.places.delay(hall.now) == pytest.approx(1 / 400, rel=1e-3)
    hall.wait(4.5 / 400)
    assert hall.begun == [many[0], few[0], many[1], few[1]]
    hall.leave(many[2])
    hall.wait(1.0)
    assert hall.begun[4:] == many[3:]
    assert hall.places.delay(hall.now) == 0


def test_x8_1_who_waits_for_another_handshake_of_its_address_keeps_no_other_address_waiting() -> None:
    hall = Hall(handshakes=1)
    first, second = hall.seated(A, tls=True), hall.seated(A, tls=True)
    other = hall.seated(B, tls=True)
    assert hall.begun == [first, other]
    hall.leave(first)
    assert hall.begun == [first, other, second]


def test_an_address_has_so_many_lines_with_and_without_users() -> None:
    hall = Hall(lines_per_address=3)
    lines = [hall.seated(A) for _ in range(3)]
    for place in lines:
        hall.log_in(place)
    assert hall.come(A) is None
    hall.leave(lines[0])
    assert hall.come(A) is not None


# Addresses


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_an_address_of_ipv6_counts_by_its_network(address: str, origin: str) -> None:
    assert origin_of(address) == origin


@pytest.mark.parametrize(
    ("peer", "address", "local"),
    [
        (("192.0.2.1", 4000), "192.0.2.1", False),
        (("127.0.0.2", 4000), "127.0.0.2", True),
        (("::ffff:192.0.2.1", 4000, 0, 0), "192.0.2.1", False),
        (("fe80::1%eth0", 4000, 0, 2), "fe80::1", False),
        (("::1", 4000, 0, 0), "::1", True),
        ("", "", True),
    ],
)
def test_a_mapped_address_is_that_of_ipv4(peer: object, address: str, *, local: bool) -> None:
    assert address_of(peer) == address
    assert LineSecurity(address=address).local == local


def test_addresses_without_lines_and_trust_are_forgotten_before_there_are_too_many() -> None:
    hall = Hall(handshake_rate=1)
    hall.trust(A)
    busy = hall.seated(B)
    for number in range(ORIGINS_MAX + 1000):
        hall.leave(hall.seated(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"))
    assert len(hall.places._origins) <= ORIGINS_MAX + 2
    assert hall.seated(A).trusted
    assert busy.origin is hall.seated(B).origin


# Any mix


@pytest.mark.parametrize("seed", range(20))
def test_x8_1_in_any_mix_bounds_hold_nobody_trusted_is_closed_and_all_get_their_turn(seed: int) -> None:
    random = Random(seed)
    hall = Hall(logins=12, logins_per_address=3, handshakes=2, handshake_rate=20, lines_per_address=30)
    here: list[Place] = []
    for _ in range(2000):
        hall.now += random.choice([0, 0, 0.01, 0.5])
        step = random.random()
        if step < 0.5 or not here:
            place = hall.come(random.choice([A, B, C, "::1"]), tls=random.random() < 0.5, local=False)
            if place is not None:
                here.append(place)
        else:
            place = random.choice(here)
            if step < 0.65:
                hall.shake(place)
            elif step < 0.75 and place.stage is Stage.LOGIN:
                hall.log_in(place)
            elif step < 0.85:
                hall.fail(place)
            else:
                here.remove(place)
                hall.leave(place)
        here = [each for each in here if each not in hall.closed]
        held = [each for each in here if each.stage not in (Stage.OVER, Stage.WAITING)]
        assert hall.places.taken == len(held) <= 12
        assert not any(each.trusted for each in hall.closed)
        assert sum(each.trusted for each in held) <= 9
        shaking = Counter(each.origin.address for each in here if each.stage is Stage.HANDSHAKE)
        assert all(each.origin.handshakes == shaking[each.origin.address] for each in here)
        assert all(count <= 2 * (20 if any(p.trusted for p in here if p.origin.address == name) else 1)
                   for name, count in shaking.items())  # fmt: skip
        strange = Counter(each.origin.address for each in held if not each.trusted)
        assert all(count <= 3 for count in strange.values())
        assert Counter(each.origin.address for each in here) == {
            each.origin.address: each.origin.lines for each in here
        }  # fmt: skip
    while waiting := [each for each in here if each.stage in (Stage.WAITING, Stage.QUEUED)]:
        for place in [each for each in here if each.stage not in (Stage.WAITING, Stage.QUEUED)]:
            here.remove(place)
            hall.leave(place)
        assert len([each for each in here if each.stage in (Stage.WAITING, Stage.QUEUED)]) < len(waiting)
    assert set(here) <= set(hall.begun)
    for place in here:
        hall.leave(place)
    assert hall.places.taken == 0


# The log


def test_an_origin_has_ten_lines_a_second_and_the_rest_is_counted() -> None:
    rate = LogRate()
    assert [rate.allows(A, 5.5) for _ in range(12)] == [True] * 10 + [False] * 2
    assert rate.allows(B, 5.6)
    assert not rate.allows(A, 6.4)
    assert rate.allows(A, 6.5)
    assert (rate.collect(), rate.collect()) == (3, 0)


def test_in_no_second_are_more_than_ten_lines_of_an_origin() -> None:
    rate = LogRate()
    logged = [now / 16 for now in range(1000) if rate.allows(A, now / 16)]
    assert all(sum(first <= each < first + 1 for each in logged) <= 10 for first in logged)
    assert len(logged) == 10 * 62 + 8  # of 62 seconds, and what is left


def test_of_very_many_origins_the_one_that_was_logged_longest_ago_is_forgotten() -> None:
    rate = LogRate()
    for origin in (A, B) * 10:
        assert rate.allows(origin, 1.0)
    for number in range(998):
        rate.allows(f"origin {number}", 1.0)
    assert not rate.allows(A, 1.0)
    rate.allows("one more", 1.0)
    assert not rate.allows(A, 1.0)
    assert rate.allows(B, 1.0)
