"""The exception that carries a reason code to the program that made the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.mqi.reasons import MQCC, MQRC

if TYPE_CHECKING:
    from broker.mqi.structures import ResponseRecord


class MQError(Exception):
    """A call that did not do its work.

    Prints as `MQRC_Q_FULL (2053): ORDERS holds 5000 messages, its maximum depth`; without a detail, as
    `MQRC_Q_FULL (2053)`. Misuse of the Python interface itself is a `TypeError` or a `ValueError` instead.
    """

    reason: MQRC | int
    """Why the call failed; a plain number where `MQRC` does not know it, as from a newer queue manager."""

    detail: str
    """What the reason refers to, for people; may be empty."""

    completion: MQCC
    """FAILED, or WARNING for the warnings that leave the work undone: 2003, 2080 and 2124."""

    message: object
    """The part of the message that fitted, for MQRC_TRUNCATED_MSG_FAILED (2080); otherwise None."""

    records: tuple[ResponseRecord, ...]
    """What became of each destination of a distribution list, for MQRC_MULTIPLE_REASONS (2136); otherwise empty."""

    results: tuple[Any, ...] = ()
    """The results of the messages that a batch had put before the one that failed; otherwise empty."""

    def __init__(
        self,
        reason: MQRC | int,
        detail: str = "",
        completion: MQCC = MQCC.FAILED,
        message: object = None,
        records: tuple[ResponseRecord, ...] = (),
    ) -> None:
        # The arguments of Exception are what pickling calls the class with again.
        super().__init__(reason, detail, completion, message, records)
        self.reason = _known(reason)
        self.detail = detail
        self.completion = completion
        self.message = message
        self.records = records

    def __str__(self) -> str:
        name = f"MQRC_{self.reason.name} ({self.reason.value})" if isinstance(self.reason, MQRC) else str(self.reason)
        return f"{name}: {self.detail}" if self.detail else name


def _known(reason: int) -> MQRC | int:
    """The reason as a member of `MQRC`, or the number itself where MQRC lacks it."""
    try:
        return MQRC(reason)
    except ValueError:
        return int(reason)
