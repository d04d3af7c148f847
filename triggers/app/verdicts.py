"""The verdicts of an app on failures: the attempts for a message, and the exceptions by which a handler says more."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from broker.mqi import check_seconds

Backoff = float | tuple[float, float] | list[float]

FEEDBACK_MIN: Final = 65536
FEEDBACK_MAX: Final = 999_999_999
"""The range of Feedback that MQ leaves to applications (MQFB_APPL_FIRST, MQFB_APPL_LAST)."""


class StepError(Exception):
    """A kept step is not what its function returns now: the annotation of its return cannot read it. The attempt fails
    with it, as with any exception.
    """


@dataclass(frozen=True, slots=True)
class Retry:
    """The retries of a message: how many, and after how long (handlers rules 1.3, 1.4, 2.1).

    - `n`: retries after the first attempt; None is for ever.
    - `backoff`: seconds before a retry. A number is constant; a tuple (min, max) doubles from the one to the other; a
      list is a table, whose last value repeats. No wait is longer than ten years.
    - `on`, `never`: the exceptions that are tried again, and those among them that are not: with them a message is a
      dead letter at once.
    - `crashes`: after how many crashes of a worker a message is given up.
    - `jitter`: the wait is multiplied by 0.5 to 1, by MsgId and attempt: spread, yet the same at each run.

    Raises ValueError and TypeError for values that say nothing.
    """

    n: int | None = 5
    backoff: Backoff = (0.1, 60.0)
    _: KW_ONLY
    on: tuple[type[BaseException], ...] = (Exception,)
    never: tuple[type[BaseException], ...] = ()
    crashes: int = 3
    jitter: bool = True

    def __post_init__(self) -> None:
        if self.n is not None and not (type(self.n) is int and self.n >= 0):
            raise ValueError(f"Retry({self.n!r}): the number of retries, 0 or more, or None for ever")
        if type(self.crashes) is not int or self.crashes < 1:
            raise ValueError(f"Retry(crashes={self.crashes!r}): 1 or more")
        for name in ("on", "never"):
            kinds = getattr(self, name)
            kinds = kinds if isinstance(kinds, tuple) else (kinds,)
            if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
                raise TypeError(f"Retry({name}={kinds!r}): exception classes")
            object.__setattr__(self, name, kinds)
        waits = self.waits
        if not waits or not all(isinstance(wait, int | float) for wait in waits):
            raise ValueError(f"Retry(backoff={self.backoff!r}): seconds, 0 or more")
        for wait in waits:
            check_seconds("Retry(backoff=...) with a wait of {}", wait)
        if self.doubles and (len(waits) != 2 or waits[0] > waits[1]):
            raise ValueError(f"Retry(backoff={self.backoff!r}): a tuple is (min, max); a list is a table")

    @property
    def doubles(self) -> bool:
        """True if the backoff is a least and a most."""
        return isinstance(self.backoff, tuple)

    @property
    def waits(self) -> tuple[float, ...]:
        """The seconds of `backoff`, however they were given."""
        return tuple(self.backoff) if isinstance(self.backoff, Sequence) else (self.backoff,)

    def tries_again(self, error: BaseException) -> bool:
        """True if a message is tried again after this. SystemExit, and a cancellation that nobody asked for, are
        exceptions like others (handlers rule 1.1).
        """
        if isinstance(error, self.never):
            return False
        kind = RuntimeError() if isinstance(error, SystemExit | KeyboardInterrupt | CancelledError) else error
        return isinstance(error, self.on) or isinstance(kind, self.on)


DEFAULT_RETRY: Final = Retry(17, (0.5, 600.0))
"""The retry of a handler that names none: 77 minutes of waiting in all, 58 in the mean with jitter. So an outage of
what it calls makes no dead letters, and a message that nobody can handle is one within two hours.
"""


class Reject(Exception):
    """Raised by a handler: this message cannot be handled, now or later. It is a dead letter at once, with `feedback`
    as its reason, 65536 to 999999999.
    """

    def __init__(self, text: str = "", feedback: int = FEEDBACK_MIN) -> None:
        if not FEEDBACK_MIN <= feedback <= FEEDBACK_MAX:
            raise ValueError(f"feedback={feedback}: {FEEDBACK_MIN} to {FEEDBACK_MAX}")
        super().__init__(text)
        self.feedback = feedback


class Later(Exception):
    """Raised by a handler: this message is to be handled in so many seconds, at most ten years. That is no attempt,
    unless `counted`. Raises ValueError for another number.
    """

    def __init__(self, seconds: float, *, counted: bool = False) -> None:
        check_seconds("Later({})", seconds)
        super().__init__(f"to be handled in {seconds} s")
        self.seconds = float(seconds)
        self.counted = counted


class BatchError(Exception):
    """Raised by the handler of a batch: the messages at these places, counted from 0, have failed. The others are done,
    with all that was put; where it names all of them, nothing that was put is committed.
    """

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        if not errors:
            raise ValueError("BatchError tells which messages failed: {index: exception}")
        super().__init__(f"{len(errors)} of the batch failed: places {', '.join(map(str, sorted(errors)))}")
        self.errors = dict(errors)


class RequestError(Exception):
    """Raised by `app.request`: the request has ended on a dead-letter queue. `reason` is why: 2362 after the last
    attempt, 2110 where nobody could read it, or the feedback of a `Reject`.
    """

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(f"{text} (reason {reason})")
        self.reason = reason
