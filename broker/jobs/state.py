"""The state of a message that was put: the answer to who asks about it later."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.mqi import HistoryRecord


class JobState(StrEnum):
    """The state of a message."""

    WAITING = "waiting"
    """It is on its queue, or about to be, and nobody has it in hand."""
    DELAYED = "delayed"
    """It is on its queue, and is not given to anybody before an instant: it was put so, or is tried again then."""
    RUNNING = "running"
    """A handler or another program has it in hand."""
    IN_DOUBT = "in_doubt"
    """Somebody was done with it in a unit of work that a database decides, and the decision is not known here."""
    DEAD = "dead"
    """It is a dead letter, or its data is damaged."""
    DONE = "done"
    """It has ended, and the history of its queue tells how: see `outcome` of the record."""
    GONE = "gone"
    """It is nowhere: it was handled, has expired, was removed, or was never put."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The status of a message. Instants are in seconds since 1970; None: not known, or of no meaning.

    `since` is when it has come into this state, `until` the end of its delay. `where` names the program that has it in
    hand; it is empty for a user who may not know (DSP on the queue manager). `attempts` counts how often it was in
    hand, as far as that is known. Of a dead letter `reason` says in a word why it is one, `error` what its handler
    raised. `record` is its record in the history, the last one if there are several.
    """

    state: JobState
    queue: str
    msg_id: bytes
    since: float | None = None
    until: float | None = None
    where: str = ""
    attempts: int = 0
    reason: str = ""
    error: str = ""
    record: HistoryRecord | None = None

    def fields(self) -> dict[str, Any]:
        """Return what is known, to be written as JSON. `result` has what `app.result` tells."""
        found: dict[str, Any] = {"state": self.state.value, "queue": self.queue, "id": self.msg_id.hex()}
        for name in ("since", "until", "where", "attempts", "reason", "error"):
            if value := getattr(self, name):
                found[name] = value
        if self.record is not None:
            found["result"] = _result(self.record)
        return found


def _result(record: HistoryRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "outcome": record.outcome,
        "attempts": record.attempts,
        "ended": record.ended,
        "error": None if record.outcome == "succeeded" else record.failure,
        "value": record.value,
    }
    if record.value_type:
        found |= {"value_type": record.value_type, "value_length": record.value_length}
    return found
