"""Passwords verified: in turns, once for all who wait, and never behind a change (security 4.6, 8.2)."""

from __future__ import annotations

import asyncio
import logging
import statistics
import threading
import time
from typing import TYPE_CHECKING

import pytest

from broker.clock import Clock
from broker.core.security.facts import User
from broker.core.security.password_hash import PasswordHash, parse
from broker.engine.security import passwords
from broker.engine.security.credentials import verification_threads
from broker.engine.security.verifier import REMEMBERED_SECONDS, PasswordVerifier, Verified
from broker.mqi import MQRC, MQError
from broker.testing import settle
from tests.engine.security.verifying import LoginBench, hash_for, user
from tests.handlers.loops import both_loops

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

BOB = user("bob", "secret")


def task(work: Coroutine[object, object, Verified | None]) -> asyncio.Task[Verified | None]:
    return asyncio.get_running_loop().create_task(work)


def login(bench: LoginBench, password: str | bytes = "secret", address: str = "a", name: str = "bob") -> asyncio.Task[
    Verified | None
]:  # fmt: skip
    return task(bench.verifier.verify(name, password, address))


@both_loops
async def test_a_right_password_is_the_users_and_a_wrong_one_nobodys() -> None:
    bench = LoginBench(BOB)
    right, wrong = login(bench), login(bench, "Secret")
    await bench.finish()
    assert right.result() == Verified(BOB)
    assert wrong.result() is None


@pytest.mark.parametrize(
    ("name", "password"),
    [("nobody", "secret"), ("off", "secret"), ("without", "secret"), ("bob", "wrong"), ("a\0b", "secret")],
    ids=["unknown", "disabled", "without a password", "wrong", "no name at all"],
)
async def test_x4_3_each_refusal_takes_one_hash_of_the_same_cost(name: str, password: str) -> None:
    costs: list[tuple[int, int, int]] = []

    def matches(_: bytes, stored: PasswordHash) -> bool:
        costs.append((stored.ln, stored.p, len(stored.digest)))
        return stored.ln == 14  # of no user

    bench = LoginBench(BOB, user("off", "secret", enabled=False), user("without"))
    verifier = PasswordVerifier(bench.users.get, bench.clock, matches=matches, executor=bench.executor)
    refused = task(verifier.verify(name, password, "a"))
    await bench.finish()
    assert refused.result() is None
    assert costs == [(passwords.LN, passwords.PARALLEL, passwords.DIGEST_BYTES)]


@pytest.mark.benchmark
async def test_x4_3_each_refusal_takes_as_long() -> None:
    """Medians of 50 with scrypt itself, taken in turns."""
    users = {"bob": User("bob", password=passwords.hash_of("secret")), "off": user("off", "secret", enabled=False)}
    verifier = PasswordVerifier(users.get, Clock())
    times: dict[str, list[float]] = {"bob": [], "off": [], "nobody": []}
    try:
        for number in range(50):
            for name, taken in times.items():
                begun = time.perf_counter()
                assert await verifier.verify(name, f"wrong {number}", "a") is None
                taken.append(time.perf_counter() - begun)
    finally:
        verifier.close()
    medians = [statistics.median(each) for each in times.values()]
    assert max(medians) <= 1.1 * min(medians), medians


async def test_a_dummy_that_fits_lets_nobody_in() -> None:
    damaged = User("damaged", password="$scrypt$ln=30,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA")
    bench = LoginBench(user("without"), user("off", "secret", enabled=False), damaged)
    verifier = PasswordVerifier(bench.users.get, bench.clock, matches=lambda *_: True, executor=bench.executor)
    names = ("without", "off", "nobody", "damaged")
    refused = [task(verifier.verify(name, "secret", "a")) for name in names for _ in range(2)]
    await bench.finish()
    assert [each.result() for each in refused] == [None] * 8


@pytest.mark.parametrize("password", ["", b"", b"\xff", "x" * 1025, "\ud800"])
async def test_what_cannot_be_a_password_is_refused_at_once(password: str | bytes) -> None:
    bench = LoginBench(BOB)
    assert await bench.verifier.verify("bob", password, "a") is None
    assert bench.verifier.verifications == 0


@both_loops
async def test_x4_4_a_herd_with_one_password_takes_one_hash() -> None:
    bench = LoginBench(BOB, threads=2)
    herd = [login(bench, address=f"192.0.2.{number % 10}") for number in range(1000)]
    await settle()
    assert bench.verifier.waiting == 0  # all wait for the one that is under way
    await bench.finish()
    assert [each.result() for each in herd] == [Verified(BOB)] * 1000
    assert await bench.verifier.verify("bob", "secret", "a") == Verified(BOB)
    assert bench.verifier.verifications == 1


@both_loops
async def test_x4_4_a_herd_whose_hash_is_renewed_takes_at_most_three() -> None:
    """With scrypt itself, in threads of the verifier's own. Who has the renewal stores it while others still wait."""
    salt, own = bytes(16), passwords.dummy()
    old = PasswordHash(ln=14, p=1, salt=salt, digest=passwords._digest(b"secret", _like(own, salt)))
    users = {"bob": User("bob", password=str(old))}
    verifier = PasswordVerifier(users.get, Clock(), threads=2)
    renewals = []

    async def connect() -> None:
        verified = await verifier.verify("bob", "secret", "a")
        assert verified is not None
        if verified.renewal:
            renewals.append(verified.renewal)
            users["bob"] = users["bob"]._replace(password=verified.renewal)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(1000):
                group.create_task(connect())
        assert verifier.verifications == 1
        assert renewals == [users["bob"].password]
        assert not passwords.needs_renewal(parse(renewals[0]))
        assert await verifier.verify("bob", "secret", "a") == Verified(users["bob"])
        assert await verifier.verify("bob", "wrong", "a") is None
        assert verifier.verifications == 2
    finally:
        verifier.close()


def _like(own: PasswordHash, salt: bytes) -> PasswordHash:
    return PasswordHash(ln=14, p=own.p, salt=salt, digest=own.digest)


async def test_a_renewal_goes_to_one_of_those_who_wait_and_are_still_there() -> None:
    bench = LoginBench(User("bob", password=hash_for("secret").replace("ln=15", "ln=14")))
    logins = [login(bench) for _ in range(3)]
    await settle()
    logins[0].cancel()
    await bench.finish()
    given = [each.result() for each in logins[1:]]
    assert all(given)
    assert [bool(each and each.renewal) for each in given] == [True, False]


async def test_a_good_password_is_remembered_for_fifteen_minutes() -> None:
    bench = LoginBench(BOB)
    login(bench)
    await bench.finish()
    await bench.clock.advance(REMEMBERED_SECONDS - 1)
    assert await bench.verifier.verify("bob", "secret", "b") == Verified(BOB)
    await bench.clock.advance(1)
    again = login(bench)
    await settle()
    assert not again.done()
    await bench.finish()
    assert again.result() == Verified(BOB)
    assert bench.compared == [b"secret"] * 2


async def test_a_wrong_password_is_not_remembered() -> None:
    bench = LoginBench(BOB)
    for _ in range(2):
        login(bench, "wrong")
        await bench.finish()
    assert bench.compared == [b"wrong"] * 2


async def test_a_password_is_remembered_for_its_user_alone() -> None:
    bench = LoginBench(BOB, BOB._replace(name="alice"))  # with the same hash
    login(bench)
    await bench.finish()
    other = login(bench, name="alice")
    await settle()
    assert not other.done()
    await bench.finish()


async def test_too_many_remembered_passwords_forget_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.security.verifier.REMEMBERED_MAX", 10)
    bench = LoginBench(*(user(f"u{number}", "secret") for number in range(11)))
    logins = [login(bench, name=name) for name in bench.users]
    await bench.finish()
    assert all(each.result() for each in logins)
    assert await bench.verifier.verify("u1", "secret", "a")
    oldest = login(bench, name="u0")
    await settle()
    assert not oldest.done()
    await bench.finish()


async def test_x8_2_remembered_passwords_wait_for_nobody() -> None:
    bench = LoginBench(BOB)
    login(bench)
    await bench.finish()
    others = [login(bench, f"wrong {number}") for number in range(100)]
    await settle()
    assert await bench.verifier.verify("bob", "secret", "a") == Verified(BOB)
    await bench.finish()
    assert not any(each.result() for each in others)


async def test_x8_1_who_tries_a_thousand_passwords_makes_another_wait_for_one() -> None:
    bench = LoginBench(BOB)
    sprayed = [login(bench, f"wrong {number}", "192.0.2.66", f"u{number % 7}") for number in range(1000)]
    await settle()
    honest = login(bench, address="192.0.2.7")
    for _ in range(3):  # the one under way, one of the attacker's, its own
        await bench.step()
    assert honest.result() == Verified(BOB)
    await bench.finish()
    assert not any(each.result() for each in sprayed)


async def test_x8_2_users_behind_the_attackers_address_take_turns_with_it() -> None:
    bench = LoginBench(BOB)
    for number in range(100):
        login(bench, f"wrong {number}", name="alice")
    await settle()
    honest = login(bench)
    for _ in range(3):
        await bench.step()
    assert honest.result() == Verified(BOB)
    await bench.finish()


async def test_x8_2_the_same_password_waits_for_the_turn_of_the_address_that_is_first() -> None:
    """An attacker that knows a password cannot put it at the end of its own queue for others."""
    bench = LoginBench(BOB)
    for number in range(50):
        login(bench, f"wrong {number}", "evil", f"u{number}")
    first = login(bench, address="evil")
    await settle()
    second = login(bench, address="good")
    for _ in range(3):
        await bench.step()
    assert first.result() == second.result() == Verified(BOB)
    await bench.finish()
    assert bench.compared.count(b"secret") == 1


async def test_two_threads_verify_two_at_a_time() -> None:
    bench = LoginBench(BOB, threads=2)
    logins = [login(bench, f"wrong {number}") for number in range(3)]
    await settle()
    assert (len(bench.executor.work), bench.verifier.waiting) == (2, 1)
    await bench.finish()
    assert [each.result() for each in logins] == [None] * 3


@both_loops
async def test_who_leaves_before_its_turn_leaves_no_hole() -> None:
    bench = LoginBench(BOB)
    before, left, after = login(bench, "one"), login(bench, "two"), login(bench)
    await settle()
    left.cancel()
    await bench.step()
    await bench.step()
    assert before.result() is None
    assert after.result() == Verified(BOB)
    assert bench.compared == [b"one", b"secret"]
    assert bench.verifier.waiting == 0


@both_loops
@pytest.mark.parametrize("done", [False, True], ids=["while it is made", "when it was made"])
async def test_who_leaves_a_verification_under_way_leaves_no_hole(done: bool) -> None:
    bench = LoginBench(BOB)
    left, other = login(bench), login(bench)
    await settle()
    if done:
        bench.executor.step()  # the loop is told in its next turn
    left.cancel()
    await bench.finish()
    assert left.cancelled()
    assert other.result() == Verified(BOB)
    following = login(bench, "wrong")
    await bench.finish()
    assert following.result() is None


async def test_one_who_leaves_does_not_end_it_for_others_who_wait_for_the_same() -> None:
    bench = LoginBench(BOB)
    login(bench, "wrong")
    left, other = login(bench, address="a"), login(bench, address="b")
    await settle()
    left.cancel()
    await bench.finish()
    assert other.result() == Verified(BOB)


@both_loops
async def test_the_end_of_the_queue_manager_ends_those_who_wait() -> None:
    bench = LoginBench(BOB)
    logins = [login(bench), login(bench, "wrong"), login(bench, "another")]
    await settle()
    bench.verifier.close()
    await settle()
    for each in logins:
        with pytest.raises(MQError) as caught:
            each.result()
        assert caught.value.reason == MQRC.Q_MGR_STOPPING
    with pytest.raises(MQError):
        await bench.verifier.verify("bob", "secret", "a")
    bench.executor.step()  # what was under way ends behind it
    await settle()
    assert bench.executor.ended
    assert not bench.executor.work


@both_loops
async def test_passwords_are_verified_in_threads_of_their_own() -> None:
    threads = []

    def matches(_: bytes, __: PasswordHash) -> bool:
        threads.append(threading.current_thread().name)
        return True

    verifier = PasswordVerifier({"bob": BOB}.get, Clock(), matches=matches)
    try:
        assert await verifier.verify("bob", "secret", "a") == Verified(BOB)
        assert threads[0].startswith("verification of passwords")
    finally:
        verifier.close()


async def test_x9_3_a_verification_that_fails_is_a_refusal_and_its_log_has_no_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = LoginBench(BOB)

    def matches(password: bytes, _: PasswordHash) -> bool:
        raise MemoryError("no 32 MiB")

    verifier = PasswordVerifier(bench.users.get, bench.clock, matches=matches, executor=bench.executor)
    refused = task(verifier.verify("bob", "secret", "a"))
    with caplog.at_level(logging.DEBUG):
        await bench.finish()
    assert refused.result() is None
    assert "user='bob': no 32 MiB" in caplog.text
    assert "secret" not in caplog.text


def _changed(bench: LoginBench) -> None:
    bench.users["bob"] = BOB._replace(password=hash_for("new"))


def _salted(bench: LoginBench) -> None:
    bench.users["bob"] = BOB._replace(password=hash_for("secret", salt=1))


def _disabled(bench: LoginBench) -> None:
    bench.users["bob"] = BOB._replace(enabled=False)


def _deleted(bench: LoginBench) -> None:
    del bench.users["bob"]


@both_loops
@pytest.mark.parametrize("change", [_changed, _disabled, _deleted])
@pytest.mark.parametrize("turns", range(-2, 8))
async def test_x4_5_nobody_is_admitted_behind_a_change(turns: int, change: Callable[[LoginBench], None]) -> None:
    """Before the verification begins, while it is made, and in each turn of the loop from its end to the answer."""
    bench = LoginBench(BOB)
    ahead = login(bench, "wrong")
    admitted: list[User] = []
    answered = asyncio.Event()

    async def connect() -> None:
        verified = await bench.verifier.verify("bob", "secret", "a")
        if verified is not None:
            assert bench.users.get("bob") == verified.user
            admitted.append(verified.user)
        answered.set()

    connecting = asyncio.get_running_loop().create_task(connect())
    await settle()
    if turns == -2:  # while it waits for its turn
        change(bench)
    await bench.step()
    if turns == -1:  # while it is made
        change(bench)
    bench.executor.step()
    for _ in range(max(turns, 0)):
        await asyncio.sleep(0)
    if turns >= 0:
        before = answered.is_set()
        change(bench)
        await bench.finish()
        assert bool(admitted) == before
        assert before or turns < 7  # the last one is behind the answer
    else:
        await bench.finish()
        assert not admitted
    await connecting
    assert ahead.result() is None


async def test_x4_5_a_new_hash_of_the_same_password_is_verified_anew() -> None:
    bench = LoginBench(BOB)
    verified = login(bench)
    await settle()
    _salted(bench)
    await bench.finish()
    assert verified.result() == Verified(bench.users["bob"])
    assert bench.compared == [b"secret"] * 2


async def test_x4_5_a_password_that_was_changed_is_forgotten() -> None:
    bench = LoginBench(BOB)
    login(bench)
    await bench.finish()
    _changed(bench)
    old, new = login(bench), login(bench, "new")
    await bench.finish()
    assert old.result() is None
    assert new.result() == Verified(bench.users["bob"])


@pytest.mark.parametrize(
    ("most", "processors", "threads"), [(2, 1, 1), (2, 2, 1), (2, 3, 2), (2, 64, 2), (8, 4, 3), (1, 64, 1)]
)
def test_x8_1_of_several_processors_one_is_not_taken_to_verify_passwords(
    most: int, processors: int, threads: int
) -> None:
    assert verification_threads(most, processors) == threads
