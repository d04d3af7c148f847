"""The interface of a queue on which messages, units of work, triggers and events rely, wherever its messages are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.names.definitions import Definition
    from broker.core.queues.counts.queue_counts import QueueCounts
    from broker.core.queues.handles import Handle
    from broker.core.queues.keys import Keys
    from broker.core.queues.unit import Unit
    from broker.core.queues.waiters import Waiters
    from broker.mqi.errors import MQError


class MessageQueue(Protocol):
    """A queue that holds messages. `LocalQueue` is its first kind, `SharedQueue` another: `shared` says which.

    `number` is that of the queue in the store, `ids` what made the MsgIds of its messages, `deleted` says that its
    definition has gone. The attributes of the definition are those of `LocalQueueAttributes`.
    """

    shared: bool
    name: str
    number: int
    ids: Identifiers
    deleted: bool
    handles: set[Handle]
    waiters: Waiters
    input_count: int
    depth: int
    pending_starts: int
    keys: Keys | None
    counts: QueueCounts
    last_triggered: float | None
    switched_off: bool
    switch_offs: int
    unwritten_switch_off: bool

    definition: Definition
    put_inhibited: bool
    get_inhibited: bool
    default_priority: int
    default_persistence: int
    property_control: int
    answers_puts_later: bool
    max_depth: int
    max_length: int
    fifo: bool
    shareable: bool
    default_input: int
    transmits: bool
    hardens_backout: bool
    trigger_on: bool
    trigger_type: int
    trigger_depth: int
    trigger_priority: int
    trigger_data: str
    process_name: str
    initiation_q_name: str

    # What its attributes mean for a message that is put

    def room(self) -> int:
        """Return the number of messages for which it has room: 0 or less when it is full."""

    def check_room(self) -> None:
        """Raise Q_FULL (2053)."""

    def full(self) -> MQError:
        """Q_FULL (2053) for what it has no room for."""

    def check_deleted(self) -> None:
        """Raise Q_DELETED (2052)."""

    def rank(self, priority: int) -> int:
        """The effective priority of a message."""

    # The steps of a message from one state to the next (`entry.TRANSITIONS`)

    def place(self, entry: Entry, unit: Unit) -> None:
        """A put: the message is on the queue, but nobody sees it."""

    def place_all(self, entries: Sequence[Entry], unit: Unit, size: int) -> None:
        """`place` new messages of one rank, of `size` bytes together."""

    def arrive(self, entries: Sequence[Entry]) -> None:
        """Puts are committed: the messages, which stand one behind the other, are available at their places."""

    def withdraw(self, entry: Entry) -> None:
        """The put is backed out."""

    def take(self, entry: Entry, unit: Unit, now: float = 0.0) -> None:
        """A destructive get: nobody sees the message, and it no longer counts. `now` is 0 where no program gets it."""

    def remove(self, entry: Entry) -> None:
        """The get is committed: the message is gone."""

    def reinstate(self, entry: Entry) -> None:
        """The get is undone: the message is back at its own place."""

    def discard(self, entry: Entry) -> None:
        """An available message goes, outside any unit of work: it is expired."""

    def lock(self, entry: Entry) -> None:
        """A browse with LOCK: only the handle that keeps the entry sees it."""

    def unlock(self, entry: Entry) -> None:
        """The message is available again."""

    def set_aside(self, entry: Entry, why: str) -> None:
        """The data of an available message is damaged: nobody is given it."""

    def readmit(self, entry: Entry) -> None:
        """A damaged message is to be removed, in the same step."""

    def claim(self, entry: Entry) -> None:
        """A consumer claims an available message: nobody else sees it. It counts in the depth, not for triggers."""

    def load_claimed(self, entries: Sequence[Entry]) -> None:
        """Messages that were claimed when the queue manager ended."""

    def acknowledge(self, entry: Entry) -> None:
        """Its consumer is done with a claimed message: it is gone."""

    def release(self, entry: Entry) -> None:
        """A claimed message is back at its own place."""

    def prepare(self, entries: Sequence[Entry]) -> None:
        """New messages are staged by a prepared unit: the queue counts them, and that is all."""

    def publish(self, entries: Sequence[Entry]) -> None:
        """The unit of these messages has been published: they are available at their places, which stand one behind
        the other.
        """

    def drop(self, entries: Sequence[Entry]) -> None:
        """The unit of these messages is discarded."""

    def delay(self, entry: Entry) -> None:
        """A message that has just been placed is to be available only at an instant."""

    def postpone(self, entry: Entry) -> None:
        """A put with a delay is committed, or a message that was got goes back and is delayed."""

    def fall_due(self, entry: Entry) -> None:
        """Make a delayed message available at its place: its instant has come."""

    # How many messages there are

    @property
    def message_count(self) -> int:
        """The number of messages that somebody may be given now or later: not the damaged and the claimed ones."""

    def count_available(self, priority: int) -> int:
        """Return the number of available messages of this effective priority or higher."""

    def qualifying(self) -> int:
        """Return the number of messages that count for triggering: committed or not, of effective priority TRIGMPRI or
        more, and not damaged.
        """
