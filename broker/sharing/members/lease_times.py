"""The times that follow from the length of a member's lease."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of a lease of so many seconds."""

    lease: float

    @property
    def renew(self) -> float:
        """Between two renewals: 3 s of 10."""
        return self.lease * 0.3

    @property
    def answer(self) -> float:
        """The time that the database has to answer a renewal: 2 s of 10."""
        return self.lease * 0.2

    @property
    def give_up(self) -> float:
        """After so long without a renewal a member regards its lease as lost: 7 s of 10."""
        return self.lease * 0.7

    @property
    def again(self) -> float:
        """Between two attempts while the database does not answer: 0.5 s of 10."""
        return self.lease * 0.05

    @property
    def watch(self) -> float:
        """Between two looks for peers whose leases have ended: 1 s of 10."""
        return self.lease * 0.1

    @property
    def statement(self) -> float:
        """The longest that one statement of a call may take, locks that it waits for included: 8 s of 10."""
        return self.lease * 0.8

    @property
    def idle(self) -> float:
        """The time that a transaction may stand still before the database ends it: 5 s of 10."""
        return self.lease * 0.5
