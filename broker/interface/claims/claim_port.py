"""The calls of a port about claims and prepared units (`docs/rules/claims.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.interface.forwarding import Forwarding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.claims.claims import (
        BrowseSelection,
        ConsumerState,
        Cut,
        Publication,
        QueueRange,
        Registration,
        Staged,
        UnitName,
        Winner,
    )
    from broker.interface.port import Call


class ClaimPort(Forwarding):
    """A part of `Port`.

    Each call is answered when what it does is durable, and each may be made again when its answer was lost. Calls about
    one consumer, or one sink, follow one another, whatever the connection.
    """

    def consumer(self, name: str, q_names: Sequence[str]) -> Call[ConsumerState]:
        """The consumer of that name, made at its first use; `q_names` are names, or generic ones (`A.*`), and replace
        those that it had, unless there are none. OBJECT_NAME_ERROR (2152), SYNCPOINT_LIMIT_REACHED (2024) for one too
        many, UNKNOWN_OBJECT_NAME (2085), OPTION_NOT_VALID_FOR_TYPE (2045) for a temporary dynamic queue.
        """
        return self.forward("consumer", name, q_names)

    def register(
        self, uuid: str, lineage: str | None, start: int | None, end: int | None, *, resume: bool = False
    ) -> Call[Registration]:
        """Become the one reader of a consumer, whose calls name the generation that is answered; any older generation
        is refused from now on (OBJECT_CHANGED, 2041). `start` is the position, `end` that of a batch that is logged
        already. With `resume` the position is the stored one, with a new lineage, and what is claimed comes again.

        It is checked first, and refused without effect: NO_SUBSCRIPTION (2428) for no such consumer,
        SUBSCRIPTION_IN_USE (2429) for another lineage, UOW_COMMITTED (2408) where more is acknowledged or pinned,
        NO_DATA_AVAILABLE (2379) for claims that are not there. The other calls raise these too.
        """
        return self.forward("register", uuid, lineage, start, end, resume)

    def claim(
        self, uuid: str, generation: int, start: int, messages: int, size: int, *, before: int | None, whole: bool
    ) -> Call[int]:
        """Acknowledge up to `start`, then claim up to so many messages of `size` bytes together, but nothing where
        claims beyond `start` exist: the sequence of the last. `before`: only what arrived up to this number. `whole`:
        only whole logical messages and groups.
        """
        return self.forward("claim", uuid, generation, start, messages, size, before, whole)

    def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> Call[list[Cut]]:
        """A batch (start, end] is going to be read: it stays so, whatever is lost. Where it may be cut, the last cut
        at `end`; `end == start` pins nothing.
        """
        return self.forward("pin", uuid, generation, lineage, start, end)

    def read_claimed(self, uuid: str, generation: int, after: int, last: int) -> Call[bytes]:
        """The pinned messages behind the sequence `after` up to `last`, or the first of them, as a frame of columns
        (`broker.interface.batches.columns`). OBJECT_DAMAGED (2101) where the first is damaged.
        """
        return self.forward("read_claimed", uuid, generation, after, last)

    def acknowledge(self, uuid: str, generation: int, to: int) -> Call[int]:
        """End the claims up to the sequence `to`: the messages are gone. STORAGE_MEDIUM_FULL (2192) leaves them
        claimed.
        """
        return self.forward("acknowledge", uuid, generation, to)

    def release(self, uuid: str, generation: int) -> Call[int]:
        """All claims go back to their queues, those that are pinned too, and the lineage ends: how many."""
        return self.forward("release", uuid, generation)

    def queue_ranges(self, q_names: Sequence[str]) -> Call[list[QueueRange]]:
        """Return the ranges that a browse by arrival number finds now on these queues (generic names too), by name."""
        return self.forward("queue_ranges", q_names)

    def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> Call[list[Cut]]:
        """Return the cuts of a queue's messages with arrival numbers behind `after` up to `last`, as far as so many of
        them, of `size` bytes together, go: the numbers of the last message before each cut.
        """
        return self.forward("browse_cuts", q_name, after, last, messages, size)

    def browse_range(self, q_name: str, after: int, last: int, selection: BrowseSelection) -> Call[bytes]:
        """The available messages with arrival numbers behind `after` up to `last`, or the first of them, as a frame of
        columns, in order of arrival. It has no messages when there are no more.
        """
        return self.forward("browse_range", q_name, after, last, selection)

    def sink(self, name: str) -> Call[tuple[str, int] | None]:
        """The ledger of a sink: the query that it belongs to, and the last batch; None when it has none."""
        return self.forward("sink", name)

    def stage(
        self, unit: UnitName, query: str | None, first: int, rows: bytes, *, options: int, last: bool
    ) -> Call[Staged]:
        """Put the messages of a frame of columns durably, with put options of MQPMO (LOGICAL_ORDER or none), as those
        with index `first` on of a prepared unit; a piece that is there already is not put again. `last`: no piece comes
        after it. Everything that MQPUT checks is checked now: PUT_INHIBITED (2051), Q_FULL (2053), INCOMPLETE_GROUP
        (2241) for a group left open, and others; besides SUBSCRIPTION_IN_USE (2429) for a sink of another query,
        UOW_COMMITTED (2408) for a batch before the last, SYNCPOINT_LIMIT_REACHED (2024).
        """
        return self.forward("stage", unit, query, first, options, last, rows)

    def publish(self, sink: str, batch: int, query: str | None, winners: Sequence[Winner]) -> Call[Publication]:
        """Decide a batch: the messages of the winners become visible, partition by partition, and all other units of
        the sink are discarded. `query` is the one that the sink belongs to, kept with the batch in its ledger; None for
        a sink that keeps none. UOW_CANCELED (2297) for a winner that has not so many rows, NO_DATA_AVAILABLE (2379) for
        a batch that comes too early, STORAGE_MEDIUM_FULL (2192), after which the units are still prepared.
        """
        return self.forward("publish", sink, batch, query, winners)

    def discard(self, units: Sequence[UnitName]) -> Call[int]:
        """Discard prepared units: how many there were."""
        return self.forward("discard", units)
