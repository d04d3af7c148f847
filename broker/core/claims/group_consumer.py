"""Consumers of a queue-sharing group, as far as one of its members knows them: in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.claims.consumer import Consumer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue


class Claimed(NamedTuple):
    """Messages that a consumer has claimed: how many, how many of them are pinned, and their bytes."""

    messages: int
    pinned: int
    bytes: int


class GroupConsumer(Consumer):
    """A consumer of shared queues as it was when the group was last asked. `held` is what it has claimed of each queue;
    the messages themselves are not known here.
    """

    __slots__ = ("held", "seen")

    shared = True

    def __init__(self, name: str, uuid: str, q_names: Sequence[str]) -> None:
        super().__init__(name, 0, uuid, q_names)
        self.held: dict[LocalQueue, Claimed] = {}
        self.seen: dict[Entry, bool] = {}  # claims that were looked at, and whether they are pinned

    def hold(self, queue: LocalQueue, held: Claimed) -> None:
        """It has claimed so much of a queue."""
        self.held[queue] = held
        self.counts[queue] = held.messages
        self.bytes += held.bytes

    @property
    def claim_count(self) -> int:
        return sum(held.messages for held in self.held.values())
