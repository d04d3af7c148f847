"""Effects: what a step of the core wants done outside, as values that the engine carries out in the same step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.core.message.generated.generated import GeneratedMessage, Lost
    from broker.core.message.generated.trigger_message import TriggerMessage
    from broker.core.message.logical_order import Position
    from broker.core.queues.handles import Handle
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiter
    from broker.mqi.errors import MQError


class Move(NamedTuple):
    """A move of a handle among groups and segments by a destructive get, as `last_get` of its position."""

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
    is the form of its properties, if it has any (`broker.core.message.headers.properties.form_of`).
    """

    entries: list[Entry]
    reason: int = 0
    destructive: bool = False
    unit: Unit | None = None
    move: Move | None = None
    form: int = 0

    @property
    def length(self) -> int:
        """The number of bytes of the message."""
        entries = self.entries
        return entries[0].length if len(entries) == 1 else sum(entry.length for entry in entries)


class Effects:
    """The effects of the core's steps, gathered until the engine carries them out (`Manager.drain`).

    `grants` are for gets that waited, `ended` are waits that end with a reason. `expired` messages are off their queues
    and to be removed from the store, with a report where they ask for one. `triggered` trigger messages and `generated`
    messages are to be put, `lost` ones could not be. `held` are dead letters that could not be put: of which queue,
    where, how many, and why. `postponed` messages are delayed: until when on the monotonic clock
    (`postponing.postpone`). `unrecorded` has the queues of messages whose end could not be recorded: where, and why
    last. `posted`: trigger monitors have something to look at. `to_judge` are shared queues that may
    trigger now, which the database must be asked (`group_triggers.looked_at`). `to_offer` are messages that those
    who wait have not been offered yet: unlocked, or no longer behind another. That is left to the next `drain`.
    """

    __slots__ = (
        "ended",
        "expired",
        "generated",
        "grants",
        "held",
        "lost",
        "posted",
        "postponed",
        "to_judge",
        "to_offer",
        "triggered",
        "unrecorded",
    )

    def __init__(self) -> None:
        self.grants: list[tuple[Waiter, Grant]] = []
        self.ended: list[tuple[Waiter, int]] = []
        self.expired: list[Entry] = []
        self.generated: list[GeneratedMessage] = []
        self.lost: list[Lost] = []
        self.held: list[tuple[str, str, int, MQError]] = []
        self.posted = False
        self.postponed: list[tuple[Entry, float | None]] = []
        self.to_judge: list[MessageQueue] = []
        self.to_offer: list[Entry] = []
        self.triggered: list[TriggerMessage] = []
        self.unrecorded: dict[str, tuple[str, Exception]] = {}

    def __bool__(self) -> bool:
        return bool(
            self.grants
            or self.ended
            or self.expired
            or self.generated
            or self.triggered
            or self.lost
            or self.posted
            or self.to_offer
            or self.postponed
            or self.to_judge
        )

    def take(self) -> Effects:
        """All that has gathered, but for what is to be offered."""
        taken = Effects()
        taken.grants, self.grants = self.grants, taken.grants
        taken.ended, self.ended = self.ended, taken.ended
        taken.expired, self.expired = self.expired, taken.expired
        taken.generated, self.generated = self.generated, taken.generated
        taken.lost, self.lost = self.lost, taken.lost
        taken.triggered, self.triggered = self.triggered, taken.triggered
        taken.posted, self.posted = self.posted, False
        taken.postponed, self.postponed = self.postponed, taken.postponed
        taken.to_judge, self.to_judge = self.to_judge, taken.to_judge
        return taken
