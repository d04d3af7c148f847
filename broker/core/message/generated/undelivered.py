"""Reports and dead letters for messages that another queue manager sent here and that cannot be put.

Its putter was told long ago that all is well. So a report tells of it if it asks for one, and it is put on the
dead-letter queue unless it asks to be discarded (queue-sharing 9.6, 9.7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.generated.dead_letter import dead_letter
from broker.core.message.generated.reports import exception_report
from broker.mqi.constants.descriptor import MQRO

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers
    from broker.core.message.generated.generated import GeneratedMessage

_DISCARD_MSG = MQRO.DISCARD_MSG.value


class Undelivered(NamedTuple):
    """The messages to put in its stead: a report on it, and the letter to the dead-letter queue."""

    report: GeneratedMessage | None
    letter: GeneratedMessage | None


def fate_of(message: GeneratedMessage, reason: int, dead_q_name: str, ids: Identifiers, now: float) -> Undelivered:
    """Return the report and the dead letter of a message that failed with this MQRC; `dead_q_name` is where it goes."""
    report = exception_report(message, reason, ids, now)
    if message.md.report & _DISCARD_MSG:
        return Undelivered(report, None)
    return Undelivered(report, dead_letter(message, dead_q_name, reason, ids, now))
