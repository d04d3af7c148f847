"""Failed logins are answered late, so that nobody tries passwords fast; no account is ever locked (security 8.2)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

DELAY_MAX: Final = 30.0
FORGOTTEN_SECONDS: Final = 600.0
FAILURES_MAX: Final = 10_000
"""So many addresses and users are known; the oldest go first."""

_DOUBLINGS_MAX: Final = 32


class FailedLogins:
    """The failed logins of the last ten minutes, by address and user. `now` is a monotonic time, and never goes back.

    A right password ends no delay: it is not delayed itself, and somebody else behind its address would go on faster.
    """

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def failed(self, address: str, user: str, now: float, fail_delay: float) -> float:
        """A login has failed: the seconds for which its answer waits. The first one waits for `fail_delay`, which is
        FAILDLAY, each further one twice as long as the one before, up to 30 seconds or FAILDLAY if that is longer.
        """
        while self._failures and next(iter(self._failures.values()))[1] <= now - FORGOTTEN_SECONDS:
            self._failures.popitem(last=False)
        before, _ = self._failures.pop((address, user), (0, 0.0))
        self._failures[address, user] = before + 1, now
        if len(self._failures) > FAILURES_MAX:
            self._failures.popitem(last=False)
        return max(fail_delay, min(fail_delay * (1 << min(before, _DOUBLINGS_MAX)), DELAY_MAX))
