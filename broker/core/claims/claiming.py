"""Claiming: which messages a consumer is given, and the slices in which it is given them (claims rules 2.5 to 2.10).

A claim takes what a getter would be given next. It goes in slices: each is chosen, numbered and written when the one
before it has settled, so that there is never a hole in what is claimed, whatever fails. A slice is frozen, made
durable, and settled, as a unit of work is.
"""

from __future__ import annotations

from itertools import chain, groupby, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.calls.gets import dispatch
from broker.core.claims.consumer import CLAIMS_MAX, counts
from broker.core.message.entry import ID_MASK, MAX_PRIORITY, order_key
from broker.core.message.rows import Numbering, Rows
from broker.core.security.rights import Right
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from broker.core.claims.consumer import Consumer
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.shelf import Shelf
    from broker.core.security.caller import Caller

SLICE_LENGTH: Final = 1000
"""Messages that are claimed, or acknowledged, together; a group stays in one slice, however many it has."""

_QUEUE: Final = attrgetter("queue")

GROUP_MAX: Final = 100_000
"""A group of more messages is never claimed as a whole."""


class Limits(NamedTuple):
    """The limits of a claim: so many messages, of so many bytes together, that arrived up to the number `before`, if
    there is one; `whole`: only complete groups and logical messages. `held_bytes` is what a consumer may have claimed
    altogether; a group of more is passed over. The queues are those that `caller` may get from, all for the owner.
    """

    messages: int
    bytes: int
    before: int | None
    whole: bool
    held_bytes: int
    caller: Caller | None = None

    def allow(self, queue: LocalQueue) -> bool:
        """True if messages of this queue may be claimed."""
        return self.caller is None or self.caller.may(Right.GET, queue.name)


def queues_for(queues: Sequence[LocalQueue], consumer: Consumer, exclusive: Container[str] = ()) -> list[LocalQueue]:
    """Return the queues that may be claimed from now, beginning behind the one at which the last claim ended; those
    named by `exclusive` are open for exclusive input in the queue-sharing group. Where there is just one queue, raises
    why it may not: GET_INHIBITED (2016), OBJECT_IN_USE (2042).
    """
    refusals = {queue: refusal(queue, exclusive) for queue in queues}
    if len(queues) == 1 and (error := refusals[queues[0]]) is not None:
        raise error
    open_ones = [queue for queue in queues if refusals[queue] is None]
    later = [queue for queue in open_ones if queue.name > consumer.turn]
    return later + [queue for queue in open_ones if queue.name <= consumer.turn]


def refusal(queue: LocalQueue, exclusive: Container[str] = ()) -> MQError | None:
    """Return the error that keeps every consumer from claiming from a queue now, if there is one."""
    if queue.get_inhibited:
        return MQError(MQRC.GET_INHIBITED, f"{queue.name} is GET(DISABLED)")
    if queue.exclusive is not None or queue.name in exclusive:
        return MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is open for exclusive input elsewhere")
    if queue.clearing or queue.deleted:
        return MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is being cleared or deleted")
    return None


def choose(consumer: Consumer, queues: Sequence[LocalQueue], limits: Limits, taken: int, size: int) -> list[Entry]:
    """The messages of the next slice, in the order of their sequences; none when there is nothing more to claim. So
    many were `taken` by this claim before, of `size` bytes. What is expired has left the queues.
    """
    room = min(limits.messages - taken, CLAIMS_MAX - consumer.claim_count)
    if room <= 0:
        return []
    waiting = [queue for queue in queues if queue.shelf.available]
    share = -(-min(room, SLICE_LENGTH) // max(len(waiting), 1))
    slice_ = _Slice(room, limits.bytes - size, limits.held_bytes - consumer.bytes, started=taken > 0)
    rests = [slice_.fill(_pieces(queue, limits), min(len(slice_.entries) + share, SLICE_LENGTH)) for queue in waiting]
    for pieces in rests:  # what one queue does not have, another may
        slice_.fill(pieces, SLICE_LENGTH)
    return slice_.entries


class _Slice:
    """The pieces of a slice: single messages, or whole groups, which are never parted."""

    def __init__(self, room: int, size: int, held: int, *, started: bool) -> None:
        self._room = room
        self._size = size
        self._held = held
        self._started = started  # the claim has something: nothing more may exceed what it may take
        self.entries: list[Entry] = []

    def fill(self, pieces: Iterator[ClaimPiece], length: int) -> Iterator[ClaimPiece]:
        """Take pieces until the slice has this length, or what the claim may take is taken. Return the others."""
        entries = self.entries
        while len(entries) < length and self._room > 0:
            piece = next(pieces, None)
            if piece is None:
                break
            messages, size = len(piece.entries), piece.bytes
            too_much = self._started and (messages > self._room or size > self._size)
            if too_much or size > self._held:
                return chain((piece,), pieces)
            self._started = True
            self._room -= messages
            self._size -= size
            self._held -= size
            entries += piece.entries
        return pieces


class ClaimPiece(NamedTuple):
    """A message, or the messages of a group, and the length of their data together."""

    entries: Sequence[Entry]
    bytes: int


def _pieces(queue: LocalQueue, limits: Limits) -> Iterator[ClaimPiece]:
    """Yield the pieces that can be claimed of a queue, in the order in which a getter would be given them."""
    shelf, before = queue.shelf, ID_MASK if limits.before is None else min(limits.before, ID_MASK)
    keys = shelf.wholes().keys if limits.whole else shelf.available
    for rank in range(MAX_PRIORITY, -1, -1):
        end = order_key(rank, before)
        for key in takewhile(end.__ge__, keys.after(order_key(rank, 0))):
            entry = shelf.entries[key]
            if not limits.whole:
                yield ClaimPiece((entry,), entry.length)
            elif (piece := _whole(shelf, entry, before, limits)) is not None:
                yield piece


def _whole(shelf: Shelf, entry: Entry, before: int, limits: Limits) -> ClaimPiece | None:
    """The group that begins with this message, if it may be claimed."""
    if shelf.groups.size(entry) > GROUP_MAX:
        return None
    keys = shelf.groups.in_order(entry)
    if keys[0] != entry.key:
        return None  # a second one of the same number stays
    entries = [shelf.entries[key] for key in keys]
    late = any(each.place > before for each in entries)
    size = sum(each.length for each in entries)
    return None if late or size > limits.held_bytes else ClaimPiece(entries, size)


def freeze(consumer: Consumer, entries: Sequence[Entry], now: float) -> Rows:
    """Claim these messages, next in sequence. Return the rows; until they are durable, nobody reads the messages."""
    rows = Rows()
    for entry in entries:
        entry.queue.claim(entry)
    first = consumer.next
    run: list[int] = []
    for sequence, entry in enumerate(entries, first):
        if entry.persistence:
            run.append(entry.id)
        else:  # the store has it as long as it is claimed
            rows.inserts.append(entry.row()._replace(holder=consumer.number, sequence=sequence))
            if run:
                rows.held.append(Numbering(consumer.number, sequence - len(run), run))
                run = []
    if run:
        rows.held.append(Numbering(consumer.number, first + len(entries) - len(run), run))
    rows.states.append(consumer.row(**_claimed(consumer, entries, now)))
    return rows


def settle(manager: Manager, consumer: Consumer, entries: Sequence[Entry], now: float, *, durable: bool) -> None:
    """The slice is durable: its messages are the consumer's. Or it is not, and they are available again."""
    if durable:
        consumer.change(**(_claimed(consumer, entries, now) | {"next": consumer.next}))
        consumer.take(entries)
        for _, claimed in groupby(entries, key=_QUEUE):
            run = list(claimed)
            run[0].queue.counts.got(run, now)
        if manager.events.counting:
            for queue, count in counts(entries).items():
                manager.events.got(queue, count, now)
        return
    for entry in entries:
        entry.queue.release(entry)
    dispatch.offer(manager, entries, now)


def _claimed(consumer: Consumer, entries: Sequence[Entry], now: float) -> dict[str, object]:
    return consumer.claimed(len(entries), entries[-1].queue.name, now)
