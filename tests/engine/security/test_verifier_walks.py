"""Random logins and changes of users; and each guard of the verifier is needed, a walk finds the fault without it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker.core.security.facts import User
from broker.engine.security.verifier import PasswordVerifier
from broker.testing import settle
from tests.engine.security.verifying import LoginBench, hash_for, user
from tests.handlers.loops import both_loops

if TYPE_CHECKING:
    from collections.abc import Callable

PASSWORDS = ("one", "two")
STEPS = 60


class Walk:
    """Logins of two users, while their passwords change, they are disabled and removed, and programs give up."""

    def __init__(self, seed: int, verifier: type[PasswordVerifier]) -> None:
        self.random = Random(seed)
        self.bench = LoginBench(user("u", "one"), user("v", "one"), threads=2, verifier=verifier)
        self.logins: set[asyncio.Task[None]] = set()
        self.always_good: dict[asyncio.Task[None], bool] = {}
        self.faults: list[str] = []

    def good(self, name: str, password: str) -> bool:
        """True if the password is right now, as anybody can tell who looks at the stored hash."""
        known = self.bench.users.get(name)
        return known is not None and known.enabled and known.password in (hash_for(password), hash_for(password, 1))

    async def login(self, name: str, password: str, address: str) -> None:
        own = asyncio.current_task()
        assert own is not None
        self.always_good[own] = self.good(name, password)
        verified = await self.bench.verifier.verify(name, password, address)
        if verified is None and self.always_good[own]:
            self.faults.append(f"{name} was refused with a password that was right all the time")
        if verified is not None and not (self.good(name, password) and verified.user == self.bench.users[name]):
            self.faults.append(f"{name} was admitted with a password that is not right any more")

    def change(self, name: str) -> None:
        users, random = self.bench.users, self.random
        match random.randrange(4):
            case 0:
                users.pop(name, None)
            case 1 if name in users:
                users[name] = users[name]._replace(enabled=random.random() < 0.5)
            case _:
                users[name] = User(name, password=hash_for(random.choice(PASSWORDS), random.randrange(2)))

    async def step(self) -> None:
        random = self.random
        match random.randrange(6):
            case 0 | 1:
                name, password, address = random.choice("uvw"), random.choice(PASSWORDS), random.choice("ab")
                new = asyncio.get_running_loop().create_task(
                    self.login(name, password, address), name=f"{name} {password}"
                )
                self.logins.add(new)
            case 2 | 3 if self.bench.executor.work:
                self.bench.executor.step()
            case 4:
                self.change(random.choice("uv"))
            case 5 if self.logins:
                sorted(self.logins, key=asyncio.Task.get_name)[0].cancel()
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        for each in self.logins:
            self.always_good[each] = self.always_good.get(each, True) and self.good(*each.get_name().split())

    async def run(self) -> None:
        for _ in range(STEPS):
            await self.step()
            self.logins = {each for each in self.logins if not each.done()}
        await settle()
        for each in self.logins:
            each.cancel()
        await settle()
        if self.bench.verifier.waiting:
            self.faults.append("a verification waits for which nobody waits")
        await self.bench.finish()


@both_loops
@pytest.mark.parametrize("seed", range(40))
async def test_x4_5_random_logins_and_changes(seed: int) -> None:
    walk = Walk(seed, PasswordVerifier)
    await walk.run()
    assert walk.faults == []


class RemembersWithoutHash(PasswordVerifier):
    """A good password is remembered whatever hash it was good for."""

    def _key_of(self, name: str, stored: str, password: bytes) -> bytes:
        return super()._key_of(name, "", password)


_looked: ContextVar[dict[str, User | None]] = ContextVar("looked")


class LooksOnce(PasswordVerifier):
    """The user is not looked at again behind its verification."""

    def __init__(self, look: Callable[[str], User | None], *arguments: Any, **keywords: Any) -> None:
        def look_once(name: str) -> User | None:
            return _looked.get().setdefault(name, look(name))

        super().__init__(look_once, *arguments, **keywords)

    async def verify(self, name: str, password: str | bytes, address: str) -> Any:
        _looked.set({})
        return await super().verify(name, password, address)


class LeavesHoles(PasswordVerifier):
    """Who gives up still has its turn."""

    def _leave(self, waiter: Any) -> None:
        waiter.verification.waiters.pop(waiter, None)


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [(RemembersWithoutHash, "admitted"), (LooksOnce, "admitted"), (LeavesHoles, "nobody waits")],
    ids=["without the hash in what is remembered", "without a second look", "without leaving"],
)
async def test_without_a_guard_a_walk_finds_the_fault(mutant: type[PasswordVerifier], fault: str) -> None:
    for seed in range(100):
        walk = Walk(seed, mutant)
        await walk.run()
        if any(fault in each for each in walk.faults):
            return
    pytest.fail(f"a hundred walks have not found it: {fault}")
