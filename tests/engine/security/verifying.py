"""A verifier of passwords in the hand of a test: its users, and a thread that does one step when it is told to."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

from broker.core.security.facts import User
from broker.core.security.password_hash import PasswordHash
from broker.engine.security import passwords
from broker.engine.security.verifier import PasswordVerifier
from broker.testing import VirtualClock, settle

if TYPE_CHECKING:
    from collections.abc import Callable


class SteppedExecutor(Executor):
    """Does what it is given when the test says so, in the thread of the test."""

    def __init__(self) -> None:
        self.work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.ended = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        assert not args
        future: Future[Any] = Future()
        self.work.append((future, fn))
        return future

    def step(self) -> None:
        """Do what was given first; it is told to the loop in a later turn."""
        future, function = self.work.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = function()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.ended = True


def hash_for(password: str, salt: int = 0) -> str:
    """A hash that `fits` finds right for the password, of the parameters of new ones."""
    digest = password.encode().ljust(passwords.DIGEST_BYTES, b"\0")
    salted = salt.to_bytes(passwords.SALT_BYTES)
    return str(PasswordHash(ln=passwords.LN, p=passwords.PARALLEL, salt=salted, digest=digest))


def fits(password: bytes, stored: PasswordHash) -> bool:
    return stored.digest.rstrip(b"\0") == password


class LoginBench:
    """Users, and the verifier that looks at them. `compared` has the passwords that were compared with a hash."""

    def __init__(self, *users: User, threads: int = 1, verifier: type[PasswordVerifier] = PasswordVerifier) -> None:
        self.users = {user.name: user for user in users}
        self.clock = VirtualClock()
        self.executor = SteppedExecutor()
        self.compared: list[bytes] = []
        self.verifier = verifier(self.users.get, self.clock, threads, matches=self._matches, executor=self.executor)

    def _matches(self, password: bytes, stored: PasswordHash) -> bool:
        self.compared.append(password)
        return fits(password, stored)

    async def step(self) -> None:
        """Let one verification be made, and those who wait for it go on."""
        await settle()
        self.executor.step()
        await settle()

    async def finish(self) -> None:
        """Let all that wait be verified."""
        await settle()
        while self.executor.work:
            await self.step()


def user(name: str, password: str = "", **fields: Any) -> User:
    return User(name, password=hash_for(password) if password else "", **fields)
