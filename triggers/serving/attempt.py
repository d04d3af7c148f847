"""The attempt to handle a delivery, for handlers that ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that this call of a handler is.

    `number` counts from 1: it is the BackoutCount of the message, of a batch its first, plus one. `limit` is the number
    of the last attempt, 0 where there is none. `waited` is for how many seconds the message could have been had.
    `q_name` is its queue.
    """

    number: int
    limit: int
    waited: float
    q_name: str

    @property
    def last(self) -> bool:
        """True if a failure makes a dead letter."""
        return 0 < self.limit <= self.number
