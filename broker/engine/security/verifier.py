"""Passwords are verified: in threads of their own, in turns, each once for all who wait for it (security 4.6, 8.2).

1. A password is admitted only if it fits the hash that the user has when the answer is given: behind each verification
   the user is looked at again, and one that has changed is verified anew.
2. A user that is not there, is disabled or has no password costs what a wrong password costs, and gets the same answer.
3. Equal verifications under way are one: the same user, hash and password.
4. A good password is remembered for 15 minutes under its hash, so that a changed hash forgets it. It waits for nobody.
5. A verification belongs to those who wait for it. When the last one leaves before it began, it is not made.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.security.password_hash import PasswordHash, check, check_password, encoded, parse
from broker.engine.security import passwords
from broker.engine.security.turns import Turns
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from broker.clock import Clock
    from broker.core.security.facts import User

logger = logging.getLogger(__name__)

REMEMBERED_SECONDS: Final = 15 * 60.0
REMEMBERED_MAX: Final = 10_000
"""So many good passwords are remembered; the oldest goes first."""


class Verified(NamedTuple):
    """A user whose password was right. `renewal` is a new hash of the password, to be stored in place of the weaker
    one that the user has now; empty where there is nothing to store.
    """

    user: User
    renewal: str = ""


class PasswordVerifier:
    """Verifies the passwords of users, `threads` at a time. `look` returns a user as it is now, None where there is
    none. `matches` compares a password with a hash, in a thread of `executor`, by default one of the verifier's own.
    """

    def __init__(
        self,
        look: Callable[[str], User | None],
        clock: Clock,
        threads: int = 2,
        *,
        matches: Callable[[bytes, PasswordHash], bool] = passwords.matches,
        executor: Executor | None = None,
    ) -> None:
        self._look = look
        self._clock = clock
        self._threads = threads
        self._matches = matches
        self._executor = executor
        self._working = 0
        self._closed = False
        self._key = secrets.token_bytes(32)
        self._dummy = passwords.dummy()
        self._turns: Turns[_Waiter] = Turns()
        self._under_way: dict[bytes, _Verification] = {}
        self._remembered: OrderedDict[bytes, float] = OrderedDict()
        self.verifications = 0
        """The number of verifications begun."""

    @property
    def waiting(self) -> int:
        """The number of those who wait for their turn."""
        return len(self._turns)

    async def verify(self, name: str, password: str | bytes, address: str) -> Verified | None:
        """The user, if this is its password and it is enabled, else None; no await stands between the last look at the
        user and the return. `address` is whose turn it takes. Raises Q_MGR_STOPPING (2162) when the queue manager ends.
        """
        if check_password(password) is not None:
            return None  # it is nobody's: whoever sent it knows that without us
        data = encoded(password)
        while True:
            self._check_open()
            user = self._look(name)
            stored = _hash_of(user)
            key = self._key_of(name, stored, data)
            if user is not None and stored and self._remembers(key):
                return Verified(user)
            outcome = await self._outcome(key, name, stored, data, address)
            self._check_open()
            if not stored or not outcome.good:
                return None
            user = self._look(name)
            if user is not None and _hash_of(user) == stored:
                return Verified(user, outcome.renewal)

    def close(self) -> None:
        """End those who wait, with Q_MGR_STOPPING (2162), and the threads when what they do is done."""
        self._closed = True
        for verification in self._under_way.values():
            verification.settle(_REFUSED)
        self._under_way.clear()
        self._turns = Turns()
        self._remembered.clear()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _check_open(self) -> None:
        if self._closed:
            raise MQError(MQRC.Q_MGR_STOPPING, "no password is verified any more, the queue manager ends")

    # Remembered passwords

    def _key_of(self, name: str, stored: str, password: bytes) -> bytes:
        """One password of a user under one hash: nobody who reads the key can tell the password."""
        parts = (name.encode(errors="replace"), stored.encode(), password)
        return hmac.digest(self._key, b"".join(len(part).to_bytes(4) + part for part in parts), "sha256")

    def _remembers(self, key: bytes) -> bool:
        now = self._clock.monotonic()
        while self._remembered and next(iter(self._remembered.values())) <= now:
            self._remembered.popitem(last=False)
        return key in self._remembered

    def _remember(self, key: bytes) -> None:
        self._remembered[key] = self._clock.monotonic() + REMEMBERED_SECONDS
        self._remembered.move_to_end(key)
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)

    # Verifications

    async def _outcome(self, key: bytes, name: str, stored: str, password: bytes, address: str) -> _Outcome:
        """The outcome of a verification, of one that is under way if there is such a one."""
        verification = self._under_way.get(key)
        if verification is None:
            against = parse(stored) if stored else self._dummy
            verification = self._under_way[key] = _Verification(key, name, password, against, self._matches)
        waiter = _Waiter(verification, address)
        verification.waiters[waiter] = None
        if not verification.began:
            self._turns.add(address, name, waiter)
            self._begin()
        try:
            return await waiter.future
        finally:
            self._leave(waiter)

    def _leave(self, waiter: _Waiter) -> None:
        verification = waiter.verification
        verification.waiters.pop(waiter, None)
        self._turns.discard(waiter.address, verification.name, waiter)
        if not verification.waiters and not verification.began:
            self._under_way.pop(verification.key, None)

    def _begin(self) -> None:
        """Begin what is next, while a thread is free."""
        while self._working < self._threads and self._turns:
            verification = self._turns.take().verification
            for waiter in verification.waiters:
                self._turns.discard(waiter.address, verification.name, waiter)
            verification.began = True
            self._working += 1
            self.verifications += 1
            future = asyncio.get_running_loop().run_in_executor(self._made_executor(), verification.made)
            future.add_done_callback(partial(self._done, verification))

    def _made_executor(self) -> Executor:
        """The threads, which are there from the first verification on."""
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="verification of passwords")
        return self._executor

    def _done(self, verification: _Verification, future: asyncio.Future[_Outcome]) -> None:
        self._working -= 1
        if self._closed or future.cancelled():
            return
        error = future.exception()
        if error is not None:
            logger.error(
                "a password could not be verified user=%r: %s",
                verification.name,
                error,
                extra={"event": "password_not_verified"},
            )
        outcome = _REFUSED if error is not None else future.result()
        if outcome.good:
            self._remember(verification.key)
        if outcome.renewal:
            self._remember(self._key_of(verification.name, outcome.renewal, verification.password))
        self._under_way.pop(verification.key, None)
        verification.settle(outcome)
        self._begin()


def _hash_of(user: User | None) -> str:
    """The hash that a password has to fit; empty where none lets anybody in."""
    if user is None or not user.enabled or check(user.password) is not None:
        return ""
    return user.password


class _Outcome(NamedTuple):
    good: bool
    renewal: str = ""


_REFUSED: Final = _Outcome(good=False)


class _Verification:
    """One password compared with one hash, for all who wait for that."""

    def __init__(
        self,
        key: bytes,
        name: str,
        password: bytes,
        against: PasswordHash,
        matches: Callable[[bytes, PasswordHash], bool],
    ) -> None:
        self.key = key
        self.name = name
        self.password = password
        self.waiters: dict[_Waiter, None] = {}
        self.began = False
        self._against = against
        self._matches = matches

    def made(self) -> _Outcome:
        """In a thread: compare, and renew a weaker hash."""
        good = self._matches(self.password, self._against)
        renews = good and passwords.needs_renewal(self._against)
        return _Outcome(good, passwords.hash_of(self.password) if renews else "")

    def settle(self, outcome: _Outcome) -> None:
        """Wake all who wait; the first one has the renewal to store, one is enough."""
        for waiter in self.waiters:
            if not waiter.future.done():
                waiter.future.set_result(outcome)
                outcome = outcome._replace(renewal="")


class _Waiter:
    """One who waits for a verification, at an address."""

    def __init__(self, verification: _Verification, address: str) -> None:
        self.verification = verification
        self.address = address
        self.future: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
