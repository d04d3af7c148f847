"""The exception that carries a reason code to the program that made the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.mqi.reasons import MQCC, MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import ResponseRecord


class MQError(Exception):
    """A call that did not do its work.

    Prints as `MQRC_Q_FULL (2053): ORDERS holds 5000 messages, its maximum depth`; without a detail, as
    `MQRC_Q_FULL (2053)`. Misuse of the Python interface itself is a `TypeError` or a `ValueError` instead.
    """

    reason: MQRC | int
    """The reason why the call failed; a plain number where `MQRC` does not know it, as from a newer queue manager."""

    detail: str
    """The details of the reason, for people; may be empty."""

    completion: MQCC
    """FAILED, or WARNING for the warnings that leave the work undone: 2003, 2080 and 2124."""

    message: object
    """The part of the message that fitted, for MQRC_TRUNCATED_MSG_FAILED (2080); otherwise None."""

    records: tuple[ResponseRecord, ...]
    """The outcome for each destination of a distribution list, for MQRC_MULTIPLE_REASONS (2136); otherwise empty."""

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


COMMAND_FAILED = 3008
"""MQRCCF_COMMAND_FAILED, the reason of `CommandFailedError`: a reason of commands, which `MQRC` does not have."""


class CommandFailedError(MQError):
    """A command of a script failed, and who ran the script wanted it to end there (`mqsc(text, check=True)`).

    `replies` has a reply to each command up to the failed one, which is the last; those behind it were not run, those
    before it stay done. The reason is MQRCCF_COMMAND_FAILED (3008).
    """

    replies: tuple[CommandReply, ...]

    def __init__(self, replies: Sequence[CommandReply]) -> None:
        before = len(replies) - 1
        done = {0: "nothing took effect", 1: "the one before it took effect and stays"}.get(
            before, f"the {before} before it took effect and stay"
        )
        super().__init__(COMMAND_FAILED, f"command {before + 1} failed, {done}: {replies[-1].text}")
        self.args = (tuple(replies),)  # what pickling calls the class with again
        self.replies = tuple(replies)

    @property
    def reply(self) -> CommandReply:
        """The reply to the command that failed."""
        return self.replies[-1]

    def __str__(self) -> str:
        return f"MQRCCF_COMMAND_FAILED ({COMMAND_FAILED}): {self.detail}"


def _known(reason: int) -> MQRC | int:
    """The reason as a member of `MQRC`, or the number itself where MQRC lacks it."""
    try:
        return MQRC(reason)
    except ValueError:
        return int(reason)
