"""Proofs end their conversations, and renewed ones do not; each guard of that is needed (security 4.8)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.engine.security.login import Login, LoginProof
from broker.engine.security.proofs import Proofs
from broker.mqi import MQRC
from broker.testing import VirtualClock

if TYPE_CHECKING:
    pass

STEPS = 40


class Lodger:
    """A conversation that notes when it was told to go."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.gone: list[float] = []

    def expel(self, why: str) -> None:
        self.gone.append(self.clock.time())


def bob(clock: VirtualClock, seconds: float) -> Login:
    return Login("bob", clock.time() + seconds)


def lodging(clock: VirtualClock, login: Login) -> tuple[LoginProof, Lodger]:
    """A proof, and a conversation that lives by it."""
    proof, lodger = LoginProof(login, None), Lodger(clock)
    proof.conversations[lodger] = None  # type: ignore[index]
    return proof, lodger


async def test_a_proof_ends_its_conversations_within_a_second() -> None:
    clock = VirtualClock()
    proofs, (proof, lodger) = Proofs(clock, list[LoginProof]().append), lodging(clock, bob(clock, 10))
    proofs.watch(proof)
    await clock.advance(9.9)
    assert not lodger.gone
    await clock.advance(1.1)
    assert len(lodger.gone) == 1
    assert clock.next_timer is None


async def test_a_wall_clock_that_is_set_ends_what_has_ended_by_it() -> None:
    clock = VirtualClock()
    proofs, (proof, lodger) = Proofs(clock, list[LoginProof]().append), lodging(clock, bob(clock, 3600))
    proofs.watch(proof)
    clock.step(3600)
    assert lodger.gone


@pytest.mark.parametrize("seconds", [0, 5])
async def test_another_user_and_one_who_comes_too_late_renew_nothing(seconds: float) -> None:
    clock = VirtualClock()
    proofs, (proof, _) = Proofs(clock, list[LoginProof]().append), lodging(clock, bob(clock, 5))
    proofs.watch(proof)
    await clock.advance(seconds)
    with pytest.raises(MQError) as caught:
        proofs.renew(proof, bob(clock, 60) if seconds else Login("carol", clock.time() + 60))
    assert caught.value.reason == MQRC.NOT_AUTHORIZED
    await clock.advance(10)
    assert proof.over


async def test_a_proof_that_nobody_lives_by_is_forgotten_and_the_others_end() -> None:
    clock = VirtualClock()
    proofs = Proofs(clock, list[LoginProof]().append)
    staying = [lodging(clock, bob(clock, 10 + number)) for number in range(100)]
    for proof, _ in staying:
        proofs.watch(proof)
        for _ in range(100):  # programs with certificates that end in a year, which come and go
            proofs.watch(lodging(clock, bob(clock, 31_536_000))[0])
    assert len(proofs._ends) < 300
    for number in range(20):
        proofs.renew(staying[0][0], bob(clock, 60 + number))
    for _ in range(115):
        await clock.advance(1)
    assert [len(lodger.gone) for _, lodger in staying] == [1] * 100
    assert staying[0][1].gone[0] >= staying[60][1].gone[0]


class BelievesTheTimer(Proofs):
    """A timer ends its proof, be it renewed or not."""

    def look(self) -> None:
        for ends, _, found in self._ends:
            proof = found()
            if proof is not None and ends <= self._clock.time():
                proof.login = proof.login._replace(ends=ends)
        super().look()


class RenewsWhateverThereWas(Proofs):
    """A renewal does not look whether the proof has ended."""

    def renew(self, proof: LoginProof, login: Login) -> float:
        proof.over = False
        proof.login = proof.login._replace(ends=self._clock.time() + 1)
        return super().renew(proof, login)


async def walk(seed: int, kind: type[Proofs]) -> list[str]:
    """Renew proofs at random, before their ends and behind; the faults."""
    random, clock, faults = Random(seed), VirtualClock(), []
    proofs: Any = kind(clock, list[LoginProof]().append)
    proof, lodger = lodging(clock, bob(clock, 10))
    until = proof.login.ends
    proofs.watch(proof)
    for _ in range(STEPS):
        if random.random() < 0.5:
            late = bool(lodger.gone) or until <= clock.time()
            try:
                proofs.renew(proof, bob(clock, random.randrange(1, 12)))
            except MQError:
                assert late
            else:
                if late:
                    faults.append("a renewal has revived what had ended")
                until = proof.login.ends
        await clock.advance(random.random() * 4)
        if lodger.gone and lodger.gone[0] < until:
            faults.append("a renewed conversation was ended by the timer of its first proof")
        if not lodger.gone and until < clock.time() - 1:
            faults.append("a conversation has outlived its proof")
    return faults


@pytest.mark.parametrize("seed", range(20))
async def test_x4_6_random_renewals(seed: int) -> None:
    assert await walk(seed, Proofs) == []


@pytest.mark.parametrize(
    ("mutant", "fault"), [(BelievesTheTimer, "ended by the timer"), (RenewsWhateverThereWas, "revived")]
)
async def test_x4_6_without_a_guard_a_walk_finds_the_fault(mutant: type[Proofs], fault: str) -> None:
    for seed in range(100):
        if any(fault in each for each in await walk(seed, mutant)):
            return
    pytest.fail(f"a hundred walks have not found it: {fault}")
