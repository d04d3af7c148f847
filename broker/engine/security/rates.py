"""MAXCALLS and MAXBYTES of a user: for how long its lines are not read (security 8.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.core.security.facts import User

LATE_SECONDS: Final = 0.05
"""So much time that a line was not read, or read late, is made up for; what is older is lost."""


class _Allowance:
    """So many of a thing a second. What is taken beyond that is a debt, which time pays off."""

    __slots__ = ("_paid_off", "most")

    def __init__(self) -> None:
        self.most = 0
        self._paid_off = 0.0  # the instant at which nothing is owed any more

    def take(self, count: int, now: float) -> float:
        """The seconds until what was taken, here and before, is paid off; 0 where there is no limit."""
        if not self.most:
            return 0.0
        self._paid_off = max(self._paid_off, now - LATE_SECONDS) + count / self.most
        return max(self._paid_off - now, 0.0)


class UserRate:
    """The calls and bytes of one user, on all of its lines. `now` is a monotonic time."""

    __slots__ = ("_bytes", "_calls")

    def __init__(self) -> None:
        self._calls = _Allowance()
        self._bytes = _Allowance()

    def limit(self, max_calls: int, max_bytes: int) -> None:
        """Take these limits from now on, a second; 0 is none."""
        self._calls.most, self._bytes.most = max_calls, max_bytes

    def take(self, calls: int, size: int, now: float) -> float:
        """A slice of a line has brought so many calls in `size` bytes: the seconds for which that line is not read.

        Of lines that compete each is told an instant of its own, in the order in which they came: none asks again when
        it has come, and none is read before its turn.
        """
        return max(self._calls.take(calls, now), self._bytes.take(size, now))


class UserRates:
    """The rates of the users that have limits."""

    def __init__(self) -> None:
        self._rates: dict[str, UserRate] = {}

    def of(self, user: User) -> UserRate | None:
        """The rate of a user with the limits that it has now, one for all of its lines; None where it has none."""
        if not user.max_calls and not user.max_bytes:
            self.forget(user.name)
            return None
        rate = self._rates.setdefault(user.name, UserRate())
        rate.limit(user.max_calls, user.max_bytes)
        return rate

    def forget(self, name: str) -> None:
        """A user is deleted, or has no limits any more: lines that still have its rate are not held by it."""
        rate = self._rates.pop(name, None)
        if rate is not None:
            rate.limit(0, 0)
