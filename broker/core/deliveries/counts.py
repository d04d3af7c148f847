"""Counts of the deliveries of a queue under one handler (handlers rule 13.1). In memory, for all workers."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from broker.core.queues.counts.duration import Duration


@dataclass(slots=True)
class HandlerCounts:
    """Of messages: started = succeeded + failed + rejected + unreadable + later + crashed + returned + running.

    `timed_out` is among `failed`. What else is counted stands beside that sum: `retried` attempts after the first,
    `dead_lettered` and `held` messages, starts that were `empty`, records of the history that could not be put
    (`history_lost`).
    """

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    rejected: int = 0
    unreadable: int = 0
    later: int = 0
    crashed: int = 0
    returned: int = 0
    running: int = 0
    retried: int = 0
    dead_lettered: int = 0
    held: int = 0
    empty: int = 0
    history_lost: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Those that were dead-lettered, by what their last attempt came to."""
    last_error: str = ""
    last_error_at: float = 0.0
    waited: Duration = field(default_factory=Duration)
    ran: Duration = field(default_factory=Duration)

    def bury(self, why: str) -> None:
        """A message has become a dead letter."""
        self.dead_lettered += 1
        self.dead_letters[why] = self.dead_letters.get(why, 0) + 1

    def figures(self) -> dict[str, Any]:
        """As the status has them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {
            "dead_letters": dict(self.dead_letters),
            "waited": self.waited.figures(),
            "ran": self.ran.figures(),
        }
