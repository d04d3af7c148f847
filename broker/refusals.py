"""Refusals of a user at dials in turn. Who dials again counts them, and gives up: a wrong password gets no better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.mqi.errors import MQError

REFUSALS_MAX: Final = 2
"""The dials in turn at which the user is refused, until no more is tried."""


class Refusals:
    """The dials in turn that the user was refused at, NOT_AUTHORIZED (2035)."""

    def __init__(self) -> None:
        self.count = 0

    @property
    def are_final(self) -> bool:
        """True if no more is to be tried."""
        return self.count >= REFUSALS_MAX

    def note(self, error: MQError | None) -> None:
        """A dial has ended with this error, or well."""
        self.count = self.count + 1 if error is not None and error.reason == MQRC.NOT_AUTHORIZED else 0
