"""Messages read by number: what a consumer has claimed, by sequence, and what is on a queue, by arrival number.

A queue that is read by number is read once: what is not there when its range is told never comes into it later. So the
range ends before what is uncommitted; and what somebody has got, but not committed, or has locked, is read with the
rest, since it may be back a moment later (claims section 4).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.calls import damage
from broker.core.claims.cutting import Cutting
from broker.core.message.entry import ID_MASK
from broker.core.message.rows import Rows
from broker.engine.calls.column_frames import fitting, frame
from broker.engine.jobs.awaits import PAUSE, Fetched, Written
from broker.engine.journal.bodies import damaged
from broker.interface.batches.columns import SHORT_MESSAGES_MAX
from broker.interface.claims.claims import Cut, QueueRange
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import DataDamagedError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue
    from broker.engine.claims.claim_calls import ClaimCalls
    from broker.interface.claims.claims import BrowseSelection
    from broker.interface.port import Call

_LOOKS: Final = 1000  # messages that one step looks at
_place = attrgetter("place")


def number(value: int, least: int = 0) -> int:
    """A sequence, an arrival number or a limit that somebody has given. Raises OPTIONS_ERROR (2046)."""
    if type(value) is not int or not least <= value < 1 << 62:
        raise MQError(MQRC.OPTIONS_ERROR, f"{value!r}: a sequence, an arrival number or a limit is {least} or more")
    return value


def read_claimed(
    conversation: ClaimCalls, uuid: str, generation: int, call: Call[bytes], after: int, last: int
) -> None:
    """The claims of a consumer behind `after`, as many as go into a frame."""
    consumer = conversation.core.consumers.find(uuid)
    consumer.check_generation(generation)
    consumer.check_read(after, last)
    claims = consumer.between(after, min(last, after + SHORT_MESSAGES_MAX))
    lost = next((place for place, entry in enumerate(claims) if entry is not None), len(claims))
    there: list[Entry] = []
    for entry in claims[lost:]:
        if entry is None:
            break
        there.append(entry)
    check = partial(consumer.check_generation, generation)
    _answer_frame(conversation, call, there, first=after + lost + 1, check=check)


def browse_range(
    conversation: ClaimCalls, call: Call[bytes], queue: LocalQueue, within: tuple[int, int], selection: BrowseSelection
) -> None:
    """The messages of a queue behind the number `after`, as many as go into a frame."""
    conversation.call_order.look(call, _browse(conversation, queue, within, selection))


async def _browse(
    conversation: ClaimCalls, queue: LocalQueue, within: tuple[int, int], selection: BrowseSelection
) -> bytes:
    await _settled(conversation)  # what is on its way to be backed out is back
    (after, last), now = within, conversation.context.clock.time()
    while True:
        looking = _Looking(_from(conversation, queue, after, last))
        suiting = (entry for entry in looking if _suits(entry, selection) and not entry.expired(now))
        found = fitting(suiting, conversation.room.frame_bytes)
        if found or looking.ended:
            break
        after = looking.place
        await PAUSE
    return await _frame(conversation, found, first=0)


class _Looking:
    """Some of these messages: as many as one step looks at. `place` is that of the last one, `ended` whether there are
    no more.
    """

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self.place = 0
        self.ended = False

    def __iter__(self) -> Iterator[Entry]:
        for _ in range(SHORT_MESSAGES_MAX):
            entry = next(self._entries, None)
            if entry is None:
                self.ended = True
                return
            self.place = entry.place
            yield entry


def browse_cuts(
    conversation: ClaimCalls, call: Call[list[Cut]], queue: LocalQueue, within: tuple[int, int], most: tuple[int, int]
) -> None:
    """Answer the cuts of the range of a queue, up to so many messages of so many bytes."""
    conversation.call_order.look(call, _cuts(conversation, queue, within, most))


async def _cuts(
    conversation: ClaimCalls, queue: LocalQueue, within: tuple[int, int], most: tuple[int, int]
) -> list[Cut]:
    await _settled(conversation)
    cutting = Cutting()
    (after, last), (messages, size) = within, most
    while messages > 0 and size > 0:
        entries = list(islice(_from(conversation, queue, after, last), min(_LOOKS, messages)))
        for entry in entries:
            if size <= 0:
                break
            cutting.add(entry.place, entry)
            size -= entry.length
        if len(entries) < _LOOKS:
            break
        after, messages = entries[-1].place, messages - len(entries)
        await PAUSE
    return [Cut(*piece) for piece in cutting.pieces]


def queue_ranges(conversation: ClaimCalls, call: Call[list[QueueRange]], q_names: Sequence[str]) -> None:
    """Answer the ranges of queues that can be read now by arrival number."""
    conversation.call_order.look(call, _ranges(conversation, q_names))


async def _ranges(conversation: ClaimCalls, q_names: Sequence[str]) -> list[QueueRange]:
    consumers = conversation.core.consumers
    arrived = conversation.core.ids.last
    await _settled(conversation)  # what had been put by then is there, or never comes
    found = []
    for queue in consumers.queues_of(q_names):
        missing = [entry.place for entry in _uncommitted(conversation, queue)]
        missing += conversation.core.sinks.places_to_appear()
        last = min((place - 1 for place in missing), default=arrived)
        last = min(last, arrived)
        first = queue.shelf.oldest()
        size = queue.bytes - queue.claimed_bytes - queue.prepared_bytes
        found.append(QueueRange(queue.name, max(first - 1, 0), last, len(queue.shelf.available), size))
        await PAUSE
    return found


async def _settled(conversation: ClaimCalls) -> None:
    """Wait until all that was submitted to the journal by now has settled, as far as there was room for it."""
    with suppress(StoreError):
        await Written(conversation.context.journal, Rows())


def within(numbers: tuple[int, int]) -> tuple[int, int]:
    """A range of arrival numbers that somebody has given."""
    after, last = numbers
    return min(number(after), ID_MASK), min(number(last), ID_MASK)


def _from(conversation: ClaimCalls, queue: LocalQueue, after: int, last: int) -> Iterator[Entry]:
    """The messages of a queue by arrival number, those too that somebody has got, or locked, for now."""
    aside = [entry for handle in queue.handles for entry in handle.position.locked]
    for unit in conversation.manager.conversations.units():
        aside += [entry for entry in unit.gets if entry.queue is queue]
    some = sorted((entry for entry in aside if after < entry.place <= last), key=_place)
    there = queue.shelf.by_arrival(after, last)
    return merge(there, some, key=_place) if some else there


def _uncommitted(conversation: ClaimCalls, queue: LocalQueue) -> Iterator[Entry]:
    """The messages that open units of work have put to a queue."""
    for unit in conversation.manager.conversations.units():
        yield from (entry for entry in unit.puts if entry.queue is queue)


def _suits(entry: Entry, selection: BrowseSelection) -> bool:
    return (
        selection.msg_id in (None, entry.msg_id)
        and selection.correl_id in (None, entry.correl_id)
        and selection.group_id in (None, entry.group_id)
    )


def _answer_frame(
    conversation: ClaimCalls, call: Call[bytes], entries: list[Entry], *, first: int, check: Callable[[], None]
) -> None:
    some = fitting(entries, conversation.room.frame_bytes)
    size = sum(entry.length for entry in some)
    following = entries[len(some) : 2 * len(some)]
    conversation.call_order.look(call, _frame_and_ahead(conversation, some, following, first, check), size)


async def _frame_and_ahead(
    conversation: ClaimCalls, entries: Sequence[Entry], following: Sequence[Entry], first: int,
    check: Callable[[], None],
) -> bytes:  # fmt: skip
    """A frame; what the reader asks for next is being read."""
    frame = await _frame(conversation, entries, first=first)
    check()
    conversation.context.bodies.ahead(following)
    return frame


async def _frame(conversation: ClaimCalls, entries: Sequence[Entry], *, first: int) -> bytes:
    """A frame of these messages; where the data of one is damaged, of those before it."""
    while True:
        make = partial(_made, conversation, entries, first)
        try:
            return await Fetched(conversation.context.bodies, entries, make)
        except DataDamagedError as error:
            bad = set(damaged(entries, error))
            good = next((place for place, entry in enumerate(entries) if entry in bad), len(entries))
            if bad and not good:
                raise damage.refusal(entries[0], str(error)) from None
            entries = entries[:good]


def _made(conversation: ClaimCalls, entries: Iterable[Entry], first: int) -> bytes:
    return frame(list(entries), conversation.context.clock.time(), first, keys=not first)
