"""Find the logical messages in the physical ones of a group id, and what is missing (semantics 5.7, 6.1).

It is what gets with LOGICAL_ORDER, ALL_MSGS_AVAILABLE and COMPLETE_MSG would be given of these messages one after the
other, until nothing is left that they may be given; `broker.mqi.completeness` says what is complete. Of several
messages in one place the first in queue order is used; the others stay, and may be a group of their own. Of segments
that differ in character set or encoding COMPLETE_MSG gives the leading ones that agree; the others are got without it,
one by one.

The same message twice is a duplicate: of two with one MsgId, place and data only the first in queue order counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.mqi import MQMF, completeness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SEGMENT: Final = MQMF.SEGMENT.value
LAST_SEGMENT: Final = MQMF.LAST_SEGMENT.value
MSG_IN_GROUP: Final = MQMF.MSG_IN_GROUP.value
LAST_MSG_IN_GROUP: Final = MQMF.LAST_MSG_IN_GROUP.value
SEGMENTS: Final = SEGMENT | LAST_SEGMENT
GROUPED: Final = MSG_IN_GROUP | LAST_MSG_IN_GROUP
IN_PARTS: Final = GROUPED | SEGMENTS


class ArchivedPart(NamedTuple):
    """A physical message in a group or of segments. `place` orders parts as their queue does, `span` says how many
    bytes a segment reaches, `text` is its character set and encoding, `identity` its MsgId and a hash of its data.
    """

    place: tuple[int, int]
    msg_seq_number: int
    offset: int
    msg_flags: int
    span: int
    text: tuple[int, int]
    identity: tuple[bytes, int]


class Given(NamedTuple):
    """The answer of one get: the parts of a logical message in the order of their data, and the instance of the group.
    An identifier that was used for two groups has two instances.
    """

    instance: int
    parts: list[ArchivedPart]


class GroupOutcome(NamedTuple):
    """The outcome for the parts of a group id: `left` were given to no get."""

    given: list[Given]
    left: list[ArchivedPart]
    duplicates: list[ArchivedPart]


def in_logical_order(parts: Iterable[ArchivedPart]) -> GroupOutcome:
    """Return what gets in logical order are given of all parts with one group id."""
    once: dict[tuple[int, int, tuple[bytes, int]], ArchivedPart] = {}
    duplicates = []
    for part in sorted(parts):
        key = (part.msg_seq_number, part.offset, part.identity)
        if key in once:
            duplicates.append(part)
        else:
            once[key] = part
    shelf = _Shelf(once.values())
    given: list[Given] = []
    instance = 0
    while (first := shelf.start()) is not None:
        given += (Given(instance, run) for run in shelf.take_from(first))
        instance += 1
    return GroupOutcome(given, sorted(shelf.left()), duplicates)


class _Shelf:
    """The parts that were not given yet."""

    def __init__(self, parts: Iterable[ArchivedPart]) -> None:
        self._at: dict[tuple[int, int], list[ArchivedPart]] = {}  # by number and offset, in queue order
        self._lasts: dict[int, int] = {}  # sequence number to how many of its parts carry LAST_MSG_IN_GROUP
        for part in sorted(parts):
            self._at.setdefault((part.msg_seq_number, part.offset), []).append(part)
            if part.msg_flags & LAST_MSG_IN_GROUP:
                self._lasts[part.msg_seq_number] = self._lasts.get(part.msg_seq_number, 0) + 1

    def left(self) -> list[ArchivedPart]:
        return [part for same in self._at.values() for part in same]

    def start(self) -> ArchivedPart | None:
        """The part with which the next group, or message in no group, begins."""
        for part in self._at.get((1, 0), ()):
            if part.msg_flags & GROUPED and not self._group_complete():
                continue
            if not part.msg_flags & SEGMENTS or (part is self._first(1, 0) and self._walk(1)):
                return part
        return None

    def take_from(self, part: ArchivedPart | None) -> list[list[ArchivedPart]]:
        """Return what gets are given from this part on to the end of its group, each taken off the shelf."""
        given = []
        while part is not None:
            run = [part]
            if part.msg_flags & SEGMENTS == SEGMENT and not part.offset:
                run = _of_one_text([part, *self._walk(part.msg_seq_number, part.span)])
            for each in run:
                self._remove(each)
            given.append(run)
            part = self._next(part, run[-1])
        return given

    def _next(self, first: ArchivedPart, last: ArchivedPart) -> ArchivedPart | None:
        """Return the part that a handle gets after these, which were one message; None behind the end."""
        if last.msg_flags & SEGMENTS == SEGMENT:
            return self._first(last.msg_seq_number, last.offset + last.span)
        if not first.msg_flags & GROUPED or first.msg_flags & LAST_MSG_IN_GROUP:
            return None
        number = first.msg_seq_number + 1
        return self._first(number, 0) if self._walk(number) else None

    def _first(self, number: int, offset: int) -> ArchivedPart | None:
        same = self._at.get((number, offset))
        return same[0] if same else None

    def _walk(self, number: int, offset: int = 0) -> list[ArchivedPart]:
        """The parts end to end from `offset` to the last; empty where one is missing."""
        offsets, ended = completeness.walk_segments(partial(self._extent, number), offset)
        return [self._at[number, each][0] for each in offsets] if ended else []

    def _extent(self, number: int, offset: int) -> tuple[int, bool] | None:
        part = self._first(number, offset)
        return None if part is None else (part.span, part.msg_flags & SEGMENTS != SEGMENT)

    def _group_complete(self) -> bool:
        _, complete = completeness.walk_messages(lambda number: bool(self._walk(number)), self._lasts.get)
        return complete

    def _remove(self, part: ArchivedPart) -> None:
        place = (part.msg_seq_number, part.offset)
        self._at[place].remove(part)
        if not self._at[place]:
            del self._at[place]
        if part.msg_flags & LAST_MSG_IN_GROUP:
            self._lasts[part.msg_seq_number] -= 1


def _of_one_text(run: list[ArchivedPart]) -> list[ArchivedPart]:
    """The leading parts that agree in character set and encoding."""
    for number, part in enumerate(run):
        if part.text != run[0].text:
            return run[:number]
    return run


class SegmentGap(NamedTuple):
    """The bytes that are missing of a logical message, the first and the last; None: all that follow."""

    msg_seq_number: int
    first: int
    last: int | None


class MissingParts(NamedTuple):
    """The missing parts of a group, or a logical message: sequence numbers, and bytes of those messages that are there
    in part. `last` is the sequence number of the last message, if it is known.
    """

    last: int | None
    messages: list[completeness.Gap]
    segments: list[SegmentGap]

    def __str__(self) -> str:
        found = [f"messages {completeness.in_words(self.messages)}"] if self.messages else []
        for number in dict.fromkeys(gap.msg_seq_number for gap in self.segments):
            gaps = [(gap.first, gap.last) for gap in self.segments if gap.msg_seq_number == number]
            found.append(f"the bytes {completeness.in_words(gaps)} of message {number}")
        return f"lacks {'; '.join(found)}" if found else "parts overlap, or are in one place"


def lack(parts: Sequence[ArchivedPart]) -> MissingParts:
    """Return what is missing among parts that were left, as `explain` tells it of a queue that has just these."""
    last, messages, segments = completeness.lack(parts, grouped=any(part.msg_flags & GROUPED for part in parts))
    return MissingParts(last, messages, [SegmentGap(number, *gap) for number, gaps in segments.items() for gap in gaps])
