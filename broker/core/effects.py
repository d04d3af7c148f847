"""Effects: what a step of the core wants done outside, as values that the engine carries out in the same step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.core.entry import Entry
    from broker.core.handles import Handle
    from broker.core.logical_order import Position
    from broker.core.unit import Unit
    from broker.core.waiters import Waiter


class Move(NamedTuple):
    """How a destructive get moved its handle among groups and segments: `last_get` of its position."""

    handle: Handle
    before: Position
    after: Position

    def undo(self) -> None:
        """Nobody took the message: the handle stands where it stood, unless a later get has moved it on."""
        position = self.handle.position
        if position.last_get is self.after:
            self.handle.position = position._replace(last_get=self.before)


@dataclass(slots=True)
class Grant:
    """A message for a getter.

    `unit` is the implicit unit of a destructive get outside syncpoint: its removal is to be made durable, then settled,
    then the getter answered. `reason` is NONE or the warning of the get; TRUNCATED_MSG_FAILED (2080) is answered as an
    error that carries what fits, and has changed nothing. `entries` are one message: several when it was put together
    from its segments. None at all is the answer to UNLOCK. `move` is to be undone when nobody takes the answer. `form`
    is the form of its properties, if it has any (`broker.core.properties.form_of`).
    """

    entries: list[Entry]
    reason: int = 0
    destructive: bool = False
    unit: Unit | None = None
    move: Move | None = None
    form: int = 0

    @property
    def length(self) -> int:
        """How many bytes the message has."""
        entries = self.entries
        return entries[0].length if len(entries) == 1 else sum(entry.length for entry in entries)


@dataclass(slots=True)
class Effects:
    """What comes of a step of the core: grants to waiting getters, and waits that end with a reason."""

    grants: list[tuple[Waiter, Grant]] = field(default_factory=list)
    ended: list[tuple[Waiter, int]] = field(default_factory=list)

    def add(self, later: Effects) -> None:
        """Take in those of a later step."""
        self.grants += later.grants
        self.ended += later.ended
